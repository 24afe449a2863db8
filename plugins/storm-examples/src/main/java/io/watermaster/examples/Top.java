package io.watermaster.examples;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Takes in the counts of all counters jointly, and emits what leads after each ten. */
final class Top extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    /** Counts for each ranking. */
    private static final int BATCH = 10;

    private final String counters;
    private final byte[] payload;
    private transient OutputCollector out;
    private transient Merge merge;
    private transient int taken;

    /** Takes from the component {@code counters}; emits tuples of so many octets. */
    Top(String counters, int size) {
        this.counters = counters;
        payload = new byte[size];
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "payload"));
    }

    @Override
    public void prepare(Map<String, Object> configuration, TopologyContext context, OutputCollector collector) {
        out = collector;
        merge = new Merge(context.getComponentTasks(counters).size());
    }

    @Override
    public void execute(Tuple tuple) {
        merge.take(tuple.getSourceTask(), tuple.getLongByField("birth"), birth -> {
            taken++;
            if (taken % BATCH == 0) {
                out.emit(new Values(birth, payload));
            }
        });
    }
}
