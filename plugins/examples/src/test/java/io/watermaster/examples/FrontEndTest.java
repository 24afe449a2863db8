package io.watermaster.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declared;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class FrontEndTest {
    private static ServerSocket listener() throws IOException {
        return new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    }

    private static InetSocketAddress address(ServerSocket listener) {
        return new InetSocketAddress("127.0.0.1", listener.getLocalPort());
    }

    private static CompletableFuture<String> serve(ServerSocket listener) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return new AnswerServer(listener).serve();
            } catch (IOException broken) {
                throw new AssertionError(broken);
            }
        });
    }

    @Test
    void allThatIsAskedForComesAndIsDeclared() throws Exception {
        try (ServerSocket one = listener(); ServerSocket other = listener()) {
            List<CompletableFuture<String>> servers = List.of(serve(one), serve(other));
            Declared declared = new Declared(false);
            String line = new FrontEnd("web", declared).run(List.of(address(one), address(other)), 100, 50_000, 1);
            long answers = 0;
            for (CompletableFuture<String> server : servers) {
                answers += Long.parseLong(server.get().replaceAll("\\D", ""));
            }
            assertTrue(answers > 10, line);
            String begin = "{\"answers\": " + answers + ", \"latency_mean_s\": 0.";
            assertTrue(line.startsWith(begin), line + " after " + answers);

            assertEquals(List.of(new JobStart("web")), declared.of(JobStart.class));
            List<FlowRequest> flows = declared.of(FlowRequest.class);
            assertEquals(2, flows.size());
            assertEquals(one.getLocalPort(), flows.get(0).source().port());
            assertTrue(flows.get(0).bytes().isEmpty() && flows.get(0).destination().port() > 0);
            List<Streams> samples = declared.of(Streams.class);
            assertTrue(samples.size() >= 3, "there are " + samples.size());
            Sample last = samples.get(samples.size() - 1).samples().get(0);
            assertEquals(flows.get(0).flow(), last.flow());
            assertTrue(last.delivered() > 0);
            assertEquals(2, declared.of(FlowComplete.class).size());
            assertEquals(List.of(new JobComplete("web")), declared.of(JobComplete.class));
        }
    }

    @Test
    void aServerThatGoesIsAnError() throws Exception {
        try (ServerSocket listener = listener()) {
            CompletableFuture<Void> server = CompletableFuture.runAsync(() -> {
                try (Socket connection = listener.accept()) {
                    connection.getInputStream().read();
                } catch (IOException broken) {
                    throw new AssertionError(broken);
                }
            });
            FrontEnd front = new FrontEnd("web", new Declared(false));
            IOException wrong =
                    assertThrows(IOException.class, () -> front.run(List.of(address(listener)), 100, 1000, 60));
            assertTrue(wrong.getMessage().startsWith("from-127.0.0.1:"), wrong.getMessage());
            server.get();
        }
    }

    @Test
    void aRequestOutOfRangeEndsItsConnection() throws Exception {
        try (ServerSocket listener = listener()) {
            CompletableFuture<String> server = serve(listener);
            try (Socket socket = new Socket("127.0.0.1", listener.getLocalPort())) {
                socket.getOutputStream().write(new byte[] {-1, 0, 0, 0});
                assertEquals(-1, socket.getInputStream().read());
            }
            assertEquals("{\"answers\": 0}", server.get());
        }
    }
}
