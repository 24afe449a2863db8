package io.watermaster.examples;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * How these applications run. Executors start first and load their classes; then an application says that it is ready,
 * waits for its gate, works, and prints a line of JSON. So what it measures has no start of Java in it, and two of them
 * begin when they are told.
 */
final class Application {
    private static final double SECOND = 1e9;
    private static final long LOOK_MILLIS = 20;

    private Application() {}

    /** What an application does, as one job of Spark. */
    interface Work {
        /**
         * Does it.
         *
         * @param tasks how many maps, and how many reduces
         * @return what the job has as its result
         */
        Result run(JavaSparkContext context, Map<String, Long> numbers, int tasks);
    }

    /** A result: it is looked at when the time has been taken. */
    interface Result {
        /**
         * Members of a JSON object, the same whatever the number of tasks.
         *
         * @throws IllegalStateException where the result isn't right
         */
        String members();
    }

    /**
     * Runs one, and ends the process unless all was well: by 2 where the arguments can't be used, by 1 where it failed.
     *
     * @param normal the numbers that arguments can change
     * @throws InterruptedException while it waits for its gate
     */
    static void main(String name, Map<String, Long> normal, String[] arguments, Work work)
            throws InterruptedException {
        Settings settings;
        try {
            settings = Settings.read(normal, arguments);
        } catch (IllegalArgumentException wrong) {
            System.err.println(name + ": " + wrong.getMessage());
            System.exit(2);
            return;
        }
        SparkConf configuration = new SparkConf().setAppName(name)
                // Records as they are, with few octets around them.
                .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer");
        try (JavaSparkContext context = new JavaSparkContext(configuration)) {
            System.out.println(run(name, context, settings, work));
        } catch (IllegalStateException wrong) {
            System.err.println(name + ": " + wrong.getMessage());
            System.exit(1);
        }
    }

    /** The line of JSON. */
    static String run(String name, JavaSparkContext context, Settings settings, Work work)
            throws InterruptedException {
        // Jobs begin when all executors are there; these move nothing.
        context.parallelize(List.of(0), 1).count();
        int tasks = context.defaultParallelism();
        context.parallelize(IntStream.range(0, tasks).boxed().toList(), tasks).count();
        System.err.println(name + ": " + context.sc().applicationId() + " is ready");
        await(settings.gate());
        long begin = System.nanoTime();
        Result result = work.run(context, settings.numbers(), tasks);
        double seconds = (System.nanoTime() - begin) / SECOND;
        return String.format(Locale.ROOT, "{\"application\": \"%s\", \"job\": \"%s\", \"jct_s\": %.3f, %s}", name,
                context.sc().applicationId(), seconds, result.members());
    }

    private static void await(Path gate) throws InterruptedException {
        while (gate != null && !Files.exists(gate)) {
            Thread.sleep(LOOK_MILLIS);
        }
    }
}
