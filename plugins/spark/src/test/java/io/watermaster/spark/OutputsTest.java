package io.watermaster.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.watermaster.spark.Message.Fetch;
import io.watermaster.spark.Message.Output;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What the driver knows of the lengths of outputs. */
class OutputsTest {
    private static final long ROUNDED = 1000;

    private final Outputs outputs = new Outputs();

    private long bytes(int shuffle, List<Integer> maps, int first, int end) {
        return outputs.bytes(new Fetch(shuffle, "flow", "h1", 7337, "h2", -1, maps, first, end, ROUNDED));
    }

    @Test
    void aFetchHasWhatItsMapsWroteForItsReduces() {
        outputs.keep(new Output(1, 0, "h1", new long[] {1, 20, 300}));
        outputs.keep(new Output(1, 4, "h1", new long[] {7, 0, 9}));
        assertEquals(320, bytes(1, List.of(0), 1, 3));
        assertEquals(28, bytes(1, List.of(0, 4), 0, 2));
        outputs.keep(new Output(1, 0, "h3", new long[] {2, 2, 2}));
        assertEquals(4, bytes(1, List.of(0), 1, 3), "an attempt that ended later");
    }

    @Test
    void whatIsNotKnownIsAsTheEngineRoundsIt() {
        outputs.keep(new Output(1, 0, "h1", new long[] {1, 20, 300}));
        assertEquals(ROUNDED, bytes(1, List.of(0, 1), 0, 1), "a map of which nothing was heard");
        assertEquals(ROUNDED, bytes(1, List.of(0), 0, 4), "more reduces than it wrote for");
        assertEquals(ROUNDED, bytes(2, List.of(0), 0, 1), "another shuffle");
        outputs.forget(1);
        assertEquals(ROUNDED, bytes(1, List.of(0), 0, 1), "a shuffle that was removed");
    }

    @Test
    void theRoomIsBoundedAndGivenBack() {
        int half = 1 << 19;
        outputs.keep(new Output(1, 0, "h1", new long[half]));
        outputs.keep(new Output(1, 1, "h1", new long[half + 1]));
        assertEquals(ROUNDED, bytes(1, List.of(1), 0, 1), "there is no room for it");
        outputs.keep(new Output(1, 0, "h1", new long[half - 1]));
        outputs.keep(new Output(1, 1, "h1", new long[half + 1]));
        assertEquals(0, bytes(1, List.of(0, 1), 0, half - 1));
        outputs.forget(1);
        outputs.keep(new Output(2, 0, "h1", new long[2 * half]));
        assertEquals(0, bytes(2, List.of(0), 0, 1));
    }
}
