package io.watermaster.storm;

import io.watermaster.client.Declaration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/** Stands for a client, and keeps what the hooks declare. */
final class Declared implements Consumer<Declaration> {
    private final List<Declaration> all = new CopyOnWriteArrayList<>();
    private final boolean isBroken;

    /** One that is broken throws at everything. */
    Declared(boolean isBroken) {
        this.isBroken = isBroken;
    }

    @Override
    public void accept(Declaration declaration) {
        all.add(declaration);
        if (isBroken) {
            throw new AssertionError("as if there were no memory");
        }
    }

    List<Declaration> all() {
        return List.copyOf(all);
    }

    <T extends Declaration> List<T> of(Class<T> kind) {
        return all.stream().filter(kind::isInstance).map(kind::cast).toList();
    }

    /** Waits for a condition; fails where it isn't fulfilled within a minute. */
    static void until(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("never: " + what);
            }
            Thread.sleep(2);
        }
    }
}
