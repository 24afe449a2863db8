package io.watermaster.storm;

import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.Streams;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.storm.Constants;
import org.apache.storm.grouping.Load;
import org.apache.storm.messaging.ConnectionWithStatus;
import org.apache.storm.messaging.IConnection;
import org.apache.storm.messaging.IConnectionCallback;
import org.apache.storm.messaging.IContext;
import org.apache.storm.messaging.TaskMessage;
import org.apache.storm.messaging.netty.BackPressureStatus;
import org.apache.storm.messaging.netty.Context;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.shade.io.netty.channel.Channel;

/**
 * The engine's own transport, which declares each connection of a worker to another while it stands, and every second
 * what it delivered and what waits. {@code storm.messaging.transport} names it. The engine makes one in each worker and
 * calls it on its own threads.
 *
 * <p>With {@code watermaster.pairs} true, octets of tuples per pair of tasks are gauges of Storm's metrics, named
 * {@code watermaster-sent-SOURCE-DESTINATION} and {@code watermaster-received-SOURCE-DESTINATION}.
 */
public final class DeclaringTransport implements IContext {
    private static final String PAIRS = Watermaster.PREFIX + "pairs";

    private final Context inner = new Context();
    private final Pairs sent = new Pairs();
    private final Pairs received = new Pairs();
    private final Set<Connection> connections = ConcurrentHashMap.newKeySet();
    private final Set<Flow> open = ConcurrentHashMap.newKeySet();
    private Client client;
    private Consumer<Declaration> declare;
    private ScheduledThreadPoolExecutor timer;
    /** Where gauges go; null: nowhere. */
    private StormMetricRegistry gauges;
    /** Pairs that have gauges. The timer's thread alone uses it. */
    private final Set<Pairs.Pair> shown = new HashSet<>();
    /** The topology, of which a worker has one. */
    private volatile String job;

    /** Made by the engine. */
    public DeclaringTransport() {
        this(null);
    }

    /** With something else in the place of a client, for tests. */
    DeclaringTransport(Consumer<Declaration> declare) {
        this.declare = declare;
    }

    @Override
    @Deprecated
    public void prepare(Map<String, Object> configuration) {
        prepare(configuration, null);
    }

    @Override
    public void prepare(Map<String, Object> configuration, StormMetricRegistry registry) {
        inner.prepare(configuration, registry);
        Watermaster.quietly(() -> {
            if (declare == null) {
                declare = declaration -> {};
                client = Watermaster.ofWorker(configuration);
                declare = client::declare;
            }
            gauges = Boolean.parseBoolean(String.valueOf(configuration.get(PAIRS))) ? registry : null;
            timer = new ScheduledThreadPoolExecutor(1, task -> {
                Thread thread = new Thread(task, "watermaster-streams");
                thread.setDaemon(true);
                return thread;
            });
            timer.scheduleWithFixedDelay(() -> Watermaster.quietly(this::look), 1, 1, TimeUnit.SECONDS);
        });
    }

    @Override
    public void term() {
        try {
            inner.term();
        } finally {
            Watermaster.quietly(() -> {
                timer.shutdownNow();
                if (job != null) {
                    declare.accept(new JobComplete(job));
                }
                if (client != null) {
                    client.close(Duration.ofSeconds(10));
                }
            });
        }
    }

    @Override
    public IConnection bind(String topology, int port, IConnectionCallback callback, Supplier<Object> greeting) {
        return inner.bind(topology, port, new Callback(callback, received), greeting);
    }

    @Override
    public IConnection connect(String topology, String host, int port, AtomicBoolean[] pressure) {
        IConnection connection = inner.connect(topology, host, port, pressure);
        if (!(connection instanceof ConnectionWithStatus known)) {
            return connection;
        }
        Watermaster.quietly(() -> {
            job = topology;
            declare.accept(new JobJoin(topology));
        });
        Connection counted = new Connection(known);
        connections.add(counted);
        return counted;
    }

