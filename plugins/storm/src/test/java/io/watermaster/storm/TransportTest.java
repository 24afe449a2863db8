package io.watermaster.storm;

import static io.watermaster.client.Declared.until;
import static io.watermaster.storm.PairsTest.counted;
import static io.watermaster.storm.PairsTest.tuple;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declared;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.messaging.ConnectionWithStatus;
import org.apache.storm.messaging.IConnection;
import org.apache.storm.messaging.IConnectionCallback;
import org.apache.storm.messaging.IContext;
import org.apache.storm.messaging.TaskMessage;
import org.apache.storm.messaging.TransportFactory;
import org.apache.storm.messaging.netty.Context;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

/** Two of Storm's own transports in one process, over the loopback interface. */
class TransportTest {
    private static final String JOB = "words-1-1700000000";

    private final Map<String, Object> configuration = new HashMap<>(Utils.readDefaultConfig());

    TransportTest() {
        // What the kernel holds is small against what netty may hold.
        configuration.put(Config.STORM_MESSAGING_NETTY_BUFFER_SIZE, 1 << 16);
    }

    private DeclaringTransport transport(Declared declared) {
        DeclaringTransport transport = new DeclaringTransport(declared);
        transport.prepare(configuration, null);
        return transport;
    }

    private static ConnectionWithStatus connect(IContext transport, int port) throws InterruptedException {
        ConnectionWithStatus connection =
                (ConnectionWithStatus) transport.connect(JOB, "127.0.0.1", port, new AtomicBoolean[0]);
        until("it is connected", () -> connection.status() == ConnectionWithStatus.Status.Ready);
        return connection;
    }

