package io.watermaster.spark;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Declared;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.HashPartitioner;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.storage.BlockManagerId;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.Tuple2;

/** Shuffles of an application whose executors are processes of their own. */
class ClusterTest {
    private static final int FIRST_REDUCE = 1_000_000_000;

    private static Declared declared;
    private static JavaSparkContext context;

    @TempDir
    Path folder;
    /** The jobs that the next two shuffles are. */
    private String first;
    private String second;

    @BeforeAll
    static void start() throws Exception {
        declared = new Declared(false);
        StandIn.declared = declared;
        context = new JavaSparkContext(Words.configuration().set("spark.plugins", StandIn.class.getName())
                .set("spark.watermaster.controller", "unix:/the/test/itself"));
    }

    @AfterAll
    static void end() {
        context.close();
    }

    @BeforeEach
    void prepare() throws InterruptedException {
        // The driver is the third.
        until("both executors are there", () -> context.sc().getExecutorMemoryStatus().size() == 3);
        int number = context.sc().newShuffleId();
        first = context.sc().applicationId() + "-shuffle-" + (number + 1);
        second = context.sc().applicationId() + "-shuffle-" + (number + 2);
    }

    /** What was declared of a job. */
    private static List<Declaration> of(String job) {
        return declared.all().stream().filter(said -> said.job().equals(job)).toList();
    }

    private static <T extends Declaration> List<T> of(String job, Class<T> kind) {
        return of(job).stream().filter(kind::isInstance).map(kind::cast).toList();
    }

    /** What the engine itself counts, by tasks as they are declared. */
    private static final class Counted extends SparkListener {
        private final Map<Integer, Long> written = new ConcurrentHashMap<>();
        private final Map<Integer, Long> fetched = new ConcurrentHashMap<>();
        private final Map<Integer, String> executors = new ConcurrentHashMap<>();

        @Override
        public void onTaskEnd(SparkListenerTaskEnd event) {
            TaskMetrics metrics = event.taskMetrics();
            long octets = metrics.shuffleWriteMetrics().bytesWritten();
            int task = event.taskInfo().partitionId() + (octets > 0 ? 0 : FIRST_REDUCE);
            written.put(task, octets);
            fetched.put(task, metrics.shuffleReadMetrics().remoteBytesRead());
            executors.put(task, event.taskInfo().executorId());
        }
    }

