package io.watermaster.examples;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.functions.co.RichCoFlatMapFunction;
import org.apache.flink.util.Collector;

/** Combines the tuples of two streams, of which the first drives, see {@link Join}. */
final class Combiner extends RichCoFlatMapFunction<
        Tuple3<Integer, Long, byte[]>, Tuple3<Integer, Long, byte[]>, Tuple3<Integer, Long, byte[]>> {
    private static final long serialVersionUID = 1;

    private final byte[] payload;
    private transient Join join;

    /** Emits a tuple of so many octets for each of the first stream. */
    Combiner(int size) {
        payload = new byte[size];
    }

    @Override
    public void open(OpenContext context) {
        join = new Join();
    }

    @Override
    public void flatMap1(Tuple3<Integer, Long, byte[]> truck, Collector<Tuple3<Integer, Long, byte[]>> out) {
        join.take(true, truck.f1, birth -> out.collect(Tuple3.of(truck.f0, birth, payload)));
    }

    @Override
    public void flatMap2(Tuple3<Integer, Long, byte[]> road, Collector<Tuple3<Integer, Long, byte[]>> out) {
        join.take(false, road.f1, birth -> out.collect(Tuple3.of(road.f0, birth, payload)));
    }
}
