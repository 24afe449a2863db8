package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.junit.jupiter.api.Test;

class TruckingTest {
    @Test
    void sourcesAreFirstCombinersBetweenAndTheSinkIsLast() {
        Map<String, List<String>> places = Trucking.places(List.of("h10", "h2", "h1", "h9"), List.of(6700, 6701));
        assertEquals(
                Map.of("truck", List.of("h1:6700"), "congestion", List.of("h1:6701"), "combiner",
                        List.of("h2:6700", "h9:6700"), "sink", List.of("h10:6700")),
                places);
        assertEquals(5L, Workers.configuration(places).get(Config.TOPOLOGY_WORKERS) instanceof Number number
                ? number.longValue() : 0, "a worker a task");
    }

    @Test
    void itNeedsThreeHostsOfTwoSlots() {
        for (List<String> hosts : List.of(List.<String>of(), List.of("h1", "h2"), List.of("h1", "h1", "h2"))) {
            Exception wrong = assertThrows(
                    IllegalArgumentException.class, () -> Trucking.places(hosts, List.of(6700, 6701)));
            assertTrue(wrong.getMessage().contains("start 3 supervisors or more"), wrong.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> Trucking.places(List.of("a", "b", "c"), List.of(6700)));
    }

    @Test
    void theTopologyIsThatOfTheText() {
        StormTopology topology = Trucking.topology(Settings.read("t"), 3);
        assertEquals(2, topology.get_spouts_size());
        assertEquals(3, topology.get_bolts().get("combiner").get_common().get_parallelism_hint());
        assertEquals(2, topology.get_bolts().get("combiner").get_common().get_inputs_size());
        assertTrue(topology.get_bolts().get("sink").get_common().get_inputs().keySet().stream()
                .allMatch(stream -> stream.get_componentId().equals("combiner")));
    }
}
