/** Topologies of the texts for a real Storm, which measure themselves. */
package io.watermaster.examples;
