package io.watermaster.client;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/** Stands for a client in tests of plug-ins, and keeps what their hooks declare. */
public final class Declared implements Consumer<Declaration>, AutoCloseable {
    private final List<Declaration> all = new CopyOnWriteArrayList<>();
    private final boolean isBroken;
    private final Consumer<Consumer<Declaration>> place;

    /** One that is broken throws at everything. */
    public Declared(boolean isBroken) {
        this(isBroken, stand -> {});
    }

    /** One that is put into the place of a process's client, until it is closed. */
    public Declared(boolean isBroken, Consumer<Consumer<Declaration>> place) {
        this.isBroken = isBroken;
        this.place = place;
        place.accept(this);
    }

    @Override
    public void accept(Declaration declaration) {
        all.add(declaration);
        if (isBroken) {
            throw new AssertionError("as if there were no memory");
        }
    }

    public List<Declaration> all() {
        return List.copyOf(all);
    }

    public <T extends Declaration> List<T> of(Class<T> kind) {
        return all.stream().filter(kind::isInstance).map(kind::cast).toList();
    }

    @Override
    public void close() {
        place.accept(null);
    }

    /** Waits for a condition; fails where it isn't fulfilled within five minutes. */
    public static void until(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + 300_000_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("never: " + what);
            }
            Thread.sleep(2);
        }
    }
}
