package io.watermaster.examples;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * What a topology is told.
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
        if (arguments.length == 0 || !arguments[0].matches("[A-Za-z0-9_-]+")) {
            throw new IllegalArgumentException("say NAME [KEY=VALUE …]; NAME has letters, digits, - and _, KEY is one"
                    + " of " + String.join(", ", KEYS));
        }
        Map<String, String> given = new LinkedHashMap<>();
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            String[] parts = argument.split("=", 2);
            if (parts.length < 2 || !KEYS.contains(parts[0])) {
                throw new IllegalArgumentException(
                        argument + ": write KEY=VALUE; KEY is one of " + String.join(", ", KEYS));
            }
            given.put(parts[0], parts[1]);
        }
        String name = arguments[0];
        String results = given.getOrDefault("results", name + ".jsonl");
        if (results.isEmpty()) {
            throw new IllegalArgumentException("results= names no file; name one, or leave it out");
        }
        return new Settings(name,
                number(given, "rate", 250.0, Double::valueOf, 0.001, 1e6),
                number(given, "truck", 16_000, Integer::valueOf, 0, MOST),
                number(given, "congestion", 8_000, Integer::valueOf, 0, MOST),
                number(given, "combined", 200, Integer::valueOf, 0, MOST),
                number(given, "every", 5, Integer::valueOf, 1, 3600),
                // Workers run elsewhere.
                Path.of(results).toAbsolutePath());
    }

    private static <N extends Number> N number(
            Map<String, String> given, String key, N normal, Function<String, N> read, double least, double most) {
        String text = given.get(key);
        if (text == null) {
            return normal;
        }
        try {
            N value = read.apply(text);
            if (value.doubleValue() >= least && value.doubleValue() <= most) {
                return value;
            }
        } catch (NumberFormatException wrong) {
            // said below
        }
        throw new IllegalArgumentException(String.format("%s=%s: write %s from %s to %s", key, text,
                normal instanceof Integer ? "a whole number" : "a number", plain(least), plain(most)));
    }

    private static String plain(double number) {
        return number == Math.rint(number) ? String.valueOf((long) number) : String.valueOf(number);
    }
}
