package io.watermaster.client;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.TaskHost;
import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Optional;

/** Puts addresses in the place of names. A look-up may take seconds: it is for the client's thread alone. */
final class Hosts {
    private Hosts() {}

    /**
     * What is declared, with addresses.
     *
     * @return empty for a flow within a host, which isn't declared
     * @throws IOException a name of a flow is no host's, or its look-up takes too long
     */
    static Optional<Declaration> resolve(Declaration declaration) throws IOException {
        if (declaration instanceof TaskHost said) {
            return Optional.of(new TaskHost(said.job(), said.task(), addressOrName(said.host())));
        } else if (declaration instanceof FlowRequest said) {
            return resolve(said);
        }
        return Optional.of(declaration);
    }

    /** A controller may know by name a host that this machine can't look up, or takes for itself. */
    private static String addressOrName(String host) {
        try {
            InetAddress address = Names.SYSTEM.find(host);
            return address.isLoopbackAddress() ? host : text(address);
        } catch (UnknownHostException unknown) {
            return host;
        }
    }

    private static Optional<Declaration> resolve(FlowRequest said) throws IOException {
        InetAddress source = said.source().host().isEmpty() ? null : Names.SYSTEM.find(said.source().host());
        InetAddress destination =
                said.destination().host().isEmpty() ? null : Names.SYSTEM.find(said.destination().host());
        if (source == null && destination == null) {
            return Optional.empty();
        }
        source = source == null ? towards(destination) : source;
        destination = destination == null ? towards(source) : destination;
        if (source.equals(destination) || source.isLoopbackAddress() || destination.isLoopbackAddress()) {
            return Optional.empty();
        }
        Endpoint from = new Endpoint(text(source), said.source().port(), said.source().pid());
        Endpoint to = new Endpoint(text(destination), said.destination().port(), said.destination().pid());
        return Optional.of(new FlowRequest(said.job(), said.flow(), from, to, said.bytes()));
    }

    /** The address that this machine uses towards another; nothing is sent. */
    private static InetAddress towards(InetAddress other) throws IOException {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(other, 9));
            return socket.getLocalAddress();
        }
    }

    private static String text(InetAddress address) {
        // Without the interface that an address may be bound to.
        return address.getHostAddress().replaceFirst("%.*", "");
    }
}
