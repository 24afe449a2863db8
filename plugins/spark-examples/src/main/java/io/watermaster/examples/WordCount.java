package io.watermaster.examples;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import java.util.zip.CRC32;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Counts words, of which some are far more frequent than others: the word of rank <i>r</i> comes with a probability of
 * about 1/<i>r</i>. Maps make the words and add up their own, so that each sends a word once.
 *
 * <p>Arguments: {@code [words=NUMBER] [vocabulary=NUMBER] [seed=NUMBER] [gate=FILE]}. The line that it prints has
 * {@code jct_s}, from the start of its maps to the end of its reduces, and {@code digest}, which depends on all counts.
 */
public final class WordCount {
    private static final int LETTERS = 36;
    /** Between seeds of words. */
    private static final long STEP = 0xD1342543DE82EF95L;

    private WordCount() {}

    /**
     * Counts, and checks what was counted.
     *
     * @param arguments what to count, see above
     * @throws InterruptedException while it waits for its gate
     */
    public static void main(String[] arguments) throws InterruptedException {
        Application.main("wordcount", Map.of("words", 3_000_000L, "vocabulary", 1_000_000L, "seed", 1L), arguments,
                WordCount::count);
    }

    static Application.Result count(JavaSparkContext context, Map<String, Long> numbers, int tasks) {
        long words = numbers.get("words");
        long vocabulary = numbers.get("vocabulary");
        long seed = numbers.get("seed");
        List<Counted> counted = context.parallelize(Parts.of(words, tasks), tasks)
                .flatMapToPair(part -> LongStream.range(part._1(), part._2())
                        .mapToObj(word -> new Tuple2<>(word(seed, word, vocabulary), 1L)).iterator())
                .reduceByKey(Long::sum, tasks)
                .mapPartitions(part -> List.of(Counted.of(part)).iterator()).collect();
        return () -> {
            Counted all = new Counted();
            counted.forEach(all::add);
            long digest = LongStream.range(0, words).map(word -> crc(word(seed, word, vocabulary))).sum();
            if (all.words != words || all.digest != digest) {
                throw new IllegalStateException(
                        String.format("%d words were counted where there are %d", all.words, words));
            }
            return String.format("\"words\": %d, \"distinct\": %d, \"digest\": \"%016x\"", words, all.distinct, digest);
        };
    }

    /** A word by its number, whichever task makes it. */
    static String word(long seed, long number, long vocabulary) {
        double chance = new SplittableRandom(seed + STEP * number).nextDouble();
        return Long.toString((long) StrictMath.pow(vocabulary, chance), LETTERS);
    }

    private static long crc(String word) {
        CRC32 crc = new CRC32();
        crc.update(word.getBytes(StandardCharsets.UTF_8));
        return crc.getValue();
    }

    /** Counts of a part's words. No record: Kryo can't make one. */
    private static final class Counted implements Serializable {
        private static final long serialVersionUID = 1;
        private long distinct;
        private long words;
        private long digest;

        static Counted of(Iterator<Tuple2<String, Long>> part) {
            Counted all = new Counted();
            part.forEachRemaining(word -> {
                all.distinct++;
                all.words += word._2();
                all.digest += word._2() * crc(word._1());
            });
            return all;
        }

        void add(Counted other) {
            distinct += other.distinct;
            words += other.words;
            digest += other.digest;
        }
    }
}
