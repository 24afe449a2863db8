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
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What Linux holds of TCP connections at their senders: what it took and has not seen acknowledged, in octets of payload.
 * It is read from {@code /proc/net/tcp6} and {@code tcp}, which list all connections of the network namespace. The kernel
 * walks a large table for each, some 5 ms where memory is plenty: no more is read than until all are found.
 */
final class SendQueues {
    /** More connections than these aren't read in a file, so that a look stays short. */
    private static final int MOST = 4096;
    private static final HexFormat HEX = HexFormat.of().withUpperCase();

    /** What stands before an address of IPv4 in {@code tcp6}. */
    private static final String MAPPED = mapped();

    /** A socket of the JVM is one of IPv6 where it isn't told otherwise, whatever the address. */
    private static final List<Path> FILES = List.of(Path.of("/proc/self/net/tcp6"), Path.of("/proc/self/net/tcp"));

    private final Map<String, Long> queues = new HashMap<>();

    private SendQueues() {}

    /** How those of these names stand now. Empty on other systems. */
    static SendQueues now(Collection<String> names) {
        SendQueues now = new SendQueues();
        Set<String> wanted = new HashSet<>(names);
        for (Path file : FILES) {
            if (!wanted.isEmpty()) {
                now.read(file, wanted);
            }
        }
        return now;
    }

    /** What waits of a connection; zero where that isn't known. */
    long of(String name) {
        return queues.getOrDefault(name, 0L);
    }

    /** A connection as it is called here. */
    static String name(InetSocketAddress source, InetSocketAddress destination) {
        return name(source) + " " + name(destination);
    }

    /** Takes from {@code wanted} what is found. */
    private void read(Path file, Set<String> wanted) {
        try (BufferedReader lines = Files.newBufferedReader(file, StandardCharsets.US_ASCII)) {
            lines.readLine(); // names of columns
            String line;
            for (int count = 0; count < MOST && !wanted.isEmpty() && (line = lines.readLine()) != null; count++) {
                // Number, own end, other end, state, unacknowledged:unread.
                String[] words = line.stripLeading().split(" +", 6);
                String name = plain(words[1]) + " " + plain(words[2]);
                if (wanted.remove(name)) {
                    queues.put(name, Long.parseLong(words[4], 0, words[4].indexOf(':'), 16));
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
