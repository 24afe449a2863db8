package io.watermaster.storm;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;

/**
 * What Linux holds of TCP connections at their senders: what it took and has not seen acknowledged, in octets of payload.
 * It is read from {@code /proc/net/tcp} and {@code tcp6}, which list all connections of the network namespace.
 */
final class SendQueues {
    /** More connections than these aren't read in a file, so that a look stays short. */
    private static final int MOST = 4096;
    private static final HexFormat HEX = HexFormat.of().withUpperCase();

    /** What stands before an address of IPv4 in {@code tcp6}. */
    private static final String MAPPED = mapped();

    private final Map<String, Long> queues = new HashMap<>();

    private SendQueues() {}

    /** How they stand now. Empty on other systems. */
    static SendQueues now() {
        SendQueues now = new SendQueues();
        now.read(Path.of("/proc/self/net/tcp"));
        now.read(Path.of("/proc/self/net/tcp6"));
        return now;
    }

    /** What waits of a connection; zero where that isn't known. */
    long of(InetSocketAddress source, InetSocketAddress destination) {
        return queues.getOrDefault(name(source) + " " + name(destination), 0L);
    }

    private void read(Path file) {
        try (BufferedReader lines = Files.newBufferedReader(file, StandardCharsets.US_ASCII)) {
            lines.readLine(); // names of columns
            String line;
            for (int count = 0; count < MOST && (line = lines.readLine()) != null; count++) {
                // Number, own end, other end, state, unacknowledged:unread.
                String[] words = line.stripLeading().split(" +", 6);
                long queue = Long.parseLong(words[4], 0, words[4].indexOf(':'), 16);
                if (queue > 0) {
                    queues.put(plain(words[1]) + " " + plain(words[2]), queue);
                }
            }
        } catch (IOException | RuntimeException error) {
            // There is no such file, or it is another: nothing is known.
        }
    }

    /** An end as the files write it: the address in words of the machine's order, then the port. */
    private static String name(InetSocketAddress end) {
        InetAddress address = end.getAddress();
        ByteBuffer octets = ByteBuffer.wrap(address.getAddress());
        StringBuilder name = new StringBuilder();
        while (octets.hasRemaining()) {
            int word = octets.order(ByteOrder.nativeOrder()).getInt();
            name.append(HEX.toHexDigits(word));
        }
        return name.append(':').append(HEX.toHexDigits((short) end.getPort())).toString();
    }

    /** An address of IPv4 that is mapped into one of IPv6 as that of IPv4. */
    private static String plain(String end) {
        return end.startsWith(MAPPED) ? end.substring(MAPPED.length()) : end;
    }

    private static String mapped() {
        ByteBuffer word = ByteBuffer.wrap(new byte[] {0, 0, -1, -1}).order(ByteOrder.nativeOrder());
        return "0".repeat(16) + HEX.toHexDigits(word.getInt());
    }
}
