package io.watermaster.examples;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Trucking IoT of "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", section VI-A:
 * combiners join the status of trucks with the congestion of roads, two streams of unlike tuples, and a sink takes the
 * results.
 *
 * <p>Each of its tasks has a TaskManager of its own, so that a connection is a pair of tasks. Both sources are on the
 * first host, whose link they share; the sink is on the last, and a combiner on each host between. It asks for hosts by
 * external resources of their names, which TaskManagers of a lab have. A tuple is born when it is due, also where the
 * engine's buffers are full and hold its source back.
 */
public final class Trucking {
    /** A tuple: which combiner it is for, its birth, its payload. */
    static final TypeInformation<Tuple3<Integer, Long, byte[]>> TUPLE =
            Types.TUPLE(Types.INT, Types.LONG, Types.PRIMITIVE_ARRAY(Types.BYTE));
    /** What waits for others of its kind waits no longer, milliseconds. */
    private static final long FLUSH = 5;
    /** What a task asks for, of a TaskManager of a lab: all of its processor and some of its heap. */
    private static final double CORES = 1.0;
    private static final int HEAP_MB = 128;
    /** The host in the address of a TaskManager. */
    private static final Pattern HOST = Pattern.compile("@([^:/]+)[:/]");

    private Trucking() {}

    /**
     * Submits it.
     *
     * @param arguments {@code NAME [KEY=VALUE…]}, see {@link Settings}
     * @throws Exception what Flink throws where it can't be submitted
     */
    public static void main(String[] arguments) throws Exception {
        try {
            Settings settings = Settings.read(arguments);
            StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
            Places places = Places.of(hosts(environment.getConfiguration()));
            build(environment, settings, places);
            System.out.println(settings.name() + ": results are appended to " + settings.results());
            environment.execute(settings.name());
        } catch (IllegalArgumentException wrong) {
            System.err.println("trucking: " + wrong.getMessage());
            System.exit(2);
        }
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
     * Where tasks go.
     *
     * @param sources   the host of both
     * @param combiners their hosts
     * @param sink      its host
     */
    record Places(String sources, List<String> combiners, String sink) {
        /**
         * By the host of each TaskManager.
         *
         * @throws IllegalArgumentException where there are too few
         */
        static Places of(List<String> hosts) {
            // h10 comes after h9.
            List<String> all = hosts.stream().distinct()
                    .sorted(Comparator.comparing(String::length).thenComparing(Comparator.naturalOrder())).toList();
            if (all.size() < 3 || hosts.stream().filter(all.get(0)::equals).count() < 2) {
                throw new IllegalArgumentException("TaskManagers are at " + all + "; start some at three hosts or more,"
                        + " two of them at the first");
            }
            return new Places(all.get(0), all.subList(1, all.size() - 1), all.get(all.size() - 1));
        }
    }

    /** Fills an environment with it. */
    static void build(StreamExecutionEnvironment environment, Settings settings, Places places) {
        environment.setParallelism(1);
        environment.setBufferTimeout(FLUSH);
        environment.getConfig().enableObjectReuse();
        int combiners = places.combiners().size();
        DataStream<Tuple3<Integer, Long, byte[]>> trucks = source(
                environment, "truck", new Source(settings.rate(), settings.truck(), combiners), places.sources());
        DataStream<Tuple3<Integer, Long, byte[]>> roads = source(environment, "congestion",
                new Source(settings.rate(), settings.congestion(), combiners), places.sources());
        DataStream<Tuple3<Integer, Long, byte[]>> combined = null;
        for (int number = 0; number < combiners; number++) {
            String name = "combiner-" + number;
            DataStream<Tuple3<Integer, Long, byte[]>> one = of(number, trucks).connect(of(number, roads))
                    .flatMap(new Combiner(settings.combined())).returns(TUPLE).name(name)
                    .slotSharingGroup(group(name, places.combiners().get(number)));
            combined = combined == null ? one : combined.union(one);
        }
        combined.sinkTo(new Measure(settings.results(), settings.every())).name("sink")
                .slotSharingGroup(group("sink", places.sink()));
    }

    private static DataStream<Tuple3<Integer, Long, byte[]>> source(
            StreamExecutionEnvironment environment, String name, Source source, String host) {
        return environment.fromSource(new DataGeneratorSource<>(source, Long.MAX_VALUE, TUPLE),
                WatermarkStrategy.noWatermarks(), name).slotSharingGroup(group(name, host));
    }

    /** Each combiner gets as much of one stream as of the other. */
    private static DataStream<Tuple3<Integer, Long, byte[]>> of(
            int combiner, DataStream<Tuple3<Integer, Long, byte[]>> stream) {
        return stream.filter(tuple -> tuple.f0 == combiner);
    }

    private static SlotSharingGroup group(String name, String host) {
        return SlotSharingGroup.newBuilder(name).setCpuCores(CORES).setTaskHeapMemoryMB(HEAP_MB)
                .setExternalResource(host, 1).build();
    }
}
