package io.watermaster.client;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.watermaster.client.Settings.Address;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The controller itself beside a test, with two hosts, h0 at 10.0.0.1 and h1 at 10.0.0.2. */
public final class Controller implements AutoCloseable {
    static final String PROGRAM = System.getenv("WATERMASTER");

    private final Path folder;
    private final Process process;
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    private final String http;

    /**
     * Starts it, and waits until it is ready. Where the environment variable WATERMASTER doesn't name the program, the
     * test is skipped.
     *
     * @param folder what it keeps, for the one after it too
     * @param more   of its configuration
     */
    public Controller(Path folder, String more) throws IOException, InterruptedException {
        assumeTrue(PROGRAM != null, "WATERMASTER names no controller");
        this.folder = folder;
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
        process = new ProcessBuilder(PROGRAM, "controller", "--config", file.toString())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(says.toFile()).start();
        try {
            until("it is ready", () -> read(says).contains("controller ready"));
            http = address(read(says));
        } catch (AssertionError never) {
            close();
            throw never;
        }
    }

    private static String address(String log) throws IOException {
        for (String line : log.split("\n")) {
            Map<?, ?> said = (Map<?, ?>) Json.read(line.getBytes(StandardCharsets.UTF_8));
            if ("HTTP".equals(said.get("message"))) {
                return (String) said.get("address");
            }
        }
        throw new AssertionError(log);
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    /** The address by which it speaks HTTP. */
    String http() {
        return http;
    }

    /** Its socket, as plug-ins are told. */
    public String socket() {
        return "unix:" + folder.resolve("controller.sock");
    }

    /** Ends it as it is meant to be ended. */
    void end() throws InterruptedException {
        process.destroy();
        assertTrue(process.waitFor(1, TimeUnit.MINUTES));
    }

    /** What it answers to a question. */
    public Object ask(String path) {
        Address address = new Address.Unix(folder.resolve("controller.sock"));
        try (Http http = new Http(address, null, Duration.ofMinutes(1), timer)) {
            return Json.read(http.ask("GET", path, new byte[0]).body());
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    /** Gives it an order, which it carries out. */
    void order(String order) {
        Address address = new Address.Unix(folder.resolve("controller.sock"));
        try (Http http = new Http(address, null, Duration.ofMinutes(1), timer)) {
            Http.Answer answer = http.ask("POST", "/v1/orders", order.getBytes(StandardCharsets.UTF_8));
            assertEquals(200, answer.status(), () -> new String(answer.body(), StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    /** Kills it. */
    @Override
    public void close() throws InterruptedException {
        timer.shutdownNow();
        process.destroyForcibly().waitFor();
    }
}
