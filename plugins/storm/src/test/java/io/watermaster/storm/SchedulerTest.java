package io.watermaster.storm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.JobTerms;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Declared;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.daemon.nimbus.Nimbus.StandaloneINimbus;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

/** Storm's own clusters, as nimbus makes one for each round of scheduling. */
class SchedulerTest {
    /** Spouts are tasks 1 and 2, counts 3 and 4, the acker 5. */
    private static final Map<String, Object> PINS =
            Map.of("spout", List.of("h1:6700", "h2:6700"), "count", List.of("h3:6701"), "*", List.of("h3"));
    private static final Map<String, String> PINNED = Map.of("h1:6700", "[1]", "h2:6700", "[2]", "h3:6701", "[3, 4]",
            "h3:6700", "[5]");

    private final Declared declared = new Declared(false);
    private final PinningScheduler scheduler = scheduler(declared, Map.of());
    private Map<String, SchedulerAssignment> assignments = new HashMap<>();

    private static PinningScheduler scheduler(Declared declared, Map<String, Object> more) {
        Map<String, Object> configuration = new HashMap<>(Utils.readDefaultConfig());
        configuration.putAll(more);
        PinningScheduler scheduler = new PinningScheduler(declared);
        scheduler.prepare(configuration, new StormMetricsRegistry());
        return scheduler;
    }

    private static TopologyDetails topology(String id, Object pins) {
        return topology(id, pins, Map.of());
    }

