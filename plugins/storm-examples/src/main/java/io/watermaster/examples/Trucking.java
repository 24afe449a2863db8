package io.watermaster.examples;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.SupervisorSummary;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

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
    private static final String PIN = "watermaster.pin";
    /** As good as no bound on what waits for a connection, octets; and the memory that it waits in. */
    private static final int UNBOUNDED = Integer.MAX_VALUE;
    private static final String MEMORY = "-Xmx2g";

    private Trucking() {}

    /**
     * Submits it.
     *
     * @param arguments {@code NAME [KEY=VALUE…]}, see {@link Settings}
     * @throws Exception what Storm throws where it can't be submitted
     */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> cluster = Utils.readStormConfig();
        try {
            Settings settings = Settings.read(arguments);
            List<String> hosts = new ArrayList<>();
            NimbusClient.withConfiguredClient(nimbus -> hosts.addAll(hosts(nimbus)), cluster);
            Map<String, List<String>> places = places(hosts, (List<?>) cluster.get("supervisor.slots.ports"));
            Config configuration = configuration(places);
            StormSubmitter.submitTopology(
                    settings.name(), configuration, topology(settings, places.get(COMBINER).size()));
            System.out.println(settings.name() + ": results are appended to " + settings.results());
        } catch (IllegalArgumentException wrong) {
            System.err.println("trucking: " + wrong.getMessage());
            System.exit(2);
        }
    }

    private static List<String> hosts(Nimbus.Iface nimbus) throws Exception {
        return nimbus.getClusterInfo().get_supervisors().stream().map(SupervisorSummary::get_host).toList();
    }

    /** Where each component goes, by {@code watermaster.pin}. */
    static Map<String, List<String>> places(List<String> hosts, List<?> ports) {
        // h10 comes after h9.
        List<String> all = hosts.stream().distinct()
                .sorted(Comparator.comparing(String::length).thenComparing(Comparator.naturalOrder())).toList();
        if (all.size() < 3 || ports.size() < 2) {
            throw new IllegalArgumentException("there are " + all.size() + " hosts of " + ports.size() + " workers;"
                    + " start three supervisors or more, with two slots each");
        }
        Object port = ports.get(0);
        Map<String, List<String>> places = new TreeMap<>();
        places.put(TRUCK, List.of(all.get(0) + ":" + port));
        places.put(CONGESTION, List.of(all.get(0) + ":" + ports.get(1)));
        places.put(COMBINER, all.subList(1, all.size() - 1).stream().map(host -> host + ":" + port).toList());
        places.put(SINK, List.of(all.get(all.size() - 1) + ":" + port));
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

    static Config configuration(Map<String, List<String>> places) {
        Config configuration = new Config();
        configuration.put(PIN, places);
        configuration.setNumWorkers(places.values().stream().mapToInt(List::size).sum());
        configuration.setNumAckers(0);
        // Each combiner gets as much of one stream as of the other.
        configuration.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        configuration.put(Config.STORM_MESSAGING_NETTY_BUFFER_LOW_WATERMARK, UNBOUNDED);
        configuration.put(Config.STORM_MESSAGING_NETTY_BUFFER_HIGH_WATERMARK, UNBOUNDED);
        configuration.put(Config.TOPOLOGY_WORKER_CHILDOPTS, MEMORY);
        return configuration;
    }
}
