package io.watermaster.flink;

import java.io.IOException;
import java.lang.reflect.Field;
import org.apache.flink.runtime.event.TaskEvent;
import org.apache.flink.runtime.io.network.ConnectionID;
import org.apache.flink.runtime.io.network.ConnectionManager;
import org.apache.flink.runtime.io.network.PartitionRequestClient;
import org.apache.flink.runtime.io.network.netty.NettyMessageClientDecoderDelegate;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.ResultSubpartitionIndexSet;
import org.apache.flink.runtime.io.network.partition.consumer.RemoteInputChannel;
import org.apache.flink.shaded.netty4.io.netty.channel.Channel;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelPipeline;

/** The engine's own connections to other TaskManagers, which tell what is asked for and what arrives on them. */
record Connections(ConnectionManager inner, Flows flows) implements ConnectionManager {
    @Override
    public PartitionRequestClient createPartitionRequestClient(ConnectionID connection)
            throws IOException, InterruptedException {
        PartitionRequestClient client = inner.createPartitionRequestClient(connection);
        Requests requests = new Requests(client, flows);
        // Before anything is asked for: what arrives is read from its beginning.
        Watermaster.quietly(() -> requests.arrivals = arrivals(client));
        return requests;
    }

    private static Arrivals arrivals(PartitionRequestClient client) throws ReflectiveOperationException {
        // There is no other way to it.
        Field field = client.getClass().getDeclaredField("tcpChannel");
        field.setAccessible(true);
        Channel channel = (Channel) field.get(client);
        ChannelPipeline pipeline = channel.pipeline();
        // Several tasks may have been given the same one.
        synchronized (channel) {
            Arrivals arrivals = pipeline.get(Arrivals.class);
            if (arrivals == null) {
                arrivals = new Arrivals(channel);
                // After decryption.
                String reader = pipeline.context(NettyMessageClientDecoderDelegate.class).name();
                pipeline.addBefore(reader, "watermaster", arrivals);
            }
            return arrivals;
        }
    }

    @Override
    public int start() throws IOException {
        return inner.start();
    }

    @Override
    public void closeOpenChannelConnections(ConnectionID connection) {
        inner.closeOpenChannelConnections(connection);
    }

    @Override
    public int getNumberOfActiveConnections() {
        return inner.getNumberOfActiveConnections();
    }

    @Override
    public void shutdown() throws IOException {
        inner.shutdown();
    }

    /** What a task asks another TaskManager for. */
    private static final class Requests implements PartitionRequestClient {
        private final PartitionRequestClient inner;
        private final Flows flows;
        /** Null where the engine has another kind of connection. */
        private Arrivals arrivals;

        Requests(PartitionRequestClient inner, Flows flows) {
            this.inner = inner;
            this.flows = flows;
        }

        @Override
        public void requestSubpartition(ResultPartitionID partition, ResultSubpartitionIndexSet parts,
                RemoteInputChannel channel, int delay) throws IOException {
            if (arrivals != null) {
                Watermaster.quietly(() -> flows.begin(channel, arrivals));
            }
            inner.requestSubpartition(partition, parts, channel, delay);
        }

        @Override
        public void close(RemoteInputChannel channel) throws IOException {
            Watermaster.quietly(() -> flows.end(channel));
            inner.close(channel);
        }

        @Override
        public void notifyCreditAvailable(RemoteInputChannel channel) {
            inner.notifyCreditAvailable(channel);
        }

        @Override
        public void notifyNewBufferSize(RemoteInputChannel channel, int size) {
            inner.notifyNewBufferSize(channel, size);
        }

        @Override
        public void notifyRequiredSegmentId(RemoteInputChannel channel, int subpartition, int segment) {
            inner.notifyRequiredSegmentId(channel, subpartition, segment);
        }

        @Override
        public void resumeConsumption(RemoteInputChannel channel) {
            inner.resumeConsumption(channel);
        }

        @Override
        public void acknowledgeAllRecordsProcessed(RemoteInputChannel channel) {
            inner.acknowledgeAllRecordsProcessed(channel);
        }

        @Override
        public void sendTaskEvent(ResultPartitionID partition, TaskEvent event, RemoteInputChannel channel)
                throws IOException {
            inner.sendTaskEvent(partition, event, channel);
        }
    }
}
