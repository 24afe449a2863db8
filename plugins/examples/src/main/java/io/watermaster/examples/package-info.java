/** What applications of the texts have in common, whatever engine they run on: settings, times and how they measure. */
package io.watermaster.examples;
