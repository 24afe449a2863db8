package io.watermaster.examples;

import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.GeneratorFunction;

/** Makes tuples of one size at random times (a Poisson process), for each combiner in turn, each with its birth. */
final class Source implements GeneratorFunction<Long, Tuple3<Integer, Long, byte[]>> {
    private static final long serialVersionUID = 1;

    private final double rate;
    private final byte[] payload;
    private final int combiners;
    private transient Births births;

    /** So many tuples a second, with so many octets. */
    Source(double rate, int size, int combiners) {
        this.rate = rate;
        this.payload = new byte[size];
        this.combiners = combiners;
    }

    @Override
    public void open(SourceReaderContext context) {
        births = new Births(rate);
    }

    @Override
    public Tuple3<Integer, Long, byte[]> map(Long number) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(births.remaining());
        // Where the engine has held it back, the tuple was due before.
        long birth = Births.now() + TimeUnit.NANOSECONDS.toMicros(births.remaining());
        births.go();
        return Tuple3.of((int) (number % combiners), birth, payload);
    }
}
