package io.watermaster.examples;

import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Emits tweets at random times (a Poisson process), each with its birth. */
final class Tweets extends BaseRichSpout {
    private static final long serialVersionUID = 1;
    /** Words of a tweet. */
    private static final int LENGTH = 11;

    private final double rate;
    private final int count;
    private final byte[] payload;
    private transient SpoutOutputCollector out;
    private transient Births births;
    private transient Words words;

    /** So many a second, of so many different words, with so many octets besides. */
    Tweets(double rate, int words, int size) {
        this.rate = rate;
        count = words;
        payload = new byte[size];
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "text", "payload"));
    }

    @Override
    public void open(Map<String, Object> configuration, TopologyContext context, SpoutOutputCollector collector) {
        out = collector;
        births = new Births(rate);
        words = new Words(count);
    }

    @Override
    public void nextTuple() {
        if (births.remaining() <= 0) {
            births.go();
            String text = IntStream.range(0, LENGTH).mapToObj(place -> word()).collect(Collectors.joining(" "));
            out.emit(new Values(Births.now(), text, payload));
        }
    }

    private String word() {
        return "w" + words.draw(ThreadLocalRandom.current());
    }
}
