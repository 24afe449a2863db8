package io.watermaster.examples;

import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Streams;
import java.io.BufferedInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * An interactive service: at random times (a Poisson process) it asks one of its servers for some octets, of random
 * size, whether or not the answers before have come. It has a connection to each server, and declares each as a stream
 * of one job, of which it says every 200 ms what came and what it waits for.
 */
public final class FrontEnd {
    /** Where servers listen. */
    static final int PORT = 7070;
    private static final List<String> KEYS = List.of("servers", "rate", "mean", "seconds", "controller");
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(60);
    private static final long SAMPLING = TimeUnit.MILLISECONDS.toNanos(200);
    private static final int LOOK_MILLIS = 50;

    private final String job;
    private final Consumer<Declaration> declares;
    private final List<Server> servers = new ArrayList<>();

    FrontEnd(String job, Consumer<Declaration> declares) {
        this.job = job;
        this.declares = declares;
    }

    /**
     * Asks for some time, waits for what it asked for, and prints a line of JSON: {@code answers}, and from a request's
     * time to the last octet of its answer {@code latency_mean_s} and {@code latency_p99_s}.
     *
     * @param arguments {@code NAME servers=HOST[:PORT],… [rate=10] [mean=20000] [seconds=20] [controller=ADDRESS]}:
     *                  requests a second, octets in the mean, and whom it declares to, as application NAME
     * @throws IOException          a server isn't there, or goes
     * @throws InterruptedException never
     */
    public static void main(String... arguments) throws IOException, InterruptedException {
        Arguments given;
        List<InetSocketAddress> servers;
        double rate;
        int mean;
        double seconds;
        try {
            given = new Arguments(KEYS, arguments);
            servers = servers(given.text("servers", ""));
            rate = given.number("rate", 10, 0.001, 1e5);
            mean = given.whole("mean", 20_000, 1, AnswerServer.MOST / 16);
            seconds = given.number("seconds", 20, 0.1, 86_400);
        } catch (IllegalArgumentException wrong) {
            System.err.println("FrontEnd: " + wrong.getMessage());
            System.exit(2);
            return;
        }
        Map<String, String> settings = Map.of("controller", given.text("controller", ""), "name", given.name());
        Client client = Client.start("", settings::get, System.err::println);
        FrontEnd front = new FrontEnd(given.name(), client::declare);
        System.out.println(front.run(servers, rate, mean, seconds));
        client.close(Duration.ofSeconds(1));
        System.exit(0);
    }

    private static List<InetSocketAddress> servers(String text) {
        List<InetSocketAddress> servers = new ArrayList<>();
        for (String server : text.split(",")) {
            String[] parts = server.split(":", 2);
            if (parts[0].isEmpty() || parts.length > 1 && !parts[1].matches("[1-9][0-9]{0,4}")) {
                throw new IllegalArgumentException("servers=" + text + ": write HOST[:PORT],…");
            }
            // Of a name that isn't known, connecting says so.
            servers.add(new InetSocketAddress(parts[0], parts.length > 1 ? Integer.parseInt(parts[1]) : PORT));
        }
        return servers;
    }

    /** Asks, and says what {@link #main} prints. */
    String run(List<InetSocketAddress> all, double rate, int mean, double seconds)
            throws IOException, InterruptedException {
        declares.accept(new JobStart(job));
        for (InetSocketAddress server : all) {
            servers.add(new Server(connect(server), "from-" + server.getHostString() + ":" + server.getPort()));
        }
        for (Server server : servers) {
            declares.accept(server.request());
            Thread thread = new Thread(server::take, server.flow);
            thread.setDaemon(true);
            thread.start();
        }
        ask(rate, mean, System.nanoTime() + (long) (seconds * TimeUnit.SECONDS.toNanos(1)));
        List<Long> latencies = new ArrayList<>();
        for (Server server : servers) {
            while (!server.asked.isEmpty() && server.fault == null) {
                Thread.sleep(LOOK_MILLIS);
                sample();
            }
            server.close();
            declares.accept(new FlowComplete(job, server.flow));
            latencies.addAll(server.latencies);
        }
        declares.accept(new JobComplete(job));
        return String.format("{\"answers\": %d, %s}", latencies.size(), Results.latencies(latencies));
    }

