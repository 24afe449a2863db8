/**
 * What Spark declares, by two hooks that its configuration names: a plug-in and a shuffle manager. Executors tell the
 * driver what they write and fetch, and the driver declares it: an application of Spark has one client, and a job of
 * Watermaster is a shuffle.
 */
package io.watermaster.spark;
