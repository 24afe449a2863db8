package io.watermaster.examples;

import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
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

    private Trucking() {}

    /**
     * Submits it.
     *
     * @param arguments {@code NAME [KEY=VALUE…]}, see {@link Settings}
     * @throws Exception what Flink throws where it can't be submitted
     */
    public static void main(String[] arguments) throws Exception {
        Managers.submit("trucking", (environment, hosts) -> {
            Settings settings = Settings.read(arguments);
            build(environment, settings, Places.of(hosts));
            return new Managers.Plan(settings.name(), settings.results());
        });
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
            List<String> all = Managers.sorted(hosts, 3);
            return new Places(all.get(0), all.subList(1, all.size() - 1), all.get(all.size() - 1));
        }
    }

    /** Fills an environment with it. */
    static void build(StreamExecutionEnvironment environment, Settings settings, Places places) {
        Managers.prepare(environment);
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
                    .slotSharingGroup(Managers.group(name, places.combiners().get(number)));
            combined = combined == null ? one : combined.union(one);
        }
        combined.sinkTo(new Measure(settings.results(), settings.every())).name("sink")
                .slotSharingGroup(Managers.group("sink", places.sink()));
    }

    private static DataStream<Tuple3<Integer, Long, byte[]>> source(
            StreamExecutionEnvironment environment, String name, Source source, String host) {
        return environment.fromSource(new DataGeneratorSource<>(source, Long.MAX_VALUE, TUPLE),
                WatermarkStrategy.noWatermarks(), name).slotSharingGroup(Managers.group(name, host));
    }

    /** Each combiner gets as much of one stream as of the other. */
    private static DataStream<Tuple3<Integer, Long, byte[]>> of(
            int combiner, DataStream<Tuple3<Integer, Long, byte[]>> stream) {
        return stream.filter(tuple -> tuple.f0 == combiner);
    }
}
