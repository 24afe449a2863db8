package io.watermaster.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Looks names of hosts up within a limit, which Java's own look-ups don't have. */
final class Names {
    /** So many look-ups may be under way. While all hang, others are given up at once. */
    static final int MOST = 4;
    /** As this machine looks them up, for all clients of the process. Java remembers what it has found. */
    static final Names SYSTEM = new Names(InetAddress::getByName, Duration.ofSeconds(2));

    /** A look-up, which may take long. */
    interface Lookup {
        InetAddress find(String name) throws UnknownHostException;
    }

    private final Lookup lookup;
    private final Duration limit;
    private final ExecutorService threads =
            new ThreadPoolExecutor(0, MOST, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
                Thread thread = new Thread(task, "watermaster-names");
                thread.setDaemon(true);
                return thread;
            });

    Names(Lookup lookup, Duration limit) {
        this.lookup = lookup;
        this.limit = limit;
    }

    /**
     * The address of a host, by its name or as it is.
     *
     * @throws UnknownHostException there is none, or it takes too long
     */
    InetAddress find(String host) throws UnknownHostException {
        if (host.indexOf(':') >= 0 || host.matches("[0-9.]+")) {
            // An address, which nobody is asked for.
            return InetAddress.getByName(host);
        }
        try {
            Future<InetAddress> found = threads.submit(() -> lookup.find(host));
            return found.get(limit.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException | RejectedExecutionException late) {
            throw new UnknownHostException(host + ": its look-up takes longer than " + limit.toMillis() + " ms");
        } catch (ExecutionException wrong) {
            throw wrong.getCause() instanceof UnknownHostException unknown ? unknown
                    : new UnknownHostException(host + ": " + wrong.getCause());
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            throw new UnknownHostException(host + ": the client ends");
        }
    }
}
