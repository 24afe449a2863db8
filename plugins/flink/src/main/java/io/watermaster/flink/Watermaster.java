package io.watermaster.flink;

import io.watermaster.client.Client;
import io.watermaster.client.Hooks;
import org.apache.flink.configuration.Configuration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the hooks have in common. */
final class Watermaster {
    static final Logger LOG = LoggerFactory.getLogger(Watermaster.class);

    private static final String PREFIX = "watermaster.";
    private static final Hooks HOOKS = new Hooks(LOG::warn);

    private Watermaster() {}

    /** Whether a configuration names a controller. */
    static boolean isOn(Configuration configuration) {
        return configuration.containsKey(PREFIX + "controller");
    }

    /** A client as the configuration says. */
    static Client client(Configuration configuration) {
        return Client.start(PREFIX, key -> configuration.getString(key, null), LOG::warn);
    }

    /** Runs a hook that must not fail the engine; the first that goes wrong is logged. */
    static void quietly(Hooks.Hook hook) {
        HOOKS.quietly(hook);
    }
}
