package io.watermaster.spark;

import io.watermaster.spark.Message.Fetch;
import io.watermaster.spark.Message.Output;
import java.util.HashMap;
import java.util.Map;

/**
 * How long the parts of maps' outputs are. The engine itself keeps rounded lengths only. What has no room here is taken
 * from there.
 */
final class Outputs {
    /** Parts that are kept at most, of all shuffles: 8 MiB. */
    private static final int ROOM = 1 << 20;

    /** Of each shuffle its maps' lengths. */
    private final Map<Integer, Map<Integer, long[]>> kept = new HashMap<>();
    private int taken;

    /** Keeps an output in the place of an earlier attempt's, if there is room. */
    void keep(Output output) {
        Map<Integer, long[]> maps = kept.computeIfAbsent(output.shuffle(), shuffle -> new HashMap<>());
        long[] before = maps.remove(output.map());
        taken -= before == null ? 0 : before.length;
        if (output.lengths().length <= ROOM - taken) {
            maps.put(output.map(), output.lengths());
            taken += output.lengths().length;
        }
    }

    /** The payload of a fetch in octets: exact where all that it takes is kept, else as the engine rounds it. */
    long bytes(Fetch fetch) {
        Map<Integer, long[]> maps = kept.getOrDefault(fetch.shuffle(), Map.of());
        long bytes = 0;
        for (int map : fetch.maps()) {
            long[] lengths = maps.get(map);
            if (lengths == null || lengths.length < fetch.end()) {
                return fetch.rounded();
            }
            for (int reduce = fetch.first(); reduce < fetch.end(); reduce++) {
                bytes += lengths[reduce];
            }
        }
        return bytes;
    }

    /** Nobody will read the shuffle any more. */
    void forget(int shuffle) {
        Map<Integer, long[]> maps = kept.remove(shuffle);
        if (maps != null) {
            maps.values().forEach(lengths -> taken -= lengths.length);
        }
    }
}
