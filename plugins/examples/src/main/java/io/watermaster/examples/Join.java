package io.watermaster.examples;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.function.LongConsumer;

/**
 * Combines each tuple of one stream with the most up-to-date one of the other (section VI-A): it waits until the other
 * has come to its time, so that none older can follow.
 */
final class Join {
    /** Births of tuples of the driving stream that wait. */
    private final Queue<Long> waiting = new ArrayDeque<>();
    /** The birth of the last tuple of the other stream. */
    private long reached = Long.MIN_VALUE;

    /** A tuple of the driving stream, or of the other, has come. {@code out} gets the births of those combined now. */
    void take(boolean isDriving, long birth, LongConsumer out) {
        if (isDriving) {
            waiting.add(birth);
        } else {
            reached = birth;
        }
        while (!waiting.isEmpty() && waiting.peek() <= reached) {
            out.accept(waiting.remove());
        }
    }
}
