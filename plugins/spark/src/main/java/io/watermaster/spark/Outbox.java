package io.watermaster.spark;

import io.watermaster.spark.Message.Batch;
import io.watermaster.spark.Message.Fetched;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.plugin.PluginContext;

/**
 * Takes an executor's messages from any thread, and hands them to the driver on one of its own. While the driver has
 * not answered, messages wait; those that don't fit are dropped.
 */
final class Outbox {
    /** Messages and parts of outputs that wait at most; ends of fetches have as much again. */
    private static final int ROOM = 1 << 16;

    private final PluginContext driver;
    private List<Message> waiting = new ArrayList<>();
    private int taken;
    private boolean wasFull;
    private boolean isClosed;

    Outbox(PluginContext driver) {
        this.driver = driver;
        Thread thread = new Thread(() -> Watermaster.quietly(this::run), "watermaster");
        thread.setDaemon(true);
        thread.start();
    }

    synchronized void put(Message message) {
        boolean fits = taken + message.weight() <= (message instanceof Fetched ? 2 * ROOM : ROOM);
        if (fits && !isClosed) {
            waiting.add(message);
            taken += message.weight();
            notify();
        } else if (!isClosed && !wasFull) {
            wasFull = true;
            Watermaster.LOG.warn("Watermaster: the driver is slow; what doesn't fit is not declared");
        }
    }

    /** Nothing more is told. */
    synchronized void close() {
        isClosed = true;
        notify();
    }

    private void run() throws InterruptedException {
        for (List<Message> batch = take(); !batch.isEmpty(); batch = take()) {
            Batch said = new Batch(driver.executorID(), batch);
            Watermaster.quietly(() -> driver.ask(said));
        }
    }

    /** What waits, when there is something; empty at the end. */
    private synchronized List<Message> take() throws InterruptedException {
        while (waiting.isEmpty() && !isClosed) {
            wait();
        }
        List<Message> all = waiting;
        waiting = new ArrayList<>();
        taken = 0;
        return all;
    }
}
