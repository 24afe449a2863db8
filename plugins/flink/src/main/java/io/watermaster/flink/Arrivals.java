package io.watermaster.flink;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.runtime.io.network.partition.consumer.InputChannelID;
import org.apache.flink.shaded.netty4.io.netty.buffer.ByteBuf;
import org.apache.flink.shaded.netty4.io.netty.channel.Channel;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelHandlerContext;
import org.apache.flink.shaded.netty4.io.netty.channel.ChannelInboundHandlerAdapter;

/**
 * A connection to another TaskManager: counts what arrives by whom it is for, on the connection's thread. Tasks of
 * several jobs share a connection, and its messages alone say whose they are.
 *
 * <p>A message begins with its length (4 octets), a number that all have (4) and its kind (1). In one with data the
 * input channel that it is for (16) comes next.
 */
final class Arrivals extends ChannelInboundHandlerAdapter {
    private static final int MAGIC = 0xBADC0FFE;
    private static final byte DATA = 0;
    private static final int HEAD = 9;
    private static final int HEAD_OF_DATA = HEAD + 16;

    private final Channel channel;
    private final Map<InputChannelID, AtomicLong> octets = new ConcurrentHashMap<>();
    /** The head that is being read, up to its position. */
    private final ByteBuffer head = ByteBuffer.allocate(HEAD_OF_DATA);
    /** How much is to come of the message that is being read after its head, and where it is counted. */
    private long rest;
    private AtomicLong counter;
    /** Whether it is no longer known where messages begin. */
    private volatile boolean isLost;

    Arrivals(Channel channel) {
        this.channel = channel;
    }

    /** Of the other TaskManager; null where it has closed. */
    InetSocketAddress source() {
        return channel.remoteAddress() instanceof InetSocketAddress address ? address : null;
    }

    /** Of this one; null where it has closed. */
    InetSocketAddress destination() {
        return channel.localAddress() instanceof InetSocketAddress address ? address : null;
    }

    boolean isOpen() {
        return channel.isActive();
    }

    /** Begins to count what is for an input channel. */
    void expect(InputChannelID receiver) {
        octets.putIfAbsent(receiver, new AtomicLong());
    }

    /** What has arrived for an input channel, octets; empty where it isn't known. */
    OptionalLong of(InputChannelID receiver) {
        AtomicLong count = octets.get(receiver);
        return isLost || count == null ? OptionalLong.empty() : OptionalLong.of(count.get());
    }

    void forget(InputChannelID receiver) {
        octets.remove(receiver);
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) throws Exception {
        if (message instanceof ByteBuf data && !isLost) {
            Watermaster.quietly(() -> count(data));
        }
        super.channelRead(context, message);
    }

    /** Reads without taking. */
    void count(ByteBuf data) {
        int at = data.readerIndex();
        int end = data.writerIndex();
        while (at < end && !isLost) {
            if (rest == 0) {
                head.put(data.getByte(at++));
                look();
            } else {
                int part = (int) Math.min(rest, end - at);
                if (counter != null) {
                    counter.addAndGet(part);
                }
                rest -= part;
                at += part;
            }
        }
    }

    /** Looks at as much as there is of a head. */
    private void look() {
        if (head.position() == HEAD) {
            boolean isData = head.get(8) == DATA;
            isLost = head.getInt(4) != MAGIC || head.getInt(0) < (isData ? HEAD_OF_DATA : HEAD);
            if (isLost) {
                Watermaster.LOG.warn("Watermaster: another version of Flink; what streams deliver isn't declared");
            } else if (!isData) {
                go(HEAD, null);
            }
        } else if (head.position() == HEAD_OF_DATA) {
            counter = octets.get(new InputChannelID(head.getLong(HEAD), head.getLong(HEAD + 8)));
            if (counter != null) {
                counter.addAndGet(HEAD_OF_DATA);
            }
            go(HEAD_OF_DATA, counter);
        }
    }

    private void go(int length, AtomicLong to) {
        rest = head.getInt(0) - length;
        counter = to;
        head.clear();
    }
}
