package io.watermaster.storm;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import org.apache.storm.messaging.TaskMessage;

/**
 * Counts octets of tuples for each pair of tasks. Any thread may count and read; a pair that is known is counted without
 * a lock and without allocation. What is beyond {@link #MOST} pairs is counted as one, from task -1 to task -1.
 */
final class Pairs {
    /** Most pairs that are told apart. */
    static final int MOST = 1 << 16;
    private static final int NONE = -1;

    /**
     * A pair of tasks.
     *
     * @param source      the task that emits
     * @param destination the task that receives
     * @param octets      serialized tuples, without what the transport adds
     */
    record Pair(int source, int destination, LongAdder octets) {}

    private final Pair rest = new Pair(NONE, NONE, new LongAdder());
    /** Open addressing, at most half full. Entries are immutable: one that a thread doesn't see yet, it looks up again. */
    private volatile Pair[] table = new Pair[64];
    private int size;

    /** Counts a tuple. */
    void add(TaskMessage message) {
        byte[] octets = message.message();
        if (octets != null) {
            pair(source(octets), message.task()).octets.add(octets.length);
        }
    }

    /** All that were counted. */
    List<Pair> all() {
        List<Pair> all = new ArrayList<>();
        for (Pair pair : table) {
            if (pair != null) {
                all.add(pair);
            }
        }
        if (rest.octets.sum() > 0) {
            all.add(rest);
        }
        return all;
    }

    /** The task that emitted a tuple: Storm writes it first, seven bits an octet, the lowest first. */
    static int source(byte[] tuple) {
        int task = 0;
        for (int place = 0; place < tuple.length && place < 5; place++) {
            task |= (tuple[place] & 0x7f) << 7 * place;
            if (tuple[place] >= 0) {
                return task;
            }
        }
        return NONE;
    }

    private Pair pair(int source, int destination) {
        Pair[] now = table;
        Pair found = now[place(now, source, destination)];
        return found == null ? enter(source, destination) : found;
    }

    /** Where a pair is, or would be. */
    private static int place(Pair[] table, int source, int destination) {
        int hash = (source * 31 + destination) * 0x9e3779b9;
        int place = (hash ^ hash >>> 16) & table.length - 1;
        while (true) {
            Pair pair = table[place];
            if (pair == null || pair.source == source && pair.destination == destination) {
                return place;
            }
            place = place + 1 & table.length - 1;
        }
    }

    private synchronized Pair enter(int source, int destination) {
        Pair found = table[place(table, source, destination)];
        if (found != null) {
            return found;
        }
        if (size == MOST) {
            return rest;
        }
        Pair[] larger = table;
        if (2 * (size + 1) > table.length) {
            larger = new Pair[2 * table.length];
            for (Pair pair : table) {
                if (pair != null) {
                    larger[place(larger, pair.source, pair.destination)] = pair;
                }
            }
        }
        Pair pair = new Pair(source, destination, new LongAdder());
        larger[place(larger, source, destination)] = pair;
        size++;
        table = larger;
        return pair;
    }
}
