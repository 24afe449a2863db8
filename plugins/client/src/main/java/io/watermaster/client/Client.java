package io.watermaster.client;

import io.watermaster.client.Declaration.JobStart;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.Function;
import javax.net.ssl.SSLContext;

/**
 * Tells a controller what an application declares. All methods may be called from any thread, return at once and throw
 * nothing for what becomes of the controller; one daemon thread of the client speaks with it. Without a controller, or
 * while it can't be reached, what doesn't fit into the queue is dropped and counted.
 */
public final class Client {
    /** How long connecting may take, and an answer. */
    private static final Duration PATIENCE = Duration.ofSeconds(5);
    /** While names are looked up, the session goes on so often. */
    private static final long STEP = 1_000_000_000L;

    private final Consumer<String> log;
    private final long begin = System.nanoTime();
    /** Guards what follows, never for longer than it takes to read or write it. */
    private final Object gate = new Object();
    private List<Declaration> queue = new ArrayList<>();
    /** Room that the queue has, and for ends once more: they set free what holds. */
    private final int room;
    private long queued;
    private long dropped;
    /** When the client ends; {@link Session#NEVER} before it is closed. */
    private long end = Session.NEVER;
    private boolean isOver;
    private Account account = Account.NONE;

    private Client(int room, Consumer<String> log) {
        this.room = room;
        this.log = log;
    }

    /**
     * Starts a client as the engine's configuration says: {@code controller} ({@code unix:/PATH},
     * {@code http://HOST:PORT} on this machine, {@code https://HOST:PORT}), {@code name} of the application, with https
     * the PEM files {@code certificate}, {@code key} (PKCS#8) and {@code ca}, {@code queue}, how many declarations,
     * portions and samples it holds (65536), and {@link Declaration.JobTerms#read what} all jobs ask for that it starts. Without a controller, and where a value can't be used, which is logged
     * once with its key and the remedy, the client does nothing.
     *
     * @param prefix what the keys begin with, such as {@code "watermaster."}
     * @param values gives the value of a key; null where it isn't set
     * @param log    takes a line of a log, on the caller's thread or the client's
     * @return the client
     */
    public static Client start(String prefix, Function<String, String> values, Consumer<String> log) {
        return start(prefix, values, log, PATIENCE);
    }

    static Client start(String prefix, Function<String, String> values, Consumer<String> log, Duration patience) {
        try {
            Optional<Settings> settings = Settings.read(prefix, values);
            if (settings.isPresent()) {
                Client client = new Client(settings.get().room(), log);
                Thread thread = new Thread(() -> client.run(settings.get(), patience), "watermaster");
                thread.setDaemon(true);
                thread.start();
                return client;
            }
        } catch (Settings.Wrong | RuntimeException wrong) {
            say(log, wrong.getMessage() + "; nothing is declared");
        }
        Client nothing = new Client(0, log);
        nothing.isOver = true;
        return nothing;
    }

    /**
     * Declares something, in the order of the calls. A declaration that there is no room for is dropped and counted,
     * and with it whatever refers to it.
     *
     * @param declaration what to declare
     */
    public void declare(Declaration declaration) {
        synchronized (gate) {
            int weight = Session.weight(declaration);
            if (isOver || end != Session.NEVER) {
                return;
            }
            if (queued + weight > (Session.isEnd(declaration) ? 2L * room : room)) {
                dropped++;
                return;
            }
            queued += weight;
            queue.add(declaration);
            gate.notify();
        }
    }

    /**
     * What became of what was declared.
     *
     * @return all zeros for a client that does nothing
     */
    public Account account() {
        synchronized (gate) {
            Account a = account;
            long all = a.dropped() + dropped;
            return new Account(a.taken(), a.refused(), a.later(), all, a.connections(), a.fault());
        }
    }

    /**
     * Ends the client when all was said that is declared by now, or after {@code grace}. Nobody waits for that: a
     * process that exits earlier ends the client.
     *
     * @param grace how long it may take
     */
    public void close(Duration grace) {
        synchronized (gate) {
            end = Math.min(end, now() + grace.toNanos());
            gate.notify();
        }
    }

    private long now() {
        return System.nanoTime() - begin;
    }

