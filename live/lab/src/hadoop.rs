//! Hadoop in a lab: the real daemons of HDFS and YARN.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::cluster::{Cluster, Progress, ask};
use crate::namespace::Inside;
use crate::place::HOST;
use crate::{Error, Lab};

/// All of Hadoop's commands in one script.
const SCRIPT: &str = include_str!("hadoop.sh");
const NAMES: [&str; 4] = ["hadoop", "hdfs", "yarn", "mapred"];
/// Ports of the masters' web servers.
const HDFS: u16 = 9870;
const YARN: u16 = 8088;
/// How long the resource manager may take to know that a job has ended.
const KNOWN: Duration = Duration::from_secs(60);

/// Starts all daemons, the masters first: those who don't find them wait some time. Returns when they work
/// together.
pub(crate) fn start(cluster: &mut Cluster<'_>, tell: &dyn Fn(&str)) -> Result<(), Error> {
    cluster.fill(|cluster| lay(cluster))?;
    tell(&format!(
        "starting NameNode and ResourceManager at {}, DataNodes and NodeManagers at {}",
        cluster.name(cluster.master),
        cluster.worker_names().join(", ")
    ));
    let (master, workers) = (cluster.master, cluster.workers.clone());
    cluster.start(master, &["hadoop", "resourcemanager"])?;
    cluster.finish(master, &["hadoop", "namenode", "-format"])?;
    cluster.start(master, &["hadoop", "namenode"])?;
    for daemon in ["nodemanager", "datanode"] {
        for host in &workers {
            cluster.start(*host, &["hadoop", daemon])?;
        }
    }
    cluster.wait(tell, health)
}

/// Commands and configuration.
fn lay(cluster: &Cluster<'_>) -> io::Result<()> {
    let folder = &cluster.folder;
    // The servers want a folder of pages each, though it be empty.
    for server in ["hdfs", "datanode"] {
        fs::create_dir_all(folder.join("etc/webapps").join(server))?;
    }
    cluster.provide(&NAMES, SCRIPT)?;
    let controller = cluster.lab.controller().to_string();
    let master = cluster.name(cluster.master);
    let path = folder.display().to_string();
    for (file, properties) in sites(&path, master, cluster.workers.len(), &controller) {
        fs::write(folder.join("etc").join(file), document(&properties))?;
    }
    let log = "log4j.rootLogger=INFO,console\n\
               log4j.appender.console=org.apache.log4j.ConsoleAppender\n\
               log4j.appender.console.target=System.err\n\
               log4j.appender.console.layout=org.apache.log4j.PatternLayout\n\
               log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss} %p %c{2}: %m%n\n";
    fs::write(folder.join("etc/log4j.properties"), log)
}

/// What the masters say; who doesn't answer yet knows nobody.
fn health(cluster: &Cluster<'_>) -> Result<Progress, Error> {
    let state = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
    let state = cluster.ask_master(HDFS, state)?.unwrap_or_default();
    let state = &state["beans"][0];
    let is_writable = state["FSState"] == "Operational";
    let data = state["NumLiveDataNodes"].as_u64().unwrap_or_default();
    let nodes =
        cluster.ask_master(YARN, "/ws/v1/cluster/nodes?states=RUNNING")?.unwrap_or_default();
    let nodes = nodes["nodes"]["node"].as_array().map_or(0, |nodes| nodes.len() as u64);
    let all = cluster.workers.len() as u64;
    let lock = if is_writable { "" } else { ", safe mode" };
    Ok(Progress {
        words: format!("{data} of {all} DataNodes{lock}, {nodes} of {all} NodeManagers"),
        is_whole: is_writable && data == all && nodes == all,
    })
}

/// Of the job that a client's output names: `jct_s`, from its start to its end, seconds, as the resource manager
/// knows them. `None` where it names no job.
pub(crate) fn completion(lab: &Lab, output: &str) -> Result<Option<Map<String, Value>>, Error> {
    let (Some(job), Some(master)) = (job_of(output), lab.blueprint.topology.hosts().next()) else {
        return Ok(None);
    };
    let path = format!("/ws/v1/cluster/apps/application_{job}");
    let start = Instant::now();
    loop {
        let inside = Inside::enter(&lab.namespace(master))?;
        let answer = ask(lab.blueprint.address(master), YARN, &path).unwrap_or_default();
        drop(inside);
        let time = |key: &str| answer["app"][key].as_u64().unwrap_or_default();
        let (began, ended) = (time("startedTime"), time("finishedTime"));
        if ended > began {
            let seconds = (ended - began) as f64 / 1e3;
            return Ok(Some(Map::from_iter([("jct_s".to_owned(), seconds.into())])));
        }
        if start.elapsed() > KNOWN {
            return Err(Error::Engine(format!("job_{job} has no end at the resource manager")));
        }
        sleep(Duration::from_millis(200));
    }
}

/// The number of the job in what a client prints: `Running job: job_…`.
fn job_of(output: &str) -> Option<&str> {
    let (_, rest) = output.split_once("Running job: job_")?;
    rest.split(|c: char| !c.is_ascii_digit() && c != '_').next()
}

