package io.watermaster.spark;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Controller;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Declared;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.HashPartitioner;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.storage.BlockManagerId;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.Tuple2;

/** Applications of Spark with executors of their own, which are processes on this machine. */
class ClusterTest {
    private static final int MAPS = 6;
    private static final int REDUCES = 3;
    private static final int FIRST_REDUCE = 1_000_000_000;

    @TempDir
    Path folder;

    /** The plug-in with a driver that declares to the test. */
    public static final class Plugin implements SparkPlugin {
        private static Declared declared;

        @Override
        public DriverPlugin driverPlugin() {
            return new DeclaringPlugin(declared).driverPlugin();
        }

        @Override
        public ExecutorPlugin executorPlugin() {
            return new DeclaringPlugin().executorPlugin();
        }
    }

    /** What the engine itself counts. */
    private static final class Counted extends SparkListener {
        private final Map<Integer, Long> written = new ConcurrentHashMap<>();
        private final Map<Integer, Long> fetched = new ConcurrentHashMap<>();
        private final Map<Integer, String> executors = new ConcurrentHashMap<>();

        @Override
        public void onTaskEnd(SparkListenerTaskEnd event) {
            int task = event.taskInfo().partitionId() + (event.stageId() == 0 ? 0 : FIRST_REDUCE);
            TaskMetrics metrics = event.taskMetrics();
            written.put(task, metrics.shuffleWriteMetrics().bytesWritten());
            fetched.put(task, metrics.shuffleReadMetrics().remoteBytesRead());
            executors.put(task, event.taskInfo().executorId());
        }
    }

    @BeforeAll
    static void giveExecutorsAHome() throws IOException {
        Files.createDirectories(Path.of(System.getenv("SPARK_HOME"), "jars"));
    }

    private static SparkConf configuration() {
        return new SparkConf(false).setAppName("test").setMaster("local-cluster[2,1,512]")
                .set("spark.executor.memory", "512m")
                .set("spark.executor.extraClassPath", System.getProperty("java.class.path"))
                .set("spark.ui.enabled", "false")
                // Executors of a host fetch from each other as others do.
                .set("spark.shuffle.readHostLocalDisk", "false")
                .set("spark.plugins", DeclaringPlugin.class.getName())
                .set("spark.shuffle.manager", DeclaringShuffleManager.class.getName())
                .set("spark.watermaster.name", "test");
    }

    /** A cluster of two executors that declares to a test. */
    private static JavaSparkContext cluster(Declared declared) throws InterruptedException {
        Plugin.declared = declared;
        return ready(configuration().set("spark.plugins", Plugin.class.getName())
                .set("spark.watermaster.controller", "unix:/the/test/itself"));
    }

    private static JavaSparkContext ready(SparkConf configuration) throws InterruptedException {
        JavaSparkContext context = new JavaSparkContext(configuration);
        until("both executors are there", () -> context.sc().getExecutorMemoryStatus().size() == 3);
        return context;
    }

    private static JavaPairRDD<Integer, String> words(JavaSparkContext context) {
        return context.parallelize(IntStream.range(0, MAPS).boxed().toList(), MAPS).flatMapToPair(map -> IntStream
                .range(0, 300 * (map + 1)).mapToObj(i -> new Tuple2<>(i % 50, map + " " + Integer.toHexString(i * 7919)))
                .iterator());
    }

    private static final long WORDS = 300L * MAPS * (MAPS + 1) / 2;

    private static String job(JavaSparkContext context, int shuffle) {
        return context.sc().applicationId() + "-shuffle-" + shuffle;
    }

    private static long sum(List<Integer> counts) {
        return counts.stream().mapToLong(Integer::longValue).sum();
    }

    private static int count(Iterator<?> all) {
        int count = 0;
        for (; all.hasNext(); all.next()) {
            count++;
        }
        return count;
    }

    private static <T extends Declaration> long number(Declared declared, Class<T> kind, String job) {
        return declared.of(kind).stream().filter(said -> said.job().equals(job)).count();
    }

