package io.watermaster.examples;

import java.nio.file.Path;
import java.util.List;

/**
 * What Trending Topics is told.
 *
 * @param name    its name
 * @param rate    tweets a second
 * @param words   how many words there are
 * @param tweet   payload of a tweet, octets
 * @param word    payload of a word, octets
 * @param count   payload of a count, and of a ranking, octets
 * @param every   seconds between two lines of results
 * @param results the file that they are appended to, as JSON
 */
record TrendingSettings(String name, double rate, int words, int tweet, int word, int count, int every, Path results) {
    private static final int MOST = 1 << 20;
    private static final List<String> KEYS =
            List.of("rate", "words", "tweet", "word", "count", "every", "results");

    static TrendingSettings read(String... arguments) {
        Arguments given = new Arguments(KEYS, arguments);
        return new TrendingSettings(given.name(),
                given.number("rate", 250, 0.001, 1e6),
                given.whole("words", 100_000, 1, 10_000_000),
                given.whole("tweet", 800, 0, MOST),
                given.whole("word", 400, 0, MOST),
                given.whole("count", 1000, 0, MOST),
                given.every(),
                given.results());
    }
}
