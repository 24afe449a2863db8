package io.watermaster.client;

import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;

/**
 * Something that an application declares. Amounts are payload, in octets: what the application writes, without headers.
 * Jobs, and flows within a job, are called as the application likes, by texts of 1 to 256 octets of UTF-8.
 *
 * <p>Values are checked where a mistake would be the plug-in's own (a negative amount); what only the controller can
 * judge (a host that it doesn't know) it refuses, and {@link Client#account} counts.
 */
public sealed interface Declaration {
    /**
     * The job that it is about.
     *
     * @return its name, unique in the application
     */
    String job();

    /**
     * A job starts; nothing can be said of it before.
     *
     * @param job the job
     */
    record JobStart(String job) implements Declaration {
        public JobStart {
            Objects.requireNonNull(job);
        }
    }

    /**
     * Another process of the application starts the job, and this one speaks of it too. Nothing is said; what the
     * controller refuses because the job has not started is said again for 30 s.
     *
     * @param job the job
     */
    record JobJoin(String job) implements Declaration {
        public JobJoin {
            Objects.requireNonNull(job);
        }
    }

    /**
     * A job ends, and everything of it is forgotten. Of a job that this process joined, only its own part ends. A job
     * that this process doesn't know is ended too: it may be left over from a process that crashed.
     *
     * @param job the job
     */
    record JobComplete(String job) implements Declaration {
        public JobComplete {
            Objects.requireNonNull(job);
        }
    }

    /**
     * A task was placed on a host.
     *
     * @param job  the job
     * @param task its number in the job, from 0
     * @param host the name or address of the host
     */
    record TaskHost(String job, int task, String host) implements Declaration {
        public TaskHost {
            Objects.requireNonNull(job);
            Objects.requireNonNull(host);
            atLeastZero("task", task);
        }
    }

    /**
     * A map's output is known.
     *
     * @param job     the job
     * @param map     the map task
     * @param reduces what each reduce task will fetch from it
     */
    record Size(String job, int map, List<Portion> reduces) implements Declaration {
        public Size {
            Objects.requireNonNull(job);
            atLeastZero("map", map);
            reduces = List.copyOf(reduces);
        }
    }

    /**
     * A transfer begins. One within a host is left out.
     *
     * @param job         the job
     * @param flow        the flow's name, unique in the job
     * @param source      where the data comes from
     * @param destination where the data goes to
     * @param bytes       payload; empty for a stream, which never ends
     */
    record FlowRequest(String job, String flow, Endpoint source, Endpoint destination, OptionalLong bytes)
            implements Declaration {
        public FlowRequest {
            Objects.requireNonNull(job);
            Objects.requireNonNull(flow);
            Objects.requireNonNull(source);
            Objects.requireNonNull(destination);
            atLeastZero("bytes", bytes.orElse(0));
        }
    }

    /**
     * A transfer ended, whatever became of it.
     *
     * @param job  the job
     * @param flow the flow
     */
    record FlowComplete(String job, String flow) implements Declaration {
        public FlowComplete {
            Objects.requireNonNull(job);
            Objects.requireNonNull(flow);
        }
    }

    /**
     * How streams of the job stand, sampled at the same moment. Of samples that wait, the last of a job counts.
     *
     * @param job     the job
     * @param samples the streams
     */
    record Streams(String job, List<Sample> samples) implements Declaration {
        public Streams {
            Objects.requireNonNull(job);
            samples = List.copyOf(samples);
        }
    }

    /**
     * What one reduce task will fetch.
     *
     * @param task  the reduce task
     * @param bytes payload
     */
    record Portion(int task, long bytes) {
        public Portion {
            atLeastZero("task", task);
            atLeastZero("bytes", bytes);
        }
    }

    /**
     * How a stream stands.
     *
     * @param flow          the flow
     * @param delivered     what reached the receiver since the stream began, payload
     * @param senderQueue   what waits in the sending application, without what its kernel has, payload
     * @param receiverQueue what arrived and waits to be processed, payload
     */
    record Sample(String flow, long delivered, long senderQueue, long receiverQueue) {
        public Sample {
            Objects.requireNonNull(flow);
            atLeastZero("delivered", delivered);
            atLeastZero("senderQueue", senderQueue);
            atLeastZero("receiverQueue", receiverQueue);
        }
    }

    /**
     * One end of a connection.
     *
     * @param host its address, or a name that the client looks up on its own thread; empty for this machine, by the
     *             address that it uses towards the other end
     * @param port its port; 0 where it isn't known
     * @param pid  where it isn't, the process that has this end, by its number where the host's agent runs; empty for any
     */
    record Endpoint(String host, int port, OptionalLong pid) {
        /** This process, by a port that isn't known. */
        public static final Endpoint HERE = new Endpoint("", 0, Processes.own());

        public Endpoint {
            Objects.requireNonNull(host);
            if (port < 0 || port > 0xffff) {
                throw new IllegalArgumentException("port is " + port);
            }
            atLeastZero("pid", pid.orElse(0));
        }

        /** An end that any process may have. */
        public Endpoint(String host, int port) {
            this(host, port, OptionalLong.empty());
        }
    }

    private static void atLeastZero(String what, long value) {
        if (value < 0) {
            throw new IllegalArgumentException(what + " is " + value);
        }
    }
}
