/**
 * What Hadoop MapReduce declares, by three hooks that its configuration names: a collector of map outputs, a consumer
 * of shuffles and a speculator. A job is called by its {@code JobID}; the application master starts and ends it, and the
 * tasks, each a process of its own, join it.
 */
package io.watermaster.hadoop;
