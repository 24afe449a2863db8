package io.watermaster.examples;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;

/**
 * Trending Topics of "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", section VI-A: tweets
 * are split into words, counters count these and tell the counts of each ten, an aggregator takes in the tuples of all
 * counters jointly and ranks words, and a report takes the rankings.
 *
 * <p>Each of its tasks has a worker of its own, so that a connection is a pair of tasks. Tweets and report are on the
 * first host and the aggregator is on the last; of the hosts between, half split and half count. What the text leaves
 * open is as in {@code scenarios/app-aware/trending.toml}, with a quarter of its tuples, four times as large: as much
 * for the network and less for the processors.
 */
public final class Trending {
    private static final String TWEETS = "tweets";
    private static final String SPLIT = "split";
    private static final String COUNT = "count";
    private static final String TOP = "top";
    private static final String REPORT = "report";

    private Trending() {}

    /**
     * Submits it.
     *
     * @param arguments {@code NAME [KEY=VALUE…]}, see {@link TrendingSettings}
     * @throws Exception what Storm throws where it can't be submitted
     */
    public static void main(String[] arguments) throws Exception {
        Workers.submit("trending", (hosts, ports) -> {
            TrendingSettings told = TrendingSettings.read(arguments);
            Map<String, List<String>> places = places(hosts, ports);
            StormTopology topology = topology(told, places.get(SPLIT).size(), places.get(COUNT).size());
            return new Workers.Plan(told.name(), topology, places, told.results());
        });
    }

    /** Where each component goes. */
    static Map<String, List<String>> places(List<String> hosts, List<?> ports) {
        Workers workers = Workers.of(hosts, ports, 4);
        int last = workers.hosts().size() - 1;
        int splits = 1 + (last - 1) / 2;
        Map<String, List<String>> places = new TreeMap<>();
        places.put(TWEETS, List.of(workers.at(0, 0)));
        places.put(REPORT, List.of(workers.at(0, 1)));
        places.put(SPLIT, workers.between(1, splits));
        places.put(COUNT, workers.between(splits, last));
        places.put(TOP, List.of(workers.at(last, 0)));
        return places;
    }

    static StormTopology topology(TrendingSettings told, int splits, int counts) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(TWEETS, new Tweets(told.rate(), told.words(), told.tweet()));
        builder.setBolt(SPLIT, new Split(told.word()), splits).shuffleGrouping(TWEETS);
        builder.setBolt(COUNT, new Count(told.count()), counts).fieldsGrouping(SPLIT, new Fields("word"));
        builder.setBolt(TOP, new Top(COUNT, told.count())).globalGrouping(COUNT);
        builder.setBolt(REPORT, new Sink(told.results(), told.every())).globalGrouping(TOP);
        return builder.createTopology();
    }
}
