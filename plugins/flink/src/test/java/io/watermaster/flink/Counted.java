package io.watermaster.flink;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** What the engine itself counts: octets that tasks have taken of what came from other TaskManagers, by job. */
public final class Counted implements MetricReporter, MetricReporterFactory {
    private static final Map<Counter, String> RECEIVED = new ConcurrentHashMap<>();

    static long received(String job) {
        return RECEIVED.entrySet().stream().filter(counter -> counter.getValue().equals(job))
                .mapToLong(counter -> counter.getKey().getCount()).sum();
    }

    @Override
    public MetricReporter createMetricReporter(Properties properties) {
        return this;
    }

    @Override
    public void open(MetricConfig configuration) {
        // It needs nothing.
    }

    @Override
    public void close() {
        // It has nothing.
    }

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        Map<String, String> variables = group.getAllVariables();
        // Tasks have it too, under another name: here it is of the task, not of its operators or its network.
        if (metric instanceof Counter counter && name.equals("numBytesInRemote")
                && group.getMetricIdentifier("x").contains("Shuffle")) {
            RECEIVED.put(counter, variables.get("<job_id>"));
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {
        // What was counted holds.
    }
}