    private void ask(double rate, int mean, long end) throws IOException, InterruptedException {
        Births births = new Births(rate);
        births.go();
        long sampled = System.nanoTime();
        while (true) {
            long now = System.nanoTime();
            if (now - sampled >= SAMPLING) {
                sample();
                sampled = now;
            }
            if (births.remaining() <= 0) {
                long due = now + births.remaining();
                if (due - end >= 0) {
                    return;
                }
                int size = (int) Math.ceil(Math.min(ThreadLocalRandom.current().nextExponential(), 16) * mean);
                servers.get(ThreadLocalRandom.current().nextInt(servers.size())).ask(due, size);
                births.go();
            } else {
                TimeUnit.NANOSECONDS.sleep(Math.min(births.remaining(), SAMPLING - (now - sampled)));
            }
        }
    }

    private void sample() {
        declares.accept(new Streams(job, servers.stream().map(Server::sample).toList()));
    }

    /** Servers may start later. */
    private static Socket connect(InetSocketAddress server) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        while (true) {
            try {
                return new Socket(server.getHostString(), server.getPort());
            } catch (IOException none) {
                if (System.nanoTime() - begin > PATIENCE) {
                    throw new IOException(server + ": " + none.getMessage() + "; start an AnswerServer there", none);
                }
                Thread.sleep(LOOK_MILLIS);
            }
        }
    }

    /** A request that waits for its answer: when it was due, by {@link System#nanoTime}, and its octets. */
    private record Asked(long due, int size) {}

    /** A connection to a server. */
    private final class Server {
        private final Socket socket;
        private final String flow;
        private final DataOutputStream out;
        private final Queue<Asked> asked = new ConcurrentLinkedQueue<>();
        private final List<Long> latencies = new ArrayList<>();
        private final AtomicLong wanted = new AtomicLong();
        private final AtomicLong came = new AtomicLong();
        private volatile IOException fault;

        Server(Socket socket, String flow) throws IOException {
            this.socket = socket;
            this.flow = flow;
            socket.setTcpNoDelay(true);
            out = new DataOutputStream(socket.getOutputStream());
        }

        FlowRequest request() {
            return new FlowRequest(job, flow,
                    new Endpoint(socket.getInetAddress().getHostAddress(), socket.getPort()),
                    new Endpoint(socket.getLocalAddress().getHostAddress(), socket.getLocalPort()),
                    OptionalLong.empty());
        }

        Sample sample() {
            long delivered = came.get();
            return new Sample(flow, delivered, Math.max(0, wanted.get() - delivered), 0);
        }

        void ask(long due, int size) throws IOException {
            if (fault != null) {
                throw fault;
            }
            asked.add(new Asked(due, size));
            wanted.addAndGet(size);
            out.writeInt(size);
        }

        /** Takes all answers, in the order of the requests. */
        void take() {
            byte[] octets = new byte[1 << 16];
            long taken = 0;
            try (InputStream in = new BufferedInputStream(socket.getInputStream())) {
                for (int now = in.read(octets); now >= 0; now = in.read(octets)) {
                    came.addAndGet(now);
                    taken += now;
                    for (Asked first = asked.peek(); first != null && taken >= first.size(); first = asked.peek()) {
                        taken -= first.size();
                        latencies.add(System.nanoTime() - first.due());
                        asked.remove();
                    }
                }
                throw new IOException("the server has closed");
            } catch (IOException broken) {
                fault = new IOException(flow + ": " + broken.getMessage(), broken);
            }
        }

        /** Ends well only where all came. */
        void close() throws IOException {
            IOException before = fault;
            socket.close();
            if (before != null) {
                throw before;
            }
        }
    }
}
