package io.watermaster.client;

import static io.watermaster.client.Declared.until;
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
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The client against the controller itself, which the environment variable WATERMASTER names. */
class ControllerTest {
    private static final Duration LONG = Duration.ofMinutes(1);

    @TempDir
    Path folder;
    private final List<String> log = new CopyOnWriteArrayList<>();
    private final List<Client> clients = new ArrayList<>();

    @AfterEach
    void end() {
        clients.forEach(client -> client.close(Duration.ZERO));
    }

    private Client client(String address) {
        return client(Map.of("controller", address, "name", "test"));
    }

    private Client client(Map<String, String> values) {
        Client client = Client.start("", values::get, log::add);
        clients.add(client);
        return client;
    }

    private static List<Object> flows(Controller controller) {
        List<Object> flows = new ArrayList<>();
        for (Object flow : (List<?>) controller.ask("/v1/flows")) {
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
        try (Controller controller = new Controller(folder, "")) {
            Client member = client("http://" + controller.http());
            member.declare(new JobJoin("sort"));
            member.declare(new Size("sort", 0, List.of(new Portion(1, 8_000_000))));
            member.declare(request("r1<-m0"));
            member.declare(request("r1<-m2"));
            until("it is connected", () -> member.account().connections() == 1);
            Client owner = client(controller.socket());
            owner.declare(new JobComplete("sort"));
            owner.declare(new JobStart("sort"));
            owner.declare(new TaskHost("sort", 0, "10.0.0.1"));
            owner.declare(new TaskHost("sort", 1, "h1"));
            owner.declare(new TaskHost("sort", 2, "no such host"));
            until("all is known", () -> flows(controller).equals(List.of("r1<-m0", "r1<-m2")));
            until("all is answered", () -> owner.account().taken() == 3 && member.account().taken() == 3);
            assertEquals(1, owner.account().refused(), "the host that nobody knows");
            member.declare(new FlowComplete("sort", "r1<-m2"));
            until("it has ended", () -> flows(controller).equals(List.of("r1<-m0")));
            controller.close();

            try (Controller next = new Controller(folder, "")) {
                assertEquals(2L, ((Map<?, ?>) next.ask("/v1/health")).get("epoch"));
                until("it connects by the socket", () -> owner.account().connections() == 2);
                // The other listens on another port now.
                Client again = client(next.socket());
                again.declare(new JobJoin("sort"));
                again.declare(request("r1<-m0"));
                until("all is known again", () -> flows(next).equals(List.of("r1<-m0")));
                owner.declare(new JobComplete("sort"));
                owner.close(LONG);
                until("it has ended", () -> flows(next).isEmpty());
                assertEquals(0, member.account().refused() + again.account().refused());
            }
        }
    }

    /** By a new connection they hear that they were forgotten; while one is blocked nothing of it is given up. */
    @Test
    void whatAnOperatorEndsIsDeclaredAgain() throws Exception {
        try (Controller controller = new Controller(folder, "")) {
            Client owner = client(controller.socket());
            Client member = client(controller.socket());
            owner.declare(new JobStart("sort"));
            member.declare(new JobJoin("sort"));
            member.declare(request("r1<-m0"));
            until("it is known", () -> flows(controller).equals(List.of("r1<-m0")));
            List<String> orders = List.of("{\"type\":\"evict\",\"application\":\"test\"}",
                    "{\"type\":\"cancel\",\"application\":\"test\",\"job\":\"sort\"}",
                    "{\"type\":\"block\",\"application\":\"test\"}");
            for (String order : orders) {
                controller.order(order);
                if (order.contains("block")) {
                    // What is new waits with the rest, and its reason is told.
                    owner.declare(new TaskHost("sort", 0, "h0"));
                    until("it is told why", () -> owner.account().fault().orElse("").contains("is blocked"));
                    assertEquals(List.of(), flows(controller));
                    controller.order("{\"type\":\"unblock\",\"application\":\"test\"}");
                }
                // A client that has nothing to say hears of it when it asks the next time, after 20 s at most.
                owner.declare(new TaskHost("sort", 1, "h" + order.length() % 2));
                member.declare(new Size("sort", 0, List.of(new Portion(1, order.length()))));
                until("all is known again", () -> flows(controller).equals(List.of("r1<-m0")));
            }
            assertEquals(0, owner.account().refused() + member.account().refused());
        }
    }

    @Test
    void aJobAsksForWhatTheConfigurationSays() throws Exception {
        try (Controller controller = new Controller(folder, "")) {
            Client client = client(Map.of("controller", controller.socket(), "name", "test", "objective", "report",
                    "deadline", "35 s"));
            client.declare(new JobStart("sort"));
            until("both are taken", () -> client.account().taken() == 2);
            Map<?, ?> terms = (Map<?, ?>) ((Map<?, ?>) controller.ask("/v1/explain/test/sort")).get("terms");
            assertEquals("report", terms.get("objective"));
            assertEquals(35_000L, terms.get("deadline_ms"));
            assertEquals(1L, terms.get("weight"));
        }
    }

    @Test
    void anApplicationShowsItsCertificate() throws Exception {
        assumeTrue(Controller.PROGRAM != null, "WATERMASTER names no controller");
        Process certs = new ProcessBuilder(Controller.PROGRAM, "certs",
                "--directory", folder.resolve("certs").toString(),
                "--controller", "main=127.0.0.1", "--application", "test", "--application", "other")
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        assertEquals(0, certs.waitFor());
        String more = """
                [tls]
                ca = "certs/ca.crt"
                certificate = "certs/controller-main.crt"
                key = "certs/controller-main.key"
                """;
        try (Controller controller = new Controller(folder, more)) {
            Map<String, String> values = new HashMap<>(Map.of("controller", "https://" + controller.http(),
                    "name", "test",
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
            controller.end();
        }
    }
}
