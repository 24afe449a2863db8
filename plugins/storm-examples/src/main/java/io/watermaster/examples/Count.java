package io.watermaster.examples;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Counts words, and emits the counts of each ten that have come. */
final class Count extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    /** Words that come before their counts are told: the text's K. */
    private static final int BATCH = 10;

    private final byte[] payload;
    private transient OutputCollector out;
    private transient Map<String, Long> counts;
    private transient List<Values> batch;

    /** Of so many octets each, besides the word. */
    Count(int size) {
        payload = new byte[size];
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "word", "count", "payload"));
    }

    @Override
    public void prepare(Map<String, Object> configuration, TopologyContext context, OutputCollector collector) {
        out = collector;
        counts = new HashMap<>();
        batch = new ArrayList<>(BATCH);
    }

    @Override
    public void execute(Tuple tuple) {
        String word = tuple.getStringByField("word");
        long count = counts.merge(word, 1L, Long::sum);
        batch.add(new Values(tuple.getLongByField("birth"), word, count, payload));
        if (batch.size() == BATCH) {
            batch.forEach(out::emit);
            batch.clear();
        }
    }
}
