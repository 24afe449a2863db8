package io.watermaster.examples;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * What a sink measures. A line of JSON has what came since the line before: {@code time_s} since the sink began,
 * {@code tuples}, {@code throughput_tps} and, from births of tuples to here, {@code latency_mean_s} and
 * {@code latency_p99_s}; these are null where no tuple came.
 */
final class Results {
    private static final double SECOND = 1e9;

    private final Path file;
    /** Latencies since the last line, nanoseconds. */
    private final List<Long> latencies = new ArrayList<>();
    private final long begin = System.nanoTime();
    private long last = begin;

    /** Appends to a file. */
    Results(Path file) {
        this.file = file;
    }

    /** A tuple has come. */
    void add(long birth) {
        latencies.add(Duration.of(Births.now() - birth, ChronoUnit.MICROS).toNanos());
    }

    /**
     * Appends a line.
     *
     * @throws UncheckedIOException where it can't be written: the worker ends, and its log names the file
     */
    void write() {
        long now = System.nanoTime();
        String line = line(Duration.ofNanos(now - begin), Duration.ofNanos(now - last), latencies) + "\n";
        last = now;
        latencies.clear();
        try {
            Files.writeString(file, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException wrong) {
            throw new UncheckedIOException(wrong);
        }
    }

    /** A line for latencies of so long a time. */
    static String line(Duration time, Duration period, List<Long> latencies) {
        double rate = latencies.size() / (period.toNanos() / SECOND);
        return String.format("{\"time_s\": %s, \"tuples\": %d, \"throughput_tps\": %s, %s}",
                number(time.toNanos() / SECOND), latencies.size(), number(rate), latencies(latencies));
    }

    /** Members of a JSON object: the mean of latencies in nanoseconds, and of 100 the longest but one. */
    static String latencies(List<Long> latencies) {
        long[] sorted = latencies.stream().mapToLong(Long::longValue).sorted().toArray();
        String mean = "null";
        String worst = "null";
        if (sorted.length > 0) {
            mean = number(latencies.stream().mapToLong(Long::longValue).average().orElseThrow() / SECOND);
            // The nearest rank.
            worst = number(sorted[(int) Math.ceil(0.99 * sorted.length) - 1] / SECOND);
        }
        return String.format("\"latency_mean_s\": %s, \"latency_p99_s\": %s", mean, worst);
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.6f", value);
    }
}
