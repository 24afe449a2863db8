package io.watermaster.client;

import java.util.HashMap;
import java.util.Map;

/** What goes wrong, for a log: at most a line a minute, and the same at most once an hour, in turn with others too. */
final class Seldom {
    private static final long ANY = 60_000_000_000L;
    private static final long SAME = 60 * ANY;

    /** When each was told in the last hour: 60 at most. */
    private final Map<String, Long> told = new HashMap<>();
    private long last = -ANY;

    /** Whether to tell it now. */
    boolean tells(String fault, long now) {
        told.values().removeIf(at -> now - at >= SAME);
        if (now - last < ANY || told.containsKey(fault)) {
            return false;
        }
        told.put(fault, now);
        last = now;
        return true;
    }
}
