//! Flink in a lab: a JobManager at the master, a TaskManager at each worker, and a second one at the first.

use std::fs;
use std::io;
use std::path::Path;

use model::NodeId;
use serde_json::{Value, json};

use crate::Error;
use crate::cluster::{Cluster, Progress};

/// All of Flink's commands in one script.
const SCRIPT: &str = include_str!("flink.sh");
const REST: u16 = 8081;
/// Where a host's TaskManagers give data: two at the first worker, so that two sources can share its link
/// without sharing connections.
const DATA: [u16; 2] = [6121, 6122];

/// Starts all processes. Returns when jobs can be submitted, and all TaskManagers take parts of them.
pub(crate) fn start(cluster: &mut Cluster<'_>, tell: &dyn Fn(&str)) -> Result<(), Error> {
    cluster.fill(|cluster| lay(cluster))?;
    tell(&format!(
        "starting a JobManager at {}, TaskManagers at {}",
        cluster.name(cluster.master),
        cluster.worker_names().join(", ")
    ));
    let managers = managers(&cluster.workers);
    cluster.start(cluster.master, &["flink", "jobmanager"])?;
    for (host, port) in &managers {
        cluster.start(*host, &["flink", "taskmanager", &port.to_string()])?;
    }
    cluster.wait(tell, |cluster| health(cluster, managers.len()))
}

/// Hosts and ports of all TaskManagers.
fn managers(workers: &[NodeId]) -> Vec<(NodeId, u16)> {
    let all = workers.iter().map(|host| (*host, DATA[0]));
    all.chain(workers.first().map(|host| (*host, DATA[1]))).collect()
}

/// Commands and configuration.
fn lay(cluster: &Cluster<'_>) -> io::Result<()> {
    let folder = &cluster.folder;
    cluster.provide(&["flink"], SCRIPT)?;
    fs::create_dir(folder.join("conf"))?;
    let controller = cluster.lab.controller().to_string();
    let configuration = configuration(folder, cluster.name(cluster.master), &controller);
    // JSON is YAML.
    fs::write(folder.join("conf/config.yaml"), format!("{configuration:#}\n"))?;
    let log = "rootLogger.level = ${sys:lab.level}\n\
               rootLogger.appenderRef.log.ref = log\n\
               appender.log.name = log\n\
               appender.log.type = CONSOLE\n\
               appender.log.target = SYSTEM_ERR\n\
               appender.log.layout.type = PatternLayout\n\
               appender.log.layout.pattern = %d{HH:mm:ss} %p %c{2}: %m%n%ex\n";
    fs::write(folder.join("conf/log4j.properties"), log)
}

/// The configuration, the same at every host; `flink.sh` adds what is a TaskManager's own.
fn configuration(folder: &Path, master: &str, controller: &str) -> Value {
    json!({
        "jobmanager.rpc.address": master,
        "jobmanager.bind-host": "0.0.0.0",
        "jobmanager.memory.process.size": "700m",
        "rest.address": master,
        "rest.bind-address": "0.0.0.0",
        "rest.port": REST,
        "io.tmp.dirs": folder.join("tmp"),
        "taskmanager.bind-host": "0.0.0.0",
        "taskmanager.numberOfTaskSlots": 1,
        "taskmanager.cpu.cores": 1.0,
        // As in flink.sh.
        "taskmanager.memory.framework.heap.size": "64m",
        "taskmanager.memory.task.heap.size": "192m",
        "taskmanager.memory.framework.off-heap.size": "64m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.managed.size": "0m",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.jvm-overhead.min": "64m",
        "taskmanager.memory.jvm-overhead.max": "64m",
        // Flink gives each exchange 10 buffers of it, whatever there is.
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        // A start of Java may take minutes on a busy machine, and pauses some seconds.
        "heartbeat.timeout": "5 min",
        "pekko.ask.timeout": "5 min",
        "client.timeout": "15 min",
        "slot.request.timeout": "15 min",
        "taskmanager.registration.timeout": "15 min",
        "shuffle-service-factory.class": "io.watermaster.flink.DeclaringShuffleServiceFactory",
        "watermaster.controller": controller,
        "watermaster.name": "flink",
    })
}

/// Who is there.
fn health(cluster: &Cluster<'_>, all: usize) -> Result<Progress, Error> {
    let answer = cluster.ask_master(REST, "/taskmanagers")?;
    let there = answer.as_ref().and_then(|answer| Some(answer["taskmanagers"].as_array()?.len()));
    let serves = if there.is_some() { "serves" } else { "starts" };
    let there = there.unwrap_or_default();
    Ok(Progress {
        words: format!("the JobManager {serves}, {there} of {all} TaskManagers"),
        is_whole: there == all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_worker_has_two_task_managers() {
        let workers = [NodeId(1), NodeId(2)];
        let all = [(NodeId(1), 6121), (NodeId(2), 6121), (NodeId(1), 6122)];
        assert_eq!(managers(&workers), all);
    }

    #[test]
    fn jobs_declare_to_the_controller_of_the_lab() {
        let all = configuration(Path::new("/var/lib/x"), "h0", "unix:/run/c.sock");
        assert_eq!(all["watermaster.controller"], "unix:/run/c.sock");
        assert_eq!(all["rest.address"], json!("h0"));
    }
}
