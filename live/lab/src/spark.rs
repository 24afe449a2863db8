//! Spark in a lab: a standalone Master at the master, a Worker at each worker.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use crate::Error;
use crate::cluster::{Cluster, Progress};

/// All of Spark's commands in one script.
const SCRIPT: &str = include_str!("spark.sh");
const NAMES: [&str; 2] = ["spark-submit", "spark-class"];
/// Ports of the Master: for Workers and drivers, and of its web server, as in spark.sh.
const MASTER: u16 = 7077;
const WEB: u16 = 8080;

/// Starts all daemons; Workers wait for the Master. Returns when it knows all of them.
pub(crate) fn start(cluster: &mut Cluster<'_>, tell: &dyn Fn(&str)) -> Result<(), Error> {
    cluster.fill(|cluster| lay(cluster))?;
    tell(&format!(
        "starting Master at {}, Workers at {}",
        cluster.name(cluster.master),
        cluster.worker_names().join(", ")
    ));
    let (master, workers) = (cluster.master, cluster.workers.clone());
    cluster.start(master, &["spark-class", "master"])?;
    for host in workers {
        cluster.start(host, &["spark-class", "worker"])?;
    }
    cluster.wait(tell, health)
}

/// Commands and configuration.
fn lay(cluster: &Cluster<'_>) -> io::Result<()> {
    let folder = &cluster.folder;
    // By this name Workers look for what executors load.
    symlink(folder.join("lib"), folder.join("jars"))?;
    cluster.provide(&NAMES, SCRIPT)?;
    fs::create_dir(folder.join("conf"))?;
    let controller = cluster.lab.controller().to_string();
    let path = folder.display().to_string();
    let master = cluster.name(cluster.master);
    let defaults = defaults(&path, master, cluster.workers.len(), &controller);
    fs::write(folder.join("conf/spark-defaults.conf"), defaults)?;
    let log = "rootLogger.level = ${sys:lab.level:-info}\n\
               rootLogger.appenderRef.log.ref = log\n\
               appender.log.type = Console\n\
               appender.log.name = log\n\
               appender.log.target = SYSTEM_ERR\n\
               appender.log.layout.type = PatternLayout\n\
               appender.log.layout.pattern = %d{HH:mm:ss} %p %c{2}: %m%n%ex\n";
    fs::write(folder.join("conf/log4j2.properties"), log)
}

/// What applications are configured with, wherever they are submitted.
fn defaults(folder: &str, master: &str, workers: usize, controller: &str) -> String {
    let own = |value: &str| value.to_owned();
    let properties = [
        ("spark.master", format!("spark://{master}:{MASTER}")),
        // An executor with one task at a time at each worker, and nothing begins before all are there.
        ("spark.cores.max", workers.to_string()),
        ("spark.executor.cores", own("1")),
        ("spark.executor.memory", own("512m")),
        ("spark.scheduler.minRegisteredResourcesRatio", own("1.0")),
        ("spark.scheduler.maxRegisteredResourcesWaitingTime", own("900s")),
        ("spark.executor.extraClassPath", format!("{folder}/plugin/*")),
        // As in spark.sh.
        (
            "spark.executor.extraJavaOptions",
            own("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
                 -Djava.net.preferIPv4Stack=true"),
        ),
        // A start of Java may take minutes on a busy machine, and pauses some seconds.
        ("spark.network.timeout", own("300s")),
        ("spark.ui.enabled", own("false")),
        ("spark.watermaster.controller", own(controller)),
        ("spark.watermaster.name", own("spark")),
        ("spark.plugins", own("io.watermaster.spark.DeclaringPlugin")),
        ("spark.shuffle.manager", own("io.watermaster.spark.DeclaringShuffleManager")),
    ];
    properties.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name} {value}");
        text
    })
}

/// What the Master says.
fn health(cluster: &Cluster<'_>) -> Result<Progress, Error> {
    let state = cluster.ask_master(WEB, "/json/")?.unwrap_or_default();
    let leads = state["status"] == "ALIVE";
    let workers = state["aliveworkers"].as_u64().unwrap_or_default();
    let all = cluster.workers.len() as u64;
    let master = if leads { "serves" } else { "starts" };
    Ok(Progress {
        words: format!("Master {master}, {workers} of {all} Workers"),
        is_whole: leads && workers == all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_declare_to_the_controller_of_the_lab() {
        let text = defaults("/var/lib/x", "h0", 3, "unix:/run/c.sock");
        assert!(text.contains("spark.watermaster.controller unix:/run/c.sock\n"), "{text}");
        assert!(text.contains("spark.master spark://h0:7077\n"), "{text}");
        assert!(text.contains("spark.cores.max 3\n"), "an executor at each worker");
        assert_eq!(text.matches("io.watermaster.spark.").count(), 2);
    }
}
