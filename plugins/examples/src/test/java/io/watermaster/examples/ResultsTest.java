package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class ResultsTest {
    @Test
    void aLineHasWhatCameSinceTheLast() {
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.GERMANY);
        try {
            List<Long> hundred = LongStream.rangeClosed(1, 100).map(ms -> ms * 1_000_000).boxed().toList();
            assertEquals("{\"time_s\": 12.500000, \"tuples\": 100, \"throughput_tps\": 50.000000,"
                    + " \"latency_mean_s\": 0.050500, \"latency_p99_s\": 0.099000}",
                    Results.line(Duration.ofMillis(12_500), Duration.ofSeconds(2), hundred));
            assertEquals("{\"time_s\": 5.000000, \"tuples\": 0, \"throughput_tps\": 0.000000,"
                    + " \"latency_mean_s\": null, \"latency_p99_s\": null}",
                    Results.line(Duration.ofSeconds(5), Duration.ofSeconds(5), List.of()));
        } finally {
            Locale.setDefault(before);
        }
    }
}
