package io.watermaster.examples;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import java.util.zip.CRC32;
import org.apache.spark.Partitioner;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * A sort of TeraSort's shape: records of a key of 10 octets and a value of 90, keys uniformly at random, a map and a
 * reduce for each core of the cluster. Maps make the records; reduces hold what they sorted and don't write it.
 *
 * <p>Arguments: {@code [records=NUMBER] [seed=NUMBER] [gate=FILE]}. The line that it prints has {@code jct_s}, from the
 * start of its maps to the end of its reduces, and {@code digest}, which depends on all records and their order.
 */
public final class TeraSort {
    private static final int KEY = 10;
    private static final int VALUE = 90;
    /** Between seeds of records: odd, and not the generator's own, by which records would overlap. */
    private static final long STEP = 0xD1342543DE82EF95L;

    private TeraSort() {}

    /**
     * Sorts, and checks what was sorted.
     *
     * @param arguments what to sort, see above
     * @throws InterruptedException while it waits for its gate
     */
    public static void main(String[] arguments) throws InterruptedException {
        Application.main("terasort", Map.of("records", 300_000L, "seed", 1L), arguments, TeraSort::sort);
    }

    static Application.Result sort(JavaSparkContext context, Map<String, Long> numbers, int tasks) {
        long records = numbers.get("records");
        long seed = numbers.get("seed");
        List<Tuple2<Long, Long>> parts = Parts.of(records, tasks);
        List<Sorted> sorted = context.parallelize(parts, tasks)
                .flatMapToPair(part -> LongStream.range(part._1(), part._2())
                        .mapToObj(record -> record(seed, record)).iterator())
                .repartitionAndSortWithinPartitions(new ByRange(tasks), new ByOctets())
                .mapPartitions(part -> List.of(Sorted.of(part)).iterator()).collect();
        return () -> {
            Sorted all = Sorted.all(sorted);
            long sum = LongStream.range(0, records).map(record -> crc(record(seed, record))).sum();
            if (all.records != records || all.sum != sum || !all.ordered) {
                throw new IllegalStateException(String.format("%d of %d records came out, %s", all.records, records,
                        all.ordered ? "in order" : "not in order"));
            }
            return String.format("\"records\": %d, \"digest\": \"%016x\"", records, all.digest);
        };
    }

    /** A record by its number, whichever task makes it. */
    static Tuple2<byte[], byte[]> record(long seed, long number) {
        byte[] octets = new byte[KEY + VALUE];
        new SplittableRandom(seed + STEP * number).nextBytes(octets);
        return new Tuple2<>(Arrays.copyOf(octets, KEY), Arrays.copyOfRange(octets, KEY, octets.length));
    }

    private static long crc(Tuple2<byte[], byte[]> record) {
        CRC32 crc = new CRC32();
        crc.update(record._1());
        crc.update(record._2());
        return crc.getValue();
    }

    /** As many keys to each reduce, in order: keys are uniform, so that none need be looked at first. */
    static final class ByRange extends Partitioner {
        private static final long serialVersionUID = 1;
        private final int parts;

        ByRange(int parts) {
            this.parts = parts;
        }

        @Override
        public int numPartitions() {
            return parts;
        }

        @Override
        public int getPartition(Object key) {
            long first = Integer.toUnsignedLong(ByteBuffer.wrap((byte[]) key).getInt());
            return (int) (first * parts >>> Integer.SIZE);
        }
    }

    private static final class ByOctets implements Comparator<byte[]>, Serializable {
        private static final long serialVersionUID = 1;

        @Override
        public int compare(byte[] one, byte[] other) {
            return Arrays.compareUnsigned(one, other);
        }
    }

    /** What a part of the result is like. */
    static final class Sorted implements Serializable {
        private static final long serialVersionUID = 1;
        private long records;
        private boolean ordered = true;
        private long sum;
        /** The sum of all records, each times its place. */
        private long digest;
        private byte[] first;
        private byte[] last;

        static Sorted of(Iterator<Tuple2<byte[], byte[]>> part) {
            Sorted all = new Sorted();
            while (part.hasNext()) {
                Tuple2<byte[], byte[]> record = part.next();
                Sorted one = new Sorted();
                one.records = 1;
                one.sum = crc(record);
                one.first = record._1();
                one.last = record._1();
                all.add(one);
            }
            return all;
        }

        static Sorted all(List<Sorted> parts) {
            Sorted all = new Sorted();
            parts.forEach(all::add);
            return all;
        }

        boolean isOrdered() {
            return ordered;
        }

        /** Adds what comes after. */
        private void add(Sorted next) {
            if (next.records == 0) {
                return;
            }
            ordered &= next.ordered && (last == null || Arrays.compareUnsigned(last, next.first) <= 0);
            digest += next.digest + records * next.sum;
            records += next.records;
            sum += next.sum;
            first = first == null ? next.first : first;
            last = next.last;
        }
    }
}
