package io.watermaster.flink;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.deployment.InputGateDeploymentDescriptor;
import org.apache.flink.runtime.deployment.ResultPartitionDeploymentDescriptor;
import org.apache.flink.runtime.executiongraph.ExecutionAttemptID;
import org.apache.flink.runtime.executiongraph.PartitionInfo;
import org.apache.flink.runtime.io.network.NettyShuffleEnvironment;
import org.apache.flink.runtime.io.network.partition.PartitionProducerStateProvider;
import org.apache.flink.runtime.io.network.partition.ResultPartition;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.consumer.SingleInputGate;
import org.apache.flink.runtime.shuffle.ShuffleEnvironment;
import org.apache.flink.runtime.shuffle.ShuffleIOOwnerContext;
import org.apache.flink.runtime.shuffle.ShuffleMetrics;

/** The engine's own service in a TaskManager, which tells of tasks and of where they read. */
record Environment(NettyShuffleEnvironment inner, Flows flows, Runnable end)
        implements ShuffleEnvironment<ResultPartition, SingleInputGate> {
    @Override
    public ShuffleIOOwnerContext createShuffleIOOwnerContext(
            String name, ExecutionAttemptID attempt, MetricGroup parent) {
        ShuffleIOOwnerContext owner = inner.createShuffleIOOwnerContext(name, attempt, parent);
        Watermaster.quietly(() -> flows.begin(owner));
        return owner;
    }

    @Override
    public List<SingleInputGate> createInputGates(ShuffleIOOwnerContext owner,
            PartitionProducerStateProvider producers, List<InputGateDeploymentDescriptor> descriptors) {
        List<SingleInputGate> gates = inner.createInputGates(owner, producers, descriptors);
        Watermaster.quietly(() -> flows.begin(owner, gates));
        return gates;
    }

    @Override
    public int start() throws IOException {
        return inner.start();
    }

    @Override
    public List<ResultPartition> createResultPartitionWriters(
            ShuffleIOOwnerContext owner, List<ResultPartitionDeploymentDescriptor> descriptors) {
        return inner.createResultPartitionWriters(owner, descriptors);
    }

    @Override
    public void releasePartitionsLocally(Collection<ResultPartitionID> partitions) {
        inner.releasePartitionsLocally(partitions);
    }

    @Override
    public Collection<ResultPartitionID> getPartitionsOccupyingLocalResources() {
        return inner.getPartitionsOccupyingLocalResources();
    }

    @Override
    public Optional<ShuffleMetrics> getMetricsIfPartitionOccupyingLocalResource(ResultPartitionID partition) {
        return inner.getMetricsIfPartitionOccupyingLocalResource(partition);
    }

    @Override
    public boolean updatePartitionInfo(ExecutionAttemptID consumer, PartitionInfo partition)
            throws IOException, InterruptedException {
        return inner.updatePartitionInfo(consumer, partition);
    }

    @Override
    public void close() throws Exception {
        try {
            inner.close();
        } finally {
            Watermaster.quietly(flows::close);
            Watermaster.quietly(end::run);
        }
    }
}
