package io.watermaster.examples;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The TaskManagers of a cluster, each of which has one task. */
final class Managers {
    /** What waits for others of its kind waits no longer, milliseconds. */
    private static final long FLUSH = 5;
    /** What a task asks for, of a TaskManager of a lab: all of its processor and some of its heap. */
    private static final double CORES = 1.0;
    private static final int HEAP_MB = 128;
    /** The host in the address of a TaskManager. */
    private static final Pattern HOST = Pattern.compile("@([^:/]+)[:/]");

    private Managers() {}

    /** What a job is called, and its results. */
    record Plan(String name, Path results) {}

    /** How to fill an environment with a job for the hosts of all TaskManagers. */
    interface Planner {
        /** The job, which is in the environment now. */
        Plan plan(StreamExecutionEnvironment environment, List<String> hosts);
    }

    /**
     * Submits a job.
     *
     * @throws Exception what Flink throws where it can't be submitted
     */
    static void submit(String program, Planner planner) throws Exception {
        try {
            StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
            Plan plan = planner.plan(environment, hosts(environment.getConfiguration()));
            System.out.println(plan.name() + ": results are appended to " + plan.results());
            environment.execute(plan.name());
        } catch (IllegalArgumentException wrong) {
            System.err.println(program + ": " + wrong.getMessage());
            System.exit(2);
        }
    }

    /** Tasks are one of each kind, and what they emit goes at once. */
    static void prepare(StreamExecutionEnvironment environment) {
        environment.setParallelism(1);
        environment.setBufferTimeout(FLUSH);
        environment.getConfig().enableObjectReuse();
    }

    /** The hosts of all TaskManagers, one for each of these. */
    private static List<String> hosts(ReadableConfig configuration) throws IOException, InterruptedException {
        URI all = URI.create("http://" + configuration.get(RestOptions.ADDRESS) + ":"
                + configuration.get(RestOptions.PORT) + "/taskmanagers");
        byte[] answer =
                HttpClient.newHttpClient().send(HttpRequest.newBuilder(all).build(), BodyHandlers.ofByteArray()).body();
        List<String> hosts = new ArrayList<>();
        for (JsonNode manager : new ObjectMapper().readTree(answer).path("taskmanagers")) {
            Matcher host = HOST.matcher(manager.path("path").asText());
            if (host.find()) {
                hosts.add(host.group(1));
            }
        }
        return hosts;
    }

    /**
     * So many hosts at least, each once, of which the first has two TaskManagers.
     *
     * @throws IllegalArgumentException where there are too few
     */
    static List<String> sorted(List<String> hosts, int least) {
        // h10 comes after h9.
        List<String> all = hosts.stream().distinct()
                .sorted(Comparator.comparing(String::length).thenComparing(Comparator.naturalOrder())).toList();
        if (all.size() < least || hosts.stream().filter(all.get(0)::equals).count() < 2) {
            throw new IllegalArgumentException("TaskManagers are at " + all + "; start some at " + least
                    + " hosts or more, two of them at the first");
        }
        return all;
    }

    /** A TaskManager at a host, for one task. */
    static SlotSharingGroup group(String name, String host) {
        return SlotSharingGroup.newBuilder(name).setCpuCores(CORES).setTaskHeapMemoryMB(HEAP_MB)
                .setExternalResource(host, 1).build();
    }
}
