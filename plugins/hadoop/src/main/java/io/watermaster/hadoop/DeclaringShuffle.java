package io.watermaster.hadoop;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobJoin;
import java.io.IOException;
import java.io.InputStream;
import java.util.OptionalLong;
import java.util.function.Consumer;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.MergeManager;
import org.apache.hadoop.mapreduce.task.reduce.Shuffle;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;

/**
 * The engine's own shuffle, which declares each fetch of a map's output while it lasts: a flow from the map's host to
 * this one. {@code mapreduce.job.reduce.shuffle.consumer.plugin.class} names it. The engine makes it, and calls it on
 * the reduce's thread and those of its fetchers.
 *
 * <p>A fetch is known once its head has arrived. The port of this end isn't known to a plug-in, so it is declared as 0.
 *
 * @param <K> keys of the reduce's input
 * @param <V> their values
 */
public final class DeclaringShuffle<K, V> extends Shuffle<K, V> {
    /** Made by the engine. */
    public DeclaringShuffle() {}

    @Override
    @SuppressWarnings("rawtypes") // the engine's
    protected MergeManager<K, V> createMergeManager(ShuffleConsumerPlugin.Context context) {
        MergeManager<K, V> merger = super.createMergeManager(context);
        TaskAttemptID reduce = context.getReduceId();
        Consumer<Declaration> declare = Watermaster.of(context.getJobConf());
        Watermaster.quietly(() -> declare.accept(new JobJoin(Watermaster.job(reduce))));
        return new Merger<>(merger, reduce, declare);
    }

    /** Hands out outputs that declare what becomes of them. */
    private record Merger<K, V>(MergeManager<K, V> inner, TaskAttemptID reduce, Consumer<Declaration> declare)
            implements MergeManager<K, V> {
        @Override
        public void waitForResource() throws InterruptedException {
            inner.waitForResource();
        }

        @Override
        public MapOutput<K, V> reserve(TaskAttemptID map, long size, int fetcher) throws IOException {
            MapOutput<K, V> output = inner.reserve(map, size, fetcher);
            return output == null ? null : new Output<>(output, reduce, declare);
        }

        @Override
        public RawKeyValueIterator close() throws Throwable {
            return inner.close();
        }
    }

    private static final class Output<K, V> extends MapOutput<K, V> {
        private final MapOutput<K, V> inner;
        private final TaskAttemptID reduce;
        private final Consumer<Declaration> declare;

        Output(MapOutput<K, V> inner, TaskAttemptID reduce, Consumer<Declaration> declare) {
            super(inner.getMapId(), inner.getSize(), inner.isPrimaryMapOutput());
            this.inner = inner;
            this.reduce = reduce;
            this.declare = declare;
        }

        @Override
        public void shuffle(MapHost host, InputStream input, long wireLength, long length, ShuffleClientMetrics metrics,
                Reporter reporter) throws IOException {
            int colon = host.getHostName().lastIndexOf(':');
            if (colon < 0) {
                // No host, but this machine's own disk.
                inner.shuffle(host, input, wireLength, length, metrics, reporter);
                return;
            }
            String job = Watermaster.job(reduce);
            String flow = part(getMapId()) + "-" + part(reduce);
            Watermaster.quietly(() -> {
                String name = host.getHostName().substring(0, colon).replaceAll("[\\[\\]]", "");
                Endpoint source = new Endpoint(name, Integer.parseInt(host.getHostName().substring(colon + 1)));
                OptionalLong bytes = OptionalLong.of(wireLength);
                declare.accept(new FlowRequest(job, flow, source, Endpoint.HERE, bytes));
            });
            try {
                inner.shuffle(host, input, wireLength, length, metrics, reporter);
            } finally {
                Watermaster.quietly(() -> declare.accept(new FlowComplete(job, flow)));
            }
        }

        /** An attempt within its job, as the engine's logs call it. */
        private static String part(TaskAttemptID attempt) {
            return attempt.toString().replaceFirst("^attempt_[^_]*_[^_]*_", "");
        }

        @Override
        public void commit() throws IOException {
            inner.commit();
        }

        @Override
        public void abort() {
            inner.abort();
        }

        @Override
        public String getDescription() {
            return inner.getDescription();
        }
    }
}
