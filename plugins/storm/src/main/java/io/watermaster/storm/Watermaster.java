package io.watermaster.storm;

import io.watermaster.client.Client;
import io.watermaster.client.Hooks;
import java.util.HashMap;
import java.util.List;
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

    /**
     * A client of a worker, whose configuration is that of its topology too: what that asks for is nimbus' to read, and
     * no reason to declare nothing where it can't be read.
     */
    static Client ofWorker(Map<String, Object> configuration) {
        Map<String, Object> own = new HashMap<>(configuration);
        List.of("objective", "deadline", "weight").forEach(key -> own.remove(PREFIX + key));
        return client(own);
    }

    /** Runs a hook that must not fail the engine; the first that goes wrong is logged. */
    static void quietly(Hooks.Hook hook) {
        HOOKS.quietly(hook);
    }
}
