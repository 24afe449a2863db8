/**
 * What Flink declares, by configuration alone: the shuffle service in the JobManager declares jobs, those in the
 * TaskManagers where tasks are, the connections between TaskManagers and how they stand.
 */
package io.watermaster.flink;
