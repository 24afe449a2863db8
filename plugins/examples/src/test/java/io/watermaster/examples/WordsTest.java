package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;

class WordsTest {
    @Test
    void theFirstIsTwiceAsFrequentAsTheSecond() {
        Words words = new Words(1000);
        Random random = new Random(1);
        int[] drawn = new int[1000];
        for (int number = 0; number < 100_000; number++) {
            drawn[words.draw(random)]++;
        }
        // 1 / (1 + 1/2 + … + 1/1000) = 0.1336.
        assertEquals(0.1336, drawn[0] / 1e5, 0.005);
        assertEquals(0.1336 / 2, drawn[1] / 1e5, 0.005);
        assertTrue(drawn[999] < 100, "the last is rare");
        assertEquals(0, new Words(1).draw(random));
    }
}
