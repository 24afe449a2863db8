package io.watermaster.examples;

import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Emits tuples of one size at random times (a Poisson process), each with its birth. */
final class Source extends BaseRichSpout {
    private static final long serialVersionUID = 1;
    private static final double SECOND = 1e9;

    private final double rate;
    private final byte[] payload;
    private transient SpoutOutputCollector out;
    /** When the next tuple is due, by {@link System#nanoTime}. */
    private transient long next;

    /** So many tuples a second, with so many octets. */
    Source(double rate, int size) {
        this.rate = rate;
        payload = new byte[size];
    }

    /** The time now in microseconds; hosts of a lab have one clock. */
    static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** The time since {@code birth}. */
    static Duration since(long birth) {
        return Duration.of(now() - birth, ChronoUnit.MICROS);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "payload"));
    }

    @Override
    public void open(Map<String, Object> configuration, TopologyContext context, SpoutOutputCollector collector) {
        out = collector;
        next = System.nanoTime();
    }

    @Override
    public void nextTuple() {
        // Where the engine has stopped it for a while, the tuples of that time follow.
        if (System.nanoTime() - next >= 0) {
            next += (long) (ThreadLocalRandom.current().nextExponential() / rate * SECOND);
            out.emit(new Values(now(), payload));
        }
    }
}
