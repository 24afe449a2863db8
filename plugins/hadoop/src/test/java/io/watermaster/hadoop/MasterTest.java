package io.watermaster.hadoop;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Declared;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.v2.api.records.JobState;
import org.apache.hadoop.mapreduce.v2.api.records.Phase;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptState;
import org.apache.hadoop.mapreduce.v2.api.records.TaskType;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.MRApp;
import org.apache.hadoop.mapreduce.v2.app.client.ClientService;
import org.apache.hadoop.mapreduce.v2.app.job.Job;
import org.apache.hadoop.mapreduce.v2.app.job.Task;
import org.apache.hadoop.mapreduce.v2.app.job.event.JobEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.JobEventType;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptContainerAssignedEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptEventType;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptStatusUpdateEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskAttemptStatusUpdateEvent.TaskAttemptStatus;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskEvent;
import org.apache.hadoop.mapreduce.v2.app.job.event.TaskEventType;
import org.apache.hadoop.mapreduce.v2.app.rm.ContainerAllocator;
import org.apache.hadoop.mapreduce.v2.app.rm.ContainerAllocatorEvent;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.Token;
import org.junit.jupiter.api.Test;

/** A real application master, whose containers are imagined. */
class MasterTest {
    private static final String JOB = "job_0_0000";

    /** Each attempt of a task runs on a host of its own. */
    private static final class Master extends MRApp {
        Master(int maps, int reduces, boolean completes, String name, int attempt) {
            super(maps, reduces, completes, name, true, attempt);
        }

        Job start(boolean speculates) throws Exception {
            Configuration configuration = new Configuration();
            configuration.set("yarn.app.mapreduce.am.job.speculator.class", DeclaringSpeculator.class.getName());
            configuration.setBoolean("watermaster.speculate", speculates);
            return submit(configuration, true, true);
        }

        void tell(TaskAttemptId attempt, TaskAttemptEventType event) {
            getContext().getEventHandler().handle(new TaskAttemptEvent(attempt, event));
        }

        /** Has an attempt report that it runs. */
        void reports(TaskAttemptId attempt) {
            TaskAttemptStatus status = new TaskAttemptStatus();
            status.id = attempt;
            status.counters = new Counters();
            status.stateString = "RUNNING";
            status.taskState = TaskAttemptState.RUNNING;
            status.phase = Phase.MAP;
            getContext().getEventHandler()
                    .handle(new TaskAttemptStatusUpdateEvent(attempt, new AtomicReference<>(status)));
        }

        /** Kills the job. */
        void tell(Job job) {
            getContext().getEventHandler().handle(new JobEvent(job.getID(), JobEventType.JOB_KILL));
        }

        void tell(Task task, TaskEventType event) {
            getContext().getEventHandler().handle(new TaskEvent(task.getID(), event));
        }

        @Override
        protected ContainerAllocator createContainerAllocator(ClientService service, AppContext context) {
            return new MRAppContainerAllocator() {
                @Override
                public void handle(ContainerAllocatorEvent event) {
                    if (event.getType() != ContainerAllocator.EventType.CONTAINER_REQ) {
                        return;
                    }
                    TaskAttemptId attempt = event.getAttemptID();
                    String kind = attempt.getTaskId().getTaskType() == TaskType.MAP ? "m" : "r";
                    NodeId node = NodeId.newInstance(kind + attempt.getTaskId().getId() + "-" + attempt.getId(), 1);
                    ContainerId id = ContainerId.newContainerId(getContext().getApplicationAttemptId(),
                            attempt.hashCode());
                    Token token = Token.newInstance(new byte[0], "", new byte[0], "");
                    Container container = Container.newInstance(id, node, "127.0.0.1:1", Resource.newInstance(1, 1),
                            Priority.newInstance(0), token);
                    getContext().getEventHandler()
                            .handle(new TaskAttemptContainerAssignedEvent(attempt, container, null));
                }
            };
        }
    }

