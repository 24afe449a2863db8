package io.watermaster.spark;

import static io.watermaster.client.Declared.until;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.watermaster.client.Controller;
import io.watermaster.client.Declared;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Applications beside a controller, and with less than that. */
class ApplicationTest {
    @TempDir
    Path folder;

    private static void run(SparkConf configuration) {
        try (JavaSparkContext context = new JavaSparkContext(configuration)) {
            assertEquals(Words.KEYS, Words.of(context).groupByKey(Words.REDUCES).count());
        }
    }

    @Test
    void itGoesOnWhateverBecomesOfItsDeclarations() throws Exception {
        run(Words.configuration().set("spark.watermaster.controller", "unix:/no/controller"));
        // Within one process.
        SparkConf local = Words.configuration().setMaster("local[2]");
        run(local);
        run(local.clone().set("spark.watermaster.controller", "nonsense"));
        run(local.clone().set("spark.watermaster.controller", "unix:/no/controller"));
        // Either of the hooks alone.
        run(local.clone().set("spark.watermaster.controller", "unix:/no/controller").remove("spark.plugins"));
        run(local.clone().set("spark.watermaster.controller", "unix:/no/controller").remove("spark.shuffle.manager"));
        Declared broken = new Declared(true);
        StandIn.declared = broken;
        run(local.clone().set("spark.watermaster.controller", "unix:/a/test").set("spark.plugins",
                StandIn.class.getName()));
        until("it was tried", () -> broken.all().size() > Words.MAPS);
    }

    @Test
    void aControllerKnowsAShuffleWhileItLasts() throws Exception {
        try (Controller controller = new Controller(folder, "");
                JavaSparkContext context = new JavaSparkContext(
                        Words.configuration().set("spark.watermaster.controller", controller.socket()))) {
            String gate = folder.resolve("gate").toString();
            JavaFutureAction<List<Integer>> action =
                    Words.of(context).groupByKey(Words.REDUCES).mapPartitions(groups -> {
                        Words.waitFor(gate);
                        return List.of(Words.count(groups)).iterator();
                    }).collectAsync();
            String job = context.sc().applicationId() + "-shuffle-0";
            until("the job is there", () -> jobs(controller).equals(List.of(job)));
            Files.createFile(Path.of(gate));
            assertEquals(Words.KEYS, Words.sum(action.get(5, TimeUnit.MINUTES)));
            until("it has ended", () -> jobs(controller).isEmpty());
        }
    }

    private static List<Object> jobs(Controller controller) {
        return ((List<?>) controller.ask("/v1/jobs")).stream().<Object>map(job -> ((Map<?, ?>) job).get("job"))
                .toList();
    }
}
