package io.watermaster.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.JobTerms;
import io.watermaster.client.Settings.Address;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SettingsTest {
    private static Map<String, String> with(String... keysAndValues) {
        Map<String, String> values = new HashMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            values.put("w." + keysAndValues[i], keysAndValues[i + 1]);
        }
        return values;
    }

    private static Optional<Settings> read(String... keysAndValues) throws Settings.Wrong {
        return Settings.read("w.", with(keysAndValues)::get);
    }

    @Test
    void addresses() throws Settings.Wrong {
        assertEquals(Optional.empty(), read("name", "a"));
        assertEquals(Optional.empty(), read("controller", " ", "name", "!"));
        Address unix = new Address.Unix(Path.of("/run/c.sock"));
        assertEquals(Optional.of(new Settings(List.of(unix), "a.b-c_1", Optional.empty(), 1 << 20, Optional.empty())),
                read("controller", " unix:/run/c.sock ", "name", "a.b-c_1", "queue", "1048576"));
        for (String address : List.of("http://127.0.0.1:1", "http://localhost:65535", "http://[::1]:7443")) {
            Settings found = read("controller", address, "name", "a").orElseThrow();
            assertEquals(address, found.controllers().get(0).toString());
            assertEquals(1 << 16, found.room());
        }
        Settings tls = read("controller", "https://ctl.example:7443/", "name", "a", "certificate", "c", "key", "k",
                "ca", "a").orElseThrow();
        assertEquals(new Address.Tcp("ctl.example", 7443, true), tls.controllers().get(0));
        assertEquals("w.key", tls.tls().orElseThrow().key().key());
        Settings several = read("controller", "http://127.0.0.1:1, https://ctl:2", "name", "a", "certificate", "c",
                "key", "k", "ca", "a").orElseThrow();
        assertEquals(List.of("http://127.0.0.1:1", "https://ctl:2"),
                several.controllers().stream().map(Address::toString).toList());
        String many = "unix:/c" + ",unix:/c".repeat(16);
        assertThrows(Settings.Wrong.class, () -> read("controller", many, "name", "a"));
    }

    @Test
    void whatJobsAskFor() throws Settings.Wrong {
        Settings all = read("controller", "unix:/c", "name", "a", "objective", " report ", "deadline", "5 min",
                "weight", "1000000").orElseThrow();
        assertEquals(Optional.of(new JobTerms("", Optional.of("report"), OptionalLong.of(300_000),
                OptionalInt.of(1_000_000))), all.terms());
        for (Map.Entry<String, Long> span : Map.of("90ms", 90L, "90 s", 90_000L, "2 h", 7_200_000L).entrySet()) {
            Settings one = read("controller", "unix:/c", "name", "a", "deadline", span.getKey()).orElseThrow();
            assertEquals(OptionalLong.of(span.getValue()), one.terms().orElseThrow().deadlineMillis());
        }
    }

    @Test
    void aWrongValueIsCalledByItsKey() {
        String unix = "unix:/c";
        for (String[] wrong : new String[][] {
            {"controller", "10.0.0.1:7443"}, {"controller", "unix:c"}, {"controller", "http://10.0.0.1:7443"},
            {"controller", "http://localhost"}, {"controller", "https://h:65536"}, {"controller", "https://a@h:1"},
            {"controller", "https://h:1/v1"}, {"controller", "http://[::1:7443"}, {"controller", "ftp://h:1"},
            {"controller", "unix:/a\u0000b"},
            {"name", "", "controller", unix}, {"name", "a b", "controller", unix},
            {"name", "a".repeat(65), "controller", unix}, {"name", "../x", "controller", unix},
            {"deadline", "90", "name", "a", "controller", unix}, {"deadline", "0 s", "name", "a", "controller", unix},
            {"deadline", "721 h", "name", "a", "controller", unix},
            {"deadline", "soon", "name", "a", "controller", unix}, {"weight", "0", "name", "a", "controller", unix},
            {"weight", "1000001", "name", "a", "controller", unix},
            {"queue", "0", "name", "a", "controller", unix}, {"queue", "-1", "name", "a", "controller", unix},
            {"queue", "1048577", "name", "a", "controller", unix}, {"queue", "many", "name", "a", "controller", unix},
            {"certificate", "", "name", "a", "controller", "https://h:1"},
            {"key", "", "certificate", "c", "name", "a", "controller", "https://h:1"},
            {"ca", "", "certificate", "c", "key", "k", "name", "a", "controller", "https://h:1"}}) {
            List<String> log = new ArrayList<>();
            Client client = Client.start("w.", with(wrong)::get, log::add);
            client.declare(new JobStart("a"));
            client.close(Duration.ZERO);
            assertEquals(Account.NONE, client.account(), "it does nothing");
            assertEquals(1, log.size(), log::toString);
            assertTrue(log.get(0).contains("w." + wrong[0] + " is \"") || log.get(0).contains("Nul"), log.get(0));
            assertTrue(log.get(0).endsWith("; nothing is declared"), log.get(0));
        }
    }

    @Test
    void aFileThatCantBeUsedIsCalledByItsKey(@TempDir Path folder) throws IOException {
        Path empty = Files.createFile(folder.resolve("empty.pem"));
        String text = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n";
        Path bad = Files.writeString(folder.resolve("bad.key"), text);
        Path old = Files.writeString(folder.resolve("old.key"), text.replace("PRIVATE", "EC PRIVATE"));
        for (Path path : List.of(empty, folder.resolve("none.pem"), old)) {
            Settings.File file = new Settings.File("w.ca", path.toString());
            assertTrue(assertThrows(Settings.Wrong.class, file::certificates).getMessage().startsWith("w.ca is "));
        }
        for (Path path : List.of(empty, folder.resolve("none.pem"), old, bad)) {
            Settings.File file = new Settings.File("w.key", path.toString());
            String said = assertThrows(Settings.Wrong.class, () -> file.privateKey("EC")).getMessage();
            assertTrue(said.startsWith("w.key is "), said);
        }
    }
}
