package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingsTest {
    @Test
    void whatIsNotSaidIsAsInTheScenario() {
        Settings settings = Settings.read("trucking-1");
        assertEquals(new Settings("trucking-1", 250, 16_000, 8_000, 200, 5,
                Path.of("trucking-1.jsonl").toAbsolutePath()), settings);
        assertEquals(75.5, Settings.read("t", "rate=75.5").rate());
    }

    @Test
    void aWrongArgumentIsNamedWithTheRemedy() {
        Map<String, String> wrong = Map.of(
                "rate=0", "rate=0: write a number from 0.001 to 1000000",
                "truck=1.5", "truck=1.5: write a whole number from 0 to 1048576",
                "every=0", "every=0: write a whole number from 1 to 3600",
                "speed=3", "speed=3: write KEY=VALUE; KEY is one of rate, truck, congestion, combined, every, results",
                "rate", "rate: write KEY=VALUE; KEY is one of rate, truck, congestion, combined, every, results",
                "results=", "results= names no file; name one, or leave it out");
        wrong.forEach((argument, message) -> assertEquals(message,
                assertThrows(IllegalArgumentException.class, () -> Settings.read("t", argument)).getMessage()));
        assertThrows(IllegalArgumentException.class, Settings::read);
        assertThrows(IllegalArgumentException.class, () -> Settings.read("rate=3"));
    }
}