    private static TopologyDetails topology(String id, Object pins, Map<String, Object> more) {
        Map<String, Object> configuration = new HashMap<>(Utils.readDefaultConfig());
        configuration.putAll(more);
        configuration.put(Config.TOPOLOGY_NAME, id);
        if (pins != null) {
            configuration.put("watermaster.pin", pins);
        }
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 2);
        builder.setBolt("count", new TestWordCounter(), 2).shuffleGrouping("spout");
        Map<ExecutorDetails, String> executors = new HashMap<>();
        List<String> components = List.of("spout", "spout", "count", "count", "__acker");
        for (int task = 1; task <= 5; task++) {
            executors.put(new ExecutorDetails(task, task), components.get(task - 1));
        }
        // More workers than places: Storm's own scheduler would move all of them.
        return new TopologyDetails(id, configuration, builder.createTopology(), 5, executors, "owner");
    }

    /** A round of scheduling with slots 6700 and 6701 of these hosts; what it assigned is there in the next. */
    private Cluster round(IScheduler scheduler, List<String> hosts, TopologyDetails... topologies) {
        Map<String, SupervisorDetails> supervisors = new HashMap<>();
        for (String host : hosts) {
            supervisors.put("id-" + host, new SupervisorDetails("id-" + host, host, null, List.of(6700, 6701)));
        }
        Topologies all = new Topologies(topologies);
        Cluster cluster = new Cluster(new StandaloneINimbus(), new ResourceMetrics(new StormMetricsRegistry()),
                supervisors, assignments, all, new HashMap<>(Utils.readDefaultConfig()));
        scheduler.schedule(all, cluster);
        assignments = cluster.getAssignments();
        return cluster;
    }

    /** Tasks by "HOST:PORT". */
    private Map<String, String> placed(String topology) {
        Map<String, Set<Integer>> placed = new TreeMap<>();
        SchedulerAssignment assignment = assignments.get(topology);
        if (assignment != null) {
            assignment.getExecutorToSlot().forEach((executor, slot) -> placed
                    .computeIfAbsent(slot.getNodeId().substring(3) + ":" + slot.getPort(), one -> new TreeSet<>())
                    .add(executor.getStartTask()));
        }
        return placed.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().toString()));
    }

    private static Set<Declaration> hosts(String job, String... hosts) {
        return IntStream.range(0, hosts.length).mapToObj(number -> new TaskHost(job, number + 1, hosts[number]))
                .collect(Collectors.toSet());
    }

    @Test
    void executorsGoWhereTheTopologySaysAndStay() {
        for (int round = 0; round < 3; round++) {
            round(scheduler, List.of("h1", "h2", "h3"), topology("pinned", PINS));
            assertEquals(PINNED, placed("pinned"));
        }
        assertEquals(new JobStart("pinned"), declared.all().get(0));
        assertEquals(hosts("pinned", "h1", "h2", "h3", "h3", "h3"), Set.copyOf(declared.of(TaskHost.class)));
        assertEquals(6, declared.all().size(), "nothing is said twice");
        round(scheduler, List.of("h1", "h2", "h3"));
        assertEquals(new JobComplete("pinned"), declared.all().get(6));
        round(scheduler, List.of("h1", "h2", "h3"));
        assertEquals(7, declared.all().size(), "nothing is said twice");
    }

    @Test
    void aTopologyAsksForWhatItsConfigurationSays() {
        List<String> hosts = List.of("h1", "h2", "h3");
        Map<String, Object> asks = Map.of("watermaster.objective", "clicks", "watermaster.weight", 3);
        round(scheduler, hosts, topology("asks", PINS, asks));
        Declaration terms = new JobTerms("asks", Optional.of("clicks"), OptionalLong.empty(), OptionalInt.of(3));
        assertEquals(List.of(new JobStart("asks"), terms), declared.all().subList(0, 2));
        round(scheduler, hosts, topology("asks", PINS, asks),
                topology("errs", PINS, Map.of("watermaster.deadline", "soon")));
        assertEquals(List.of(terms), declared.of(JobTerms.class), "what can't be used isn't said");
    }

    @Test
    void withoutARestOthersGoToAllPlaces() {
        round(scheduler, List.of("h1", "h2"), topology("pinned", Map.of("spout", List.of("h1:6701", "h2:6701"))));
        assertEquals(Map.of("h1:6701", "[1, 3, 5]", "h2:6701", "[2, 4]"), placed("pinned"));
    }

    @Test
    void topologiesThatSayNothingAreLeftToStorm() {
        round(scheduler, List.of("h1", "h2", "h3"), topology("pinned", PINS), topology("free", null));
        assertEquals(PINNED, placed("pinned"));
        Map<String, String> free = placed("free");
        assertEquals(Set.of("h1:6701", "h2:6701"), free.keySet(), "all slots that are left");
        assertEquals(5, assignments.get("free").getExecutors().size());
        assertEquals(5, declared.of(TaskHost.class).stream().filter(task -> task.job().equals("free")).count());

        assignments.clear();
        round(scheduler, List.of("h1", "h2"), topology("free", null));
        assertEquals(4, placed("free").size());
    }

    @Test
    void whatDiedIsPlacedAgainWhereItWasAndTheOthersStay() {
        TopologyDetails topology = topology("pinned", PINS);
        round(scheduler, List.of("h1", "h2", "h3"), topology);
        // Nimbus leaves out executors that it takes for dead: one of two in a worker, and a whole worker.
        Map<ExecutorDetails, WorkerSlot> alive =
                new HashMap<>(assignments.get("pinned").getExecutorToSlot());
        alive.keySet().removeIf(executor -> executor.getStartTask() == 3 || executor.getStartTask() == 1);
        assignments.put("pinned", new SchedulerAssignmentImpl("pinned", alive, null, null));
        round(scheduler, List.of("h1", "h2", "h3"), topology);
        assertEquals(PINNED, placed("pinned"));
        assertEquals(6, declared.all().size(), "no task moved");
    }

    @Test
    void aHostThatIsNotThereIsWaitedFor() {
        TopologyDetails topology = topology("pinned", PINS);
        Cluster cluster = round(scheduler, List.of("h1", "h3"), topology);
        assertEquals(Map.of("h1:6700", "[1]", "h3:6701", "[3, 4]", "h3:6700", "[5]"), placed("pinned"));
        assertTrue(cluster.getStatus("pinned").contains("[h2:6700]"), cluster.getStatus("pinned"));
        cluster = round(scheduler, List.of("h1", "h2", "h3"), topology);
        assertEquals(PINNED, placed("pinned"));
        assertEquals("Pinned", cluster.getStatus("pinned"));
    }

    /** A slot that another topology has is not taken from it. */
    @Test
    void aSlotThatIsTakenIsWaitedFor() {
        round(scheduler, List.of("h1"), topology("free", null));
        Map<String, String> before = placed("free");
        round(scheduler, List.of("h1", "h2", "h3"), topology("free", null), topology("pinned", PINS));
        assertEquals(Map.of("h2:6700", "[2]", "h3:6701", "[3, 4]", "h3:6700", "[5]"), placed("pinned"));
        assertTrue(before.keySet().stream().anyMatch(placed("free")::containsKey), "it goes on");
        round(scheduler, List.of("h1", "h2", "h3"), topology("pinned", PINS));
        assertEquals(PINNED, placed("pinned"));
    }

    /** Any slot of a host is as good: a worker doesn't move to another that becomes free. */
    @Test
    void aWorkerStaysInItsSlotOfAHost() {
        TopologyDetails first = topology("first", Map.of("*", List.of("h1:6700")));
        TopologyDetails second = topology("second", Map.of("*", List.of("h1")));
        round(scheduler, List.of("h1"), first, second);
        assertEquals(Map.of("h1:6701", "[1, 2, 3, 4, 5]"), placed("second"));
        round(scheduler, List.of("h1"), second);
        assertEquals(Map.of("h1:6701", "[1, 2, 3, 4, 5]"), placed("second"));
    }

    @Test
    void tasksThatMoveAreDeclaredAgain() {
        round(scheduler, List.of("h1", "h2", "h3"), topology("pinned", PINS));
        int before = declared.all().size();
        Map<String, Object> other = Map.of("spout", List.of("h2:6700", "h1:6700"), "count", List.of("h3:6701"), "*",
                List.of("h3"));
        round(scheduler, List.of("h1", "h2", "h3"), topology("pinned", other));
        assertEquals(Map.of("h1:6700", "[2]", "h2:6700", "[1]", "h3:6701", "[3, 4]", "h3:6700", "[5]"),
                placed("pinned"));
        List<Declaration> all = declared.all();
        assertEquals(hosts("pinned", "h2", "h1"), Set.copyOf(all.subList(before, all.size())));
    }

    @Test
    void whatCanNotBeUsedIsLeftToStorm() {
        for (Object wrong : new Object[] {"h1:6700", Map.of(), Map.of("spout", "h1:6700"), Map.of("spout", List.of()),
                Map.of("spout", List.of("h1:6700", 7)), Map.of("spout", List.of("h1:many"))}) {
            assignments.clear();
            round(scheduler, List.of("h1", "h2"), topology("wrong", wrong));
            assertEquals(5, assignments.get("wrong").getExecutors().size(), wrong.toString());
        }
    }

    /** A scheduler that throws, made by its name. */
    public static final class Broken implements IScheduler {
        /** Made by the test. */
        public Broken() {}

        @Override
        public void prepare(Map<String, Object> configuration, StormMetricsRegistry registry) {}

        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            throw new IllegalStateException("as if a slot were occupied");
        }

        @Override
        @SuppressWarnings("rawtypes") // the engine's
        public Map config() {
            return Map.of();
        }
    }

    @Test
    void nothingIsThrown() {
        Declared broken = new Declared(true);
        PinningScheduler scheduler = scheduler(broken, Map.of("watermaster.scheduler", Broken.class.getName()));
        round(scheduler, List.of("h1", "h2", "h3"), topology("free", null), topology("pinned", PINS));
        assertEquals(PINNED, placed("pinned"));
        assertEquals(1, broken.all().size(), "it was tried");
        round(scheduler, List.of("h1", "h2", "h3"), topology("free", null));
        scheduler.cleanup();

        scheduler = scheduler(declared, Map.of("watermaster.scheduler", "no.such.Scheduler"));
        round(scheduler, List.of("h1", "h2", "h3"), topology("free", null));
        assertEquals(5, assignments.get("free").getExecutors().size());
    }
}
