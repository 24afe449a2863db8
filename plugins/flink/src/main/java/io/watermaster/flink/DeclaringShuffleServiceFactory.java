package io.watermaster.flink;

import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import java.time.Duration;
import java.util.function.Consumer;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.io.network.ConnectionManager;
import org.apache.flink.runtime.io.network.NettyShuffleEnvironment;
import org.apache.flink.runtime.io.network.NettyShuffleServiceFactory;
import org.apache.flink.runtime.io.network.netty.NettyConnectionManager;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionManager;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.shuffle.JobShuffleContext;
import org.apache.flink.runtime.shuffle.NettyShuffleDescriptor;
import org.apache.flink.runtime.shuffle.NettyShuffleMaster;
import org.apache.flink.runtime.shuffle.ShuffleEnvironment;
import org.apache.flink.runtime.shuffle.ShuffleEnvironmentContext;
import org.apache.flink.runtime.shuffle.ShuffleMaster;
import org.apache.flink.runtime.shuffle.ShuffleMasterContext;
import org.apache.flink.runtime.shuffle.ShuffleServiceFactory;
import org.apache.flink.runtime.taskmanager.NettyShuffleEnvironmentConfiguration;

/**
 * The engine's own shuffle service, which declares what goes through it. {@code shuffle-service-factory.class} names
 * it; the engine makes one in the JobManager and one in each TaskManager. Without {@code watermaster.controller} it
 * makes the engine's own services, and nothing else.
 *
 * <p>The JobManager declares that a job starts and ends. A TaskManager declares the host of each of its tasks, a stream
 * for each connection on which it receives data of a job from another TaskManager, both ports known, and every second
 * how these streams stand. It is the receiver that knows all of it, because the engine tells it with the data what
 * waits at the sender:
 * <ul>
 * <li>delivered: octets of the engine's messages with data of the job that have arrived, exact (after decryption, where
 * the engine encrypts); the receiving machine's kernel may hold some more
 * <li>the sender's queue: buffers of the sender's that waited behind the last message that has arrived, as if each were
 * full (32 KiB unless {@code taskmanager.memory.segment-size} says otherwise); not what the sender's kernel holds, nor
 * what waits in sources that the engine slows down because its buffers are full. Where the receiver has no room, no
 * message tells of what has come to wait since
 * <li>the receiver's queue: octets of buffers that have arrived and that no task has taken yet, exact; not what tasks
 * keep in their state
 * </ul>
 *
 * <p>What can't be known: which share a pair of tasks has in a connection, which the engine has one of for each ordered
 * pair of TaskManagers, whatever their tasks and jobs; and what goes another way than through the engine's shuffle
 * (sources, sinks, checkpoints, files of jobs).
 */
public class DeclaringShuffleServiceFactory
        implements ShuffleServiceFactory<NettyShuffleDescriptor, ResultPartition, SingleInputGate> {
    /** How long a client may take to say what waits. */
    private static final Duration GRACE = Duration.ofSeconds(10);

    private final NettyShuffleServiceFactory inner = new NettyShuffleServiceFactory();
    private final Consumer<Declaration> other;

    /** Made by the engine. */
    public DeclaringShuffleServiceFactory() {
        this(null);
    }

    /** With something else in the place of clients, for tests. */
    DeclaringShuffleServiceFactory(Consumer<Declaration> other) {
        this.other = other;
    }

    @Override
    public ShuffleMaster<NettyShuffleDescriptor> createShuffleMaster(ShuffleMasterContext context) {
        return Watermaster.isOn(context.getConfiguration())
                ? new Master(context, client(context.getConfiguration()))
                : inner.createShuffleMaster(context);
    }

    @Override
    public ShuffleEnvironment<ResultPartition, SingleInputGate> createShuffleEnvironment(
            ShuffleEnvironmentContext context) {
        if (Watermaster.isOn(context.getConfiguration())) {
            try {
                return declaring(context);
            } catch (LinkageError another) {
                Watermaster.LOG.warn("Watermaster: another version of Flink; of its tasks and streams nothing is"
                        + " declared", another);
            }
        }
        return inner.createShuffleEnvironment(context);
    }

    /** As the engine makes it, but for the connections. */
    private ShuffleEnvironment<ResultPartition, SingleInputGate> declaring(ShuffleEnvironmentContext context) {
        NettyShuffleEnvironmentConfiguration configuration = NettyShuffleEnvironmentConfiguration.fromConfiguration(
                context.getConfiguration(), context.getNetworkMemorySize(), context.isLocalCommunicationOnly(),
                context.getHostAddress());
        if (configuration.nettyConfig() == null) {
            return inner.createShuffleEnvironment(context); // it is alone
        }
        ResultPartitionManager partitions = new ResultPartitionManager(
                configuration.getPartitionRequestListenerTimeout(), context.getScheduledExecutor());
        ConnectionManager connections = new NettyConnectionManager(partitions, context.getEventPublisher(),
                configuration.nettyConfig(), configuration.isConnectionReuseEnabled());
        Said said = client(context.getConfiguration());
        Flows flows = new Flows(configuration.networkBufferSize(), said.declare);
        NettyShuffleEnvironment environment = NettyShuffleServiceFactory.createNettyShuffleEnvironment(configuration,
                context.getTaskExecutorResourceId(), context.getEventPublisher(), partitions,
                new Connections(connections, flows), context.getParentMetricGroup(), context.getIoExecutor(),
                context.getNumberOfSlots(), context.getTmpDirPaths());
        return new Environment(environment, flows, said::close);
    }

    private Said client(Configuration configuration) {
        return other == null ? new Said(Watermaster.client(configuration)) : new Said(other);
    }

    /** Where declarations go. */
    private static final class Said {
        private final Client client;
        private final Consumer<Declaration> declare;

        Said(Client client) {
            this.client = client;
            this.declare = client::declare;
        }

        Said(Consumer<Declaration> other) {
            this.client = null;
            this.declare = other;
        }

        void close() {
            if (client != null) {
                client.close(GRACE);
            }
        }
    }

    /** Declares that jobs start and end. */
    private static final class Master extends NettyShuffleMaster {
        private final Said said;

        Master(ShuffleMasterContext context, Said said) {
            super(context);
            this.said = said;
        }

        @Override
        public void registerJob(JobShuffleContext context) {
            Watermaster.quietly(() -> said.declare.accept(new JobStart(context.getJobId().toHexString())));
            super.registerJob(context);
        }

        @Override
        public void unregisterJob(JobID job) {
            Watermaster.quietly(() -> said.declare.accept(new JobComplete(job.toHexString())));
            super.unregisterJob(job);
        }

        @Override
        public void close() throws Exception {
            Watermaster.quietly(said::close);
            super.close();
        }
    }
}