    private void run(Settings settings, Duration patience) {
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "watermaster-limit");
            thread.setDaemon(true);
            return thread;
        });
        timer.setRemoveOnCancelPolicy(true);
        try (Speaker speaker = new Speaker(settings, patience, timer)) {
            speaker.speak();
        } catch (Settings.Wrong wrong) {
            say(log, wrong.getMessage() + "; nothing is declared");
        } catch (Throwable broken) {
            // A fault of ours, or no memory: the engine goes on without us.
            say(log, "stopped: " + broken);
        } finally {
            timer.shutdownNow();
            synchronized (gate) {
                isOver = true;
                queue = new ArrayList<>();
            }
        }
    }

    /** What waits in the queue; waits for it until {@code deadline}, or until the client ends. */
    private List<Declaration> take(long deadline, boolean isSettled) throws InterruptedException {
        synchronized (gate) {
            while (queue.isEmpty()) {
                long wait = Math.min(deadline, end) - now();
                if (wait <= 0 || isOver(isSettled)) {
                    break;
                }
                // Less than a millisecond would be for ever.
                gate.wait(Math.max(1, Math.min(wait / 1_000_000, 3_600_000)));
            }
            List<Declaration> all = queue;
            queue = new ArrayList<>();
            queued = 0;
            return all;
        }
    }

    /** Whether the client was closed, and has said all or had its time. */
    private boolean isOver(boolean isSettled) {
        synchronized (gate) {
            return end <= now() || end != Session.NEVER && isSettled && queue.isEmpty();
        }
    }

    private static void say(Consumer<String> log, String line) {
        try {
            // What a peer said is one line, in its order, whatever it is: without controls, what nobody sees, and ends
            // of lines.
            log.accept("Watermaster: " + line.replaceAll("[\\p{C}\\p{Zl}\\p{Zp}]", " "));
        } catch (RuntimeException notOurs) {
            // There is nobody else to tell.
        }
    }

    /** What the client's thread owns: the session and the connection. */
    private final class Speaker implements AutoCloseable {
        private final Settings settings;
        private final Duration patience;
        private final ScheduledThreadPoolExecutor timer;
        private final Session session;
        private final SSLContext tls;
        private final String path;
        private Http connection;
        /** The controller that is spoken to. */
        private int at;
        private long faults;
        private final Seldom logged = new Seldom();
        private long stepped;

        Speaker(Settings settings, Duration patience, ScheduledThreadPoolExecutor timer) throws Settings.Wrong {
            this.settings = settings;
            this.patience = patience;
            this.timer = timer;
            this.session = new Session(Session.Limits.of(settings.room()));
            this.tls = settings.tls().isPresent() ? settings.tls().get().context() : null;
            this.path = "/v1/applications/" + settings.name() + "/declarations";
        }

        void speak() throws InterruptedException {
            while (!isOver(session.isSettled())) {
                for (Declaration declaration : take(session.deadline(), session.isSettled())) {
                    try {
                        Hosts.resolve(declaration).ifPresent(session::declare);
                        if (declaration instanceof JobStart start) {
                            settings.terms().ifPresent(terms -> session.declare(terms.of(start.job())));
                        }
                    } catch (IOException unknown) {
                        session.drop("no address is known of " + unknown.getMessage());
                    }
                    if (now() - stepped >= STEP) {
                        step();
                    }
                }
                step();
            }
        }

        private void step() {
            session.poll(now()).ifPresent(this::act);
            stepped = now();
            publish();
        }

        private void act(Session.Action action) {
            double chance = ThreadLocalRandom.current().nextDouble();
            try {
                if (action instanceof Session.Action.Connect) {
                    close();
                    connection = new Http(settings.controllers().get(at), tls, patience, timer);
                    session.connected(now());
                } else if (action instanceof Session.Action.Health) {
                    Http.Answer answer = connection.ask("GET", "/v1/health", new byte[0]);
                    if (answer.status() != 200) {
                        throw new IOException("it answers " + answer.status() + Outcome.problem(answer.body()));
                    }
                    session.healthy(now(), Outcome.epoch(answer.body()));
                } else if (action instanceof Session.Action.Declare declare) {
                    Http.Answer answer = connection.ask("POST", path, declare.body());
                    switch (answer.status()) {
                        case 200, 422, 429 -> session.answered(now(), Outcome.read(answer.body()), chance);
                        default -> session.refused(now(), answer.status(), Outcome.problem(answer.body()), chance);
                    }
                }
            } catch (IOException | RuntimeException broken) {
                session.lost(now(), settings.controllers().get(at) + ": " + broken.getMessage(), chance);
                // Another may lead; one that follows answers 503.
                at = (at + 1) % settings.controllers().size();
            }
        }

        /** Tells how it stands. */
        private void publish() {
            Account stands = session.account();
            synchronized (gate) {
                account = stands;
            }
            if (session.faults() > faults) {
                String fault = stands.fault().orElse("");
                if (logged.tells(fault, now())) {
                    say(log, fault);
                }
                faults = session.faults();
            }
        }

        @Override
        public void close() {
            if (connection != null) {
                connection.close();
                connection = null;
            }
        }
    }
}
