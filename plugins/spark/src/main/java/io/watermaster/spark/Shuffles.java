package io.watermaster.spark;

import io.watermaster.client.Declaration;
import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.spark.Message.Batch;
import io.watermaster.spark.Message.Fetch;
import io.watermaster.spark.Message.Fetched;
import io.watermaster.spark.Message.Output;
import io.watermaster.spark.Message.Reads;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.StageInfo;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The shuffles of an application, each a job of Watermaster: it starts with the first output of a map that is told of,
 * and ends when no stage of a running job of Spark is left that would read it. One that no stage has read yet goes on:
 * SQL runs maps as jobs of their own and reads them in others. The engine calls it on its threads for events, for
 * messages and for what it cleans up.
 */
final class Shuffles extends SparkListener {
    /** Reduce tasks are numbered from here, map tasks from 0: in a job of Watermaster each number is one task. */
    private static final int REDUCES = 1_000_000_000;

    private final SparkContext application;
    private final Consumer<Declaration> declare;
    /** Shuffles that are declared, each with its open fetches and the executors that they are for. */
    private final Map<Integer, Map<String, String>> open = new HashMap<>();
    private final Outputs outputs = new Outputs();
    /** Shuffles that have ended. */
    private final Set<Integer> ended = new HashSet<>();
    /** The running jobs of Spark. */
    private final Map<Integer, Stages> jobs = new HashMap<>();

    /**
     * The stages of a job of Spark.
     *
     * @param reads the shuffles that each reads
     * @param left  those that have not completed, or run again
     */
    private record Stages(Map<Integer, List<Integer>> reads, Set<Integer> left) {
        /** The shuffles that are yet to be read. */
        Set<Integer> awaited() {
            Set<Integer> awaited = new HashSet<>();
            left.forEach(stage -> awaited.addAll(reads.get(stage)));
            return awaited;
        }
    }

    Shuffles(SparkContext application, Consumer<Declaration> declare) {
        this.application = application;
        this.declare = declare;
    }

    private String name(int shuffle) {
        return application.applicationId() + "-shuffle-" + shuffle;
    }

    /** Declares what an executor tells. */
    synchronized void hear(Batch batch) {
        for (Message message : batch.messages()) {
            int shuffle = message.shuffle();
            // What comes late of a task that wasn't waited for starts nothing.
            if (open.containsKey(shuffle) || !ended.contains(shuffle) || isAwaited(shuffle)) {
                Watermaster.quietly(() -> declare(batch.executor(), message));
            }
        }
    }

    private void declare(String executor, Message message) {
        String job = name(message.shuffle());
        if (!open.containsKey(message.shuffle())) {
            open.put(message.shuffle(), new HashMap<>());
            ended.remove(message.shuffle());
            if (application.applicationAttemptId().exists(attempt -> !attempt.equals("1"))) {
                // What a driver before this one declared, which crashed.
                declare.accept(new JobComplete(job));
            }
            declare.accept(new JobStart(job));
        }
        Map<String, String> fetches = open.get(message.shuffle());
        if (message instanceof Output output) {
            List<Portion> portions = new ArrayList<>();
            for (int reduce = 0; reduce < output.lengths().length; reduce++) {
                if (output.lengths()[reduce] > 0) {
                    portions.add(new Portion(REDUCES + reduce, output.lengths()[reduce]));
                }
            }
            outputs.keep(output);
            declare.accept(new TaskHost(job, output.map(), output.host()));
            declare.accept(new Size(job, output.map(), portions));
        } else if (message instanceof Reads reads) {
            for (int reduce = reads.first(); reduce < reads.end(); reduce++) {
                declare.accept(new TaskHost(job, REDUCES + reduce, reads.host()));
            }
        } else if (message instanceof Fetch fetch) {
            fetches.put(fetch.flow(), executor);
            Endpoint source = new Endpoint(fetch.source(), fetch.port());
            Endpoint destination = new Endpoint(fetch.destination(), 0, fetch.pid());
            OptionalLong bytes = OptionalLong.of(outputs.bytes(fetch));
            declare.accept(new FlowRequest(job, fetch.flow(), source, destination, bytes));
        } else if (message instanceof Fetched fetched && fetches.remove(fetched.flow()) != null) {
            declare.accept(new FlowComplete(job, fetched.flow()));
        }
    }