    @Test
    void aShuffleIsDeclaredAsTheEngineCountsIt() throws Exception {
        Counted counted = new Counted();
        context.sc().addSparkListener(counted);
        List<Integer> counts = Words.of(context).groupByKey(Words.REDUCES)
                .map(group -> Words.count(group._2().iterator())).collect();
        assertEquals(Words.ALL, Words.sum(counts));
        until("it has ended", () -> !of(first, JobComplete.class).isEmpty());
        until("all was counted", () -> counted.executors.size() == Words.MAPS + Words.REDUCES);
        context.sc().removeSparkListener(counted);

        List<Declaration> all = of(first);
        assertEquals(new JobStart(first), all.get(0));
        assertEquals(new JobComplete(first), all.get(all.size() - 1));
        Map<Integer, Map<Integer, Long>> sizes = new HashMap<>();
        for (Size size : of(first, Size.class)) {
            Map<Integer, Long> portions =
                    size.reduces().stream().collect(Collectors.toMap(Portion::task, Portion::bytes));
            assertEquals(null, sizes.put(size.map(), portions));
            assertEquals(counted.written.get(size.map()), portions.values().stream().mapToLong(Long::longValue).sum());
        }
        assertEquals(Words.MAPS, sizes.size());
        assertEquals(counted.executors.keySet(),
                of(first, TaskHost.class).stream().map(TaskHost::task).collect(Collectors.toSet()));

        Map<String, BlockManagerId> executors = new HashMap<>();
        context.sc().env().blockManager().master().getMemoryStatus().keysIterator()
                .foreach(executor -> executors.put(executor.executorId(), executor));
        for (int reduce = 0; reduce < Words.REDUCES; reduce++) {
            int task = FIRST_REDUCE + reduce;
            String at = counted.executors.get(task);
            long exact = sizes.entrySet().stream()
                    .filter(size -> !counted.executors.get(size.getKey()).equals(at))
                    .mapToLong(size -> size.getValue().getOrDefault(task, 0L)).sum();
            assertEquals(counted.fetched.get(task), exact);
            String part = "-reduce_" + reduce + "-";
            List<FlowRequest> flows =
                    of(first, FlowRequest.class).stream().filter(flow -> flow.flow().contains(part)).toList();
            assertEquals(1, flows.size(), "there is one other executor");
            FlowRequest flow = flows.get(0);
            assertEquals(OptionalLong.of(exact), flow.bytes());
            String from = flow.flow().substring("executor_".length(), flow.flow().indexOf('-'));
            assertNotEquals(at, from);
            assertEquals(executors.get(from).host(), flow.source().host());
            assertEquals(executors.get(from).port(), flow.source().port());
            assertEquals(executors.get(at).host(), flow.destination().host());
            assertEquals(0, flow.destination().port());
            assertTrue(all.indexOf(new FlowComplete(first, flow.flow())) > all.indexOf(flow));
        }
        assertEquals(Words.REDUCES, of(first, FlowRequest.class).size());
        assertEquals(Words.REDUCES, of(first, FlowComplete.class).size());
        Set<Long> processes = of(first, FlowRequest.class).stream()
                .map(flow -> flow.destination().pid().orElse(-1)).collect(Collectors.toSet());
        assertFalse(processes.contains(ProcessHandle.current().pid()));
    }

    /** A shuffle has ended although the job of Spark goes on, and starts again when it is read again. */
    @Test
    void aShuffleEndsWithTheStageThatReadsIt() throws Exception {
        // The engine numbers the shuffle that it comes to first, from the end.
        String outer = first;
        String inner = second;
        String gate = folder.resolve("gate").toString();
        JavaPairRDD<Integer, Iterable<Integer>> twice = Words.of(context).groupByKey(Words.REDUCES)
                .mapToPair(group -> new Tuple2<>(group._1() % 5, 1)).groupByKey(Words.REDUCES);
        JavaFutureAction<List<Integer>> action = twice.mapPartitions(groups -> {
            Words.waitFor(gate);
            return List.of(Words.count(groups)).iterator();
        }).collectAsync();
        until("the inner has ended", () -> !of(inner, JobComplete.class).isEmpty());
        until("the outer is read",
                () -> of(outer, TaskHost.class).stream().anyMatch(host -> host.task() >= FIRST_REDUCE));
        assertEquals(List.of(), of(outer, JobComplete.class));
        Files.createFile(Path.of(gate));
        assertEquals(5, Words.sum(action.get(5, TimeUnit.MINUTES)));
        until("the outer has ended", () -> of(outer, JobComplete.class).size() == 1);
        assertEquals(1, of(inner, JobStart.class).size());
        assertEquals(1, of(inner, JobComplete.class).size());

        // Its maps don't run again. What is told before the driver hears of the job starts nothing.
        until("it is read again", () -> {
            assertEquals(5, twice.count());
            return of(outer, JobStart.class).size() > 1;
        });
        until("it has ended again",
                () -> of(outer, JobComplete.class).size() == of(outer, JobStart.class).size());
        assertEquals(Words.REDUCES, of(outer, Size.class).size());
        assertEquals(1, of(inner, JobStart.class).size(), "nobody has read it again");
    }

