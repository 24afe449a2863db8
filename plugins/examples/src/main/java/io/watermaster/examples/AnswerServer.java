package io.watermaster.examples;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A server behind a {@link FrontEnd}. A request is a number, four octets with the highest first, and its answer so many
 * octets. It declares nothing.
 */
public final class AnswerServer {
    /** Octets that one answer may have. */
    static final int MOST = 1 << 24;
    private static final byte[] OCTETS = new byte[1 << 14];

    private final ServerSocket listener;
    private final AtomicLong answers = new AtomicLong();
    private final AtomicInteger open = new AtomicInteger();

    AnswerServer(ServerSocket listener) {
        this.listener = listener;
    }

    /**
     * Serves until the last of its connections has ended, and prints how many {@code answers} it gave, as JSON.
     *
     * @param arguments {@code NAME [port=N]}
     * @throws IOException it can't listen
     */
    public static void main(String... arguments) throws IOException {
        int port;
        try {
            port = new Arguments(List.of("port"), arguments).whole("port", FrontEnd.PORT, 1, 0xffff);
        } catch (IllegalArgumentException wrong) {
            System.err.println("AnswerServer: " + wrong.getMessage());
            System.exit(2);
            return;
        }
        try (ServerSocket listener = new ServerSocket(port)) {
            System.out.println(new AnswerServer(listener).serve());
        }
    }

    /** Serves, and says what {@link #main} prints. */
    String serve() throws IOException {
        while (true) {
            Socket connection;
            try {
                connection = listener.accept();
            } catch (IOException closed) {
                if (listener.isClosed()) {
                    return String.format("{\"answers\": %d}", answers.get());
                }
                throw closed;
            }
            open.incrementAndGet();
            Thread thread = new Thread(() -> answer(connection), "answers");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void answer(Socket connection) {
        try (connection;
                DataInputStream in = new DataInputStream(new BufferedInputStream(connection.getInputStream()));
                DataOutputStream out = new DataOutputStream(new BufferedOutputStream(connection.getOutputStream()))) {
            connection.setTcpNoDelay(true);
            while (true) {
                int left = in.readInt();
                if (left < 0 || left > MOST) {
                    throw new IOException("a request of " + left + " octets; ask for up to " + MOST);
                }
                while (left > 0) {
                    int now = Math.min(left, OCTETS.length);
                    out.write(OCTETS, 0, now);
                    left -= now;
                }
                out.flush();
                answers.incrementAndGet();
            }
        } catch (EOFException end) {
            // The front end has all it wants.
        } catch (IOException broken) {
            System.err.println("AnswerServer: " + broken.getMessage());
        } finally {
            if (open.decrementAndGet() == 0) {
                close();
            }
        }
    }

    private void close() {
        try {
            listener.close();
        } catch (IOException none) {
            // It is closed all the same.
        }
    }
}
