package io.watermaster.flink;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.flink.Arrivals.Arrived;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.io.network.partition.consumer.RemoteInputChannel;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.metrics.groups.AbstractMetricGroup;
import org.apache.flink.runtime.metrics.scope.ScopeFormat;
import org.apache.flink.runtime.shuffle.ShuffleIOOwnerContext;

/**
 * The tasks of a TaskManager and what they receive from others: declares them, and every second how they stand. Any
 * thread may call it.
 */
final class Flows implements AutoCloseable {
    private final int buffer;
    private final Consumer<Declaration> declare;
    private final ScheduledThreadPoolExecutor timer;
    /** By jobs, what belongs to their tasks here and is closed with each. */
    private final Map<String, Set<AbstractMetricGroup<?>>> tasks = new HashMap<>();
    /** Where tasks read, and their jobs. */
    private final Map<SingleInputGate, String> gates = new HashMap<>();
    private final Map<Key, Flow> flows = new HashMap<>();

    /** What a job receives on a connection is one. */
    private record Key(String job, Arrivals arrivals) {}

    /** Declares streams of buffers of so many octets. */
    Flows(int buffer, Consumer<Declaration> declare) {
        this.buffer = buffer;
        this.declare = declare;
        timer = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "watermaster-streams");
            thread.setDaemon(true);
            return thread;
        });
        timer.scheduleWithFixedDelay(() -> Watermaster.quietly(this::look), 1, 1, TimeUnit.SECONDS);
    }

    /** A task was placed here. */
    synchronized void begin(ShuffleIOOwnerContext owner) {
        // The engine closes it with the task.
        if (!(owner.getInputGroup() instanceof AbstractMetricGroup<?> group)) {
            return;
        }
        Map<String, String> variables = owner.getParentGroup().getAllVariables();
        String job = variables.get(ScopeFormat.SCOPE_JOB_ID);
        if (!tasks.containsKey(job)) {
            tasks.put(job, new HashSet<>());
            declare.accept(new JobJoin(job));
        }
        tasks.get(job).add(group);
        String host = variables.get(ScopeFormat.SCOPE_HOST);
        // A cluster in one process has none.
        if (!host.isEmpty()) {
            declare.accept(new TaskHost(job, task(owner.getExecutionAttemptID()), host));
        }
    }

    /** The subtasks of a vertex have numbers that follow each other, from one that its id gives by chance. */
    static int task(ExecutionAttemptID attempt) {
        return attempt.getJobVertexId().hashCode() + attempt.getSubtaskIndex() & Integer.MAX_VALUE;
    }

    /** A task will read there. */
    synchronized void begin(ShuffleIOOwnerContext owner, List<SingleInputGate> read) {
        String job = owner.getParentGroup().getAllVariables().get(ScopeFormat.SCOPE_JOB_ID);
        for (SingleInputGate gate : read) {
            gates.put(gate, job);
            gate.getCloseFuture().thenRun(() -> Watermaster.quietly(() -> end(gate)));
        }
    }

    private synchronized void end(SingleInputGate gate) {
        gates.remove(gate);
    }

    /** A task reads from another TaskManager. */
    synchronized void begin(RemoteInputChannel channel, Arrivals arrivals) {
        InetSocketAddress source = arrivals.source();
        InetSocketAddress destination = arrivals.destination();
        Optional<String> job = gates.keySet().stream().filter(gate -> has(gate, channel)).map(gates::get).findAny();
        if (source == null || destination == null || job.isEmpty()) {
            return; // closed already
        }
        arrivals.expect(channel.getInputChannelId());
        Flow flow = flows.computeIfAbsent(new Key(job.get(), arrivals), key -> {
            Endpoint from = endpoint(source);
            Endpoint to = endpoint(destination);
            String name = from.host() + ":" + from.port() + "-" + to.host() + ":" + to.port();
            declare.accept(new FlowRequest(key.job, name, from, to, OptionalLong.empty()));
            return new Flow(name, arrivals);
        });
        flow.channels.add(channel);
    }

    private static boolean has(SingleInputGate gate, RemoteInputChannel channel) {
        int index = channel.getChannelInfo().getInputChannelIdx();
        return index < gate.getNumberOfInputChannels() && gate.getChannel(index) == channel;
    }

    private static Endpoint endpoint(InetSocketAddress address) {
        return new Endpoint(address.getAddress().getHostAddress(), address.getPort());
    }

    /** A task has ended, or doesn't read there any more. */
    synchronized void end(RemoteInputChannel channel) {
        flows.values().forEach(flow -> flow.end(channel));
    }

    /** What is done every second. */
    synchronized void look() {
        // The last samples of those that have ended are the exact ones.
        Map<String, List<Sample>> samples = new HashMap<>();
        flows.forEach((key, flow) -> flow.sample(buffer).ifPresent(
                sample -> samples.computeIfAbsent(key.job, none -> new ArrayList<>()).add(sample)));
        samples.forEach((job, all) -> declare.accept(new Streams(job, all)));
        flows.entrySet().removeIf(entry -> {
            Flow flow = entry.getValue();
            boolean isOver = flow.channels.isEmpty() || !flow.arrivals.isOpen();
            if (isOver) {
                declare.accept(new FlowComplete(entry.getKey().job, flow.name));
            }
            return isOver;
        });
        tasks.values().forEach(groups -> groups.removeIf(AbstractMetricGroup::isClosed));
        tasks.entrySet().removeIf(entry -> {
            boolean isOver = entry.getValue().isEmpty();
            if (isOver) {
                declare.accept(new JobComplete(entry.getKey()));
            }
            return isOver;
        });
    }

    /** All have ended. */
    @Override
    public synchronized void close() {
        timer.shutdownNow();
        tasks.keySet().forEach(job -> declare.accept(new JobComplete(job)));
    }

    /** What a job receives on a connection. */
    private static final class Flow {
        private final String name;
        private final Arrivals arrivals;
        private final Set<RemoteInputChannel> channels = new HashSet<>();
        /** What had arrived for those that have ended. */
        private long ended;

        Flow(String name, Arrivals arrivals) {
            this.name = name;
            this.arrivals = arrivals;
        }

        void end(RemoteInputChannel channel) {
            if (channels.remove(channel)) {
                ended += arrivals.of(channel.getInputChannelId()).map(Arrived::octets).orElse(0L);
                arrivals.forget(channel.getInputChannelId());
            }
        }

        /** How it stands; empty where that isn't known. */
        Optional<Sample> sample(int buffer) {
            List<Arrived> arrived = channels.stream().map(RemoteInputChannel::getInputChannelId).map(arrivals::of)
                    .flatMap(Optional::stream).toList();
            if (arrived.size() < channels.size()) {
                return Optional.empty();
            }
            long delivered = ended + arrived.stream().mapToLong(Arrived::octets).sum();
            long buffers = arrived.stream().mapToLong(Arrived::backlog).sum();
            long received = channels.stream().mapToLong(RemoteInputChannel::unsynchronizedGetSizeOfQueuedBuffers).sum();
            return Optional.of(new Sample(name, delivered, buffers * buffer, received));
        }
    }
}
