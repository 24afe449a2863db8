package io.watermaster.examples;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Emits tuples of one size at random times (a Poisson process), each with its birth. */
final class Source extends BaseRichSpout {
    private static final long serialVersionUID = 1;

    private final double rate;
    private final byte[] payload;
    private transient SpoutOutputCollector out;
    private transient Births births;

    /** So many tuples a second, with so many octets. */
    Source(double rate, int size) {
        this.rate = rate;
        payload = new byte[size];
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "payload"));
    }

    @Override
    public void open(Map<String, Object> configuration, TopologyContext context, SpoutOutputCollector collector) {
        out = collector;
        births = new Births(rate);
    }

    @Override
    public void nextTuple() {
        if (births.remaining() <= 0) {
            births.go();
            out.emit(new Values(Births.now(), payload));
        }
    }
}
