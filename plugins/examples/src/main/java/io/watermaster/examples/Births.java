package io.watermaster.examples;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.ThreadLocalRandom;

/** When a source's tuples are born: at random times (a Poisson process). */
final class Births {
    private static final double SECOND = 1e9;

    private final double rate;
    /** When the next tuple is due, by {@link System#nanoTime}. */
    private long next = System.nanoTime();

    /** So many tuples a second. */
    Births(double rate) {
        this.rate = rate;
    }

    /** The time now in microseconds; hosts of a lab have one clock. */
    static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** Nanoseconds until the next is due, below zero since it was. */
    long remaining() {
        return next - System.nanoTime();
    }

    /** Goes to the one after it. Where a source was stopped for a while, the tuples of that time follow. */
    void go() {
        next += (long) (ThreadLocalRandom.current().nextExponential() / rate * SECOND);
    }
}
