package io.watermaster.hadoop;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declared;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalDirAllocator;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.AMFeedback;
import org.apache.hadoop.mapred.Counters;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MROutputFiles;
import org.apache.hadoop.mapred.MapTaskCompletionEventsUpdate;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ReduceTask;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskCompletionEvent;
import org.apache.hadoop.mapred.TaskStatus;
import org.apache.hadoop.mapred.TaskUmbilicalProtocol;
import org.apache.hadoop.mapreduce.security.SecureShuffleUtils;
import org.apache.hadoop.mapreduce.task.reduce.MapHost;
import org.apache.hadoop.mapreduce.task.reduce.MapOutput;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleClientMetrics;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleHeader;
import org.apache.hadoop.util.Progress;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A reduce's shuffle with its real fetchers, from a host that serves the outputs of maps. */
class FetchTest {
    private static final SecretKey SECRET = new SecretKeySpec("a test's".getBytes(UTF_8), "HmacSHA1");
    private static final TaskAttemptID REDUCE = TaskAttemptID.forName("attempt_1700000000000_0001_r_000001_0");
    private static final String JOB = "job_1700000000000_0001";

    @TempDir
    Path folder;
    private final JobConf configuration = new JobConf();
    private final Map<String, byte[]> outputs = new HashMap<>();
    private final Map<String, Long> lengths = new HashMap<>();

    private static TaskAttemptID map(int number) {
        return TaskAttemptID.forName("attempt_1700000000000_0001_m_00000" + number + "_0");
    }

    /** A map's output for the reduce: {@code count} words. */
    private void serve(TaskAttemptID map, int count) throws IOException {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        FSDataOutputStream out = new FSDataOutputStream(octets, null);
        IFile.Writer<Text, IntWritable> writer =
                new IFile.Writer<>(configuration, out, Text.class, IntWritable.class, null, null);
        for (int i = 0; i < count; i++) {
            writer.append(new Text(String.format("%05d %s", i, map)), new IntWritable(i));
        }
        writer.close();
        outputs.put(map.toString(), octets.toByteArray());
        lengths.put(map.toString(), writer.getRawLength());
    }

