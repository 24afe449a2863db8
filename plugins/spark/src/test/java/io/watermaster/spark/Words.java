package io.watermaster.spark;

import static io.watermaster.client.Declared.until;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/** An application of Spark that groups words, on two executors that are processes of this machine. */
final class Words {
    static final int MAPS = 6;
    static final int REDUCES = 3;
    /** Keys that words have. */
    static final int KEYS = 50;
    /** How many words there are. */
    static final long ALL = 300L * MAPS * (MAPS + 1) / 2;

    private Words() {}

    static SparkConf configuration() throws IOException {
        Files.createDirectories(Path.of(System.getenv("SPARK_HOME"), "jars"));
        return new SparkConf(false).setAppName("words").setMaster("local-cluster[2,1,512]")
                .set("spark.executor.memory", "512m")
                .set("spark.executor.extraClassPath", System.getProperty("java.class.path"))
                .set("spark.ui.enabled", "false")
                // Executors of a host fetch from each other as others do.
                .set("spark.shuffle.readHostLocalDisk", "false")
                .set("spark.plugins", DeclaringPlugin.class.getName())
                .set("spark.shuffle.manager", DeclaringShuffleManager.class.getName())
                .set("spark.watermaster.name", "test");
    }

    /** The words of all maps by their keys, not yet shuffled. */
    static JavaPairRDD<Integer, String> of(JavaSparkContext context) {
        return context.parallelize(IntStream.range(0, MAPS).boxed().toList(), MAPS).flatMapToPair(map -> IntStream
                .range(0, 300 * (map + 1)).mapToObj(i -> new Tuple2<>(i % KEYS, map + Integer.toHexString(i * 7919)))
                .iterator());
    }

    static int count(Iterator<?> all) {
        int count = 0;
        for (; all.hasNext(); all.next()) {
            count++;
        }
        return count;
    }

    static long sum(List<Integer> counts) {
        return counts.stream().mapToLong(Integer::longValue).sum();
    }

    /** Waits in a task for a file. */
    static void waitFor(String gate) throws InterruptedException {
        until("the gate is open", () -> Files.exists(Path.of(gate)));
    }
}
