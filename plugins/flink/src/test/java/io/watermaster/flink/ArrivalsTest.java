package io.watermaster.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.flink.runtime.io.network.partition.consumer.InputChannelID;
import org.apache.flink.shaded.netty4.io.netty.buffer.ByteBuf;
import org.apache.flink.shaded.netty4.io.netty.buffer.Unpooled;
import org.apache.flink.shaded.netty4.io.netty.channel.embedded.EmbeddedChannel;
import org.junit.jupiter.api.Test;

class ArrivalsTest {
    private static final int MAGIC = 0xBADC0FFE;

    private final InputChannelID first = new InputChannelID();
    private final InputChannelID second = new InputChannelID();
    private final InputChannelID stranger = new InputChannelID();
    private final Arrivals arrivals = new Arrivals(new EmbeddedChannel());

    ArrivalsTest() {
        arrivals.expect(first);
        arrivals.expect(second);
    }

    private static ByteBuf data(InputChannelID receiver, int more, int backlog) {
        ByteBuf message = Unpooled.buffer().writeInt(41 + more).writeInt(MAGIC).writeByte(0);
        receiver.writeTo(message);
        return message.writeZero(12).writeInt(backlog).writeZero(more);
    }

    private static long octets(Arrivals arrivals, InputChannelID receiver) {
        return arrivals.of(receiver).orElseThrow().octets();
    }

    private static ByteBuf other(int kind, int length) {
        return Unpooled.buffer().writeInt(length).writeInt(MAGIC).writeByte(kind).writeZero(length - 9);
    }

    @Test
    void messagesAreCountedWherePartsBegin() {
        ByteBuf all = Unpooled.wrappedBuffer(data(first, 100, 3), other(9, 30), data(second, 0, 5),
                other(1, 9), data(stranger, 50, 7), data(first, 7, 2));
        for (int part = 1; part <= all.readableBytes(); part++) {
            Arrivals fresh = new Arrivals(new EmbeddedChannel());
            fresh.expect(first);
            fresh.expect(second);
            ByteBuf rest = all.duplicate();
            while (rest.isReadable()) {
                ByteBuf taken = rest.readSlice(Math.min(part, rest.readableBytes()));
                int before = taken.readableBytes();
                fresh.count(taken);
                assertEquals(before, taken.readableBytes(), "it takes nothing");
            }
            assertEquals(189, octets(fresh, first));
            assertEquals(2, fresh.of(first).orElseThrow().backlog());
            assertEquals(41, octets(fresh, second));
            assertEquals(5, fresh.of(second).orElseThrow().backlog());
            assertTrue(fresh.of(stranger).isEmpty());
        }
    }

    @Test
    void aMessageCountsAsItArrives() {
        ByteBuf message = data(first, 1000, 0);
        arrivals.count(message.readSlice(525));
        assertEquals(525, octets(arrivals, first));
        arrivals.forget(first);
        arrivals.count(message);
        arrivals.count(data(second, 5, 0));
        assertTrue(arrivals.of(first).isEmpty());
        assertEquals(46, octets(arrivals, second));
    }

    /** Of another version of the engine nothing is claimed. */
    @Test
    void whatHasAnotherFormIsNotCounted() {
        for (ByteBuf wrong : new ByteBuf[] {other(1, 9).setInt(4, 1), other(3, 9).setInt(0, 8),
                data(first, 5, 0).setInt(0, 40), data(first, 5, 0).setInt(0, -1)}) {
            Arrivals fresh = new Arrivals(new EmbeddedChannel());
            fresh.expect(first);
            fresh.count(data(first, 3, 0));
            assertEquals(44, octets(fresh, first));
            fresh.count(wrong);
            fresh.count(data(first, 3, 0));
            assertTrue(fresh.of(first).isEmpty());
        }
    }
}
