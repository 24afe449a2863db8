package io.watermaster.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SeldomTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private final Seldom seldom = new Seldom();

    /** As where two controllers are away, and each is tried in turn. */
    @Test
    void faultsThatAlternateAreEachToldOnceAnHour() {
        int told = 0;
        for (long second = 0; second < 7200; second++) {
            told += seldom.tells("controller " + second % 2, second * SECOND) ? 1 : 0;
        }
        assertEquals(4, told);
    }

    @Test
    void anotherIsToldAMinuteAfterTheLast() {
        assertTrue(seldom.tells("one", 0));
        assertFalse(seldom.tells("another", 59 * SECOND));
        assertTrue(seldom.tells("another", 60 * SECOND));
        assertFalse(seldom.tells("one", 120 * SECOND));
        assertTrue(seldom.tells("one", 3600 * SECOND));
    }
}
