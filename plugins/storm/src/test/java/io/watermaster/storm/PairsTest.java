package io.watermaster.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.esotericsoftware.kryo.io.Output;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.storm.messaging.TaskMessage;
import org.junit.jupiter.api.Test;

class PairsTest {
    /** A tuple as Storm's own serializer begins it. */
    static TaskMessage tuple(int source, int destination, int length) {
        Output output = new Output(length, length);
        output.writeInt(source, true);
        output.setPosition(length);
        return new TaskMessage(destination, output.getBuffer());
    }

    /** Octets by "SOURCE-DESTINATION". */
    static Map<String, Long> counted(Pairs pairs) {
        return pairs.all().stream().collect(
                Collectors.toMap(pair -> pair.source() + "-" + pair.destination(), pair -> pair.octets().sum()));
    }

    @Test
    void theSourceIsReadAsStormWritesIt() {
        for (int task : new int[] {0, 1, 127, 128, 300, 16_384, 40_000, Integer.MAX_VALUE, -1}) {
            assertEquals(task, Pairs.source(tuple(task, 0, 20).message()));
        }
        assertEquals(-1, Pairs.source(new byte[0]), "no tuple");
        assertEquals(-1, Pairs.source(new byte[] {-1, -1, -1, -1, -1, -1}), "no number");
    }

    @Test
    void nothingIsLostWhereThreadsCountAndPairsGrow() throws InterruptedException {
        Pairs pairs = new Pairs();
        List<Thread> threads = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            threads.add(new Thread(() -> {
                for (int task = 0; task < 1000; task++) {
                    pairs.add(tuple(task, task % 7, 10));
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        Map<String, Long> counted = counted(pairs);
        assertEquals(1000, counted.size());
        counted.forEach((pair, octets) -> assertEquals(40, octets, pair));
    }

    @Test
    void pairsAreBounded() {
        Pairs pairs = new Pairs();
        for (int task = 0; task < Pairs.MOST + 3; task++) {
            pairs.add(tuple(task, 1, 10));
        }
        assertEquals(Pairs.MOST + 1, pairs.all().size());
        assertEquals(30, counted(pairs).get("-1--1"));
    }

    /** Says what counting costs; nothing is asserted of it. */
    @Test
    void whatCountingCosts() {
        TaskMessage[] messages = new TaskMessage[64];
        for (int number = 0; number < messages.length; number++) {
            messages[number] = tuple(1 + number % 8, 100 + number / 8, 100);
        }
        int rounds = 200_000;
        Pairs pairs = new Pairs();
        long seen = 0;
        for (int run = 0; run < 4; run++) {
            long begin = System.nanoTime();
            for (int round = 0; round < rounds; round++) {
                for (TaskMessage message : messages) {
                    seen += message.message().length;
                }
            }
            long middle = System.nanoTime();
            for (int round = 0; round < rounds; round++) {
                for (TaskMessage message : messages) {
                    pairs.add(message);
                }
            }
            long end = System.nanoTime();
            System.out.printf("reading a message: %.1f ns, counting it among 64 pairs: %.1f ns%n",
                    (middle - begin) / (64.0 * rounds), (end - middle) / (64.0 * rounds));
        }
        assertEquals(seen, counted(pairs).values().stream().mapToLong(Long::longValue).sum());
    }
}
