package io.watermaster.client;

import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.TrustManagerFactory;

/** A key and a certificate for 127.0.0.1 that it signed itself: as PEM, and as a store without a password. */
record Keys(Path certificate, Path key, Path store) {
    private static final String PASSWORD = "a test's";

    static Keys make(Path folder, String name) throws Exception {
        Path store = folder.resolve(name + ".p12");
        Process made = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair", "-keyalg", "EC", "-alias", "own", "-dname", "OU=application,CN=" + name, "-ext",
                "SAN=ip:127.0.0.1", "-storetype", "PKCS12", "-storepass", PASSWORD, "-keystore", store.toString())
                        .redirectErrorStream(true).start();
        String said = new String(made.getInputStream().readAllBytes());
        if (made.waitFor() != 0) {
            throw new AssertionError(said);
        }
        KeyStore loaded = load(store);
        Path certificate = pem(folder.resolve(name + ".crt"), "CERTIFICATE", loaded.getCertificate("own").getEncoded());
        byte[] key = loaded.getKey("own", PASSWORD.toCharArray()).getEncoded();
        return new Keys(certificate, pem(folder.resolve(name + ".key"), "PRIVATE KEY", key), store);
    }

    private static KeyStore load(Path store) throws Exception {
        KeyStore loaded = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            loaded.load(in, PASSWORD.toCharArray());
        }
        return loaded;
    }

    private static Path pem(Path file, String label, byte[] octets) throws Exception {
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(octets);
        return Files.writeString(file, "-----BEGIN " + label + "-----\n" + body + "\n-----END " + label + "-----\n");
    }

    /** Listens with this certificate for those who show {@code trusted}. */
    ServerSocket listen(Keys trusted) throws Exception {
        KeyManagerFactory own = KeyManagerFactory.getInstance("PKIX");
        own.init(load(store), PASSWORD.toCharArray());
        KeyStore peers = KeyStore.getInstance("PKCS12");
        peers.load(null, null);
        peers.setCertificateEntry("peer", load(trusted.store).getCertificate("own"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(peers);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), trust.getTrustManagers(), null);
        SSLServerSocket socket = (SSLServerSocket) context.getServerSocketFactory()
                .createServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        socket.setNeedClientAuth(true);
        return socket;
    }
}
