package io.watermaster.hadoop;

import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.client.Hooks;
import java.time.Duration;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The client of this process, and what the hooks have in common. */
final class Watermaster {
    private static final String PREFIX = "watermaster.";
    /** Reduce tasks are numbered from here, map tasks from 0: in a job of Watermaster each number is one task. */
    private static final int REDUCES = 1_000_000_000;
    private static final Logger LOG = LoggerFactory.getLogger(Watermaster.class);

    private static final Hooks HOOKS = new Hooks(LOG::warn);
    private static Client client;
    private static Consumer<Declaration> process;

    private Watermaster() {}

    /** What takes this process's declarations, from any thread; the first configuration makes it. Throws nothing. */
    static synchronized Consumer<Declaration> of(Configuration configuration) {
        if (process == null) {
            process = declaration -> {};
            quietly(() -> {
                // Jobs that run within one process have no application master that starts them, and move nothing.
                String framework = configuration.get(MRConfig.FRAMEWORK_NAME, MRConfig.LOCAL_FRAMEWORK_NAME);
                boolean isCluster = framework.equals(MRConfig.YARN_FRAMEWORK_NAME);
                client = Client.start(PREFIX, key -> isCluster ? configuration.get(key) : null, LOG::warn);
                process = client::declare;
            });
        }
        return process;
    }

    /** Puts something else in its place, for tests. */
    static synchronized void replace(Consumer<Declaration> other) {
        process = other;
    }

    /** Nothing more is declared; what waits may be said for a while. Returns at once. */
    static synchronized void close() {
        if (client != null) {
            client.close(Duration.ofSeconds(10));
        }
    }

    /** Runs a hook that must not fail the engine; the first that goes wrong is logged. */
    static void quietly(Hooks.Hook hook) {
        HOOKS.quietly(hook);
    }

    static int number(TaskID task) {
        return task.getTaskType() == TaskType.MAP ? task.getId() : REDUCES + task.getId();
    }

    static int reduce(int partition) {
        return REDUCES + partition;
    }

    /** A job's name. */
    static String job(TaskAttemptID attempt) {
        return attempt.getJobID().toString();
    }
}
