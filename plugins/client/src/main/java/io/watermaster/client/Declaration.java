package io.watermaster.client;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

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
     * What a job asks for, in place of what it asked for before. The controller's policy heeds what it can.
     *
     * @param job            the job
     * @param objective      the objective of the controller's configuration that it is to be under
     * @param deadlineMillis how long it may take from its start to its end, ms
     * @param weight         what its completion is worth beside that of others, at least 1; others have 1
     */
    record JobTerms(String job, Optional<String> objective, OptionalLong deadlineMillis, OptionalInt weight)
            implements Declaration {
        private static final Pattern SPAN = Pattern.compile("([1-9][0-9]{0,9}) ?(ms|s|min|h)");
        private static final Map<String, Long> MILLIS = Map.of("ms", 1L, "s", 1_000L, "min", 60_000L, "h", 3_600_000L);

        /** What a controller takes at most, ms. */
        private static final long LONGEST = 30L * 24 * 3_600_000;

        public JobTerms {
            Objects.requireNonNull(job);
            Objects.requireNonNull(objective);
            atLeastZero("deadlineMillis", deadlineMillis.orElse(0));
            atLeastZero("weight", weight.orElse(0));
        }

        JobTerms of(String other) {
            return new JobTerms(other, objective, deadlineMillis, weight);
        }

        /**
         * What an engine's configuration says of a job: {@code objective}, {@code deadline} (such as {@code 90 s}; ms,
         * s, min or h) and {@code weight}.
         *
         * @param job    the job
         * @param prefix what the keys begin with, such as {@code "watermaster."}
         * @param values gives the value of a key; null where it isn't set
         * @return empty where none is set
         * @throws IllegalArgumentException a value can't be used; the message has its key and the remedy
         */
        public static Optional<JobTerms> read(String job, String prefix, Function<String, String> values) {
            Optional<String> objective = Optional.ofNullable(values.apply(prefix + "objective")).map(String::strip);
            String deadline = values.apply(prefix + "deadline");
            OptionalLong millis = OptionalLong.empty();
            if (deadline != null) {
                Matcher span = SPAN.matcher(deadline.strip());
                if (!span.matches()) {
                    throw new IllegalArgumentException(
                            prefix + "deadline is \"" + deadline + "\"; write a time such as 90 s, 5 min or 2 h");
                }
                millis = OptionalLong.of(Long.parseLong(span.group(1)) * MILLIS.get(span.group(2)));
                if (millis.getAsLong() > LONGEST) {
                    throw new IllegalArgumentException(
                            prefix + "deadline is \"" + deadline + "\"; write no more than 720 h, which is 30 days");
                }
            }
            String weight = values.apply(prefix + "weight");
            OptionalInt number = OptionalInt.empty();
            if (weight != null) {
                if (!weight.strip().matches("[1-9][0-9]{0,5}|1000000")) {
                    throw new IllegalArgumentException(
                            prefix + "weight is \"" + weight + "\"; write a number from 1 to 1000000");
                }
                number = OptionalInt.of(Integer.parseInt(weight.strip()));
            }
            boolean isNothing = objective.isEmpty() && millis.isEmpty() && number.isEmpty();
            return isNothing ? Optional.empty() : Optional.of(new JobTerms(job, objective, millis, number));
        }
    }

    /**
     * Another process of the application starts the job, and this one speaks of it too. Nothing is said; what the
     * controller refuses because the job has not started is said again until it has.
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
