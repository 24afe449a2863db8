/**
 * What Storm declares, by configuration alone: a scheduler in nimbus declares jobs and hosts of tasks, a transport in
 * each worker declares connections and how they stand.
 */
package io.watermaster.storm;
