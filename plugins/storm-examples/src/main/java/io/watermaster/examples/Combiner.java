package io.watermaster.examples;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Combines the tuples of two streams, see {@link Join}. */
final class Combiner extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    private final String driving;
    private final byte[] payload;
    private transient OutputCollector out;
    private transient Join join;

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
        join = new Join();
    }

    @Override
    public void execute(Tuple tuple) {
        join.take(tuple.getSourceComponent().equals(driving), tuple.getLongByField("birth"),
                birth -> out.emit(new Values(birth, payload)));
    }
}
