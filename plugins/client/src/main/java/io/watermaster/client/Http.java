package io.watermaster.client;

import io.watermaster.client.Settings.Address;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * One connection to a controller: HTTP/1.1, one request at a time, by one thread. Whatever the other end does,
 * connecting and each answer end within a limit: a timer closes the connection under a thread that waits. The look-up of
 * its name has one of its own.
 */
final class Http implements Closeable {
    /** Longest line of a head or of a chunk's size, in octets. */
    private static final int LINE = 8 << 10;
    /** Most lines of a head, and of what follows the last chunk. */
    private static final int LINES = 100;

    /**
     * An answer.
     *
     * @param status the HTTP status
     * @param body   what was said, at most {@link Json#LONGEST} octets
     */
    record Answer(int status, byte[] body) {}

    private final ScheduledExecutorService timer;
    private final Duration limit;
    private final String host;
    private Closeable raw;
    private InputStream in;
    private OutputStream out;

    /**
     * Connects within {@code limit}, which holds for each answer too; {@code tls} counts where the address wants it.
     *
     * @throws IOException nobody listens, or the two ends don't trust each other
     */
    Http(Address address, SSLContext tls, Duration limit, ScheduledExecutorService timer) throws IOException {
        this.timer = timer;
        this.limit = limit;
        if (address instanceof Address.Unix unix) {
            SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
            host = "localhost";
            raw = channel;
            limited(() -> {
                channel.connect(UnixDomainSocketAddress.of(unix.path()));
                open(Channels.newInputStream(channel), Channels.newOutputStream(channel));
                return null;
            });
        } else {
            Address.Tcp tcp = (Address.Tcp) address;
            host = tcp.toString().replaceFirst("https?://", "");
            Socket socket = new Socket();
            raw = socket;
            limited(() -> {
                socket.connect(new InetSocketAddress(Names.SYSTEM.find(tcp.host()), tcp.port()));
                socket.setTcpNoDelay(true);
                Socket upper = tcp.isTls() ? secure(socket, tcp, tls) : socket;
                open(upper.getInputStream(), upper.getOutputStream());
                return null;
            });
        }
    }

    private static Socket secure(Socket socket, Address.Tcp tcp, SSLContext tls) throws IOException {
        SSLSocket secured = (SSLSocket) tls.getSocketFactory().createSocket(socket, tcp.host(), tcp.port(), true);
        SSLParameters parameters = secured.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secured.setSSLParameters(parameters);
        secured.startHandshake();
        return secured;
    }

    private void open(InputStream from, OutputStream to) {
        in = new BufferedInputStream(from);
        out = to;
    }

    /** Something that ends with the connection. */
    private interface Step<T> {
        T run() throws IOException;
    }

    private <T> T limited(Step<T> step) throws IOException {
        AtomicBoolean isLate = new AtomicBoolean();
        Future<?> end = timer.schedule(() -> {
            isLate.set(true);
            close();
        }, limit.toNanos(), TimeUnit.NANOSECONDS);
        try {
            return step.run();
        } catch (IOException | RuntimeException broken) {
            close();
            if (isLate.get()) {
                throw new SocketTimeoutException("nothing within " + limit.toMillis() + " ms");
            }
            throw broken;
        } finally {
            end.cancel(false);
        }
    }

    /** Asks; a body is sent where there is one. */
    Answer ask(String method, String path, byte[] body) throws IOException {
        String head = method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n";
        if (body.length > 0) {
            head += "Content-Type: application/json\r\nContent-Length: " + body.length + "\r\n";
        }
        ByteArrayOutputStream request = new ByteArrayOutputStream();
        request.writeBytes((head + "\r\n").getBytes(StandardCharsets.US_ASCII));
        request.writeBytes(body);
        return limited(() -> {
            out.write(request.toByteArray());
            out.flush();
            return answer();
        });
    }

    private Answer answer() throws IOException {
        String start = line();
        if (!start.matches("HTTP/1\\.1 [2-5][0-9][0-9]( .*)?")) {
            throw new IOException("the answer is no HTTP");
        }
        long length = -1;
        boolean isChunked = false;
        for (int lines = 0;; lines++) {
            String header = line();
            if (header.isEmpty()) {
                break;
            }
            int colon = header.indexOf(':');
            if (colon <= 0 || lines == LINES) {
                throw new IOException("the answer's head is no HTTP");
            }
            String name = header.substring(0, colon).toLowerCase(Locale.ROOT);
            String value = header.substring(colon + 1).strip();
            if (name.equals("content-length")) {
                if (length >= 0 || !value.matches("[0-9]{1,18}")) {
                    throw new IOException("the answer's length is \"" + value + "\"");
                }
                length = Long.parseLong(value);
            } else if (name.equals("transfer-encoding")) {
                if (isChunked || !value.equalsIgnoreCase("chunked")) {
                    throw new IOException("the answer's encoding is \"" + value + "\"");
                }
                isChunked = true;
            }
        }
        // One of the two says where the answer ends; with both, two readers could see two ends.
        if (isChunked == (length >= 0)) {
            throw new IOException("the answer's head doesn't say where it ends");
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        if (isChunked) {
            chunks(body);
        } else {
            copy(length, body);
        }
        return new Answer(Integer.parseInt(start.substring(9, 12)), body.toByteArray());
    }

    private void chunks(ByteArrayOutputStream body) throws IOException {
        while (true) {
            String size = line().replaceFirst("[ \t]*;.*", "");
            if (!size.matches("[0-9A-Fa-f]{1,15}")) {
                throw new IOException("a chunk's size is \"" + size + "\"");
            }
            long length = Long.parseLong(size, 16);
            if (length == 0) {
                break;
            }
            copy(length, body);
            if (!line().isEmpty()) {
                throw new IOException("a chunk is longer than it says");
            }
        }
        for (int lines = 0; !line().isEmpty(); lines++) {
            if (lines == LINES) {
                throw new IOException("too much follows the last chunk");
            }
        }
    }

    private void copy(long length, ByteArrayOutputStream body) throws IOException {
        if (length > Json.LONGEST - body.size()) {
            throw new IOException("the answer is longer than " + Json.LONGEST + " octets");
        }
        byte[] octets = in.readNBytes((int) length);
        if (octets.length < length) {
            throw new EOFException("the answer ends early");
        }
        body.writeBytes(octets);
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        while (true) {
            int octet = in.read();
            if (octet < 0) {
                throw new EOFException("the controller closed the connection");
            } else if (octet == '\n') {
                int end = line.length() - 1;
                if (end >= 0 && line.charAt(end) == '\r') {
                    line.setLength(end);
                }
                return line.toString();
            } else if (line.length() == LINE) {
                throw new IOException("a line of the answer is too long");
            }
            line.append((char) octet);
        }
    }

    /** Closes the connection, from any thread; who waits for it gets an exception. */
    @Override
    public void close() {
        try {
            // Not what is above it: TLS would say goodbye first, and wait for that.
            raw.close();
        } catch (IOException isClosedAnyway) {
            // Nothing is left to do.
        }
    }
}
