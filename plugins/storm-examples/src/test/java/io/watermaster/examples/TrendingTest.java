package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import org.apache.storm.generated.StormTopology;
import org.junit.jupiter.api.Test;

class TrendingTest {
    @Test
    void tweetsAreFirstTheAggregatorIsLastAndTheRestIsHalved() {
        Map<String, List<String>> places =
                Trending.places(List.of("h1", "h2", "h3", "h4", "h5", "h6"), List.of(6700, 6701));
        assertEquals(
                Map.of("tweets", List.of("h1:6700"), "report", List.of("h1:6701"), "split",
                        List.of("h2:6700", "h3:6700"), "count", List.of("h4:6700", "h5:6700"), "top",
                        List.of("h6:6700")),
                places);
        List<?> ports = List.of(6700, 6701);
        assertEquals(1, Trending.places(List.of("a", "b", "c", "d"), ports).get("count").size());
        assertThrows(IllegalArgumentException.class, () -> Trending.places(List.of("a", "b", "c"), ports));
    }

    @Test
    void theTopologyIsThatOfTheText() {
        StormTopology topology = Trending.topology(TrendingSettings.read("t"), 2, 3);
        assertEquals(1, topology.get_spouts_size());
        assertEquals(4, topology.get_bolts_size());
        assertEquals(3, topology.get_bolts().get("count").get_common().get_parallelism_hint());
        assertEquals(List.of("word"), topology.get_bolts().get("count").get_common().get_inputs().values().stream()
                .flatMap(grouping -> grouping.get_fields().stream()).toList());
    }
}
