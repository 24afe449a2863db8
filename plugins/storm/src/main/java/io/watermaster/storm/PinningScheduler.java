package io.watermaster.storm;

import io.watermaster.client.Client;
import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.JobTerms;
import io.watermaster.client.Declaration.TaskHost;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.utils.ReflectionUtils;

/**
 * Places topologies that say where, leaves the others to another scheduler of Storm's, and declares jobs and the hosts
 * of their tasks. {@code storm.scheduler} names it. Nimbus makes it and calls it on one thread at a time; it throws
 * nothing, for nimbus would end.
 *
 * <p>A topology says where in {@code watermaster.pin}: for each component, or {@code "*"} for those that aren't named, a
 * list of places {@code HOST:PORT}, or {@code HOST} for a slot of that host. Executors, in the order of their tasks, go
 * to the places in turn; without {@code "*"} those of other components go to all places that are named.
 * {@code watermaster.scheduler} is the class of the other scheduler, Storm's default one unless it is set.
 */
public final class PinningScheduler implements IScheduler {
    private static final String PIN = Watermaster.PREFIX + "pin";
    private static final String OTHER = Watermaster.PREFIX + "scheduler";
    private static final String REST = "*";

    private IScheduler other = new DefaultScheduler();
    private Client client;
    private Consumer<Declaration> declare;
    /** The hosts of tasks that were declared, by topology. */
    private final Map<String, Map<Integer, String>> declared = new HashMap<>();
    /** What was logged of topologies that are there. */
    private final Map<String, String> logged = new HashMap<>();

    /** Made by the engine. */
    public PinningScheduler() {
        this(null);
    }

    /** With something else in the place of a client, for tests. */
    PinningScheduler(Consumer<Declaration> declare) {
        this.declare = declare;
    }

    @Override
    public void prepare(Map<String, Object> configuration, StormMetricsRegistry registry) {
        Object name = configuration.get(OTHER);
        try {
            if (name != null) {
                other = ReflectionUtils.newInstance(name.toString());
            }
            other.prepare(configuration, registry);
        } catch (Exception | LinkageError wrong) {
            Watermaster.LOG.error("Watermaster: {} is \"{}\"; name a scheduler. Storm's default one is used", OTHER, name,
                    wrong);
            other = new DefaultScheduler();
        }
        Watermaster.quietly(() -> {
            if (declare == null) {
                declare = declaration -> {};
                client = Watermaster.client(configuration);
                declare = client::declare;
            }
        });
    }

    @Override
    @SuppressWarnings("rawtypes") // the engine's
    public Map config() {
        return other.config();
    }

    @Override
    public void cleanup() {
        Watermaster.quietly(() -> {
            if (client != null) {
                client.close(Duration.ofSeconds(10));
            }
        });
        Watermaster.quietly(other::cleanup);
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        Set<String> pinned = new HashSet<>();
        for (TopologyDetails topology : topologies) {
            try {
                Optional<Map<String, List<Place>>> pins = pins(topology);
                if (pins.isPresent()) {
                    pinned.add(topology.getId());
                    place(topology, pins.get(), cluster);
                }
            } catch (Exception | LinkageError wrong) {
                Watermaster.LOG.error("Watermaster: {} could not be placed", topology.getId(), wrong);
            }
        }
        try {
            if (pinned.isEmpty()) {
                other.schedule(topologies, cluster);
            } else {
                Cluster rest = new Rest(cluster, pinned);
                other.schedule(topologies, rest);
                cluster.updateFrom(rest);
            }
        } catch (Exception | LinkageError wrong) {
            Watermaster.LOG.error("Watermaster: topologies that aren't pinned could not be placed", wrong);
        }
        Watermaster.quietly(() -> declare(topologies, cluster));
    }

    /** A cluster in which pinned topologies have all they want: another scheduler would move them. */
    private static final class Rest extends Cluster {
        private final Set<String> pinned;

        Rest(Cluster cluster, Set<String> pinned) {
            super(cluster);
            this.pinned = pinned;
        }

        @Override
        public boolean needsScheduling(TopologyDetails topology) {
            return !pinned.contains(topology.getId()) && super.needsScheduling(topology);
        }

        @Override
        public boolean needsSchedulingRas(TopologyDetails topology) {
            return !pinned.contains(topology.getId()) && super.needsSchedulingRas(topology);
        }
    }

    /** A slot of a host, or any of it where the port is 0. */
    private record Place(String host, int port) {
        /** Empty where it can't be read. */
        static Optional<Place> read(Object text) {
            if (!(text instanceof String said) || !said.matches("[^\\s:]+(:[1-9][0-9]{0,4})?")) {
                return Optional.empty();
            }
            String[] parts = said.split(":");
            return Optional.of(new Place(parts[0], parts.length == 1 ? 0 : Integer.parseInt(parts[1])));
        }

        @Override
        public String toString() {
            return port == 0 ? host : host + ":" + port;
        }
    }

