package io.watermaster.spark;

import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.spark.Message.Batch;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * The client of an application of Spark, in its driver, and the way to it from the executors. {@code spark.plugins}
 * names it, and {@code spark.shuffle.manager} names {@link DeclaringShuffleManager}, which knows what to tell. The
 * engine makes one in the driver and one in each executor.
 */
public final class DeclaringPlugin implements SparkPlugin {
    private static final String MANAGER = "spark.shuffle.manager";

    private final Consumer<Declaration> other;

    /** Made by the engine. */
    public DeclaringPlugin() {
        this(null);
    }

    /** With something else in the place of a client, for tests. */
    DeclaringPlugin(Consumer<Declaration> other) {
        this.other = other;
    }

    @Override
    public DriverPlugin driverPlugin() {
        return new Driver(other);
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new Executor();
    }

    private static final class Driver implements DriverPlugin {
        private final Consumer<Declaration> other;
        private Client client;
        private Shuffles shuffles;

        Driver(Consumer<Declaration> other) {
            this.other = other;
        }

        @Override
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
            Watermaster.quietly(() -> {
                // Without executors nothing is moved.
                boolean isCluster = !context.isLocal();
                client = Client.start(Watermaster.PREFIX,
                        key -> isCluster && other == null ? plugin.conf().get(key, null) : null, Watermaster.LOG::warn);
                shuffles = new Shuffles(context, other == null ? client::declare : other);
                context.addSparkListener(shuffles);
                Watermaster.shuffles = shuffles;
                String manager = plugin.conf().get(MANAGER, "sort");
                if (Watermaster.isOn(plugin.conf()) && !manager.equals(DeclaringShuffleManager.class.getName())) {
                    Watermaster.LOG.warn("Watermaster: {} is \"{}\"; write {}; nothing is declared", MANAGER, manager,
                            DeclaringShuffleManager.class.getName());
                }
            });
            return Map.of();
        }

        @Override
        public Object receive(Object message) {
            Watermaster.quietly(() -> shuffles.hear((Batch) message));
            return null;
        }

        @Override
        public void shutdown() {
            Watermaster.quietly(() -> {
                Watermaster.shuffles = null;
                shuffles.end();
                client.close(Duration.ofSeconds(10));
            });
        }
    }

    private static final class Executor implements ExecutorPlugin {
        @Override
        public void init(PluginContext context, Map<String, String> more) {
            Watermaster.quietly(() -> {
                if (Watermaster.isOn(context.conf())) {
                    Watermaster.outbox = new Outbox(context);
                }
            });
        }

        @Override
        public void shutdown() {
            Watermaster.quietly(() -> {
                if (Watermaster.outbox != null) {
                    Watermaster.outbox.close();
                    Watermaster.outbox = null;
                }
            });
        }
    }
}
