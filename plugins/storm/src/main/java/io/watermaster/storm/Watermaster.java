package io.watermaster.storm;

import io.watermaster.client.Client;
import io.watermaster.client.Hooks;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the hooks have in common. */
final class Watermaster {
    static final String PREFIX = "watermaster.";
    static final Logger LOG = LoggerFactory.getLogger(Watermaster.class);

    private static final Hooks HOOKS = new Hooks(LOG::warn);

    private Watermaster() {}

    /** A client as the configuration says. */
    static Client client(Map<String, Object> configuration) {
        return Client.start(PREFIX, key -> {
            Object value = configuration.get(key);
            return value == null ? null : value.toString();
        }, LOG::warn);
    }

    /** Runs a hook that must not fail the engine; the first that goes wrong is logged. */
    static void quietly(Hooks.Hook hook) {
        HOOKS.quietly(hook);
    }
}