    private static List<TaskMessage> tuples(int count, int length) {
        List<TaskMessage> tuples = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            tuples.add(tuple(number % 3 * 200, 7 + number % 2, length));
        }
        return tuples;
    }

    private static Sample last(Declared declared) {
        List<Streams> streams = declared.of(Streams.class);
        return streams.isEmpty() ? new Sample("none", 0, 0, 0) : streams.get(streams.size() - 1).samples().get(0);
    }

    @Test
    void bothEndsCountTheSameAndTheConnectionIsDeclared() throws Exception {
        Declared atSender = new Declared(false);
        DeclaringTransport sender = transport(atSender);
        DeclaringTransport receiver = transport(new Declared(false));
        AtomicLong received = new AtomicLong();
        IConnection server = receiver.bind(JOB, 0, batch -> received.addAndGet(batch.size()), null);
        ConnectionWithStatus connection = connect(sender, server.getPort());
        int rounds = 50;
        int each = 120;
        for (int round = 0; round < rounds; round++) {
            connection.send(tuples(each, 100).iterator());
        }
        until("all arrived", () -> received.get() == rounds * each);
        assertEquals(6, counted(sender.sent()).size());
        assertEquals(counted(sender.sent()), counted(receiver.received()));
        long octets = counted(sender.sent()).values().stream().mapToLong(Long::longValue).sum();
        assertEquals(100L * rounds * each, octets);

        assertEquals(new JobJoin(JOB), atSender.all().get(0));
        FlowRequest flow = (FlowRequest) atSender.all().get(1);
        assertEquals(OptionalLong.empty(), flow.bytes());
        assertEquals(server.getPort(), flow.destination().port());
        assertTrue(flow.source().port() > 0 && flow.source().port() != server.getPort());
        // A message has a head of 6 octets, a batch an end of 2.
        long onTheWire = octets + 6L * rounds * each + 2L * rounds;
        until("all is delivered", () -> last(atSender).equals(new Sample(flow.flow(), onTheWire, 0, 0)));

        connection.close();
        until("it is closed", () -> atSender.all().contains(new FlowComplete(JOB, flow.flow())));
        sender.term();
        receiver.term();
        assertEquals(new JobComplete(JOB), atSender.all().get(atSender.all().size() - 1));
        assertEquals(1, atSender.of(FlowRequest.class).size(), "nothing is said twice");
        assertEquals(1, atSender.of(FlowComplete.class).size(), "nothing is said twice");
    }

    @Test
    void aConnectionThatDiesEndsAndTheNextIsAnother() throws Exception {
        Declared declared = new Declared(false);
        DeclaringTransport sender = transport(declared);
        Context first = new Context();
        first.prepare(configuration, null);
        int port = first.bind(JOB, 0, batch -> {}, null).getPort();
        ConnectionWithStatus connection = connect(sender, port);
        connection.send(tuples(1000, 1000).iterator());
        first.term();
        until("it has ended", () -> declared.of(FlowComplete.class).size() == 1);

        Context second = new Context();
        second.prepare(configuration, null);
        AtomicLong received = new AtomicLong();
        second.bind(JOB, port, batch -> received.addAndGet(batch.size()), null);
        // The engine notices that it is gone when it sends, and drops that.
        until("it is there again", () -> {
            connection.send(tuples(1, 100).iterator());
            return received.get() > 0;
        });
        until("the next is declared", () -> declared.of(FlowRequest.class).size() == 2);
        List<FlowRequest> flows = declared.of(FlowRequest.class);
        assertEquals(flows.get(0).flow(), declared.of(FlowComplete.class).get(0).flow());
        assertNotEquals(flows.get(0).flow(), flows.get(1).flow());
        assertNotEquals(flows.get(0).source(), flows.get(1).source());
        until("it is sampled alone", () -> {
            Streams last = declared.of(Streams.class).isEmpty() ? null
                    : declared.of(Streams.class).get(declared.of(Streams.class).size() - 1);
            return last != null && last.samples().size() == 1
                    && last.samples().get(0).flow().equals(flows.get(1).flow());
        });
        assertTrue(last(declared).delivered() < 1_000_000, "it counts from its own beginning");
        connection.close();
        sender.term();
        second.term();
    }

    @Test
    void whatWaitsIsSeenWhileTheReceiverDoesNotRead() throws Exception {
        Declared declared = new Declared(false);
        DeclaringTransport sender = transport(declared);
        Context receiver = new Context();
        receiver.prepare(configuration, null);
        CountDownLatch goes = new CountDownLatch(1);
        IConnectionCallback waits = batch -> {
            try {
                goes.await();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        };
        ConnectionWithStatus connection = connect(sender, receiver.bind(JOB, 0, waits, null).getPort());
        for (int round = 0; round < 100; round++) {
            connection.send(tuples(100, 1400).iterator());
        }
        long octets = 100 * (100 * 1406 + 2);
        until("something waits", () -> last(declared).senderQueue() > 1_000_000);
        FlowRequest flow = declared.of(FlowRequest.class).get(0);
        until("each octet is in one place", () -> {
            Sample sample = last(declared);
            String name = SendQueues.name(end(flow.source()), end(flow.destination()));
            long kernel = SendQueues.now(List.of(name)).of(name);
            // The buffer counts a batch until the kernel has all of it.
            long twice = sample.delivered() + sample.senderQueue() + kernel - octets;
            return kernel > 0 && twice >= 0 && twice < 100 * 1406 + 2;
        });
        goes.countDown();
        until("nothing waits", () -> last(declared).delivered() == octets && last(declared).senderQueue() == 0);
        connection.close();
        sender.term();
        receiver.term();
    }

    private static InetSocketAddress end(Endpoint end) {
        return new InetSocketAddress(end.host(), end.port());
    }

    @Test
    void tuplesArriveWhateverBecomesOfTheController() throws Exception {
        try (ServerSocket stalls = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            // It takes connections and never answers.
            configuration.put(Config.STORM_MESSAGING_TRANSPORT, DeclaringTransport.class.getName());
            configuration.put("watermaster.controller", "http://127.0.0.1:" + stalls.getLocalPort());
            configuration.put("watermaster.name", "storm");
            configuration.put("watermaster.queue", 3);
            assertArrives(TransportFactory.makeContext(configuration, null));
        }
    }

    /** What its topology asks for is nimbus' to read. */
    @Test
    void aWorkerDeclaresWhateverItsTopologyAsksFor() throws Exception {
        configuration.put("watermaster.controller", "unix:/no/controller");
        configuration.put("watermaster.name", "storm");
        configuration.put("watermaster.deadline", "soon");
        configuration.put("watermaster.weight", 3.0);
        Client client = Watermaster.ofWorker(configuration);
        until("it looks for a controller", () -> client.account().fault().isPresent());
        client.close(Duration.ZERO);
    }

    @Test
    void tuplesArriveWithoutAController() throws Exception {
        configuration.put(Config.STORM_MESSAGING_TRANSPORT, DeclaringTransport.class.getName());
        assertArrives(TransportFactory.makeContext(configuration, null));
    }

    @Test
    void tuplesArriveWhereNothingCanBeDeclared() throws Exception {
        Declared broken = new Declared(true);
        assertArrives(transport(broken));
        assertTrue(broken.all().stream().map(Declaration::getClass).distinct().count() >= 3, "it was tried");
    }

    private void assertArrives(IContext transport) throws Exception {
        AtomicLong received = new AtomicLong();
        IConnection server = transport.bind(JOB, 0, batch -> received.addAndGet(batch.size()), null);
        ConnectionWithStatus connection = connect(transport, server.getPort());
        for (int round = 0; round < 100; round++) {
            connection.send(tuples(500, 50).iterator());
        }
        until("all arrived", () -> received.get() == 50_000);
        connection.close();
        transport.term();
    }

    @Test
    void pairsAreGaugesWhereTheyAreAskedFor() throws Exception {
        configuration.put("watermaster.pairs", true);
        StormMetricRegistry registry = new StormMetricRegistry();
        DeclaringTransport transport = new DeclaringTransport(new Declared(false));
        transport.prepare(configuration, registry);
        IConnection server = transport.bind(JOB, 0, batch -> {}, null);
        ConnectionWithStatus connection = connect(transport, server.getPort());
        connection.send(List.of(tuple(4, 9, 100), tuple(4, 9, 50)).iterator());
        for (String name : List.of("sent", "received")) {
            until(name, () -> registry.getRegistry().getMetrics().entrySet().stream().anyMatch(
                    metric -> metric.getKey().contains("watermaster-" + name + "-4-9")
                            && metric.getValue() instanceof Gauge<?> gauge && gauge.getValue().equals(150L)));
        }
        connection.close();
        transport.term();
    }
}
