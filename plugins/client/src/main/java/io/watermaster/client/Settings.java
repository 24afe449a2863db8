package io.watermaster.client;

import io.watermaster.client.Declaration.JobTerms;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * What an engine's configuration says.
 *
 * @param controllers where controllers listen, of which one leads; one at least
 * @param name       the application
 * @param tls        certificates, where the controller is reached with TLS
 * @param room       what the queue holds, and the session after it
 * @param terms      what all jobs that are started ask for; of a job without a name
 */
record Settings(List<Address> controllers, String name, Optional<Tls> tls, int room, Optional<JobTerms> terms) {
    private static final int ROOM = 1 << 16;
    private static final int MOST_ROOM = 1 << 20;
    private static final int MOST_CONTROLLERS = 16;
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_.-]{1,64}");
    private static final Pattern TCP =
            Pattern.compile("(https?)://(\\[[0-9A-Fa-f:.]+]|[^\\[\\]/:@?#\\s]+):([0-9]{1,5})/?");
    private static final Pattern PRIVATE_KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]*)-----END PRIVATE KEY-----");

    /** A value that can't be used; the message has its key and the remedy. */
    static final class Wrong extends Exception {
        private static final long serialVersionUID = 1;

        Wrong(String message) {
            super(message);
        }

        Wrong(String key, String value, String remedy) {
            super(key + " is \"" + value + "\"; " + remedy);
        }
    }

    /** Where a controller listens. */
    sealed interface Address {
        /** By a Unix socket. */
        record Unix(Path path) implements Address {
            @Override
            public String toString() {
                return "unix:" + path;
            }
        }

        /** By TCP, with or without TLS. A host that is an address of version 6 has no brackets here. */
        record Tcp(String host, int port, boolean isTls) implements Address {
            @Override
            public String toString() {
                String shown = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
                return (isTls ? "https://" : "http://") + shown + ":" + port;
            }
        }
    }

    /**
     * Reads the values of keys that begin with {@code prefix}; null stands for one that isn't set.
     *
     * @return empty where no controller is named
     * @throws Wrong a value can't be used
     */
    static Optional<Settings> read(String prefix, Function<String, String> values) throws Wrong {
        String controller = values.apply(prefix + "controller");
        if (controller == null || controller.isBlank()) {
            return Optional.empty();
        }
        List<Address> controllers = new ArrayList<>();
        for (String one : controller.split(",", -1)) {
            controllers.add(address(prefix + "controller", one.strip()));
        }
        if (controllers.size() > MOST_CONTROLLERS) {
            throw new Wrong(prefix + "controller", controller, "name " + MOST_CONTROLLERS + " at most");
        }
        String name = text(prefix + "name", values, "");
        if (!NAME.matcher(name).matches()) {
            String remedy = "name the application by 1 to 64 letters, digits, -, _ and .";
            throw new Wrong(prefix + "name", name, remedy);
        }
        String room = text(prefix + "queue", values, Integer.toString(ROOM));
        if (!room.matches("[1-9][0-9]{0,6}") || Integer.parseInt(room) > MOST_ROOM) {
            throw new Wrong(prefix + "queue", room, "write a number from 1 to " + MOST_ROOM);
        }
        Optional<Tls> tls = Optional.empty();
        if (controllers.stream().anyMatch(address -> address instanceof Address.Tcp tcp && tcp.isTls())) {
            tls = Optional.of(new Tls(File.of(prefix + "certificate", values), File.of(prefix + "key", values),
                    File.of(prefix + "ca", values)));
        }
        try {
            Optional<JobTerms> terms = JobTerms.read("", prefix, values);
            return Optional.of(new Settings(List.copyOf(controllers), name, tls, Integer.parseInt(room), terms));
        } catch (IllegalArgumentException wrong) {
            throw new Wrong(wrong.getMessage());
        }
    }

    private static String text(String key, Function<String, String> values, String otherwise) {
        String value = values.apply(key);
        return value == null ? otherwise : value.strip();
    }

    private static Address address(String key, String value) throws Wrong {
        if (value.matches("unix:/.+")) {
            return new Address.Unix(Path.of(value.substring("unix:".length())));
        }
        Matcher tcp = TCP.matcher(value);
        if (!tcp.matches() || Integer.parseInt(tcp.group(3)) > 0xffff) {
            throw new Wrong(key, value, "write unix:/PATH, https://HOST:PORT or http://HOST:PORT");
        }
        String host = tcp.group(2).replaceAll("[\\[\\]]", "");
        boolean isTls = tcp.group(1).equals("https");
        if (!isTls && !host.matches("localhost|127(\\.[0-9]{1,3}){3}|::1")) {
            throw new Wrong(key, value, "http is for this machine alone; write https://HOST:PORT");
        }
        return new Address.Tcp(host, Integer.parseInt(tcp.group(3)), isTls);
    }

    /** A file, and the key that names it. */
    record File(String key, String path) {
        static File of(String key, Function<String, String> values) throws Wrong {
            String path = text(key, values, "");
            if (path.isEmpty()) {
                throw new Wrong(key, path, "name a PEM file; `watermaster certs` makes them");
            }
            return new File(key, path);
        }

        private Wrong wrong(Exception why) {
            return new Wrong(key, path, "it can't be used (" + why + "); name a PEM file that this process may read");
        }

        Collection<? extends Certificate> certificates() throws Wrong {
            try (InputStream in = Files.newInputStream(Path.of(path))) {
                Collection<? extends Certificate> found =
                        CertificateFactory.getInstance("X.509").generateCertificates(in);
                if (found.isEmpty()) {
                    throw new IOException("no certificate is in it");
                }
                return found;
            } catch (IOException | GeneralSecurityException | RuntimeException why) {
                throw wrong(why);
            }
        }

        PrivateKey privateKey(String algorithm) throws Wrong {
            try {
                Matcher body = PRIVATE_KEY.matcher(Files.readString(Path.of(path)));
                if (!body.find()) {
                    throw new IOException("no PRIVATE KEY is in it; `openssl pkcs8 -topk8 -nocrypt` makes one");
                }
                byte[] octets = Base64.getMimeDecoder().decode(body.group(1));
                return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(octets));
            } catch (IOException | GeneralSecurityException | RuntimeException why) {
                throw wrong(why);
            }
        }
    }

    /**
     * Certificates: our own with those between it and the authority, its private key in PKCS#8, and the authority that
     * must have signed the controller's. All are PEM.
     */
    record Tls(File certificate, File key, File ca) {
        /**
         * Reads the files.
         *
         * @throws Wrong one can't be used
         */
        SSLContext context() throws Wrong {
            Certificate[] chain = certificate.certificates().toArray(new Certificate[0]);
            PrivateKey privateKey = key.privateKey(chain[0].getPublicKey().getAlgorithm());
            Collection<? extends Certificate> authorities = ca.certificates();
            try {
                KeyStore store = KeyStore.getInstance("PKCS12");
                store.load(null, null);
                store.setKeyEntry("own", privateKey, new char[0], chain);
                KeyManagerFactory own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
                own.init(store, new char[0]);
                KeyStore trusted = KeyStore.getInstance("PKCS12");
                trusted.load(null, null);
                for (Certificate authority : authorities) {
                    trusted.setCertificateEntry("ca" + trusted.size(), authority);
                }
                TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                trust.init(trusted);
                SSLContext context = SSLContext.getInstance("TLS");
                context.init(own.getKeyManagers(), trust.getTrustManagers(), null);
                return context;
            } catch (IOException | GeneralSecurityException why) {
                throw certificate.wrong(why);
            }
        }
    }
}
