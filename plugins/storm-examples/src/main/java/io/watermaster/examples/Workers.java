package io.watermaster.examples;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.SupervisorSummary;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

/**
 * The workers that a cluster has room for.
 *
 * @param hosts in their order: h9, h10
 * @param ports of the workers of each
 */
record Workers(List<String> hosts, List<?> ports) {
    private static final String PIN = "watermaster.pin";
    /** As good as no bound on what waits for a connection, octets; and the memory that it waits in. */
    private static final int UNBOUNDED = Integer.MAX_VALUE;
    private static final String MEMORY = "-Xmx2g";

    /** What a topology is, where each component goes, by {@code watermaster.pin}, and its results. */
    record Plan(String name, StormTopology topology, Map<String, List<String>> places, Path results) {}

    /**
     * Those of so many hosts of two workers at least.
     *
     * @throws IllegalArgumentException with what is missing
     */
    static Workers of(List<String> hosts, List<?> ports, int least) {
        List<String> all = hosts.stream().distinct()
                .sorted(Comparator.comparing(String::length).thenComparing(Comparator.naturalOrder())).toList();
        if (all.size() < least || ports.size() < 2) {
            throw new IllegalArgumentException("there are " + all.size() + " hosts of " + ports.size() + " workers;"
                    + " start " + least + " supervisors or more, with two slots each");
        }
        return new Workers(all, ports);
    }

    /** A worker, by the number of its host and of its port. */
    String at(int host, int port) {
        return hosts.get(host) + ":" + ports.get(port);
    }

    /** The first worker of each of these hosts. */
    List<String> between(int from, int to) {
        return hosts.subList(from, to).stream().map(host -> host + ":" + ports.get(0)).toList();
    }

    /** How to submit what is planned for the hosts and ports that there are. */
    interface Planner {
        /** The plan. */
        Plan plan(List<String> hosts, List<?> ports);
    }

    /**
     * Submits a topology whose connections keep all that waits for them, as the text's do.
     *
     * @throws Exception what Storm throws where it can't be submitted
     */
    static void submit(String program, Planner planner) throws Exception {
        Map<String, Object> cluster = Utils.readStormConfig();
        try {
            List<String> hosts = new ArrayList<>();
            NimbusClient.withConfiguredClient(nimbus -> hosts.addAll(hosts(nimbus)), cluster);
            Plan plan = planner.plan(hosts, (List<?>) cluster.get("supervisor.slots.ports"));
            StormSubmitter.submitTopology(plan.name(), configuration(plan.places()), plan.topology());
            System.out.println(plan.name() + ": results are appended to " + plan.results());
        } catch (IllegalArgumentException wrong) {
            System.err.println(program + ": " + wrong.getMessage());
            System.exit(2);
        }
    }

    private static List<String> hosts(Nimbus.Iface nimbus) throws Exception {
        return nimbus.getClusterInfo().get_supervisors().stream().map(SupervisorSummary::get_host).toList();
    }

    static Config configuration(Map<String, List<String>> places) {
        Config configuration = new Config();
        configuration.put(PIN, places);
        configuration.setNumWorkers(places.values().stream().mapToInt(List::size).sum());
        configuration.setNumAckers(0);
        // Each task gets as much of a stream as any other.
        configuration.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        configuration.put(Config.STORM_MESSAGING_NETTY_BUFFER_LOW_WATERMARK, UNBOUNDED);
        configuration.put(Config.STORM_MESSAGING_NETTY_BUFFER_HIGH_WATERMARK, UNBOUNDED);
        configuration.put(Config.TOPOLOGY_WORKER_CHILDOPTS, MEMORY);
        return configuration;
    }
}
