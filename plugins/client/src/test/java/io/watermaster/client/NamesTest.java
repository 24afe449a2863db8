package io.watermaster.client;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class NamesTest {
    @Test
    void lookUpsThatHangAreGivenUpAndAreFew() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        AtomicInteger asked = new AtomicInteger();
        Names names = new Names(name -> {
            asked.incrementAndGet();
            try {
                end.await();
            } catch (InterruptedException ended) {
                throw new UnknownHostException(name);
            }
            return InetAddress.getLoopbackAddress();
        }, Duration.ofMillis(1));
        for (int number = 0; number < 3 * Names.MOST; number++) {
            String host = "h" + number;
            String said = assertThrows(UnknownHostException.class, () -> names.find(host)).getMessage();
            assertTrue(said.startsWith(host + ": its look-up takes longer"), said);
        }
        until("those that have a thread are asked for", () -> asked.get() == Names.MOST);
        assertEquals("10.0.0.1", names.find("10.0.0.1").getHostAddress(), "an address needs no look-up");
        assertTrue(names.find("2001:db8::1").getHostAddress().startsWith("2001:db8"));
        end.countDown();
        until("there is room again", () -> {
            try {
                return names.find("h").isLoopbackAddress();
            } catch (UnknownHostException late) {
                return false;
            }
        });
    }

    @Test
    void whatIsNoHostIsNotFound() {
        Names names = new Names(name -> {
            throw new UnknownHostException(name + ": nobody knows it");
        }, Duration.ofMinutes(10));
        String said = assertThrows(UnknownHostException.class, () -> names.find("h")).getMessage();
        assertEquals("h: nobody knows it", said);
    }
}
