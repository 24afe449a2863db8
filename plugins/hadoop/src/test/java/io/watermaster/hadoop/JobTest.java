package io.watermaster.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declared;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Partitioner;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.TaskCounter;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whole jobs of real tasks, in this process. */
class JobTest {
    private static final int MAPS = 3;
    private static final int REDUCES = 2;

    @TempDir
    Path folder;

    /** What reduces wait for: the files of maps are gone when a job ends. */
    private static Declared expected;

    static final class Words extends Mapper<Object, Text, Text, IntWritable> {
        @Override
        protected void map(Object key, Text line, Context context) throws IOException, InterruptedException {
            for (String word : line.toString().split(" ")) {
                context.write(new Text(word), new IntWritable(1));
            }
        }
    }

    /** All goes to the first reduce. */
    static final class ToOne extends Partitioner<Text, IntWritable> {
        @Override
        public int getPartition(Text key, IntWritable value, int partitions) {
            return 0;
        }
    }

    static final class Sums extends Reducer<Text, IntWritable, Text, IntWritable> {
        @Override
        protected void setup(Context context) throws InterruptedException {
            if (expected != null) {
                Declared.until("all maps have declared", () -> expected.of(Size.class).size() == MAPS);
            }
        }

        @Override
        protected void reduce(Text key, Iterable<IntWritable> ones, Context context)
                throws IOException, InterruptedException {
            int sum = 0;
            for (IntWritable one : ones) {
                sum += one.get();
            }
            context.write(key, new IntWritable(sum));
        }
    }

    /** Runs a job; its output. */
    private Job run(String name, Configuration configuration) throws Exception {
        configuration.set("hadoop.tmp.dir", folder.resolve("tmp").toString());
        configuration.setInt("mapreduce.client.completion.pollinterval", 10);
        // Each map spills many times.
        configuration.setInt("mapreduce.task.io.sort.mb", 1);
        Path input = Files.createDirectories(folder.resolve("input"));
        for (int map = 0; map < MAPS; map++) {
            StringBuilder words = new StringBuilder();
            for (int word = 0; word < 60_000 * (map + 1); word++) {
                words.append("word").append(word % 5_000).append(word % 20 == 19 ? '\n' : ' ');
            }
            Files.writeString(input.resolve("part" + map), words);
        }
        Job job = Job.getInstance(configuration, name);
        job.setJarByClass(JobTest.class);
        job.setMapperClass(Words.class);
        job.setReducerClass(Sums.class);
        job.setNumReduceTasks(REDUCES);
        job.setOutputKeyClass(Text.class);
        job.setOutputValueClass(IntWritable.class);
        FileInputFormat.addInputPath(job, new org.apache.hadoop.fs.Path(input.toUri()));
        FileOutputFormat.setOutputPath(job, new org.apache.hadoop.fs.Path(folder.resolve(name).toUri()));
        assertTrue(job.waitForCompletion(false));
        return job;
    }

    private String output(String name) throws IOException {
        StringBuilder all = new StringBuilder();
        try (Stream<Path> parts = Files.list(folder.resolve(name))) {
            for (Path part : parts.sorted().toList()) {
                if (part.getFileName().toString().startsWith("part-")) {
                    all.append(Files.readString(part));
                }
            }
        }
        return all.toString();
    }

    private static Configuration hooks() {
        Configuration configuration = new Configuration();
        configuration.set("mapreduce.job.map.output.collector.class", DeclaringCollector.class.getName());
        configuration.set("mapreduce.job.reduce.shuffle.consumer.plugin.class", DeclaringShuffle.class.getName());
        return configuration;
    }

    @Test
    void eachMapDeclaresWhatEachReduceFetchesFromIt() throws Exception {
        run("plain", new Configuration());
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            expected = declared;
            Job job = run("declared", hooks());
            assertEquals(output("plain"), output("declared"));

            List<Size> sizes = declared.of(Size.class).stream().sorted(Comparator.comparingInt(Size::map)).toList();
            long sum = 0;
            for (int map = 0; map < MAPS; map++) {
                Size size = sizes.get(map);
                assertEquals(map, size.map());
                assertEquals(List.of(1_000_000_000, 1_000_000_001),
                        size.reduces().stream().map(Portion::task).toList());
                sum += size.reduces().stream().mapToLong(Portion::bytes).sum();
            }
            assertEquals(job.getCounters().findCounter(TaskCounter.MAP_OUTPUT_MATERIALIZED_BYTES).getValue(), sum);
            assertEquals(job.getCounters().findCounter(TaskCounter.REDUCE_SHUFFLE_BYTES).getValue(), sum);
            // Nothing of it went over a network, so no flow is declared.
            List<Declaration> others =
                    declared.all().stream().filter(said -> !(said instanceof Size)).distinct().toList();
            assertEquals(List.of(new JobJoin(job.getJobID().toString())), others);
            assertEquals(List.of(others.get(0).job()), sizes.stream().map(Size::job).distinct().toList());
        } finally {
            expected = null;
        }
    }

    @Test
    void partsWithoutRecordsAreLeftOut() throws Exception {
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            expected = declared;
            Configuration configuration = hooks();
            configuration.set("mapreduce.job.partitioner.class", ToOne.class.getName());
            run("one", configuration);
            assertEquals(MAPS, declared.of(Size.class).size());
            for (Size size : declared.of(Size.class)) {
                assertEquals(List.of(1_000_000_000), size.reduces().stream().map(Portion::task).toList());
            }
        } finally {
            expected = null;
        }
    }

    @Test
    void aJobGoesOnWhateverBecomesOfItsDeclarations() throws Exception {
        run("plain", new Configuration());
        try (Declared broken = new Declared(true, Watermaster::replace)) {
            run("broken", hooks());
            assertTrue(broken.all().size() >= MAPS + REDUCES, "it was tried");
        }
        assertEquals(output("plain"), output("broken"));
        // With the client itself, which does nothing for jobs within a process.
        Configuration configuration = hooks();
        configuration.set("watermaster.controller", "nonsense");
        run("client", configuration);
        assertEquals(output("plain"), output("client"));
    }
}
