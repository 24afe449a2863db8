package io.watermaster.examples;

import java.nio.file.Path;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.TupleUtils;

/** Where tuples end. Every so often it appends a line of {@link Results}. */
final class Sink extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    private final String file;
    private final int every;
    private transient Results results;

    /** Appends to a file every so many seconds. */
    Sink(Path file, int every) {
        this.file = file.toString();
        this.every = every;
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, every);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        // It emits nothing.
    }

    @Override
    public void prepare(Map<String, Object> configuration, TopologyContext context, OutputCollector collector) {
        results = new Results(Path.of(file));
    }

    @Override
    public void execute(Tuple tuple) {
        if (TupleUtils.isTick(tuple)) {
            results.write();
        } else {
            results.add(tuple.getLongByField("birth"));
        }
    }
}