    /** Serves outputs as the engine's node managers do. */
    private HttpServer listen() throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0), 0);
        server.createContext("/mapOutput", exchange -> {
            String hash = exchange.getRequestHeaders().getFirst(SecureShuffleUtils.HTTP_HEADER_URL_HASH);
            exchange.getResponseHeaders().set(SecureShuffleUtils.HTTP_HEADER_REPLY_URL_HASH,
                    SecureShuffleUtils.generateHash(hash.getBytes(UTF_8), SECRET));
            exchange.getResponseHeaders().set(ShuffleHeader.HTTP_HEADER_NAME, ShuffleHeader.DEFAULT_HTTP_HEADER_NAME);
            exchange.getResponseHeaders().set(ShuffleHeader.HTTP_HEADER_VERSION,
                    ShuffleHeader.DEFAULT_HTTP_HEADER_VERSION);
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            for (String map : exchange.getRequestURI().getQuery().replaceFirst(".*&map=", "").split(",")) {
                byte[] output = outputs.get(map);
                new ShuffleHeader(map, output.length, lengths.get(map), 1).write(new DataOutputStream(body));
                body.writeBytes(output);
            }
            exchange.sendResponseHeaders(200, body.size());
            exchange.getResponseBody().write(body.toByteArray());
            exchange.close();
        });
        server.start();
        return server;
    }

    /** What a shuffle of maps is told that have all ended on one host. */
    private ShuffleConsumerPlugin.Context<Text, IntWritable> context(String host, int maps) throws IOException {
        configuration.set("mapreduce.cluster.local.dir", folder.toString());
        configuration.setNumMapTasks(maps);
        configuration.setNumReduceTasks(2);
        configuration.setMapOutputKeyClass(Text.class);
        configuration.setMapOutputValueClass(IntWritable.class);
        TaskCompletionEvent[] events = new TaskCompletionEvent[maps];
        for (int map = 0; map < maps; map++) {
            events[map] = new TaskCompletionEvent(map, map(map), map, true, TaskCompletionEvent.Status.SUCCEEDED, host);
        }
        AMFeedback goOn = new AMFeedback();
        goOn.setTaskFound(true);
        TaskUmbilicalProtocol master = of(TaskUmbilicalProtocol.class, (proxy, method, arguments) -> {
            if (method.getName().equals("statusUpdate")) {
                return goOn;
            }
            assertEquals("getMapCompletionEvents", method.getName());
            TaskCompletionEvent[] news = arguments[1].equals(0) ? events : new TaskCompletionEvent[0];
            return new MapTaskCompletionEventsUpdate(news, false);
        });
        Reporter reporter = of(Reporter.class,
                (proxy, method, arguments) -> method.getName().equals("getCounter") ? new Counters.Counter() : null);
        ReduceTask task = new ReduceTask("", REDUCE, 1, maps, 1);
        task.setConf(configuration);
        task.setShuffleSecret(SECRET);
        TaskStatus status = new TaskStatus() {
            @Override
            public boolean getIsMap() {
                return false;
            }

            @Override
            public void addFetchFailedMap(TaskAttemptID map) {
                throw new AssertionError(map);
            }
        };
        Progress progress = new Progress();
        Counters.Counter counter = new Counters.Counter();
        return new ShuffleConsumerPlugin.Context<>(REDUCE, configuration, FileSystem.getLocal(configuration), master,
                new LocalDirAllocator("mapreduce.cluster.local.dir"), reporter, null, null, null, counter, counter,
                counter, counter, counter, counter, status, progress.addPhase(), progress.addPhase(), task,
                new MROutputFiles(), null);
    }

    private static <T> T of(Class<T> kind, InvocationHandler handler) {
        return kind.cast(Proxy.newProxyInstance(FetchTest.class.getClassLoader(), new Class<?>[] {kind}, handler));
    }

    @Test
    void eachFetchIsDeclaredWhileItLasts() throws Exception {
        int maps = 8;
        for (int map = 0; map < maps; map++) {
            serve(map(map), 100 * (map + 1));
        }
        HttpServer server = listen();
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            int port = server.getAddress().getPort();
            DeclaringShuffle<Text, IntWritable> shuffle = new DeclaringShuffle<>();
            shuffle.init(context("http://127.0.0.1:" + port, maps));
            assertEquals(100 * maps * (maps + 1) / 2, read(shuffle.run()));
            shuffle.close();

            assertEquals(new JobJoin(JOB), declared.all().get(0));
            assertEquals(1 + 2 * maps, declared.all().size());
            for (int map = 0; map < maps; map++) {
                String flow = "m_00000" + map + "_0-r_000001_0";
                OptionalLong bytes = OptionalLong.of(outputs.get(map(map).toString()).length);
                Declaration request =
                        new FlowRequest(JOB, flow, new Endpoint("127.0.0.1", port), Endpoint.HERE, bytes);
                int begin = declared.all().indexOf(request);
                assertTrue(begin > 0 && declared.all().indexOf(new FlowComplete(JOB, flow)) > begin, flow);
            }
        } finally {
            server.stop(0);
        }
    }

    /** The keys come in their order; how many there are. */
    private static int read(RawKeyValueIterator all) throws IOException {
        int count = 0;
        String before = "";
        Text key = new Text();
        while (all.next()) {
            DataInputBuffer octets = all.getKey();
            key.readFields(octets);
            assertTrue(before.compareTo(key.toString()) < 0, key.toString());
            before = key.toString();
            count++;
        }
        return count;
    }

    @Test
    void aFetchThatFailsHasEndedTooAndFailsAsBefore() throws Exception {
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            MapOutput<Text, IntWritable> output = reserve(100);
            IOException failure = new IOException("cut");
            InputStream cut = new InputStream() {
                @Override
                public int read() throws IOException {
                    throw failure;
                }
            };
            MapHost host = new MapHost("[2001:db8::1]:13562", "");
            assertSame(failure, assertThrows(IOException.class, () -> shuffle(output, host, cut, 100)));
            String flow = "m_000000_0-r_000001_0";
            Endpoint source = new Endpoint("2001:db8::1", 13562);
            assertEquals(List.of(new FlowRequest(JOB, flow, source, Endpoint.HERE, OptionalLong.of(100)),
                    new FlowComplete(JOB, flow)), declared.all().subList(2, 4));
            output.abort();
        }
    }

    /** Neither declarations that throw nor hosts of another form keep an output from being fetched. */
    @Test
    void aFetchGoesOnWhateverBecomesOfItsDeclarations() throws Exception {
        serve(map(0), 5);
        byte[] octets = outputs.get(map(0).toString());
        for (String host : List.of("local", "192.0.2.1:13562", "192.0.2.1:none", ":", "a:70000")) {
            try (Declared broken = new Declared(true, Watermaster::replace)) {
                MapOutput<Text, IntWritable> output = reserve(lengths.get(map(0).toString()));
                shuffle(output, new MapHost(host, ""), new ByteArrayInputStream(octets), octets.length);
                output.commit();
                assertEquals("MEMORY", output.getDescription());
                assertEquals(host.equals("192.0.2.1:13562") ? 1 : 0, broken.of(FlowRequest.class).size(), host);
                assertEquals(host.equals("local") ? 0 : 1, broken.of(FlowComplete.class).size(), host);
            }
        }
    }

    private MapOutput<Text, IntWritable> reserve(long size) throws IOException {
        DeclaringShuffle<Text, IntWritable> shuffle = new DeclaringShuffle<>();
        ShuffleConsumerPlugin.Context<Text, IntWritable> context = context("http://192.0.2.1:13562", 1);
        shuffle.init(context);
        return shuffle.createMergeManager(context).reserve(map(0), size, 0);
    }

    private void shuffle(MapOutput<Text, IntWritable> output, MapHost host, InputStream input, int wireLength)
            throws IOException {
        output.shuffle(host, input, wireLength, output.getSize(), ShuffleClientMetrics.create(REDUCE, configuration),
                Reporter.NULL);
    }
}
