package io.watermaster.spark;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.spark.Message.Fetch;
import io.watermaster.spark.Message.Fetched;
import java.io.InputStream;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkEnv;
import org.apache.spark.serializer.SerializerManager;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockBatchId;
import org.apache.spark.storage.ShuffleBlockId;
import scala.Tuple3;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a task fetches of a shuffle, one fetch from each other executor. It begins when the task begins to read, and
 * ends with the last block from there: the reader asks for each block that has arrived to be unwrapped, which the
 * engine's own serializer manager does.
 */
final class Fetches extends SerializerManager {
    private final SerializerManager inner;
    private final BlockManagerId here;
    private final int shuffle;
    private final Outbox outbox;
    /** Blocks that have not arrived, each with its fetch. */
    private final Map<BlockId, Open> awaited = new HashMap<>();

    /** A fetch that has begun, and how many of its blocks have not arrived. */
    private static final class Open {
        private final String flow;
        private int left;

        Open(String flow) {
            this.flow = flow;
        }
    }

    Fetches(SparkEnv engine, int shuffle, Outbox outbox) {
        super(engine.serializer(), engine.conf());
        this.inner = engine.serializerManager();
        this.here = engine.blockManager().blockManagerId();
        this.shuffle = shuffle;
        this.outbox = outbox;
    }

    /** A task fetches blocks from another executor, of reduces from {@code first}, up to {@code end} and without it. */
    synchronized void begin(BlockManagerId source, Seq<Tuple3<BlockId, Object, Object>> blocks, int first, int end,
            long task) {
        if (source.executorId().equals(here.executorId())) {
            return;
        }
        Open open = new Open("executor_" + source.executorId() + "-reduce_" + first + "-task_" + task);
        Set<Integer> maps = new LinkedHashSet<>();
        long rounded = 0;
        for (Tuple3<BlockId, Object, Object> block : CollectionConverters.asJava(blocks)) {
            awaited.put(block._1(), open);
            open.left++;
            rounded += (Long) block._2();
            maps.add((Integer) block._3());
        }
        outbox.put(new Fetch(shuffle, open.flow, source.host(), source.port(), here.host(),
                Endpoint.HERE.pid().orElse(-1), List.copyOf(maps), first, end, rounded));
    }

    @Override
    public InputStream wrapStream(BlockId block, InputStream octets) {
        Watermaster.quietly(() -> arrive(block));
        return inner.wrapStream(block, octets);
    }

    private synchronized void arrive(BlockId block) {
        if (block instanceof ShuffleBlockBatchId several) {
            for (int reduce = several.startReduceId(); reduce < several.endReduceId(); reduce++) {
                arrive(new ShuffleBlockId(several.shuffleId(), several.mapId(), reduce));
            }
            return;
        }
        Open open = awaited.remove(block);
        if (open != null && --open.left == 0) {
            outbox.put(new Fetched(shuffle, open.flow));
        }
    }

    /** The task has ended, and waits for nothing more. */
    synchronized void end() {
        List.copyOf(awaited.keySet()).forEach(this::arrive);
    }
}
