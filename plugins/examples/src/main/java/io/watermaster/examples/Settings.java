package io.watermaster.examples;

import java.nio.file.Path;
import java.util.List;

/**
 * What Trucking IoT is told.
 *
 * @param name       its name
 * @param rate       tuples a second of each source
 * @param truck      payload of a truck's tuple, octets
 * @param congestion payload of a road's tuple, octets
 * @param combined   payload of a combined tuple, octets
 * @param every      seconds between two lines of results
 * @param results    the file that they are appended to, as JSON
 */
record Settings(String name, double rate, int truck, int congestion, int combined, int every, Path results) {
    private static final int MOST = 1 << 20;
    private static final List<String> KEYS = List.of("rate", "truck", "congestion", "combined", "every", "results");

    /**
     * Reads {@code NAME [KEY=VALUE…]}.
     *
     * @throws IllegalArgumentException with what is wrong and the remedy
     */
    static Settings read(String... arguments) {
        Arguments given = new Arguments(KEYS, arguments);
        return new Settings(given.name(),
                given.number("rate", 250, 0.001, 1e6),
                given.whole("truck", 16_000, 0, MOST),
                given.whole("congestion", 8_000, 0, MOST),
                given.whole("combined", 200, 0, MOST),
                given.every(),
                given.results());
    }
}
