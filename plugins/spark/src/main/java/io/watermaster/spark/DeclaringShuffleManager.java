package io.watermaster.spark;

import io.watermaster.spark.Message.Output;
import io.watermaster.spark.Message.Reads;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.BlockStoreShuffleReader;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.sort.SortShuffleManager;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.TaskCompletionListener;
import scala.Option;
import scala.Product2;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The engine's own shuffle manager, which tells the driver how long the parts of each map's output are, exactly, where
 * its reduces run, and what they fetch while they do. {@code spark.shuffle.manager} names it, and {@code spark.plugins}
 * names {@link DeclaringPlugin}, without which nothing is told. The engine makes it, and calls it on the threads of
 * tasks.
 */
public final class DeclaringShuffleManager extends SortShuffleManager {
    /** The engine's word for all maps of a shuffle. */
    private static final int ALL_MAPS = Integer.MAX_VALUE;

    /**
     * Made by the engine.
     *
     * @param configuration the application's
     */
    public DeclaringShuffleManager(SparkConf configuration) {
        super(configuration);
    }

    @Override
    public <K, V> ShuffleWriter<K, V> getWriter(ShuffleHandle handle, long id, TaskContext task,
            ShuffleWriteMetricsReporter metrics) {
        ShuffleWriter<K, V> writer = super.getWriter(handle, id, task, metrics);
        Outbox outbox = Watermaster.outbox;
        return outbox == null ? writer : new Writer<>(writer, handle.shuffleId(), task.partitionId(), outbox);
    }

    @Override
    public <K, C> ShuffleReader<K, C> getReader(ShuffleHandle handle, int firstMap, int endMap, int first, int end,
            TaskContext task, ShuffleReadMetricsReporter metrics) {
        Outbox outbox = Watermaster.outbox;
        if (outbox != null) {
            List<ShuffleReader<K, C>> declaring = new ArrayList<>();
            Watermaster.quietly(() -> {
                @SuppressWarnings("unchecked") // as the engine does it
                BaseShuffleHandle<K, ?, C> base = (BaseShuffleHandle<K, ?, C>) handle;
                if (base.dependency().isShuffleMergeFinalizedMarked()) {
                    // Where outputs are merged, the engine finds out itself what there is.
                    return;
                }
                if (firstMap == 0 && endMap == ALL_MAPS) {
                    outbox.put(new Reads(handle.shuffleId(), first, end, here().host()));
                }
                declaring.add(reader(base, firstMap, endMap, first, end, task, metrics, outbox));
            });
            if (!declaring.isEmpty()) {
                return declaring.get(0);
            }
        }
        return super.getReader(handle, firstMap, endMap, first, end, task, metrics);
    }

    /** The engine's own reader, in which it is seen which blocks have arrived. */
    private static <K, C> ShuffleReader<K, C> reader(BaseShuffleHandle<K, ?, C> handle, int firstMap, int endMap,
            int first, int end, TaskContext task, ShuffleReadMetricsReporter metrics, Outbox outbox) {
        SparkEnv engine = SparkEnv.get();
        List<Tuple2<BlockManagerId, Seq<Tuple3<BlockId, Object, Object>>>> blocks =
                CollectionConverters.asJava(engine.mapOutputTracker()
                        .getMapSizesByExecutorId(handle.shuffleId(), firstMap, endMap, first, end).toList());
        Fetches fetches = new Fetches(engine, handle.shuffleId(), outbox);
        boolean isBatched = SortShuffleManager.canUseBatchFetch(first, end, task);
        ShuffleReader<K, C> reader = new BlockStoreShuffleReader<>(handle,
                CollectionConverters.asScala(blocks.iterator()), task, metrics, fetches, engine.blockManager(),
                engine.mapOutputTracker(), isBatched);
        TaskCompletionListener atEnd = ended -> Watermaster.quietly(fetches::end);
        task.addTaskCompletionListener(atEnd);
        blocks.forEach(source -> fetches.begin(source._1(), source._2(), first, end, task.taskAttemptId()));
        return reader;
    }

    @Override
    public boolean unregisterShuffle(int shuffle) {
        Watermaster.quietly(() -> {
            Shuffles shuffles = Watermaster.shuffles;
            if (shuffles != null) {
                shuffles.remove(shuffle);
            }
        });
        return super.unregisterShuffle(shuffle);
    }

    private static BlockManagerId here() {
        return SparkEnv.get().blockManager().blockManagerId();
    }

    /** Tells what was written. */
    private static final class Writer<K, V> extends ShuffleWriter<K, V> {
        private final ShuffleWriter<K, V> inner;
        private final int shuffle;
        private final int map;
        private final Outbox outbox;

        Writer(ShuffleWriter<K, V> inner, int shuffle, int map, Outbox outbox) {
            this.inner = inner;
            this.shuffle = shuffle;
            this.map = map;
            this.outbox = outbox;
        }

        @Override
        public void write(Iterator<Product2<K, V>> records) throws IOException {
            inner.write(records);
        }

        @Override
        public Option<MapStatus> stop(boolean success) {
            Option<MapStatus> status = inner.stop(success);
            if (success && status.isDefined()) {
                Watermaster.quietly(
                        () -> outbox.put(new Output(shuffle, map, here().host(), inner.getPartitionLengths())));
            }
            return status;
        }

        @Override
        public long[] getPartitionLengths() {
            return inner.getPartitionLengths();
        }
    }
}
