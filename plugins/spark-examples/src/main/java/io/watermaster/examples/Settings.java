package io.watermaster.examples;

import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * What an application is told.
 *
 * @param numbers by their keys
 * @param gate    the file that it waits for before it begins, or null
 */
record Settings(Map<String, Long> numbers, Path gate) {
    private static final String GATE = "gate";
    private static final long MOST = Integer.MAX_VALUE;

    /**
     * Reads {@code [KEY=VALUE…]}.
     *
     * @param normal the numbers that can be given, as they are where they aren't
     * @throws IllegalArgumentException with what is wrong and the remedy
     */
    static Settings read(Map<String, Long> normal, String... arguments) {
        Map<String, Long> numbers = new TreeMap<>(normal);
        Path gate = null;
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts.length == 2 && parts[0].equals(GATE) && !parts[1].isEmpty()) {
                gate = Path.of(parts[1]).toAbsolutePath();
            } else if (parts.length == 2 && normal.containsKey(parts[0])) {
                numbers.put(parts[0], number(argument, parts[1]));
            } else {
                throw new IllegalArgumentException(argument + ": write " + GATE + "=FILE, or KEY=NUMBER where KEY is "
                        + numbers.keySet().stream().collect(Collectors.joining(" or ")));
            }
        }
        return new Settings(numbers, gate);
    }

    private static long number(String argument, String text) {
        try {
            long value = Long.parseLong(text);
            if (value >= 1 && value <= MOST) {
                return value;
            }
        } catch (NumberFormatException wrong) {
            // said below
        }
        throw new IllegalArgumentException(argument + ": write a whole number from 1 to " + MOST);
    }
}