    @Test
    void aShuffleIsDeclaredAsTheEngineCountsIt() throws Exception {
        Declared declared = new Declared(false);
        Counted counted = new Counted();
        try (JavaSparkContext context = cluster(declared)) {
            context.sc().addSparkListener(counted);
            String job = job(context, 0);
            assertEquals(WORDS, sum(words(context).groupByKey(REDUCES).map(group -> count(group._2().iterator()))
                    .collect()));
            until("it has ended", () -> declared.all().contains(new JobComplete(job)));
            until("all was counted", () -> counted.executors.size() == MAPS + REDUCES);

            List<Declaration> all = declared.all();
            assertEquals(new JobStart(job), all.get(0));
            assertEquals(new JobComplete(job), all.get(all.size() - 1));
            Map<Integer, Map<Integer, Long>> sizes = new HashMap<>();
            for (Size size : declared.of(Size.class)) {
                sizes.put(size.map(), size.reduces().stream().collect(
                        Collectors.toMap(Portion::task, Portion::bytes)));
            }
            assertEquals(MAPS, declared.of(Size.class).size());
            assertEquals(MAPS, sizes.size());
            sizes.forEach((map, portions) -> assertEquals(counted.written.get(map),
                    portions.values().stream().mapToLong(Long::longValue).sum()));
            assertEquals(counted.executors.keySet(),
                    declared.of(TaskHost.class).stream().map(TaskHost::task).collect(Collectors.toSet()));

            Map<String, BlockManagerId> executors = new HashMap<>();
            context.sc().env().blockManager().master().getMemoryStatus().keysIterator()
                    .foreach(executor -> executors.put(executor.executorId(), executor));
            Set<Long> processes = declared.of(FlowRequest.class).stream()
                    .map(flow -> flow.destination().pid().orElseThrow()).collect(Collectors.toSet());
            assertEquals(2, processes.size(), "each executor has its own");
            assertTrue(processes.stream().noneMatch(pid -> pid == ProcessHandle.current().pid()));
            for (int reduce = 0; reduce < REDUCES; reduce++) {
                int task = FIRST_REDUCE + reduce;
                String at = counted.executors.get(task);
                long exact = sizes.entrySet().stream()
                        .filter(size -> !counted.executors.get(size.getKey()).equals(at))
                        .mapToLong(size -> size.getValue().getOrDefault(task, 0L)).sum();
                assertEquals(counted.fetched.get(task), exact);
                String name = "-reduce_" + reduce + "-";
                List<FlowRequest> flows = declared.of(FlowRequest.class).stream()
                        .filter(flow -> flow.flow().contains(name)).toList();
                assertEquals(1, flows.size(), "there is one other executor");
                FlowRequest flow = flows.get(0);
                // The engine rounds what it keeps of sizes, by up to a tenth.
                long bytes = flow.bytes().orElseThrow();
                assertTrue(bytes >= exact && bytes <= exact * 1.1 + MAPS, bytes + " for " + exact);
                String from = flow.flow().substring("executor_".length(), flow.flow().indexOf('-'));
                assertNotEquals(at, from);
                assertEquals(executors.get(from).host(), flow.source().host());
                assertEquals(executors.get(from).port(), flow.source().port());
                assertEquals(executors.get(at).host(), flow.destination().host());
                assertEquals(0, flow.destination().port());
                assertTrue(all.indexOf(new FlowComplete(job, flow.flow())) > all.indexOf(flow));
            }
            assertEquals(REDUCES, declared.of(FlowRequest.class).size());
            assertEquals(REDUCES, declared.of(FlowComplete.class).size());
        }
    }

    /** A shuffle has ended although the job of Spark goes on, and is another when it is read again. */
    @Test
    void aShuffleEndsWithTheStageThatReadsIt() throws Exception {
        Declared declared = new Declared(false);
        try (JavaSparkContext context = cluster(declared)) {
            String first = job(context, 0);
            String second = job(context, 1);
            String gate = folder.resolve("gate").toString();
            JavaPairRDD<Integer, Integer> counts = words(context).groupByKey(REDUCES)
                    .mapToPair(group -> new Tuple2<>(group._1() % 5, count(group._2().iterator())));
            JavaPairRDD<Integer, Iterable<Integer>> again = counts.groupByKey(REDUCES);
            JavaFutureAction<List<Integer>> action = again.mapPartitions(groups -> {
                until("the gate is open", () -> Files.exists(Path.of(gate)));
                return List.of(count(groups)).iterator();
            }).collectAsync();
            until("the first has ended", () -> declared.all().contains(new JobComplete(first)));
            until("the second is read", () -> declared.of(TaskHost.class).stream()
                    .anyMatch(host -> host.job().equals(second) && host.task() >= FIRST_REDUCE));
            assertTrue(!declared.all().contains(new JobComplete(second)), "it is being read");
            Files.createFile(Path.of(gate));
            assertEquals(5, sum(action.get(1, TimeUnit.MINUTES)));
            until("the second has ended", () -> declared.all().contains(new JobComplete(second)));
            assertEquals(1, number(declared, JobStart.class, first));
            assertEquals(1, number(declared, JobComplete.class, first));

            // Its maps don't run again. What is told before the driver knows of the job starts nothing.
            until("it is read again", () -> {
                assertEquals(5, again.count());
                return number(declared, JobStart.class, second) > 1;
            });
            until("it has ended again", () -> number(declared, JobComplete.class, second) == number(declared,
                    JobStart.class, second));
            assertEquals(REDUCES, number(declared, Size.class, second));
            assertEquals(1, number(declared, JobStart.class, first), "nobody has read it again");
        }
    }

