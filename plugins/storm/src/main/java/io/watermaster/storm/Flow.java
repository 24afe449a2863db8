package io.watermaster.storm;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.Sample;
import java.net.InetSocketAddress;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.storm.shade.io.netty.buffer.ByteBuf;
import org.apache.storm.shade.io.netty.channel.Channel;
import org.apache.storm.shade.io.netty.channel.ChannelHandlerContext;
import org.apache.storm.shade.io.netty.channel.ChannelOutboundHandlerAdapter;
import org.apache.storm.shade.io.netty.channel.ChannelPromise;

/**
 * A connection to another worker, from when it stands until it closes. It sees what goes into the connection's buffer,
 * a batch of tuples at a time, on the connection's thread; any thread may take samples.
 */
final class Flow extends ChannelOutboundHandlerAdapter {
    private final String name;
    /** As {@link SendQueues} calls it. */
    private final String connection;
    /** What went into the buffer, and of that what the kernel took. The connection's thread alone writes them. */
    private volatile long written;
    private volatile long taken;
    /** What was sampled last. The sampling thread's own. */
    private long delivered;

    private Flow(String name, InetSocketAddress source, InetSocketAddress destination) {
        this.name = name;
        connection = SendQueues.name(source, destination);
    }

    /** Declares a connection that stands, has it seen, and declares its end. Meanwhile it is among {@code open}. */
    static void begin(Channel channel, String job, Set<Flow> open, Consumer<Declaration> declare) {
        if (!(channel.localAddress() instanceof InetSocketAddress source)
                || !(channel.remoteAddress() instanceof InetSocketAddress destination)) {
            return; // closed already
        }
        Endpoint from = endpoint(source);
        Endpoint to = endpoint(destination);
        Flow flow = new Flow(from.host() + ":" + from.port() + "-" + to.host() + ":" + to.port(), source, destination);
        // First of all: after encryption.
        channel.pipeline().addFirst(flow);
        declare.accept(new FlowRequest(job, flow.name, from, to, OptionalLong.empty()));
        open.add(flow);
        // After what was declared above, also where it has closed in the meantime.
        channel.closeFuture().addListener(closed -> Watermaster.quietly(() -> {
            open.remove(flow);
            declare.accept(new FlowComplete(job, flow.name));
        }));
    }

    private static Endpoint endpoint(InetSocketAddress address) {
        return new Endpoint(address.getAddress().getHostAddress(), address.getPort());
    }

    @Override
    public void write(ChannelHandlerContext context, Object message, ChannelPromise promise) throws Exception {
        ChannelPromise told = promise;
        if (message instanceof ByteBuf octets) {
            int length = octets.readableBytes();
            written += length;
            told = promise.unvoid();
            told.addListener(done -> {
                if (done.isSuccess()) {
                    taken += length;
                }
            });
        }
        super.write(context, message, told);
    }

    String connection() {
        return connection;
    }

    /** How it stands: what has arrived, and what waits in the buffer. {@code queues} is what the kernel holds just now. */
    Sample sample(SendQueues queues) {
        // In this order what waits isn't below zero.
        long passed = taken;
        delivered = Math.max(delivered, passed - queues.of(connection));
        return new Sample(name, delivered, written - passed, 0);
    }
}
