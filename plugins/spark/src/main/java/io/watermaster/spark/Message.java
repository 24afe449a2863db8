package io.watermaster.spark;

import java.io.Serializable;
import java.util.List;
import java.util.OptionalLong;

/** What an executor tells the driver about a shuffle. */
sealed interface Message extends Serializable {
    /** The shuffle, by Spark's number. */
    int shuffle();

    /** The room that it takes while it waits. */
    default int weight() {
        return 1;
    }

    /**
     * A map's output is whole.
     *
     * @param map     the map, by its partition
     * @param host    where it ran
     * @param lengths of the reduces' parts, in octets as they go over the network
     */
    record Output(int shuffle, int map, String host, long[] lengths) implements Message {
        @Override
        public int weight() {
            return 1 + lengths.length;
        }
    }

    /**
     * A task reads all of some reduces' parts: from {@code first}, up to {@code end} and without it.
     *
     * @param host where it runs
     */
    record Reads(int shuffle, int first, int end, String host) implements Message {}

    /**
     * A task fetches from another host: of some maps the reduces' parts from {@code first}, up to {@code end} and
     * without it.
     *
     * @param flow        its name
     * @param source      the host that it fetches from
     * @param port        the port there
     * @param destination the host that it runs on
     * @param process     of the executor; -1 where an agent knows none
     * @param maps        by their partitions
     * @param rounded     payload in octets, as the engine keeps it: rounded up
     */
    record Fetch(int shuffle, String flow, String source, int port, String destination, long process,
            List<Integer> maps, int first, int end, long rounded) implements Message {
        @Override
        public int weight() {
            return 1 + maps.size();
        }

        OptionalLong pid() {
            return process < 0 ? OptionalLong.empty() : OptionalLong.of(process);
        }
    }

    /** All of a fetch is there, or nobody waits for it any more. */
    record Fetched(int shuffle, String flow) implements Message {}

    /** What an executor had to tell when the driver had answered. */
    record Batch(String executor, List<Message> messages) implements Serializable {}
}
