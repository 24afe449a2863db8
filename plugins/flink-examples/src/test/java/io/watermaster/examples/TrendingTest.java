package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.examples.Trending.Places;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TrendingTest {
    @TempDir
    Path folder;

    @Test
    void splittersCountersAndTheAggregatorFollowTheFirst() {
        assertEquals(new Places("h1", List.of("h2", "h3"), List.of("h4", "h5", "h6"), "h7"),
                Places.of(List.of("h7", "h2", "h1", "h4", "h3", "h1", "h5", "h6")));
        Exception wrong = assertThrows(IllegalArgumentException.class, () -> Places.of(List.of("a", "a", "b", "c")));
        assertTrue(wrong.getMessage().contains("4 hosts or more"), wrong.getMessage());
    }

    /** In one process, with a task in each of seven TaskManagers that may have any: as many as there are tasks. */
    @Test
    void itRunsAndMeasuresItself() throws Exception {
        Path file = folder.resolve("results");
        Configuration configuration = new Configuration();
        configuration.setString("minicluster.number-of-taskmanagers", "7");
        configuration.setString("taskmanager.numberOfTaskSlots", "1");
        configuration.setString("taskmanager.cpu.cores", "1");
        configuration.setString("taskmanager.memory.managed.size", "0m");
        configuration.setString("taskmanager.memory.network.min", "8m");
        configuration.setString("taskmanager.memory.network.max", "8m");
        configuration.setString("external-resources", "a;b;c;d;e;f");
        for (String host : List.of("a", "b", "c", "d", "e", "f")) {
            configuration.setString("external-resource." + host + ".amount", "1");
        }
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        TrendingSettings told = TrendingSettings.read("t", "rate=100", "words=1000", "every=1", "results=" + file);
        Trending.build(environment, told, Places.of(List.of("a", "a", "b", "c", "d", "e", "f")));
        JobClient job = environment.executeAsync("t");
        try {
            long end = System.nanoTime() + 300_000_000_000L;
            JsonNode last = null;
            // A second in which it kept up: 1100 words, 1100 counts, 110 rankings.
            while (last == null || Math.abs(last.path("tuples").asInt() - 110) > 50) {
                assertTrue(System.nanoTime() < end, "never: " + last);
                Thread.sleep(50);
                if (Files.exists(file)) {
                    List<String> lines = Files.readAllLines(file);
                    last = new ObjectMapper().readTree(lines.get(lines.size() - 1));
                }
            }
            double mean = last.path("latency_mean_s").asDouble();
            assertTrue(mean > 0 && mean < 60 && last.path("latency_p99_s").asDouble() >= mean, last.toString());
        } finally {
            job.cancel().get();
        }
    }
}
