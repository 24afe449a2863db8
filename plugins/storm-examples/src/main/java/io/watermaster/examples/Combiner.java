package io.watermaster.examples;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Combines each tuple of one stream with the most up-to-date one of the other (section VI-A): it waits until the other
 * has come to its time, so that none older can follow.
 */
final class Combiner extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    private final String driving;
    private final byte[] payload;
    private transient OutputCollector out;
    /** Births of tuples of the driving stream that wait. */
    private transient Queue<Long> waiting;
    /** The birth of the last tuple of the other stream. */
    private transient long reached;

    /** Emits a tuple of so many octets for each of the component {@code driving}. */
    Combiner(String driving, int size) {
        this.driving = driving;
        payload = new byte[size];
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "payload"));
    }

    @Override
    public void prepare(Map<String, Object> configuration, TopologyContext context, OutputCollector collector) {
        out = collector;
        waiting = new ArrayDeque<>();
        reached = Long.MIN_VALUE;
    }

    @Override
    public void execute(Tuple tuple) {
        long birth = tuple.getLongByField("birth");
        if (tuple.getSourceComponent().equals(driving)) {
            waiting.add(birth);
        } else {
            reached = birth;
        }
        while (!waiting.isEmpty() && waiting.peek() <= reached) {
            out.emit(new Values(waiting.remove(), payload));
        }
    }
}