    private boolean isAwaited(int shuffle) {
        return jobs.values().stream().anyMatch(job -> job.awaited().contains(shuffle));
    }

    /** Ends those of the shuffles that no stage will read. */
    private void endUnlessAwaited(Collection<Integer> shuffles) {
        for (int shuffle : shuffles) {
            if (!isAwaited(shuffle)) {
                end(shuffle);
            }
        }
    }

    private void end(int shuffle) {
        ended.add(shuffle);
        if (open.remove(shuffle) != null) {
            declare.accept(new JobComplete(name(shuffle)));
        }
    }

    /** The engine has removed a shuffle. */
    synchronized void remove(int shuffle) {
        end(shuffle);
        ended.remove(shuffle);
        outputs.forget(shuffle);
    }

    /** The application ends. */
    synchronized void end() {
        List.copyOf(open.keySet()).forEach(this::end);
    }

    @Override
    public void onJobStart(SparkListenerJobStart event) {
        Watermaster.quietly(() -> start(event));
    }

    private synchronized void start(SparkListenerJobStart event) {
        Collection<StageInfo> stages = CollectionConverters.asJavaCollection(event.stageInfos());
        Map<Integer, Integer> writes = new HashMap<>();
        for (StageInfo stage : stages) {
            stage.shuffleDepId().foreach(shuffle -> writes.put(stage.stageId(), (Integer) shuffle));
        }
        Map<Integer, List<Integer>> reads = new HashMap<>();
        for (StageInfo stage : stages) {
            List<Integer> shuffles = new ArrayList<>();
            stage.parentIds().foreach(parent -> writes.containsKey(parent) && shuffles.add(writes.get(parent)));
            reads.put(stage.stageId(), shuffles);
        }
        jobs.put(event.jobId(), new Stages(reads, new HashSet<>(reads.keySet())));
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted event) {
        Watermaster.quietly(() -> submit(event.stageInfo()));
    }

    /** One that had completed runs again where an executor is lost, and so do those that need what it writes. */
    private synchronized void submit(StageInfo stage) {
        Object writes = stage.shuffleDepId().isDefined() ? stage.shuffleDepId().get() : null;
        for (Stages job : jobs.values()) {
            if (job.reads().containsKey(stage.stageId())) {
                job.left().add(stage.stageId());
                job.reads().forEach((reader, shuffles) -> {
                    if (shuffles.contains(writes)) {
                        job.left().add(reader);
                    }
                });
            }
        }
    }

    @Override
    public void onStageCompleted(SparkListenerStageCompleted event) {
        // One that failed is tried again.
        if (event.stageInfo().failureReason().isEmpty()) {
            Watermaster.quietly(() -> complete(event.stageInfo().stageId()));
        }
    }

    private synchronized void complete(int stage) {
        Set<Integer> read = new HashSet<>();
        for (Stages job : jobs.values()) {
            if (job.left().remove(stage)) {
                read.addAll(job.reads().get(stage));
            }
        }
        endUnlessAwaited(read);
    }

    @Override
    public void onJobEnd(SparkListenerJobEnd event) {
        Watermaster.quietly(() -> complete(event));
    }

    private synchronized void complete(SparkListenerJobEnd event) {
        Stages job = jobs.remove(event.jobId());
        if (job != null) {
            endUnlessAwaited(job.awaited());
        }
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        Watermaster.quietly(() -> lose(event.executorId()));
    }

    /** An executor is gone, and nobody ends its fetches. */
    private synchronized void lose(String executor) {
        open.forEach((shuffle, fetches) -> fetches.entrySet().removeIf(fetch -> {
            boolean isLost = fetch.getValue().equals(executor);
            if (isLost) {
                declare.accept(new FlowComplete(name(shuffle), fetch.getKey()));
            }
            return isLost;
        }));
    }
}