    @Test
    void aJobIsDeclaredFromItsStartToItsEnd() throws Exception {
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            Master master = new Master(2, 2, true, "declared", 1);
            master.waitForState(master.start(false), JobState.SUCCEEDED);
            master.waitForState(Service.STATE.STOPPED);
            List<Declaration> all = declared.all();
            assertEquals(new JobStart(JOB), all.get(0));
            assertEquals(new JobComplete(JOB), all.get(all.size() - 1));
            assertEquals(Set.of(new TaskHost(JOB, 0, "m0-0"), new TaskHost(JOB, 1, "m1-0"),
                    new TaskHost(JOB, 1_000_000_000, "r0-0"), new TaskHost(JOB, 1_000_000_001, "r1-0")),
                    all.subList(1, all.size() - 1).stream().collect(Collectors.toSet()));
            assertEquals(6, all.size(), "nothing is said twice");
        }
    }

    /** Of several attempts the last counts, until one has succeeded. */
    @Test
    void theHostOfATaskIsThatOfTheAttemptThatCounts() throws Exception {
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            Master master = new Master(1, 0, false, "speculated", 1);
            Job job = master.start(false);
            Task task = job.getTasks().values().iterator().next();
            until("it is placed", () -> declared.of(TaskHost.class).size() == 1);
            TaskAttemptId first = task.getAttempts().keySet().iterator().next();
            master.tell(task, TaskEventType.T_ADD_SPEC_ATTEMPT);
            until("it is placed again", () -> declared.of(TaskHost.class).size() == 2);
            master.reports(first);
            master.tell(first, TaskAttemptEventType.TA_DONE);
            master.waitForState(job, JobState.SUCCEEDED);
            master.waitForState(Service.STATE.STOPPED);
            assertEquals(List.of("m0-0", "m0-1", "m0-0"),
                    declared.of(TaskHost.class).stream().map(TaskHost::host).toList());
        }
    }

    /** The engine speculates as it would, unless it is told not to. */
    @Test
    void theEngineGoesOnSpeculating() throws Exception {
        for (boolean speculates : new boolean[] {true, false}) {
            try (Declared declared = new Declared(false, Watermaster::replace)) {
                Master master = new Master(1, 1, false, "speculating", 1);
                Job job = master.start(speculates);
                until("the map is placed", () -> declared.all().contains(new TaskHost(JOB, 0, "m0-0")));
                boolean isThere = Thread.getAllStackTraces().keySet().stream()
                        .anyMatch(thread -> thread.getName().startsWith("DefaultSpeculator"));
                assertEquals(speculates, isThere);
                master.reports(job.getTasks().values().stream().filter(task -> task.getType() == TaskType.MAP)
                        .findAny().orElseThrow().getAttempts().keySet().iterator().next());
                master.tell(job);
                master.waitForState(job, JobState.KILLED);
                master.waitForState(Service.STATE.STOPPED);
                assertEquals(new JobComplete(JOB), declared.all().get(declared.all().size() - 1));
            }
        }
    }

    @Test
    void aMasterAfterOneThatCrashedEndsWhatThatDeclared() throws Exception {
        try (Declared declared = new Declared(false, Watermaster::replace)) {
            Master master = new Master(1, 0, true, "again", 2);
            master.waitForState(master.start(false), JobState.SUCCEEDED);
            master.waitForState(Service.STATE.STOPPED);
            assertEquals(List.of(new JobComplete(JOB), new JobStart(JOB)), declared.all().subList(0, 2));
        }
    }

    @Test
    void aJobGoesOnWhateverBecomesOfItsDeclarations() throws Exception {
        try (Declared broken = new Declared(true, Watermaster::replace)) {
            Master master = new Master(2, 1, true, "broken", 1);
            master.waitForState(master.start(false), JobState.SUCCEEDED);
            master.waitForState(Service.STATE.STOPPED);
            assertTrue(broken.all().size() >= 5, "it was tried");
        }
    }
}
