package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
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
}
