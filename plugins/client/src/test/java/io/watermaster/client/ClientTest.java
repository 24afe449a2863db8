package io.watermaster.client;

import static io.watermaster.client.Stub.response;
import static io.watermaster.client.Declared.until;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.TaskHost;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The client against controllers that are absent, slow and lying. */
class ClientTest {
    /** Nothing that a test waits for takes so long; who stalls is given up after a part of it. */
    private static final Duration LONG = Duration.ofMinutes(10);
    private static final Duration SHORT = Duration.ofMillis(200);

    private final List<String> log = new CopyOnWriteArrayList<>();
    private final List<Client> clients = new ArrayList<>();

    @AfterEach
    void close() {
        clients.forEach(client -> client.close(Duration.ZERO));
    }

    private Client client(String address, Duration patience, String queue) {
        Map<String, String> values = Map.of("controller", address, "name", "test", "queue", queue);
        Client client = Client.start("", values::get, log::add, patience);
        clients.add(client);
        return client;
    }

    private Client client(String address, Duration patience) {
        return client(address, patience, "1000");
    }

    private static void untilTaken(Client client, long count) throws InterruptedException {
        until(count + " are taken", () -> client.account().taken() >= count);
        assertEquals(count, client.account().taken());
    }

    private static Thread thread(String name) {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals(name)).findAny().orElse(null);
    }

    @Test
    void whatIsDeclaredIsSaidInItsOrderOverUnixSocketsAndTcp(@TempDir Path folder) throws Exception {
        for (Stub stub : List.of(Stub.tcp(), Stub.unix(folder.resolve("c")))) {
            try (stub) {
                Client client = client(stub.address(), LONG);
                List<Object> jobs = new ArrayList<>();
                for (int job = 0; job < 500; job++) {
                    jobs.add("job \u00e4 " + job);
                    client.declare(new JobStart("job \u00e4 " + job));
                }
                untilTaken(client, 500);
                assertEquals(jobs, stub.started());
                assertEquals(new Account(500, 0, 0, 0, 1, client.account().fault()), client.account());
                assertEquals("GET /v1/health HTTP/1.1", stub.requests.get(0).line());
                assertTrue(thread("watermaster").isDaemon() && thread("watermaster-limit").isDaemon());
                client.close(LONG);
                until("it ends", () -> thread("watermaster") == null && thread("watermaster-limit") == null);
            }
        }
        assertEquals(List.of(), log);
    }

    @Test
    void whatHoldsIsSaidAgainToAControllerOfAnotherEpoch() throws Exception {
        try (Stub stub = Stub.tcp()) {
            Client client = client(stub.address(), LONG);
            client.declare(new JobStart("a"));
            untilTaken(client, 1);
            stub.epoch = 2;
            client.declare(new JobStart("b"));
            until("all was said again", () -> stub.started().equals(List.of("a", "b", "a", "b")));
            // The answer has arrived, too.
            untilTaken(client, 2);
            stub.cut();
            client.declare(new JobStart("c"));
            untilTaken(client, 3);
            assertEquals(List.of("a", "b", "a", "b", "a", "b", "c"), stub.started());
        }
    }

    /** Of several controllers those that follow answer 503, and one that is gone nothing. */
    @Test
    void theControllerThatLeadsIsFound() throws Exception {
        try (Stub first = Stub.tcp(); Stub second = Stub.tcp()) {
            byte[] follows = Stub.response(503, "{\"error\":{\"field\":\"leader\",\"reason\":\"ask another\"}}");
            first.answers.add(follows);
            second.epoch = 2;
            Client client = client(first.address() + "," + second.address(), LONG);
            client.declare(new JobStart("a"));
            untilTaken(client, 1);
            assertEquals(List.of("a"), second.started());
            assertEquals(List.of(), first.started());
            first.epoch = 3;
            second.close();
            second.cut();
            client.declare(new JobStart("b"));
            until("all was said to the other", () -> first.started().equals(List.of("a", "b")));
        }
    }

    /** Whatever a controller answers: the client tries again, and all arrives. */
    @Test
    void liesEndTheConnectionAndNothingElse() throws Exception {
        List<String> answers = new ArrayList<>(List.of(
                "", "\r\n", "garbage", "HTTP/1.1 200", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\n\r\n{\"epoch\":1,\"declared\":0}",
                "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\n: nothing\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 999999999999999999\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffff\r\n",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"));
        for (String body : List.of("", "null", "[]", "{}", "{\"epoch\":-1,\"taken\":1}", "{\"epoch\":1,\"taken\":7}",
                "{\"epoch\":\"1\",\"taken\":1}", "<html>", "[".repeat(100_000))) {
            answers.add(new String(response(200, body), UTF_8));
        }
        for (int status : new int[] {204, 301, 403, 404, 408, 500, 502, 503}) {
            answers.add(new String(response(status, "{\"error\":{\"field\":\"\",\"reason\":\"no\"}}"), UTF_8));
        }
        for (String answer : answers) {
            try (Stub stub = Stub.tcp()) {
                // The first is for the health that is asked for, the second for declarations.
                stub.script.add(out -> out.write(answer.getBytes(UTF_8)));
                Client client = client(stub.address(), LONG);
                client.declare(new JobStart("a"));
                until("it recovers", () -> client.account().taken() == 1);
                stub.script.add(out -> out.write(answer.getBytes(UTF_8)));
                client.declare(new JobStart("b"));
                untilTaken(client, 2);
                assertEquals(List.of("a", "a", "b"), stub.started(), answer);
                assertEquals(3, client.account().connections(), answer);
                assertTrue(client.account().fault().orElseThrow().startsWith(stub.address())
                        || client.account().fault().orElseThrow().startsWith("the controller"), answer);
                client.close(Duration.ZERO);
            }
        }
    }

    /** Answers without an end, fast and slow, and none at all. */
    @Test
    void whatNeverEndsIsGivenUp() throws Exception {
        String head = "HTTP/1.1 200 OK\r\n";
        String chunked = head + "transfer-encoding: chunked\r\n\r\n";
        CountDownLatch end = new CountDownLatch(1);
        List<Stub.Misdeed> misdeeds = List.of(
                out -> end.await(),
                out -> endless(out, "", "x"),
                out -> endless(out, head, "a: b\r\n"),
                out -> endless(out, chunked, "1\r\nx\r\n"),
                out -> endless(out, chunked, "1"),
                out -> endless(out, chunked + "0\r\n", "a: b\r\n"),
                out -> slow(out, "", "x"),
                out -> slow(out, head, "a"),
                out -> slow(out, head + "content-length: 1000000\r\n\r\n", " "),
                out -> slow(out, chunked, "1\r\nx\r\n"));
        for (Stub.Misdeed misdeed : misdeeds) {
            try (Stub stub = Stub.tcp()) {
                Client client = client(stub.address(), SHORT);
                client.declare(new JobStart("a"));
                until("it is taken", () -> client.account().taken() >= 1);
                stub.script.add(misdeed);
                client.declare(new JobStart("b"));
                until("it recovers", () -> client.account().taken() == 2);
                assertTrue(client.account().connections() >= 2);
                client.close(Duration.ZERO);
            }
        }
        end.countDown();
    }

    private static void endless(OutputStream out, String head, String part) throws IOException {
        out.write(head.getBytes(UTF_8));
        byte[] parts = part.repeat(1000).getBytes(UTF_8);
        while (true) {
            out.write(parts);
        }
    }

    private static void slow(OutputStream out, String head, String part) throws Exception {
        out.write(head.getBytes(UTF_8));
        while (true) {
            out.write(part.getBytes(UTF_8));
            out.flush();
            Thread.sleep(5);
        }
    }

    /** A limit holds for connections too, also by a Unix socket whose queue is full. */
    @Test
    void aControllerThatNeverAnswersIsGivenUpOnAUnixSocket(@TempDir Path folder) throws Exception {
        UnixDomainSocketAddress path = UnixDomainSocketAddress.of(folder.resolve("c"));
        List<SocketChannel> waiting = new ArrayList<>();
        try (ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            listener.bind(path, 1);
            Client client = client("unix:" + path.getPath(), SHORT);
            until("an answer is missed", () -> client.account().fault().isPresent());
            assertTrue(client.account().fault().get().endsWith("nothing within 200 ms"), log::toString);
            // Nobody takes connections from the queue, so at some point none goes in.
            for (boolean isFull = false; !isFull;) {
                SocketChannel one = SocketChannel.open(StandardProtocolFamily.UNIX);
                one.configureBlocking(false);
                waiting.add(one);
                try {
                    isFull = !one.connect(path);
                } catch (IOException full) {
                    isFull = true;
                }
            }
            long connections = client.account().connections();
            Client other = client("unix:" + path.getPath(), SHORT);
            until("a connection is missed", () -> other.account().fault().isPresent());
            assertTrue(other.account().fault().get().endsWith("nothing within 200 ms"), log::toString);
            assertEquals(0, other.account().connections());
            assertTrue(connections > 0);
        } finally {
            for (SocketChannel one : waiting) {
                one.close();
            }
        }
    }

    @Test
    void aControllerThatIsAbsentIsFoundWhenItComes(@TempDir Path folder) throws Exception {
        Path path = folder.resolve("c");
        Client client = client("unix:" + path, LONG);
        client.declare(new JobStart("a"));
        until("it has tried", () -> client.account().fault().isPresent());
        try (Stub stub = Stub.unix(path)) {
            untilTaken(client, 1);
        }
        Files.delete(path);
        client.declare(new JobStart("b"));
        until("it misses the controller", () -> client.account().fault().get().contains("unix:"));
        try (Stub stub = Stub.unix(path)) {
            untilTaken(client, 2);
            assertEquals(List.of("a", "b"), stub.started());
        }
    }

    /** No declaration waits, whatever becomes of the client's thread; what has no room is dropped, ends last. */
    @Test
    void declaringNeverWaitsAndMemoryIsBounded() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        try (Stub stub = Stub.tcp()) {
            stub.script.add(out -> end.await());
            Client client = client(stub.address(), LONG, "10");
            until("its thread waits for an answer", () -> !stub.requests.isEmpty());
            List<Thread> engine = new ArrayList<>();
            for (int number = 0; number < 4; number++) {
                String name = "job" + number;
                Thread thread = new Thread(() -> {
                    for (int i = 0; i < 100_000; i++) {
                        client.declare(new JobStart(name));
                        client.declare(new FlowComplete(name, "1"));
                    }
                });
                engine.add(thread);
                thread.start();
            }
            for (Thread thread : engine) {
                thread.join();
            }
            assertEquals(800_000 - 20, client.account().dropped(), "10 and, as they end something, 10 more");
            end.countDown();
            until("what had room is said", () -> client.account().taken() > 0);
        }
    }

    /** The process may want to be gone: closing returns, and ends the thread also where nobody answers. */
    @Test
    void closingSaysWhatWaitsOrEndsAfterItsTime() throws Exception {
        try (Stub stub = Stub.tcp()) {
            Client client = client(stub.address(), SHORT);
            client.declare(new JobStart("a"));
            client.declare(new JobComplete("z"));
            client.close(LONG);
            client.declare(new JobStart("too late"));
            until("it ends", () -> thread("watermaster") == null);
            assertEquals(List.of("a"), stub.started());
            assertEquals(2, client.account().taken(), "also the end of a job of another time");
            assertEquals(0, client.account().dropped());
            until("its connection is closed", () -> stub.closed() == 1);

            CountDownLatch end = new CountDownLatch(1);
            stub.script.add(out -> end.await());
            Client stalled = client(stub.address(), SHORT);
            stalled.close(Duration.ZERO);
            until("it ends", () -> thread("watermaster") == null);
            end.countDown();
        }
        Client alone = client("unix:/nowhere/at/all", LONG);
        until("it has tried", () -> alone.account().fault().isPresent());
        alone.close(Duration.ofMillis(1));
        until("it ends", () -> thread("watermaster") == null);
    }

    @Test
    void aLogHasOneLineOfWhatGoesWrongAndBearsAnyText() throws Exception {
        try (Stub stub = Stub.tcp()) {
            String refusal = "{\"taken\":0,\"epoch\":1,\"refused\":"
                    + "[{\"index\":0,\"field\":\"job\",\"reason\":"
                    + "\"a\\nforged line\\u001b[2J\\u009b2J\\u0085b\\u2028c\\u2029d\\u202ee\\u200bf\"}]}";
            Client client = client(stub.address(), LONG);
            until("it is greeted", () -> stub.requests.size() == 1);
            for (int i = 0; i < 5; i++) {
                int count = i + 1;
                stub.answers.add(response(422, refusal));
                client.declare(new JobStart("a" + i));
                until("it is refused", () -> client.account().refused() == count);
            }
            assertEquals(1, log.size(), log::toString);
            assertEquals("Watermaster: the controller refuses job: a forged line [2J 2J b c d e f", log.get(0));
        }
    }

    /** A log that throws is no reason to stop. */
    @Test
    void aLogThatThrowsChangesNothing() throws Exception {
        try (Stub stub = Stub.tcp()) {
            stub.script.add(out -> {});
            Map<String, String> values = Map.of("controller", stub.address(), "name", "test");
            Client client = Client.start("", values::get, line -> {
                throw new IllegalStateException(line);
            });
            clients.add(client);
            client.declare(new JobStart("a"));
            untilTaken(client, 1);
            assertEquals(2, client.account().connections());
        }
    }

    @Test
    void addressesStandInThePlaceOfNames() throws Exception {
        try (Stub stub = Stub.tcp()) {
            Client client = client(stub.address(), LONG);
            Endpoint far = new Endpoint("192.0.2.1", 13562);
            Endpoint other = new Endpoint("2001:db8::1", 1);
            OptionalLong bytes = OptionalLong.of(1);
            client.declare(new JobStart("a"));
            client.declare(new FlowRequest("a", "1", far, other, bytes));
            // Within one host, by its address or by names for it.
            client.declare(new FlowRequest("a", "2", far, new Endpoint("192.0.2.1", 1), bytes));
            client.declare(new FlowRequest("a", "3", new Endpoint("localhost", 1), Endpoint.HERE, bytes));
            client.declare(new FlowRequest("a", "4", Endpoint.HERE, Endpoint.HERE, bytes));
            client.declare(new FlowComplete("a", "4"));
            // A name that is no host's, which isn't looked for in a test.
            client.declare(new FlowRequest("a", "5", new Endpoint("no host", 1), far, bytes));
            client.declare(new TaskHost("a", 1, "no host"));
            client.declare(new TaskHost("a", 2, "localhost"));
            untilTaken(client, 4);
            assertEquals(Map.of("source", "192.0.2.1:13562", "destination", "[2001:db8:0:0:0:0:0:1]:1"),
                    stub.taken.get(1).get("connection"));
            assertEquals("no host", stub.taken.get(2).get("host"), "a controller may know it");
            assertEquals("localhost", stub.taken.get(3).get("host"));
            assertEquals(1, client.account().dropped(), "the flow of a host that nobody knows");
        }
    }

    @Test
    void certificatesAreShownAndAskedFor(@TempDir Path folder) throws Exception {
        Keys server = Keys.make(folder, "server");
        Keys own = Keys.make(folder, "own");
        Keys stranger = Keys.make(folder, "stranger");
        ServerSocket socket = server.listen(own);
        try (Stub stub = Stub.tcp(socket, "https")) {
            Client client = tls(stub.address(), own, server);
            client.declare(new JobStart("a"));
            untilTaken(client, 1);
            client.close(Duration.ZERO);
            // The controller is another, we are another, the certificate is for another name.
            for (Client refused : List.of(tls(stub.address(), own, stranger), tls(stub.address(), stranger, server),
                    tls(stub.address().replace("127.0.0.1", "localhost"), own, server))) {
                refused.declare(new JobStart("b"));
                until("it is refused", () -> refused.account().fault().isPresent());
                refused.close(Duration.ZERO);
            }
            assertEquals(List.of("a"), stub.started());
            Path none = folder.resolve("none");
            Client wrong = tls(stub.address(), new Keys(none, own.key(), own.store()), server);
            String said = "Watermaster: certificate is \"" + none + "\"";
            until("it is logged", () -> log.stream().anyMatch(line -> line.startsWith(said)));
            until("it ends", () -> thread("watermaster") == null);
            wrong.declare(new JobStart("c"));
            assertEquals(Account.NONE, wrong.account());
        }
    }

    private Client tls(String address, Keys own, Keys authority) {
        Map<String, String> values = Map.of("controller", address, "name", "test", "certificate",
                own.certificate().toString(), "key", own.key().toString(), "ca", authority.certificate().toString());
        Client client = Client.start("", values::get, log::add);
        clients.add(client);
        return client;
    }

    /** One who accepts and never shakes hands. */
    @Test
    void aHandshakeHasALimit(@TempDir Path folder) throws Exception {
        Keys own = Keys.make(folder, "own");
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            Map<String, String> values = Map.of("controller", "https://127.0.0.1:" + silent.getLocalPort(), "name",
                    "test", "certificate", own.certificate().toString(), "key", own.key().toString(), "ca",
                    own.certificate().toString());
            Client client = Client.start("", values::get, log::add, SHORT);
            clients.add(client);
            until("it is given up", () -> client.account().fault().isPresent());
            assertTrue(client.account().fault().get().endsWith("nothing within 200 ms"));
            assertFalse(client.account().connections() > 0);
        }
    }
}
