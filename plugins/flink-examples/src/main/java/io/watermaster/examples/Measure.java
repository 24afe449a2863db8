package io.watermaster.examples;

import java.nio.file.Path;
import java.time.Duration;
import org.apache.flink.api.common.operators.ProcessingTimeService;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple3;

/** Where tuples end. Every so often it appends a line of {@link Results}. */
final class Measure implements Sink<Tuple3<Integer, Long, byte[]>> {
    private static final long serialVersionUID = 1;

    private final String file;
    private final Duration every;

    /** Appends to a file every so many seconds. */
    Measure(Path file, int every) {
        this.file = file.toString();
        this.every = Duration.ofSeconds(every);
    }

    @Override
    public SinkWriter<Tuple3<Integer, Long, byte[]>> createWriter(WriterInitContext context) {
        Results results = new Results(Path.of(file));
        ProcessingTimeService time = context.getProcessingTimeService();
        tick(time, time.getCurrentProcessingTime(), results);
        return new Writer(results);
    }

    private void tick(ProcessingTimeService time, long last, Results results) {
        long next = last + every.toMillis();
        // On the task's thread, as the tuples.
        time.registerTimer(next, now -> {
            results.write();
            tick(time, next, results);
        });
    }

    private record Writer(Results results) implements SinkWriter<Tuple3<Integer, Long, byte[]>> {
        @Override
        public void write(Tuple3<Integer, Long, byte[]> tuple, Context context) {
            results.add(tuple.f1);
        }

        @Override
        public void flush(boolean isEnd) {
            // Lines are written whole.
        }

        @Override
        public void close() {
            // It holds nothing.
        }
    }
}