    /** Where a topology says that its components go; empty where it says nothing, or what can't be used. */
    private Optional<Map<String, List<Place>>> pins(TopologyDetails topology) {
        Object said = topology.getConf().get(PIN);
        if (said == null) {
            return Optional.empty();
        }
        Map<String, List<Place>> pins = new TreeMap<>();
        boolean isGood = said instanceof Map<?, ?> map && !map.isEmpty();
        if (isGood) {
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) said).entrySet()) {
                List<?> texts = entry.getValue() instanceof List<?> list ? list : List.of();
                List<Place> places = texts.stream().map(Place::read).flatMap(Optional::stream).toList();
                isGood &= !places.isEmpty() && places.size() == texts.size();
                pins.put(String.valueOf(entry.getKey()), places);
            }
        }
        if (!isGood) {
            log(topology.getId(), PIN + " is \"" + said + "\"; write lists of HOST:PORT or HOST by component. It is not"
                    + " pinned");
            return Optional.empty();
        }
        return Optional.of(pins);
    }

    /** Puts what isn't where it should be there; what is, stays. Places that can't be had are waited for. */
    private void place(TopologyDetails topology, Map<String, List<Place>> pins, Cluster cluster) {
        String id = topology.getId();
        Map<WorkerSlot, Set<ExecutorDetails>> now = new HashMap<>();
        SchedulerAssignment assignment = cluster.getAssignmentById(id);
        if (assignment != null) {
            assignment.getExecutorToSlot().forEach(
                    (executor, slot) -> now.computeIfAbsent(slot, one -> new HashSet<>()).add(executor));
        }
        Map<Place, WorkerSlot> slots = slots(pins, now.keySet(), cluster);
        Map<WorkerSlot, Set<ExecutorDetails>> plan = new LinkedHashMap<>();
        Set<ExecutorDetails> planned = new HashSet<>();
        Set<Place> missing = new LinkedHashSet<>();
        List<Place> all = pins.values().stream().flatMap(List::stream).distinct().toList();
        Map<String, List<ExecutorDetails>> components = new TreeMap<>();
        topology.getExecutorToComponent().forEach(
                (executor, component) -> components.computeIfAbsent(component, one -> new ArrayList<>())
                        .add(executor));
        components.forEach((component, executors) -> {
            executors.sort(Comparator.comparingInt(ExecutorDetails::getStartTask));
            List<Place> places = pins.getOrDefault(component, pins.getOrDefault(REST, all));
            for (int number = 0; number < executors.size(); number++) {
                Place place = places.get(number % places.size());
                WorkerSlot slot = slots.get(place);
                if (slot == null) {
                    missing.add(place);
                } else {
                    plan.computeIfAbsent(slot, one -> new HashSet<>()).add(executors.get(number));
                    planned.add(executors.get(number));
                }
            }
        });
        // All that changes is freed first: an executor that has a slot, or a slot that has others, can't be assigned.
        now.forEach((slot, executors) -> {
            boolean waits = !plan.containsKey(slot) && executors.stream().noneMatch(planned::contains);
            if (!waits && !executors.equals(plan.get(slot))) {
                cluster.freeSlot(slot);
            }
        });
        plan.forEach((slot, executors) -> {
            if (!executors.equals(now.get(slot))) {
                cluster.assign(slot, id, executors);
            }
        });
        if (missing.isEmpty()) {
            logged.remove(id);
            cluster.setStatus(topology, "Pinned");
        } else {
            String why = "waits for slots that " + PIN + " names and that are not there, or are taken: " + missing;
            cluster.setStatus(topology, why);
            log(id, why);
        }
    }

    /** The slots of places; those that are not there, or taken by another topology, are missing. */
    private static Map<Place, WorkerSlot> slots(Map<String, List<Place>> pins, Set<WorkerSlot> own, Cluster cluster) {
        Map<Place, WorkerSlot> slots = new HashMap<>();
        // Those with a port first: another may have any that is left.
        List<Place> places = pins.values().stream().flatMap(List::stream).distinct()
                .sorted(Comparator.comparing((Place place) -> place.port == 0)).toList();
        for (Place place : places) {
            cluster.getSupervisorsByHost(place.host).stream().map(cluster::getAssignableSlots)
                    .flatMap(Collection::stream)
                    .filter(slot -> place.port == 0 ? !slots.containsValue(slot) : slot.getPort() == place.port)
                    .filter(slot -> own.contains(slot) || !cluster.isSlotOccupied(slot))
                    // The worker that there is goes on.
                    .min(Comparator.comparing((WorkerSlot slot) -> !own.contains(slot))
                            .thenComparing(WorkerSlot::getPort))
                    .ifPresent(slot -> slots.put(place, slot));
        }
        return slots;
    }

    private void log(String topology, String what) {
        if (!what.equals(logged.put(topology, what))) {
            Watermaster.LOG.warn("Watermaster: {}: {}", topology, what);
        }
    }

    /** Declares topologies that were placed, tasks that were placed or moved, and topologies that are gone. */
    private void declare(Topologies topologies, Cluster cluster) {
        logged.keySet().retainAll(topologies.getAllIds());
        for (String id : List.copyOf(declared.keySet())) {
            if (topologies.getById(id) == null) {
                declared.remove(id);
                declare.accept(new JobComplete(id));
            }
        }
        for (TopologyDetails topology : topologies) {
            String id = topology.getId();
            SchedulerAssignment assignment = cluster.getAssignmentById(id);
            if (assignment == null || assignment.getExecutorToSlot().isEmpty()) {
                continue;
            }
            if (!declared.containsKey(id)) {
                declared.put(id, new HashMap<>());
                declare.accept(new JobStart(id));
                try {
                    JobTerms.read(id, "watermaster.", key -> Objects.toString(topology.getConf().get(key), null))
                            .ifPresent(declare);
                } catch (IllegalArgumentException wrong) {
                    log(id, wrong.getMessage() + ". It is not heeded");
                }
            }
            Map<Integer, String> hosts = declared.get(id);
            assignment.getExecutorToSlot().forEach((executor, slot) -> {
                SupervisorDetails supervisor = cluster.getSupervisorById(slot.getNodeId());
                for (int task = executor.getStartTask(); supervisor != null && task <= executor.getEndTask(); task++) {
                    if (!supervisor.getHost().equals(hosts.put(task, supervisor.getHost()))) {
                        declare.accept(new TaskHost(id, task, supervisor.getHost()));
                    }
                }
            });
        }
    }
}
