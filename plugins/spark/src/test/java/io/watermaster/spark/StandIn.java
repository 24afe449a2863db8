package io.watermaster.spark;

import io.watermaster.client.Declared;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/** The plug-in, with a driver that declares to a test. The engine makes it. */
public final class StandIn implements SparkPlugin {
    static Declared declared;

    @Override
    public DriverPlugin driverPlugin() {
        return new DeclaringPlugin(declared).driverPlugin();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new DeclaringPlugin().executorPlugin();
    }
}
