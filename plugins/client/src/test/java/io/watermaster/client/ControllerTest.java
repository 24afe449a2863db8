package io.watermaster.client;

import static io.watermaster.client.Stub.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Settings.Address;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The client against the controller itself, which the environment variable WATERMASTER names. */
class ControllerTest {
    private static final String PROGRAM = System.getenv("WATERMASTER");
    private static final Duration LONG = Duration.ofMinutes(1);

    @TempDir
    Path folder;
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    private final List<String> log = new CopyOnWriteArrayList<>();
    private final List<Client> clients = new ArrayList<>();
    private Process controller;

    @BeforeEach
    void isThere() {
        assumeTrue(PROGRAM != null, "WATERMASTER names no controller");
    }

    @AfterEach
    void end() {
        clients.forEach(client -> client.close(Duration.ZERO));
        timer.shutdownNow();
        if (controller != null) {
            controller.destroyForcibly();
        }
    }

    /** Starts the controller; the address by which it speaks HTTP. */
    private String start(String more) throws Exception {
        String config = """
                state = "state"
                log = { format = "json" }
                [listen]
                http = "127.0.0.1:0"
                socket = "controller.sock"
                [policy]
                name = "smsf"
                [topology]
                kind = "star"
                hosts = 2
                access = { capacity = "100 Mbit/s", delay = "10 us" }
                [[host]]
                name = "h0"
                addresses = ["10.0.0.1"]
                [[host]]
                name = "h1"
                addresses = ["10.0.0.2"]
                """;
        Path file = Files.writeString(folder.resolve("controller.toml"), config + more);
        Path says = folder.resolve("controller.log");
        Files.deleteIfExists(says);
        controller = new ProcessBuilder(PROGRAM, "controller", "--config", file.toString())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(says.toFile()).start();
        until("it is ready", () -> read(says).contains("controller ready"));
        for (String line : read(says).split("\n")) {
            Map<?, ?> said = (Map<?, ?>) Json.read(line.getBytes(StandardCharsets.UTF_8));
            if ("HTTP".equals(said.get("message"))) {
                return (String) said.get("address");
            }
        }
        throw new AssertionError(read(says));
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    private Client client(String address) {
        return client(Map.of("controller", address, "name", "test"));
    }

    private Client client(Map<String, String> values) {
        Client client = Client.start("", values::get, log::add);
        clients.add(client);
        return client;
    }

    private String socket() {
        return "unix:" + folder.resolve("controller.sock");
    }

    /** What the controller answers to a question. */
    private Object ask(String path) {
        Address address = new Address.Unix(folder.resolve("controller.sock"));
        try (Http http = new Http(address, null, LONG, timer)) {
            return Json.read(http.ask("GET", path, new byte[0]).body());
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    private List<Object> flows() {
        List<Object> flows = new ArrayList<>();
        for (Object flow : (List<?>) ask("/v1/flows")) {
            flows.add(((Map<?, ?>) flow).get("flow"));
        }
        return flows;
    }

    private static FlowRequest request(String flow) {
        return new FlowRequest("sort", flow, new Endpoint("10.0.0.1", 13562),
                new Endpoint("10.0.0.2", 0, OptionalLong.of(71)),
                OptionalLong.of(8_000_000));
    }

    @Test
    void twoProcessesDeclareAJobThroughARestart() throws Exception {
        String http = start("");
        Client member = client("http://" + http);
        member.declare(new JobJoin("sort"));
        member.declare(new Size("sort", 0, List.of(new Portion(1, 8_000_000))));
        member.declare(request("r1<-m0"));
        member.declare(request("r1<-m2"));
        until("it is connected", () -> member.account().connections() == 1);
        Client owner = client(socket());
        owner.declare(new JobComplete("sort"));
        owner.declare(new JobStart("sort"));
        owner.declare(new TaskHost("sort", 0, "10.0.0.1"));
        owner.declare(new TaskHost("sort", 1, "h1"));
        owner.declare(new TaskHost("sort", 2, "no such host"));
        until("all is known", () -> flows().equals(List.of("r1<-m0", "r1<-m2")));
        until("all is answered", () -> owner.account().taken() == 3 && member.account().taken() == 3);
        assertEquals(1, owner.account().refused(), "the host that nobody knows");
        member.declare(new FlowComplete("sort", "r1<-m2"));
        until("it has ended", () -> flows().equals(List.of("r1<-m0")));

        controller.destroyForcibly().waitFor();
        start("");
        assertEquals(2L, ((Map<?, ?>) ask("/v1/health")).get("epoch"));
        until("it connects by the socket", () -> owner.account().connections() == 2);
        // The other listens on another port now.
        Client again = client(socket());
        again.declare(new JobJoin("sort"));
        again.declare(request("r1<-m0"));
        until("all is known again", () -> flows().equals(List.of("r1<-m0")));
        owner.declare(new JobComplete("sort"));
        owner.close(LONG);
        until("it has ended", () -> flows().isEmpty());
        assertEquals(0, member.account().refused() + again.account().refused());
    }

    @Test
    void anApplicationShowsItsCertificate() throws Exception {
        Process certs = new ProcessBuilder(PROGRAM, "certs", "--directory", folder.resolve("certs").toString(),
                "--controller", "main=127.0.0.1", "--application", "test", "--application", "other")
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        assertEquals(0, certs.waitFor());
        String address = start("""
                [tls]
                ca = "certs/ca.crt"
                certificate = "certs/controller-main.crt"
                key = "certs/controller-main.key"
                """);
        Map<String, String> values = new HashMap<>(Map.of("controller", "https://" + address, "name", "test",
                "certificate", folder.resolve("certs/application-test.crt").toString(),
                "key", folder.resolve("certs/application-test.key").toString(),
                "ca", folder.resolve("certs/ca.crt").toString()));
        Client client = client(values);
        client.declare(new JobStart("sort"));
        until("it is taken", () -> client.account().taken() == 1);
        values.put("name", "other");
        Client another = client(values);
        another.declare(new JobStart("sort"));
        until("it is refused", () -> another.account().fault().isPresent());
        assertEquals("the controller answers 403", another.account().fault().get().substring(0, 26));
        assertEquals(0, another.account().taken());
        controller.destroy();
        assertEquals(true, controller.waitFor(30, TimeUnit.SECONDS));
    }
}
