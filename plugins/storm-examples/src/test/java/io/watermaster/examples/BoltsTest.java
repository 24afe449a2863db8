package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.stream.LongStream;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

class BoltsTest {
    /** Births of what was emitted. */
    private final List<Long> emitted = new ArrayList<>();

    private Combiner combiner() {
        Combiner combiner = new Combiner("truck", 200);
        IOutputCollector collector = stand(IOutputCollector.class, (method, arguments) -> {
            // The only method that it calls.
            emitted.add((Long) ((List<?>) arguments[2]).get(0));
            return null;
        });
        combiner.prepare(Map.of(), null, new OutputCollector(collector));
        return combiner;
    }

    private static Tuple tuple(String component, long birth) {
        return stand(Tuple.class, (method, arguments) -> method.equals("getLongByField") ? birth : component);
    }

    /** Stands for one of the engine's: {@code answer} gets the method's name and arguments. */
    private static <T> T stand(Class<T> type, BiFunction<String, Object[], Object> answer) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
                (proxy, method, arguments) -> answer.apply(method.getName(), arguments)));
    }

    @Test
    void aTruckWaitsUntilNoOlderCongestionCanFollow() {
        Combiner combiner = combiner();
        combiner.execute(tuple("truck", 10));
        combiner.execute(tuple("congestion", 9));
        assertEquals(List.of(), emitted);
        combiner.execute(tuple("congestion", 12));
        assertEquals(List.of(10L), emitted);
        combiner.execute(tuple("truck", 12));
        combiner.execute(tuple("truck", 13));
        assertEquals(List.of(10L, 12L), emitted);
    }

    @Test
    void aLineHasWhatCameSinceTheLast() {
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.GERMANY);
        try {
            List<Long> hundred = LongStream.rangeClosed(1, 100).map(ms -> ms * 1_000_000).boxed().toList();
            assertEquals("{\"time_s\": 12.500000, \"tuples\": 100, \"throughput_tps\": 50.000000,"
                    + " \"latency_mean_s\": 0.050500, \"latency_p99_s\": 0.099000}",
                    Sink.line(Duration.ofMillis(12_500), Duration.ofSeconds(2), hundred));
            assertEquals("{\"time_s\": 5.000000, \"tuples\": 0, \"throughput_tps\": 0.000000,"
                    + " \"latency_mean_s\": null, \"latency_p99_s\": null}",
                    Sink.line(Duration.ofSeconds(5), Duration.ofSeconds(5), List.of()));
        } finally {
            Locale.setDefault(before);
        }
    }
}
