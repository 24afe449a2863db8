package io.watermaster.hadoop;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.TaskHost;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.TypeConverter;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptState;
import org.apache.hadoop.mapreduce.v2.api.records.TaskId;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.job.Job;
import org.apache.hadoop.mapreduce.v2.app.job.Task;
import org.apache.hadoop.mapreduce.v2.app.job.TaskAttempt;
import org.apache.hadoop.mapreduce.v2.app.speculate.DefaultSpeculator;
import org.apache.hadoop.mapreduce.v2.app.speculate.Speculator;
import org.apache.hadoop.mapreduce.v2.app.speculate.SpeculatorEvent;
import org.apache.hadoop.yarn.api.records.NodeId;

/**
 * The engine's own speculator, which declares a job, the hosts of its tasks, and its end: of all that a configuration
 * can put into the application master, speculators are told most. {@code yarn.app.mapreduce.am.job.speculator.class}
 * names it; the engine makes one where maps or reduces may be speculated on. With {@code watermaster.speculate} false
 * it only declares and no task is run twice.
 */
public final class DeclaringSpeculator extends DefaultSpeculator {
    private static final String SPECULATE = "watermaster.speculate";

    private final AppContext context;
    private final boolean speculates;
    private final Consumer<Declaration> declare;
    /** Where tasks run, or ran to their end. */
    private final Map<TaskId, String> hosts = new ConcurrentHashMap<>();

    /**
     * Made by the engine.
     *
     * @param configuration the job's
     * @param context       the application master
     */
    public DeclaringSpeculator(Configuration configuration, AppContext context) {
        super(configuration, context);
        this.context = context;
        this.speculates = configuration.getBoolean(SPECULATE, true);
        this.declare = Watermaster.of(configuration);
    }

    private String job() {
        return TypeConverter.fromYarn(context.getApplicationID()).toString();
    }

    @Override
    protected void serviceStart() throws Exception {
        Watermaster.quietly(() -> {
            if (context.getApplicationAttemptId().getAttemptId() > 1) {
                // What an application master before this one declared, which crashed.
                declare.accept(new JobComplete(job()));
            }
            declare.accept(new JobStart(job()));
        });
        if (speculates) {
            super.serviceStart();
        }
    }

    @Override
    protected void serviceStop() throws Exception {
        Watermaster.quietly(() -> {
            declare.accept(new JobComplete(job()));
            Watermaster.close();
        });
        super.serviceStop();
    }

    @Override
    public void handle(SpeculatorEvent event) {
        Watermaster.quietly(() -> place(event));
        if (speculates) {
            super.handle(event);
        }
    }

    /** Declares where the attempt runs that an event is about. */
    private void place(SpeculatorEvent event) {
        // An attempt that ended before it reported has a status that doesn't say whose it is.
        TaskAttemptId id = event.getReportedStatus() == null ? null : event.getReportedStatus().id;
        if (id == null) {
            return;
        }
        Job job = context.getJob(id.getTaskId().getJobId());
        Task task = job == null ? null : job.getTask(id.getTaskId());
        TaskAttempt attempt = task == null ? null : task.getAttempt(id);
        NodeId node = attempt == null ? null : attempt.getNodeId();
        if (node == null) {
            return;
        }
        String host = node.getHost();
        // Of several attempts the last that began counts, until one has succeeded.
        boolean counts = event.getType() == Speculator.EventType.ATTEMPT_START
                || attempt.getState() == TaskAttemptState.SUCCEEDED;
        String before = counts ? hosts.put(id.getTaskId(), host) : hosts.putIfAbsent(id.getTaskId(), host);
        if (before == null || counts && !before.equals(host)) {
            int number = Watermaster.number(TypeConverter.fromYarn(id.getTaskId()));
            declare.accept(new TaskHost(job(), number, host));
        }
    }
}
