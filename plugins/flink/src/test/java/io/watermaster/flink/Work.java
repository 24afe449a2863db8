package io.watermaster.flink;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.Partitioner;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.RpcServiceSharing;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.util.Collector;

/**
 * A job of two tasks that send to two others: all four in two TaskManagers, and of three records that a task sends two
 * go to the other TaskManager, which has the reader of the other number. So it is that way which fills first when its
 * readers are stopped.
 */
final class Work {
    static final int TASKS = 2;
    private static final int SIZE = 1000;
    private static final Map<String, Work> ALL = new ConcurrentHashMap<>();

    private final String name;
    private final long records;
    /** Records that readers may take. */
    private final Semaphore gate = new Semaphore(0);
    /** Writers have no end before it is open. */
    final CountDownLatch end = new CountDownLatch(1);
    private final AtomicLong read = new AtomicLong();

    Work(String name, long records) {
        this.name = name;
        this.records = records;
        ALL.put(name, this);
    }

    /** Readers may read so many records more. */
    void allow(long number) {
        gate.release((int) number);
    }

    /** Records that were read. */
    long read() {
        return read.get();
    }

    /** A cluster with so many TaskManagers of so many slots, whose configuration has these values too. */
    static MiniCluster cluster(int slots, Map<String, String> more) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("rest.port", "0");
        configuration.setString("metrics.reporter.counted.factory.class", Counted.class.getName());
        configuration.setString("taskmanager.memory.network.min", "16m");
        configuration.setString("taskmanager.memory.network.max", "16m");
        configuration.setString("taskmanager.memory.managed.size", "1m");
        configuration.setString("watermaster.name", "flink");
        more.forEach(configuration::setString);
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(configuration)
                .setRpcServiceSharing(RpcServiceSharing.DEDICATED).setNumTaskManagers(TASKS)
                .setNumSlotsPerTaskManager(slots).build());
        cluster.start();
        return cluster;
    }

    /** Starts it. */
    String submit(MiniCluster cluster) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(TASKS);
        // A part of the numbers for each task, whose first half it sends.
        environment.fromSequence(0, TASKS * records - 1).flatMap(new Writer(name)).returns(byte[].class)
                .partitionCustom((Partitioner<Byte>) (reader, readers) -> reader, (KeySelector<byte[], Byte>) to -> to[0])
                .map(new Reader(name)).sinkTo(new DiscardingSink<>());
        StreamGraph graph = environment.getStreamGraph();
        graph.setJobName(name);
        return cluster.submitJob(graph.getJobGraph()).get().getJobID().toHexString();
    }

    /** Waits until a job has ended; it must not have failed. */
    static void await(MiniCluster cluster, String job) throws Exception {
        cluster.requestJobResult(JobID.fromHexString(job)).get().toJobExecutionResult(Work.class.getClassLoader());
    }

    private static final class Writer extends RichFlatMapFunction<Long, byte[]> {
        private static final long serialVersionUID = 2;
        private final String name;
        private long sent;

        Writer(String name) {
            this.name = name;
        }

        @Override
        public void flatMap(Long number, Collector<byte[]> out) throws Exception {
            Work work = ALL.get(name);
            if (number % work.records < work.records / TASKS) {
                int own = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
                byte[] record = new byte[SIZE];
                record[0] = (byte) (sent++ % 3 == 0 ? own : TASKS - 1 - own);
                out.collect(record);
            } else {
                work.end.await();
            }
        }
    }

    private static final class Reader implements MapFunction<byte[], Integer> {
        private static final long serialVersionUID = 1;
        private final String name;

        Reader(String name) {
            this.name = name;
        }

        @Override
        public Integer map(byte[] record) throws Exception {
            Work work = ALL.get(name);
            work.gate.acquire();
            work.read.incrementAndGet();
            return record.length;
        }
    }
}
