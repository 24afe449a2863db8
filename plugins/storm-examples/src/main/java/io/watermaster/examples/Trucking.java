package io.watermaster.examples;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;

/**
 * Trucking IoT of "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", section VI-A:
 * combiners join the status of trucks with the congestion of roads, two streams of unlike tuples, and a sink takes the
 * results.
 *
 * <p>Each of its tasks has a worker of its own, so that a connection is a pair of tasks. Both sources are on the first
 * host, whose link they share; the sink is on the last, and a combiner on each host between. What the text leaves open
 * is as in {@code scenarios/app-aware/trucking.toml}: the sizes, and queues without bounds.
 */
public final class Trucking {
    private static final String TRUCK = "truck";
    private static final String CONGESTION = "congestion";
    private static final String COMBINER = "combiner";
    private static final String SINK = "sink";

    private Trucking() {}

    /**
     * Submits it.
     *
     * @param arguments {@code NAME [KEY=VALUE…]}, see {@link Settings}
     * @throws Exception what Storm throws where it can't be submitted
     */
    public static void main(String[] arguments) throws Exception {
        Workers.submit("trucking", (hosts, ports) -> {
            Settings settings = Settings.read(arguments);
            Map<String, List<String>> places = places(hosts, ports);
            return new Workers.Plan(settings.name(), topology(settings, places.get(COMBINER).size()), places,
                    settings.results());
        });
    }

    /** Where each component goes. */
    static Map<String, List<String>> places(List<String> hosts, List<?> ports) {
        Workers workers = Workers.of(hosts, ports, 3);
        int last = workers.hosts().size() - 1;
        Map<String, List<String>> places = new TreeMap<>();
        places.put(TRUCK, List.of(workers.at(0, 0)));
        places.put(CONGESTION, List.of(workers.at(0, 1)));
        places.put(COMBINER, workers.between(1, last));
        places.put(SINK, List.of(workers.at(last, 0)));
        return places;
    }

    static StormTopology topology(Settings settings, int combiners) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(TRUCK, new Source(settings.rate(), settings.truck()));
        builder.setSpout(CONGESTION, new Source(settings.rate(), settings.congestion()));
        builder.setBolt(COMBINER, new Combiner(TRUCK, settings.combined()), combiners)
                .shuffleGrouping(TRUCK).shuffleGrouping(CONGESTION);
        builder.setBolt(SINK, new Sink(settings.results(), settings.every())).globalGrouping(COMBINER);
        return builder.createTopology();
    }
}
