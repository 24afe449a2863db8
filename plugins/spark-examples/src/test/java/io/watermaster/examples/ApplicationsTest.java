package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import scala.Tuple2;

/** The applications on Spark within one process. */
class ApplicationsTest {
    private static final Map<String, Long> SORT = Map.of("records", 10_001L, "seed", 7L);
    private static final Map<String, Long> COUNT = Map.of("words", 20_000L, "vocabulary", 1000L, "seed", 7L);

    private static JavaSparkContext context;

    @BeforeAll
    static void start() {
        context = new JavaSparkContext(new SparkConf(false).setAppName("test").setMaster("local[2]")
                .set("spark.ui.enabled", "false")
                .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer"));
    }

    @AfterAll
    static void end() {
        context.close();
    }

    @Test
    void resultsDontDependOnTheNumberOfTasks() {
        String sorted = TeraSort.sort(context, SORT, 1).members();
        assertTrue(sorted.startsWith("\"records\": 10001, "), sorted);
        assertEquals(sorted, TeraSort.sort(context, SORT, 5).members());
        assertNotEquals(sorted, TeraSort.sort(context, Map.of("records", 10_001L, "seed", 8L), 5).members());
        String counted = WordCount.count(context, COUNT, 1).members();
        assertTrue(counted.startsWith("\"words\": 20000, \"distinct\": "), counted);
        assertEquals(counted, WordCount.count(context, COUNT, 5).members());
    }

    /** Of fewer records than tasks some parts are empty. */
    @Test
    void fewRecordsAreSorted() {
        Map<String, Long> two = Map.of("records", 2L, "seed", 7L);
        assertEquals(TeraSort.sort(context, two, 1).members(), TeraSort.sort(context, two, 8).members());
    }

    @Test
    void orderAndRecordsAreLookedAt() {
        Tuple2<byte[], byte[]> one = TeraSort.record(1, 1);
        Tuple2<byte[], byte[]> other = TeraSort.record(1, 2);
        boolean rises = Arrays.compareUnsigned(one._1(), other._1()) < 0;
        List<Tuple2<byte[], byte[]>> right = rises ? List.of(one, other) : List.of(other, one);
        List<Tuple2<byte[], byte[]>> wrong = rises ? List.of(other, one) : List.of(one, other);
        assertTrue(TeraSort.Sorted.of(right.iterator()).isOrdered());
        assertFalse(TeraSort.Sorted.of(wrong.iterator()).isOrdered());
        List<TeraSort.Sorted> parts =
                wrong.stream().map(record -> TeraSort.Sorted.of(List.of(record).iterator())).toList();
        assertFalse(TeraSort.Sorted.all(parts).isOrdered());
    }

    @Test
    void argumentsThatCantBeUsedAreNamed() {
        assertEquals(3L, Settings.read(SORT, "records=3").numbers().get("records"));
        for (String wrong : List.of("records", "records=0", "records=x", "records=99999999999", "rows=1", "gate=")) {
            String said = assertThrows(IllegalArgumentException.class, () -> Settings.read(SORT, wrong)).getMessage();
            assertTrue(said.startsWith(wrong + ": write "), said);
        }
    }
}
