package io.watermaster.examples;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * Trending Topics of "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", section VI-A: tweets
 * are split into words, counters count these and tell the counts of each ten, an aggregator takes in the tuples of all
 * counters jointly and ranks words, and a report takes the rankings.
 *
 * <p>Each of its tasks has a TaskManager of its own, so that a connection is a pair of tasks. Tweets and report are on
 * the first host and the aggregator is on the last; of the hosts between, half split and half count. It asks for hosts
 * as {@link Trucking} does, and tuples are born as there.
 */
public final class Trending {
    /** Words of a tweet. */
    private static final int LENGTH = 11;
    /** Words that come before their counts are told, the text's K, and counts for each ranking. */
    private static final int BATCH = 10;
    /** A tweet: which splitter it is for, its birth, its words, its payload. */
    private static final TypeInformation<Tuple4<Integer, Long, int[], byte[]>> TWEET =
            Types.TUPLE(Types.INT, Types.LONG, Types.PRIMITIVE_ARRAY(Types.INT), Types.PRIMITIVE_ARRAY(Types.BYTE));
    /** A word: which counter it is for, its birth, its number, its payload. */
    private static final TypeInformation<Tuple4<Integer, Long, Integer, byte[]>> WORD =
            Types.TUPLE(Types.INT, Types.LONG, Types.INT, Types.PRIMITIVE_ARRAY(Types.BYTE));

    private Trending() {}

    /**
     * Submits it.
     *
     * @param arguments {@code NAME [KEY=VALUE…]}, see {@link TrendingSettings}
     * @throws Exception what Flink throws where it can't be submitted
     */
    public static void main(String[] arguments) throws Exception {
        Managers.submit("trending", (environment, hosts) -> {
            TrendingSettings told = TrendingSettings.read(arguments);
            build(environment, told, Places.of(hosts));
            return new Managers.Plan(told.name(), told.results());
        });
    }

    /**
     * Where tasks go.
     *
     * @param ends   the host of tweets and report
     * @param splits those of splitters
     * @param counts those of counters
     * @param top    that of the aggregator
     */
    record Places(String ends, List<String> splits, List<String> counts, String top) {
        /**
         * By the host of each TaskManager.
         *
         * @throws IllegalArgumentException where there are too few
         */
        static Places of(List<String> hosts) {
            List<String> all = Managers.sorted(hosts, 4);
            int last = all.size() - 1;
            int splits = 1 + (last - 1) / 2;
            return new Places(all.get(0), all.subList(1, splits), all.subList(splits, last), all.get(last));
        }
    }

    /** Fills an environment with it. */
    static void build(StreamExecutionEnvironment environment, TrendingSettings told, Places places) {
        Managers.prepare(environment);
        int splits = places.splits().size();
        int counts = places.counts().size();
        DataStream<Tuple4<Integer, Long, int[], byte[]>> tweets = environment
                .fromSource(new DataGeneratorSource<>(new Tweets(told, splits), Long.MAX_VALUE, TWEET),
                        WatermarkStrategy.noWatermarks(), "tweets")
                .slotSharingGroup(Managers.group("tweets", places.ends()));
        List<DataStream<Tuple4<Integer, Long, Integer, byte[]>>> words = new ArrayList<>();
        for (int number = 0; number < splits; number++) {
            int own = number;
            String name = "split-" + number;
            words.add(tweets.filter(tweet -> tweet.f0 == own)
                    .flatMap(new Split(told.word(), counts)).returns(WORD).name(name)
                    .slotSharingGroup(Managers.group(name, places.splits().get(number))));
        }
        DataStream<Tuple3<Integer, Long, byte[]>> counted = null;
        for (int number = 0; number < counts; number++) {
            int own = number;
            String name = "count-" + number;
            // Each at its splitter: behind a union a filter would be a task of its own, for which there is no
            // TaskManager.
            DataStream<Tuple3<Integer, Long, byte[]>> one = words.stream()
                    .<DataStream<Tuple4<Integer, Long, Integer, byte[]>>>map(all -> all.filter(word -> word.f0 == own))
                    .reduce((some, more) -> some.union(more)).orElseThrow()
                    .flatMap(new Count(told.count(), number)).returns(Trucking.TUPLE).name(name)
                    .slotSharingGroup(Managers.group(name, places.counts().get(number)));
            counted = counted == null ? one : counted.union(one);
        }
        counted.flatMap(new Top(told.count(), counts)).returns(Trucking.TUPLE).name("top")
                .slotSharingGroup(Managers.group("top", places.top()))
                .sinkTo(new Measure(told.results(), told.every())).name("report")
                .slotSharingGroup(Managers.group("report", places.ends()));
    }

