package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class MergeTest {
    @Test
    void aTupleWaitsUntilAllHaveComeToItsTime() {
        Merge merge = new Merge(2);
        List<Long> out = new ArrayList<>();
        merge.take(7, 10, out::add);
        merge.take(7, 20, out::add);
        assertEquals(List.of(), out);
        merge.take(8, 15, out::add);
        assertEquals(List.of(10L, 15L), out);
        // One that is late is of a time that all have come to.
        merge.take(8, 12, out::add);
        assertEquals(List.of(10L, 15L, 12L), out);
        merge.take(8, 30, out::add);
        assertEquals(List.of(10L, 15L, 12L, 20L), out);
    }
}