    /** SQL runs maps as a job, and then decides how another reads what they wrote. */
    @Test
    void aShuffleThatNoStageHasReadYetGoesOn() throws Exception {
        JavaPairRDD<Integer, String> shuffled = Words.of(context).partitionBy(new HashPartitioner(Words.REDUCES));
        ShuffleDependency<?, ?, ?> shuffle = (ShuffleDependency<?, ?, ?>) shuffled.rdd().dependencies().apply(0);
        context.sc().submitMapStage(shuffle);
        until("all sizes are known", () -> of(first, Size.class).size() == Words.MAPS);
        // Events come in order: when this shuffle has ended, the end of the job before has been heard.
        Words.of(context).groupByKey(1).count();
        until("another has ended", () -> of(second, JobComplete.class).size() == 1);
        assertEquals(List.of(), of(first, JobComplete.class));
        assertEquals(Words.ALL, shuffled.count());
        until("it has ended", () -> of(first, JobComplete.class).size() == 1);
        assertEquals(1, of(first, JobStart.class).size());
    }

    /** Counts records in one task. Its executor ends within it, once, when the file "gate" is there. */
    private <V> JavaFutureAction<List<Integer>> countLosingAnExecutor(JavaPairRDD<Integer, V> counted) {
        String victim = folder.resolve("victim").toString();
        String gate = folder.resolve("gate").toString();
        return counted.partitionBy(new HashPartitioner(1))
                .mapPartitions(records -> {
                    try {
                        Files.createFile(Path.of(victim));
                        // At most one block is looked at.
                        records.next();
                        Words.waitFor(gate);
                        Runtime.getRuntime().halt(1);
                    } catch (FileAlreadyExistsException isAnother) {
                        // It goes on.
                    }
                    return List.of(Words.count(records)).iterator();
                }).collectAsync();
    }

    @Test
    void theFetchesOfALostExecutorEndAndItsMapsAreDeclaredAgain() throws Exception {
        JavaFutureAction<List<Integer>> action = countLosingAnExecutor(Words.of(context));
        until("it fetches", () -> of(first, FlowRequest.class).size() == 1);
        String flow = of(first, FlowRequest.class).get(0).flow();
        assertEquals(List.of(), of(first, FlowComplete.class));
        Files.createFile(folder.resolve("gate"));
        assertEquals(Words.ALL, Words.sum(action.get(5, TimeUnit.MINUTES)));
        until("it has ended", () -> of(first, JobComplete.class).size() == 1);
        assertEquals(new FlowComplete(first, flow), of(first, FlowComplete.class).get(0));
        assertEquals(1, of(first, JobStart.class).size());
        assertTrue(of(first, Size.class).size() > Words.MAPS, "those of the lost executor twice");
        assertEquals(IntStream.range(0, Words.MAPS).boxed().collect(Collectors.toSet()),
                of(first, Size.class).stream().map(Size::map).collect(Collectors.toSet()));
    }

    /** Both stages before the one that loses its executor run again, of which the first shuffle had ended. */
    @Test
    void aShuffleStartsAgainWhereTheStageThatReadsItRunsAgain() throws Exception {
        String outer = first;
        String inner = second;
        JavaPairRDD<Integer, Integer> keys = Words.of(context).groupByKey(Words.REDUCES)
                .mapToPair(group -> new Tuple2<>(group._1(), 1));
        JavaFutureAction<List<Integer>> action = countLosingAnExecutor(keys);
        until("the outer is read", () -> of(outer, FlowRequest.class).size() == 1);
        until("the inner has ended", () -> of(inner, JobComplete.class).size() == 1);
        int sizes = of(inner, Size.class).size();
        Files.createFile(folder.resolve("gate"));
        assertEquals(Words.KEYS, Words.sum(action.get(5, TimeUnit.MINUTES)));
        until("the inner has ended again", () -> of(inner, JobComplete.class).size() > 1
                && of(inner, JobComplete.class).size() == of(inner, JobStart.class).size());
        assertTrue(of(inner, Size.class).size() > sizes, "those of the lost executor");
        until("the outer has ended", () -> of(outer, JobComplete.class).size() == 1);
        assertEquals(1, of(outer, JobStart.class).size());
    }
}
