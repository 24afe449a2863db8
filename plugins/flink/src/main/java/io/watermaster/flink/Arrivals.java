package io.watermaster.flink;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
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
 * input channel that it is for (16) comes next, then three numbers (4 each), and how many full buffers wait behind it
 * at its sender (4).
 */
final class Arrivals extends ChannelInboundHandlerAdapter {
    private static final int MAGIC = 0xBADC0FFE;
    private static final byte DATA = 0;
    private static final int HEAD = 9;
    private static final int BACKLOG = HEAD + 16 + 3 * 4;
    private static final int HEAD_OF_DATA = BACKLOG + 4;

    private final Channel channel;
    private final Map<InputChannelID, Arrived> receivers = new ConcurrentHashMap<>();
    /** The head that is being read, up to its position. */
    private final ByteBuffer head = ByteBuffer.allocate(HEAD_OF_DATA);
    /** How much is to come of the message that is being read after its head, and where it is counted. */
    private long rest;
    private Arrived receiver;
    /** Whether it is no longer known where messages begin. */
    private volatile boolean isLost;

    /** What has arrived for an input channel. The connection's thread alone writes it. */
    static final class Arrived {
        private volatile long octets;
        private volatile int backlog;

        /** Octets of messages with data. */
        long octets() {
            return octets;
        }

        /** Full buffers that waited at the sender behind the last of them. */
        int backlog() {
            return backlog;
        }
    }

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
    void expect(InputChannelID channel) {
        receivers.putIfAbsent(channel, new Arrived());
    }

    /** What has arrived for an input channel that is expected; empty where that isn't known. */
    Optional<Arrived> of(InputChannelID channel) {
        return isLost ? Optional.empty() : Optional.ofNullable(receivers.get(channel));
    }

    void forget(InputChannelID channel) {
        receivers.remove(channel);
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
                add(part);
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
                begin(HEAD, null);
            }
        } else if (head.position() == HEAD_OF_DATA) {
            begin(HEAD_OF_DATA, receivers.get(new InputChannelID(head.getLong(HEAD), head.getLong(HEAD + 8))));
        }
    }

    /** The head has been read. */
    private void begin(int length, Arrived of) {
        receiver = of;
        add(length);
        if (receiver != null) {
            receiver.backlog = Math.max(0, head.getInt(BACKLOG));
        }
        rest = head.getInt(0) - length;
        head.clear();
    }

    private void add(int length) {
        if (receiver != null) {
            receiver.octets += length;
        }
    }
}
