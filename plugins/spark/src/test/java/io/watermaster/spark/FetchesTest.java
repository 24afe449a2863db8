package io.watermaster.spark;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.spark.Message.Batch;
import io.watermaster.spark.Message.Fetch;
import io.watermaster.spark.Message.Fetched;
import io.watermaster.spark.Message.Output;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockBatchId;
import org.apache.spark.storage.ShuffleBlockId;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.Tuple3;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What a task tells of its fetches, and how it gets to the driver. */
class FetchesTest {
    private final List<Message> told = new CopyOnWriteArrayList<>();
    private final CountDownLatch answers = new CountDownLatch(1);

    /** A driver that answers when the test lets it. */
    private Outbox outbox() {
        Object driver = Proxy.newProxyInstance(FetchesTest.class.getClassLoader(), new Class<?>[] {PluginContext.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("ask")) {
                        told.addAll(((Batch) arguments[0]).messages());
                        answers.await();
                        return null;
                    }
                    return "1";
                });
        return new Outbox((PluginContext) driver);
    }

    private static BlockManagerId executor(String name) {
        return BlockManagerId.apply(name, "h" + name, 7337, Option.empty());
    }

    /** A map's partition is its number less ten. */
    private static Seq<Tuple3<BlockId, Object, Object>> blocks(long size, ShuffleBlockId... ids) {
        return CollectionConverters.asScala(Arrays.stream(ids)
                .map(id -> new Tuple3<BlockId, Object, Object>(id, size, (int) id.mapId() - 10)).toList());
    }

    private static InputStream nothing() {
        return new ByteArrayInputStream(new byte[0]);
    }

    @Test
    void aFetchEndsWithItsLastBlock() throws Exception {
        answers.countDown();
        SparkConf configuration = new SparkConf(false).setMaster("local[1]").setAppName("fetches")
                .set("spark.ui.enabled", "false");
        try (JavaSparkContext context = new JavaSparkContext(configuration)) {
            Fetches fetches = new Fetches(SparkEnv.get(), 7, outbox());
            BlockManagerId here = SparkEnv.get().blockManager().blockManagerId();
            fetches.begin(executor("2"), blocks(100, new ShuffleBlockId(7, 11, 3), new ShuffleBlockId(7, 11, 5),
                    new ShuffleBlockId(7, 12, 3)), 3, 6, 17);
            fetches.begin(executor("4"), blocks(1, new ShuffleBlockId(7, 13, 3), new ShuffleBlockId(7, 13, 4)), 3, 6, 17);
            // What is on this executor isn't fetched.
            fetches.begin(here, blocks(9, new ShuffleBlockId(7, 14, 3)), 3, 6, 17);
            fetches.wrapStream(new ShuffleBlockId(7, 14, 3), nothing());
            fetches.wrapStream(new ShuffleBlockId(7, 12, 3), nothing());
            // One that is empty is between them.
            fetches.wrapStream(new ShuffleBlockBatchId(7, 11, 3, 6), nothing());
            fetches.wrapStream(new ShuffleBlockId(7, 13, 4), nothing());
            fetches.end();
            fetches.end();
            long pid = Endpoint.HERE.pid().orElse(-1);
            List<Message> all = List.of(new Fetch(7, "executor_2-reduce_3-task_17", "h2", 7337, here.host(), pid,
                    List.of(1, 2), 3, 6, 300),
                    new Fetch(7, "executor_4-reduce_3-task_17", "h4", 7337, here.host(), pid, List.of(3), 3, 6, 2),
                    new Fetched(7, "executor_2-reduce_3-task_17"), new Fetched(7, "executor_4-reduce_3-task_17"));
            until("all is told", () -> told.size() >= all.size());
            assertEquals(all, told);
        }
    }

    /** What waits for a driver is bounded. Ends have room of their own. */
    @Test
    void whatDoesNotFitIsDropped() throws Exception {
        Outbox outbox = outbox();
        outbox.put(new Fetched(1, "the first"));
        until("the driver is asked", () -> told.size() == 1);
        outbox.put(new Output(1, 0, "h1", new long[65_000]));
        outbox.put(new Output(1, 1, "h1", new long[1000]));
        outbox.put(new Fetched(1, "the last"));
        answers.countDown();
        until("the rest is told", () -> told.size() >= 3);
        assertEquals(65_001, told.get(1).weight());
        assertEquals(new Fetched(1, "the last"), told.get(2));
        outbox.close();
        outbox.put(new Fetched(1, "after the end"));
        assertEquals(3, told.size());
    }
}
