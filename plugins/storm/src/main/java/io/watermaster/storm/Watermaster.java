package io.watermaster.storm;

import io.watermaster.client.Client;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the hooks have in common. */
final class Watermaster {
    static final String PREFIX = "watermaster.";
    static final Logger LOG = LoggerFactory.getLogger(Watermaster.class);

    private static final AtomicBoolean isLogged = new AtomicBoolean();

    private Watermaster() {}

    /** A client as the configuration says. */
    static Client client(Map<String, Object> configuration) {
        return Client.start(PREFIX, key -> {
            Object value = configuration.get(key);
            return value == null ? null : value.toString();
        }, LOG::warn);
    }

    /** Something that must not fail the engine. */
    interface Hook {
        void run() throws Exception;
    }

    /** Runs a hook; what goes wrong in it ends with it. The first is logged. */
    static void quietly(Hook hook) {
        try {
            hook.run();
        } catch (Throwable broken) {
            try {
                if (!isLogged.getAndSet(true)) {
                    LOG.warn("Watermaster: not declared, nor is what may follow", broken);
                }
            } catch (Throwable notEvenThat) {
                // No memory: the engine goes on without us, or fails by itself.
            }
        }
    }
}