    /** SQL runs the maps as one job, then decides how another reads them. */
    @Test
    void aShuffleThatNoStageHasReadYetGoesOn() throws Exception {
        Declared declared = new Declared(false);
        try (JavaSparkContext context = cluster(declared)) {
            String job = job(context, 0);
            JavaPairRDD<Integer, String> shuffled = words(context).partitionBy(new HashPartitioner(REDUCES));
            ShuffleDependency<?, ?, ?> shuffle = (ShuffleDependency<?, ?, ?>) shuffled.rdd().dependencies().apply(0);
            JavaFutureAction<?> maps = null;
            assertEquals(null, maps);
            context.sc().submitMapStage(shuffle).get();
            until("all sizes are known", () -> declared.of(Size.class).size() == MAPS);
            // Events come in order: when this job's shuffle has ended, the end of the one before was heard.
            words(context).groupByKey(1).count();
            until("another has ended", () -> declared.all().contains(new JobComplete(job(context, 1))));
            assertTrue(!declared.all().contains(new JobComplete(job)));
            assertEquals(WORDS, shuffled.count());
            until("it has ended", () -> declared.all().contains(new JobComplete(job)));
            assertEquals(1, number(declared, JobStart.class, job));
        }
    }

    @Test
    void whatALostExecutorFetchesEndsAndItsMapsAreDeclaredAgain() throws Exception {
        Declared declared = new Declared(false);
        try (JavaSparkContext context = cluster(declared)) {
            String job = job(context, 0);
            String victim = folder.resolve("victim").toString();
            String gate = folder.resolve("gate").toString();
            JavaFutureAction<List<Integer>> action = words(context).partitionBy(new HashPartitioner(1))
                    .mapPartitions(records -> {
                        try {
                            Files.createFile(Path.of(victim));
                            // One block is there, others are not.
                            records.next();
                            until("the gate is open", () -> Files.exists(Path.of(gate)));
                            Runtime.getRuntime().halt(1);
                        } catch (FileAlreadyExistsException isAnother) {
                            // It goes on.
                        }
                        return List.of(count(records)).iterator();
                    }).collectAsync();
            until("it fetches", () -> declared.of(FlowRequest.class).size() == 1);
            FlowComplete end = new FlowComplete(job, declared.of(FlowRequest.class).get(0).flow());
            assertTrue(!declared.all().contains(end));
            Files.createFile(Path.of(gate));
            assertEquals(WORDS, sum(action.get(2, TimeUnit.MINUTES)));
            until("it has ended", () -> declared.all().contains(new JobComplete(job)));
            List<Declaration> all = declared.all();
            assertTrue(all.contains(end));
            assertEquals(1, number(declared, JobStart.class, job));
            assertTrue(declared.of(Size.class).size() > MAPS, "those of the lost executor");
            assertEquals(IntStream.range(0, MAPS).boxed().collect(Collectors.toSet()),
                    declared.of(Size.class).stream().map(Size::map).collect(Collectors.toSet()));
        }
    }

    @Test
    void anApplicationGoesOnWhateverBecomesOfItsDeclarations() throws Exception {
        Declared broken = new Declared(true);
        try (JavaSparkContext context = cluster(broken)) {
            assertEquals(50, words(context).groupByKey(REDUCES).count());
            until("it was tried", () -> broken.all().size() > MAPS);
        }
        List<SparkConf> others = new ArrayList<>();
        others.add(configuration());
        others.add(configuration().set("spark.watermaster.controller", "nonsense"));
        others.add(configuration().set("spark.watermaster.controller", "unix:/no/controller"));
        // Without the plug-in nothing is told, without the manager there is nothing to tell.
        others.add(configuration().remove("spark.plugins"));
        others.add(configuration().remove("spark.shuffle.manager"));
        others.add(configuration().setMaster("local[2]").set("spark.watermaster.controller", "unix:/no/controller"));
        for (SparkConf other : others) {
            try (JavaSparkContext context = new JavaSparkContext(other)) {
                assertEquals(50, words(context).groupByKey(REDUCES).count());
            }
        }
    }

    @Test
    void aControllerIsTold() throws Exception {
        try (Controller controller = new Controller(folder, "");
                JavaSparkContext context =
                        ready(configuration().set("spark.watermaster.controller", controller.socket()))) {
            String gate = folder.resolve("gate").toString();
            JavaFutureAction<List<Integer>> action = words(context).groupByKey(REDUCES).mapPartitions(groups -> {
                until("the gate is open", () -> Files.exists(Path.of(gate)));
                return List.of(count(groups)).iterator();
            }).collectAsync();
            until("the job is there", () -> controller.ask("/v1/jobs").toString().contains(job(context, 0)));
            Files.createFile(Path.of(gate));
            assertEquals(50, sum(action.get(1, TimeUnit.MINUTES)));
            until("it has ended", () -> !controller.ask("/v1/jobs").toString().contains(job(context, 0)));
        }
    }
}
