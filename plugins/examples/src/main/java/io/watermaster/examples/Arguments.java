package io.watermaster.examples;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** What an application is told: {@code NAME [KEY=VALUE…]}. */
final class Arguments {
    private final String name;
    private final Map<String, String> given = new LinkedHashMap<>();

    /**
     * Reads them.
     *
     * @param keys what may be said
     * @throws IllegalArgumentException with what is wrong and the remedy
     */
    Arguments(List<String> keys, String... arguments) {
        if (arguments.length == 0 || !arguments[0].matches("[A-Za-z0-9_-]+")) {
            throw new IllegalArgumentException("say NAME [KEY=VALUE …]; NAME has letters, digits, - and _, KEY is one"
                    + " of " + String.join(", ", keys));
        }
        name = arguments[0];
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            String[] parts = argument.split("=", 2);
            if (parts.length < 2 || !keys.contains(parts[0])) {
                throw new IllegalArgumentException(
                        argument + ": write KEY=VALUE; KEY is one of " + String.join(", ", keys));
            }
            given.put(parts[0], parts[1]);
        }
    }

    String name() {
        return name;
    }

    /** Seconds between two lines of results, {@code every=}. */
    int every() {
        return whole("every", 5, 1, 3600);
    }

    /** The file that results are appended to, {@code results=}. */
    Path results() {
        String results = given.getOrDefault("results", name + ".jsonl");
        if (results.isEmpty()) {
            throw new IllegalArgumentException("results= names no file; name one, or leave it out");
        }
        // Workers run elsewhere.
        return Path.of(results).toAbsolutePath();
    }

    /** A text, or the normal one. */
    String text(String key, String normal) {
        return given.getOrDefault(key, normal);
    }

    /** A whole number between two others, or the normal one. */
    int whole(String key, int normal, int least, int most) {
        return read(key, normal, Integer::valueOf, least, most);
    }

    /** A number between two others, or the normal one. */
    double number(String key, double normal, double least, double most) {
        return read(key, normal, Double::valueOf, least, most);
    }

    private <N extends Number> N read(
            String key, N normal, Function<String, N> read, double least, double most) {
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
