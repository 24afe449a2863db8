package io.watermaster.client;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** A controller for tests: it takes all, unless the next thing in its script does otherwise. */
final class Stub implements AutoCloseable {
    /** What is done in place of an answer; the connection ends with it. */
    interface Misdeed {
        void run(OutputStream out) throws Exception;
    }

    /** A request. */
    record Request(String line, List<?> declarations) {}

    private interface Accept {
        Closeable next() throws IOException;
    }

    /** What becomes of the next requests; an honest answer where there is nothing. */
    final Queue<Misdeed> script = new ConcurrentLinkedQueue<>();
    /** Answers to the next requests, after which the connection goes on. */
    final Queue<byte[]> answers = new ConcurrentLinkedQueue<>();
    /** Requests that were read. */
    final List<Request> requests = new CopyOnWriteArrayList<>();
    /** Declarations that were taken, in order. */
    final List<Map<?, ?>> taken = new CopyOnWriteArrayList<>();
    volatile long epoch = 1;

    private final Closeable listener;
    private final List<Closeable> connections = new CopyOnWriteArrayList<>();
    private final String address;
    private final AtomicInteger closed = new AtomicInteger();

    private Stub(Closeable listener, String address, Accept accept) {
        this.listener = listener;
        this.address = address;
        daemon(() -> {
            while (true) {
                Closeable connection = accept.next();
                connections.add(connection);
                daemon(() -> {
                    try (connection) {
                        serve(connection);
                    } finally {
                        closed.incrementAndGet();
                    }
                });
            }
        });
    }

    static Stub tcp() throws IOException {
        return tcp(new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1")), "http");
    }

    static Stub tcp(ServerSocket socket, String scheme) {
        return new Stub(socket, scheme + "://127.0.0.1:" + socket.getLocalPort(), socket::accept);
    }

    static Stub unix(Path path) throws IOException {
        ServerSocketChannel channel = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        channel.bind(UnixDomainSocketAddress.of(path));
        return new Stub(channel, "unix:" + path, channel::accept);
    }

    String address() {
        return address;
    }

    /** Connections that the client closed, or a misdeed. */
    int closed() {
        return closed.get();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void daemon(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception ended) {
                // The test or the client closed something.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(Closeable connection) throws Exception {
        InputStream in;
        OutputStream out;
        if (connection instanceof Socket socket) {
            in = new BufferedInputStream(socket.getInputStream());
            out = socket.getOutputStream();
        } else {
            in = new BufferedInputStream(Channels.newInputStream((SocketChannel) connection));
            out = Channels.newOutputStream((SocketChannel) connection);
        }
        while (true) {
            String line = line(in);
            int length = 0;
            for (String header = line(in); !header.isEmpty(); header = line(in)) {
                if (header.startsWith("Content-Length: ")) {
                    length = Integer.parseInt(header.substring(16));
                }
            }
            byte[] body = in.readNBytes(length);
            List<?> declarations = length == 0 ? List.of() : (List<?>) Json.read(body);
            if (!connections.contains(connection)) {
                return; // it was cut while this was on its way
            }
            requests.add(new Request(line, declarations));
            Misdeed misdeed = script.poll();
            if (misdeed != null) {
                misdeed.run(out);
                return;
            }
            byte[] other = answers.poll();
            if (other != null) {
                out.write(other);
                out.flush();
                continue;
            }
            String answer = "{\"epoch\":" + epoch + ",\"declared\":0}";
            if (line.startsWith("POST /v1/applications/test/declarations ")) {
                declarations.forEach(declaration -> taken.add((Map<?, ?>) declaration));
                answer = "{\"taken\":" + declarations.size() + ",\"epoch\":" + epoch + "}";
            }
            out.write(response(200, answer));
            out.flush();
        }
    }

    static byte[] response(int status, String body) {
        byte[] octets = body.getBytes(StandardCharsets.UTF_8);
        return ("HTTP/1.1 " + status + " Whatever\r\ncontent-type: application/json\r\ncontent-length: " + octets.length
                + "\r\n\r\n" + body).getBytes(StandardCharsets.UTF_8);
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int octet = in.read(); octet != '\n'; octet = in.read()) {
            if (octet < 0) {
                throw new IOException("closed");
            }
            line.append((char) octet);
        }
        return line.substring(0, line.length() - 1);
    }

    /** The jobs that were started, in the order that they were. */
    List<Object> started() {
        List<Object> jobs = new ArrayList<>();
        for (Map<?, ?> declaration : taken) {
            if ("job_start".equals(declaration.get("type"))) {
                jobs.add(declaration.get("job"));
            }
        }
        return jobs;
    }

    /** Closes all connections; new ones are taken. */
    void cut() throws IOException {
        List<Closeable> all = List.copyOf(connections);
        connections.clear();
        for (Closeable connection : all) {
            connection.close();
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
