package io.watermaster.client;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;

/** Runs what must not fail an engine, on the engine's threads: whatever goes wrong in it ends with it. */
public final class Hooks {
    private final BiConsumer<String, Throwable> log;
    private final AtomicBoolean isLogged = new AtomicBoolean();

    /**
     * Hooks of an engine.
     *
     * @param log hears of the first that fails
     */
    public Hooks(BiConsumer<String, Throwable> log) {
        this.log = log;
    }

    /** Something that may fail. */
    public interface Hook {
        /**
         * Does it.
         *
         * @throws Exception whatever goes wrong
         */
        void run() throws Exception;
    }

    /**
     * Runs a hook; throws nothing.
     *
     * @param hook what to run
     */
    public void quietly(Hook hook) {
        try {
            hook.run();
        } catch (Throwable broken) {
            try {
                if (!isLogged.getAndSet(true)) {
                    log.accept("Watermaster: not declared, nor is what may follow", broken);
                }
            } catch (Throwable notEvenThat) {
                // No memory: the engine goes on without us, or fails by itself.
            }
        }
    }
}
