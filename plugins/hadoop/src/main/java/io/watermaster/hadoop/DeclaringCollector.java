package io.watermaster.hadoop;

import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Size;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.mapred.IndexRecord;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapTask;
import org.apache.hadoop.mapred.SpillRecord;
import org.apache.hadoop.mapreduce.TaskAttemptID;

/**
 * The engine's own collector of map outputs, which declares at a map's end how many octets each reduce task will fetch
 * from it, exactly, but for parts without records. {@code mapreduce.job.map.output.collector.class} names it. The engine
 * makes it, and calls it on the map's thread.
 *
 * @param <K> keys of the map's output
 * @param <V> their values
 */
public final class DeclaringCollector<K, V> extends MapTask.MapOutputBuffer<K, V> {
    /** A part without records has two marks of its end, and a checksum beside. */
    private static final long EMPTY = 2;

    private MapTask task;
    private JobConf configuration;

    /** Made by the engine. */
    public DeclaringCollector() {}

    @Override
    public void init(Context context) throws IOException, ClassNotFoundException {
        super.init(context);
        task = context.getMapTask();
        configuration = context.getJobConf();
        // The connection stands long before there is something to say: the process ends soon after that.
        Watermaster.quietly(
                () -> Watermaster.of(configuration).accept(new JobJoin(Watermaster.job(task.getTaskID()))));
    }

    @Override
    public void flush() throws IOException, ClassNotFoundException, InterruptedException {
        super.flush();
        Watermaster.quietly(() -> {
            // The index is on disk, which the map must not wait for.
            Thread reader = new Thread(() -> Watermaster.quietly(this::declare), "watermaster-size");
            reader.setDaemon(true);
            reader.start();
        });
    }

    private void declare() throws IOException {
        TaskAttemptID map = task.getTaskID();
        SpillRecord index = new SpillRecord(task.getMapOutputFile().getOutputIndexFile(), configuration);
        List<Portion> portions = new ArrayList<>();
        for (int reduce = 0; reduce < index.size(); reduce++) {
            IndexRecord part = index.getIndex(reduce);
            if (part.rawLength > EMPTY) {
                portions.add(new Portion(Watermaster.reduce(reduce), part.partLength));
            }
        }
        Size size = new Size(Watermaster.job(map), Watermaster.number(map.getTaskID()), portions);
        Watermaster.of(configuration).accept(size);
    }
}
