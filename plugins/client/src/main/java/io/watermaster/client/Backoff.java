package io.watermaster.client;

/** Waits after failures: the first is short, each is twice as long as the one before, none is longer than 5 s. */
final class Backoff {
    private static final long FIRST = 100_000_000;
    private static final long LONGEST = 5_000_000_000L;

    private long next = FIRST;

    /** The next wait in nanoseconds: between half of it and all of it by {@code chance}, from 0 up to 1. */
    long take(double chance) {
        long half = next / 2;
        next = Math.min(2 * next, LONGEST);
        return half + (long) (half * chance);
    }

    void reset() {
        next = FIRST;
    }
}
