/**
 * Tells a controller what an application moves. An engine's plug-in makes one {@link io.watermaster.client.Client} in
 * each process and gives it {@link io.watermaster.client.Declaration}s; nothing it calls here waits or throws for what
 * becomes of the controller.
 *
 * <p>Several processes may speak for one application: each has a client of its own, and the controller takes what
 * they declare together. One of them starts a job and ends it; the others join it
 * ({@link io.watermaster.client.Declaration.JobJoin}).
 */
package io.watermaster.client;
