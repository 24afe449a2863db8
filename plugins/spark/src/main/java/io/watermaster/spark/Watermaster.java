package io.watermaster.spark;

import io.watermaster.client.Hooks;
import org.apache.spark.SparkConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the hooks of this process have in common. The plug-in fills it, the shuffle manager uses it. */
final class Watermaster {
    static final String PREFIX = "spark.watermaster.";
    static final Logger LOG = LoggerFactory.getLogger(Watermaster.class);

    private static final Hooks HOOKS = new Hooks(LOG::warn);

    /** In an executor; null where nothing is declared. */
    static volatile Outbox outbox;
    /** In the driver; null where nothing is declared. */
    static volatile Shuffles shuffles;

    private Watermaster() {}

    /** Whether a configuration names a controller. */
    static boolean isOn(SparkConf configuration) {
        return configuration.contains(PREFIX + "controller");
    }

    /** Runs a hook that must not fail the engine; the first that goes wrong is logged. */
    static void quietly(Hooks.Hook hook) {
        HOOKS.quietly(hook);
    }
}
