package io.watermaster.examples;

import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.function.LongConsumer;

/**
 * Takes in what several tasks send jointly (section VI-A): a tuple waits until every one of them has come to its time.
 */
final class Merge {
    private final int tasks;
    /** Births of tuples that wait. */
    private final Queue<Long> waiting = new PriorityQueue<>();
    /** The latest birth of each task's tuples. */
    private final Map<Integer, Long> reached = new HashMap<>();

    /** Of so many tasks. */
    Merge(int tasks) {
        this.tasks = tasks;
    }

    /** A tuple of a task has come. {@code out} gets the births of those that all have come to now. */
    void take(int task, long birth, LongConsumer out) {
        waiting.add(birth);
        reached.merge(task, birth, Math::max);
        if (reached.size() < tasks) {
            return;
        }
        long least = reached.values().stream().mapToLong(Long::longValue).min().orElseThrow();
        while (!waiting.isEmpty() && waiting.peek() <= least) {
            out.accept(waiting.remove());
        }
    }
}
