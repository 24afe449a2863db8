package io.watermaster.examples;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Emits the words of tweets one by one. */
final class Split extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    private final byte[] payload;
    private transient OutputCollector out;

    /** Of so many octets each, besides the word. */
    Split(int size) {
        payload = new byte[size];
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("birth", "word", "payload"));
    }

    @Override
    public void prepare(Map<String, Object> configuration, TopologyContext context, OutputCollector collector) {
        out = collector;
    }

    @Override
    public void execute(Tuple tweet) {
        for (String word : tweet.getStringByField("text").split(" ")) {
            out.emit(new Values(tweet.getLongByField("birth"), word, payload));
        }
    }
}