type Properties = Vec<(&'static str, String)>;

/// The files of the configuration, the same at every host.
fn sites(
    folder: &str,
    master: &str,
    workers: usize,
    controller: &str,
) -> [(&'static str, Properties); 5] {
    let own = |value: &str| value.to_owned();
    let classes = format!("{folder}/etc,{folder}/lib/*,{folder}/plugin/*");
    // As in hadoop.sh.
    let java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
                -Djava.net.preferIPv4Stack=true --add-opens=java.base/java.lang=ALL-UNNAMED";
    let task = format!("-Xmx200m {java}");
    let core = vec![
        ("fs.defaultFS", format!("hdfs://{master}:9000")),
        ("hadoop.tmp.dir", format!("{folder}/data/${{env.{HOST}}}")),
    ];
    let hdfs = vec![
        ("dfs.replication", own("1")),
        // Some maps even of a few MB.
        ("dfs.blocksize", own("16m")),
        ("dfs.permissions.enabled", own("false")),
    ];
    let yarn = vec![
        ("yarn.resourcemanager.hostname", own(master)),
        ("yarn.resourcemanager.connect.retry-interval.ms", own("1000")),
        ("yarn.nodemanager.hostname", format!("${{env.{HOST}}}")),
        ("yarn.nodemanager.address", own("${yarn.nodemanager.hostname}:8041")),
        ("yarn.nodemanager.log-dirs", format!("{folder}/logs/${{env.{HOST}}}-containers")),
        ("yarn.nodemanager.aux-services", own("mapreduce_shuffle")),
        ("yarn.nodemanager.env-whitelist", format!("JAVA_HOME,HADOOP_CONF_DIR,{HOST}")),
        ("yarn.nodemanager.resource.memory-mb", own("3072")),
        // Containers start when they can, not a second later.
        ("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", own("250")),
        // One of each at every worker, for tasks that ask for it: of a job's that do, no two share a worker.
        ("yarn.resource-types", own("seat-1,seat-2")),
        ("yarn.nodemanager.resource-type.seat-1", own("1")),
        ("yarn.nodemanager.resource-type.seat-2", own("1")),
        ("yarn.nodemanager.vmem-check-enabled", own("false")),
        ("yarn.nodemanager.pmem-check-enabled", own("false")),
        // A disk that is filled by others is no reason to refuse work.
        (
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage",
            own("99"),
        ),
        ("yarn.scheduler.minimum-allocation-mb", own("256")),
        ("yarn.application.classpath", classes.clone()),
    ];
    let scheduler = vec![
        ("yarn.scheduler.capacity.root.queues", own("default")),
        ("yarn.scheduler.capacity.root.default.capacity", own("100")),
        // It looks at seats, not at memory alone.
        (
            "yarn.scheduler.capacity.resource-calculator",
            own("org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"),
        ),
        // Masters of several jobs at once.
        ("yarn.scheduler.capacity.maximum-am-resource-percent", own("0.5")),
        // One container a heartbeat: tasks spread over the hosts.
        ("yarn.scheduler.capacity.per-node-heartbeat.multiple-assignments-enabled", own("false")),
    ];
    let mapred = vec![
        ("mapreduce.framework.name", own("yarn")),
        ("mapreduce.application.classpath", classes),
        ("yarn.app.mapreduce.am.resource.mb", own("512")),
        ("yarn.app.mapreduce.am.command-opts", format!("-Xmx256m {java}")),
        ("yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms", own("250")),
        ("mapreduce.client.completion.pollinterval", own("500")),
        ("mapreduce.map.memory.mb", own("512")),
        ("mapreduce.map.java.opts", task.clone()),
        ("mapreduce.reduce.memory.mb", own("512")),
        ("mapreduce.reduce.java.opts", task),
        ("mapreduce.task.io.sort.mb", own("40")),
        ("mapreduce.job.maps", workers.to_string()),
        ("mapreduce.job.reduces", workers.to_string()),
        ("mapreduce.job.ubertask.enable", own("false")),
        ("mapreduce.client.submit.file.replication", own("1")),
        ("watermaster.controller", own(controller)),
        ("watermaster.name", own("mapreduce")),
        // Tasks run once.
        ("watermaster.speculate", own("false")),
        (
            "mapreduce.job.map.output.collector.class",
            own("io.watermaster.hadoop.DeclaringCollector"),
        ),
        (
            "mapreduce.job.reduce.shuffle.consumer.plugin.class",
            own("io.watermaster.hadoop.DeclaringShuffle"),
        ),
        (
            "yarn.app.mapreduce.am.job.speculator.class",
            own("io.watermaster.hadoop.DeclaringSpeculator"),
        ),
    ];
    [
        ("core-site.xml", core),
        ("hdfs-site.xml", hdfs),
        ("yarn-site.xml", yarn),
        ("capacity-scheduler.xml", scheduler),
        ("mapred-site.xml", mapred),
    ]
}

/// A file of Hadoop's configuration. What labs are made of has no character that needs another form.
fn document(properties: &Properties) -> String {
    let mut text = String::from("<configuration>\n");
    for (name, value) in properties {
        let _ = writeln!(text, "<property><name>{name}</name><value>{value}</value></property>");
    }
    text + "</configuration>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_output_names_its_job() {
        let output = "INFO mapreduce.Job: Running job: job_1763_0002\nINFO mapreduce.Job: map 0%";
        assert_eq!(job_of(output), Some("1763_0002"));
        assert_eq!(job_of("no job"), None);
    }

    #[test]
    fn jobs_declare_to_the_controller_of_the_lab() {
        let files = sites("/var/lib/x", "h0", 3, "unix:/run/c.sock");
        let (_, mapred) = files.iter().find(|(file, _)| *file == "mapred-site.xml").unwrap();
        let text = document(mapred);
        let line = "<property><name>watermaster.controller</name><value>unix:/run/c.sock</value></property>";
        assert!(text.lines().any(|l| l == line), "{text}");
        assert_eq!(text.matches("io.watermaster.hadoop.").count(), 3);
        let (_, core) = &files[0];
        assert!(
            document(core).contains("/var/lib/x/data/${env.WATERMASTER_HOST}"),
            "each host has its own"
        );
    }
}
