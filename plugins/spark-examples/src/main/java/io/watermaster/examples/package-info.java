/** Applications for a real Spark, which measure themselves. */
package io.watermaster.examples;