    Pairs sent() {
        return sent;
    }

    Pairs received() {
        return received;
    }

    /** What is done every second. */
    private void look() {
        connections.forEach(Connection::channel);
        if (!open.isEmpty()) {
            SendQueues queues = SendQueues.now(open.stream().map(Flow::connection).toList());
            declare.accept(new Streams(job, open.stream().map(flow -> flow.sample(queues)).toList()));
        }
        if (gauges != null) {
            show("sent", sent);
            show("received", received);
        }
    }

    private void show(String what, Pairs pairs) {
        for (Pairs.Pair pair : pairs.all()) {
            if (shown.add(pair)) {
                String name = "watermaster-" + what + "-" + pair.source() + "-" + pair.destination();
                gauges.gauge(name, pair.octets()::sum, Constants.SYSTEM_COMPONENT_ID, (int) Constants.SYSTEM_TASK_ID);
            }
        }
    }

    /** A connection to another worker, which the engine makes again where it breaks. */
    private final class Connection extends ConnectionWithStatus {
        private final ConnectionWithStatus inner;
        /** Where the engine keeps the channel; null where it isn't found. */
        private AtomicReference<?> place;
        /** The channel that was seen last. */
        private volatile Channel seen;

        Connection(ConnectionWithStatus inner) {
            this.inner = inner;
            Watermaster.quietly(() -> {
                // There is no other way to it.
                Field field = inner.getClass().getDeclaredField("channelRef");
                field.setAccessible(true);
                place = (AtomicReference<?>) field.get(inner);
            });
        }

        /** The channel there is now, null where there is none. A new one is declared. */
        Channel channel() {
            Channel now = place != null && place.get() instanceof Channel channel ? channel : null;
            if (now != null && now != seen) {
                Watermaster.quietly(() -> begin(now));
            }
            return now;
        }

        private synchronized void begin(Channel channel) {
            if (channel != seen && channel.isActive()) {
                seen = channel;
                Flow.begin(channel, job, open, declare);
            }
        }

        @Override
        public void send(Iterator<TaskMessage> messages) {
            Channel channel = channel();
            // Without a channel the engine drops them.
            boolean isDropped = place != null && (channel == null || !channel.isActive());
            inner.send(isDropped || messages == null ? messages : new Counted(messages, sent));
        }

        @Override
        public Status status() {
            // The engine asks before it sends the first tuple.
            channel();
            return inner.status();
        }

        @Override
        public void sendLoadMetrics(Map<Integer, Double> load) {
            inner.sendLoadMetrics(load);
        }

        @Override
        public void sendBackPressureStatus(BackPressureStatus status) {
            inner.sendBackPressureStatus(status);
        }

        @Override
        public Map<Integer, Load> getLoad(Collection<Integer> tasks) {
            return inner.getLoad(tasks);
        }

        @Override
        public int getPort() {
            return inner.getPort();
        }

        @Override
        public void close() {
            connections.remove(this);
            inner.close();
        }
    }

    /** Messages that are counted as they are taken. */
    private record Counted(Iterator<TaskMessage> inner, Pairs pairs) implements Iterator<TaskMessage> {
        @Override
        public boolean hasNext() {
            return inner.hasNext();
        }

        @Override
        public TaskMessage next() {
            TaskMessage message = inner.next();
            if (message != null) {
                pairs.add(message);
            }
            return message;
        }
    }

    /** What a worker does with what it receives. The engine asks it for metrics too. */
    private record Callback(IConnectionCallback inner, Pairs pairs) implements IConnectionCallback, IMetric {
        @Override
        public void recv(List<TaskMessage> messages) {
            for (TaskMessage message : messages) {
                pairs.add(message);
            }
            inner.recv(messages);
        }

        @Override
        public Object getValueAndReset() {
            return inner instanceof IMetric metric ? metric.getValueAndReset() : null;
        }
    }
}
