package io.watermaster.flink;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.watermaster.client.Controller;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declared;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Clusters beside a controller, and with less than that. */
class ApplicationTest {
    private static final String FACTORY = "shuffle-service-factory.class";
    private static final String CONTROLLER = "watermaster.controller";
    private static final long RECORDS = 10_000;

    @TempDir
    Path folder;

    private static void run(Map<String, String> configuration) throws Exception {
        try (MiniCluster cluster = Work.cluster(1, configuration)) {
            Work work = new Work("any", RECORDS);
            work.allow(RECORDS);
            work.end.countDown();
            Work.await(cluster, work.submit(cluster));
            assertEquals(RECORDS, work.read());
        }
    }

    @Test
    void itGoesOnWhateverBecomesOfItsDeclarations() throws Exception {
        String factory = DeclaringShuffleServiceFactory.class.getName();
        run(Map.of(FACTORY, factory));
        run(Map.of(FACTORY, factory, CONTROLLER, "nonsense"));
        run(Map.of(FACTORY, factory, CONTROLLER, "unix:/no/controller"));
        Declared broken = new Declared(true);
        StandIn.declared = broken;
        run(Map.of(FACTORY, StandIn.class.getName(), CONTROLLER, "unix:/a/test"));
        until("it was tried", () -> !broken.of(FlowRequest.class).isEmpty());
    }

    @Test
    void aControllerKnowsAJobWhileItRuns() throws Exception {
        try (Controller controller = new Controller(folder, "");
                MiniCluster cluster = Work.cluster(1, Map.of(FACTORY, DeclaringShuffleServiceFactory.class.getName(),
                        CONTROLLER, controller.socket()))) {
            Work work = new Work("known", RECORDS);
            String job = work.submit(cluster);
            until("the job is there", () -> jobs(controller).equals(List.of(job)));
            work.allow(RECORDS);
            work.end.countDown();
            Work.await(cluster, job);
            until("it has ended", () -> jobs(controller).isEmpty());
        }
    }

    private static List<Object> jobs(Controller controller) {
        return ((List<?>) controller.ask("/v1/jobs")).stream().<Object>map(job -> ((Map<?, ?>) job).get("job"))
                .toList();
    }
}
