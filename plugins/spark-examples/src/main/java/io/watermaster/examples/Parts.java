package io.watermaster.examples;

import java.util.List;
import java.util.stream.IntStream;
import scala.Tuple2;

/** What each map makes of a whole. */
final class Parts {
    private Parts() {}

    /** Equal parts of the numbers below {@code all}, each from its first to before the next's. */
    static List<Tuple2<Long, Long>> of(long all, int parts) {
        return IntStream.range(0, parts)
                .mapToObj(part -> new Tuple2<>(all * part / parts, all * (part + 1) / parts)).toList();
    }
}
