package io.watermaster.examples;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.TupleUtils;

/**
 * Where tuples end. Every so often it appends a line of JSON with what came since the line before: {@code time_s} since
 * the sink began, {@code tuples}, {@code throughput_tps} and, from births of tuples to here, {@code latency_mean_s} and
 * {@code latency_p99_s}; these are null where no tuple came.
 */
final class Sink extends BaseRichBolt {
    private static final long serialVersionUID = 1;
    private static final double SECOND = 1e9;

    private final String results;
    private final int every;
    /** Latencies since the last line, nanoseconds. */
    private transient List<Long> latencies;
    private transient long begin;
    private transient long last;

    /** Appends to a file every so many seconds. */
    Sink(Path results, int every) {
        this.results = results.toString();
        this.every = every;
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, every);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        // It emits nothing.
    }

    @Override
    public void prepare(Map<String, Object> configuration, TopologyContext context, OutputCollector collector) {
        latencies = new ArrayList<>();
        begin = System.nanoTime();
        last = begin;
    }

    @Override
    public void execute(Tuple tuple) {
        if (!TupleUtils.isTick(tuple)) {
            latencies.add(Source.since(tuple.getLongByField("birth")).toNanos());
            return;
        }
        long now = System.nanoTime();
        String line = line(Duration.ofNanos(now - begin), Duration.ofNanos(now - last), latencies) + "\n";
        last = now;
        latencies.clear();
        try {
            Files.writeString(Path.of(results), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException wrong) {
            // The worker ends; its log names the file.
            throw new UncheckedIOException(wrong);
        }
    }

    /** A line for latencies of so long a time. */
    static String line(Duration time, Duration period, List<Long> latencies) {
        long[] sorted = latencies.stream().mapToLong(Long::longValue).sorted().toArray();
        String mean = "null";
        String worst = "null";
        if (sorted.length > 0) {
            mean = number(latencies.stream().mapToLong(Long::longValue).average().orElseThrow() / SECOND);
            // The nearest rank.
            worst = number(sorted[(int) Math.ceil(0.99 * sorted.length) - 1] / SECOND);
        }
        double rate = sorted.length / (period.toNanos() / SECOND);
        return String.format("{\"time_s\": %s, \"tuples\": %d, \"throughput_tps\": %s, \"latency_mean_s\": %s,"
                + " \"latency_p99_s\": %s}", number(time.toNanos() / SECOND), sorted.length, number(rate), mean, worst);
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.6f", value);
    }
}
