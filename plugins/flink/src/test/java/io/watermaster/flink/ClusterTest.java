package io.watermaster.flink;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Declared;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Jobs of a cluster with two TaskManagers in this process, which speak over TCP. */
class ClusterTest {
    private static final long RECORDS = 40_000;
    /** More than all buffers between two tasks have room for. */
    private static final long MANY = 400_000;

    private static final long BUFFER = 32 << 10;

    private static Declared declared;
    private static MiniCluster cluster;

    @BeforeAll
    static void start() throws Exception {
        declared = new Declared(false);
        StandIn.declared = declared;
        // Each job has a slot at both.
        cluster = Work.cluster(2, Map.of("shuffle-service-factory.class", StandIn.class.getName(),
                "watermaster.controller", "unix:/the/test/itself",
                "taskmanager.load-balance.mode", "SLOTS"));
    }

    @AfterAll
    static void end() throws Exception {
        cluster.close();
    }

    private static <T extends Declaration> List<T> of(String job, Class<T> kind) {
        return declared.of(kind).stream().filter(said -> said.job().equals(job)).toList();
    }

    /** The last sample of each of a job's flows. */
    private static Map<String, Sample> samples(String job) {
        Map<String, Sample> last = new HashMap<>();
        of(job, Streams.class).forEach(said -> said.samples().forEach(sample -> last.put(sample.flow(), sample)));
        return last;
    }

    private static long delivered(String job) {
        return samples(job).values().stream().mapToLong(Sample::delivered).sum();
    }

    /** Whether no less was declared than the engine counted, and little more: heads of messages. */
    private static boolean isExact(String job) {
        long counted = Counted.received(job);
        long delivered = delivered(job);
        return counted > 0 && delivered >= counted && delivered <= counted * 1.02;
    }

    @Test
    void aJobIsDeclaredAsTheEngineCountsIt() throws Exception {
        Work work = new Work("counted", RECORDS);
        String job = work.submit(cluster);
        work.allow(RECORDS);
        until("all is read", () -> work.read() == RECORDS);
        until("all was declared", () -> isExact(job));
        assertTrue(delivered(job) > RECORDS * 1000 * 2 / 3, "what goes to the other");
        List<FlowRequest> flows = of(job, FlowRequest.class);
        assertEquals(2, flows.size(), "one each way");
        for (FlowRequest flow : flows) {
            assertEquals(flow.flow(), flow.source().host() + ":" + flow.source().port() + "-"
                    + flow.destination().host() + ":" + flow.destination().port());
            assertNotEquals(0, flow.source().port());
            assertNotEquals(0, flow.destination().port());
            assertTrue(flow.bytes().isEmpty());
        }
        assertNotEquals(flows.get(0).source().port(), flows.get(1).source().port(), "each sends from where it serves");
        assertEquals(samples(job).keySet(), flows.stream().map(FlowRequest::flow).collect(Collectors.toSet()));
        assertEquals(List.of(), of(job, FlowComplete.class));
        // Sources with what is chained to them, and readers.
        assertEquals(2 * Work.TASKS, of(job, TaskHost.class).stream().map(TaskHost::task).distinct().count());
        assertTrue(of(job, TaskHost.class).stream().noneMatch(task -> task.host().isEmpty()));
        work.end.countDown();
        Work.await(cluster, job);
        // The JobManager's, and a part of each TaskManager's.
        until("all have ended it", () -> of(job, JobComplete.class).size() == 1 + Work.TASKS);
        assertEquals(1, of(job, JobStart.class).size());
        assertEquals(Work.TASKS, of(job, JobJoin.class).size());
        assertEquals(Set.copyOf(flows.stream().map(FlowRequest::flow).toList()),
                of(job, FlowComplete.class).stream().map(FlowComplete::flow).collect(Collectors.toSet()));
    }

    @Test
    void whatWaitsAtBothEndsIsKnown() throws Exception {
        Work work = new Work("waiting", MANY);
        String job = work.submit(cluster);
        until("all that has come waits", () -> samples(job).size() == 2 && samples(job).values().stream()
                .allMatch(sample -> sample.receiverQueue() >= 4 * BUFFER
                        && sample.delivered() - sample.receiverQueue() < 2 * BUFFER));
        until("more waits behind it", () -> {
            // For what is taken the next message comes.
            work.allow(1);
            return samples(job).values().stream().allMatch(sample -> sample.senderQueue() >= 2 * BUFFER);
        });
        assertTrue(work.read() < MANY / 2);
        for (Sample sample : samples(job).values()) {
            assertEquals(0, sample.senderQueue() % BUFFER, sample.toString());
            assertTrue(sample.senderQueue() < 16 << 20, "no more than the engine's memory for it: " + sample);
            assertTrue(sample.receiverQueue() > 0, sample.toString());
        }
        work.allow(MANY);
        until("all is read", () -> work.read() == MANY);
        until("nothing waits", () -> samples(job).values().stream()
                .allMatch(sample -> sample.senderQueue() == 0 && sample.receiverQueue() == 0));
        work.end.countDown();
        Work.await(cluster, job);
    }

    /** The engine has one connection for all jobs. */
    @Test
    void jobsOverOneConnectionAreToldApart() throws Exception {
        Work small = new Work("small", RECORDS);
        Work large = new Work("large", 3 * RECORDS);
        String first = small.submit(cluster);
        String second = large.submit(cluster);
        small.allow(RECORDS);
        large.allow(3 * RECORDS);
        until("all is read", () -> small.read() == RECORDS && large.read() == 3 * RECORDS);
        until("all was declared", () -> isExact(first) && isExact(second));
        assertEquals(samples(first).keySet(), samples(second).keySet(), "the same connections");
        small.end.countDown();
        Work.await(cluster, first);
        until("one has ended", () -> of(first, FlowComplete.class).size() == 2);
        assertEquals(List.of(), of(second, FlowComplete.class));
        large.end.countDown();
        Work.await(cluster, second);
        until("both have ended", () -> of(second, FlowComplete.class).size() == 2);
    }
}