    /** Makes tweets at random times (a Poisson process), for each splitter in turn. */
    static final class Tweets implements GeneratorFunction<Long, Tuple4<Integer, Long, int[], byte[]>> {
        private static final long serialVersionUID = 1;

        private final double rate;
        private final int count;
        private final byte[] payload;
        private final int splits;
        private transient Births births;
        private transient Words words;

        Tweets(TrendingSettings told, int splits) {
            rate = told.rate();
            count = told.words();
            payload = new byte[told.tweet()];
            this.splits = splits;
        }

        @Override
        public void open(SourceReaderContext context) {
            births = new Births(rate);
            words = new Words(count);
        }

        @Override
        public Tuple4<Integer, Long, int[], byte[]> map(Long number) throws InterruptedException {
            TimeUnit.NANOSECONDS.sleep(births.remaining());
            // Where the engine has held it back, the tuple was due before.
            long birth = Births.now() + TimeUnit.NANOSECONDS.toMicros(births.remaining());
            births.go();
            int[] text = new int[LENGTH];
            for (int place = 0; place < LENGTH; place++) {
                text[place] = words.draw(ThreadLocalRandom.current());
            }
            return Tuple4.of((int) (number % splits), birth, text, payload);
        }
    }

    /** Emits the words of tweets one by one, each for the counter that has it. */
    static final class Split
            implements FlatMapFunction<Tuple4<Integer, Long, int[], byte[]>, Tuple4<Integer, Long, Integer, byte[]>> {
        private static final long serialVersionUID = 1;

        private final byte[] payload;
        private final int counts;

        Split(int size, int counts) {
            payload = new byte[size];
            this.counts = counts;
        }

        @Override
        public void flatMap(
                Tuple4<Integer, Long, int[], byte[]> tweet, Collector<Tuple4<Integer, Long, Integer, byte[]>> out) {
            for (int word : tweet.f2) {
                // As Storm's: by the hash of the word's text.
                int counter = Math.floorMod(("w" + word).hashCode(), counts);
                out.collect(Tuple4.of(counter, tweet.f1, word, payload));
            }
        }
    }

    /** Counts words, and emits the counts of each ten that have come. */
    static final class Count
            extends RichFlatMapFunction<Tuple4<Integer, Long, Integer, byte[]>, Tuple3<Integer, Long, byte[]>> {
        private static final long serialVersionUID = 1;

        private final byte[] payload;
        private final int number;
        private transient Map<Integer, Long> counts;
        private transient List<Long> batch;

        Count(int size, int number) {
            payload = new byte[size];
            this.number = number;
        }

        @Override
        public void open(OpenContext context) {
            counts = new HashMap<>();
            batch = new ArrayList<>(BATCH);
        }

        @Override
        public void flatMap(
                Tuple4<Integer, Long, Integer, byte[]> word, Collector<Tuple3<Integer, Long, byte[]>> out) {
            counts.merge(word.f2, 1L, Long::sum);
            batch.add(word.f1);
            if (batch.size() == BATCH) {
                batch.forEach(birth -> out.collect(Tuple3.of(number, birth, payload)));
                batch.clear();
            }
        }
    }

    /** Takes in the counts of all counters jointly, and emits what leads after each ten. */
    static final class Top extends RichFlatMapFunction<Tuple3<Integer, Long, byte[]>, Tuple3<Integer, Long, byte[]>> {
        private static final long serialVersionUID = 1;

        private final byte[] payload;
        private final int counts;
        private transient Merge merge;
        private transient int taken;

        Top(int size, int counts) {
            payload = new byte[size];
            this.counts = counts;
        }

        @Override
        public void open(OpenContext context) {
            merge = new Merge(counts);
        }

        @Override
        public void flatMap(Tuple3<Integer, Long, byte[]> count, Collector<Tuple3<Integer, Long, byte[]>> out) {
            merge.take(count.f0, count.f1, birth -> {
                taken++;
                if (taken % BATCH == 0) {
                    out.collect(Tuple3.of(0, birth, payload));
                }
            });
        }
    }
}
