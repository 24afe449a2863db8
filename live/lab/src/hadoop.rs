//! Hadoop in a lab: the real daemons of HDFS and YARN, each a process at its host, among those whose
//! connections the lab's agent governs.
//!
//! The first host is the master; all others are workers, and so is the first where there are no more than
//! two. Everything is sized for a small machine.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::NodeId;
use serde_json::Value;

use crate::cgroup::TRAFFIC;
use crate::daemons::tail;
use crate::namespace::Inside;
use crate::place::{self, COMMANDS, HOST, Parts};
use crate::{Error, Lab, cgroup};

/// All of Hadoop's commands in one script.
const SCRIPT: &str = include_str!("hadoop.sh");
const NAMES: [&str; 4] = ["hadoop", "hdfs", "yarn", "mapred"];
/// How long nothing may change until all works: a start of Java may take minutes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Lines of a log that an error shows: Java tells why it ends, then how it got there.
const SHOWN: usize = 30;
/// Ports of the masters' web servers.
const HDFS: u16 = 9870;
const YARN: u16 = 8088;

/// A kind of daemon, by its command.
#[derive(Clone, Copy, Debug)]
enum Role {
    NameNode,
    ResourceManager,
    DataNode,
    NodeManager,
}

impl Role {
    const fn command(self) -> &'static str {
        match self {
            Self::NameNode => "namenode",
            Self::ResourceManager => "resourcemanager",
            Self::DataNode => "datanode",
            Self::NodeManager => "nodemanager",
        }
    }
}

/// A process and where it logs.
struct Process {
    child: Child,
    what: String,
    log: PathBuf,
}

impl Process {
    /// How it ended, if it did.
    fn ended(&mut self) -> Result<Option<std::process::ExitStatus>, Error> {
        self.child.try_wait().map_err(|error| Error::Engine(format!("{}: {error}", self.what)))
    }

    fn fault(&self, why: &str) -> Error {
        Error::Engine(format!("{} {why}\n{}", self.what, tail(&self.log, SHOWN)))
    }
}

/// The cluster while it comes to life.
struct Cluster<'a> {
    lab: &'a Lab,
    folder: &'a Path,
    traffic: PathBuf,
    master: NodeId,
    workers: Vec<NodeId>,
    processes: Vec<Process>,
}

/// How much of a cluster works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Health {
    /// HDFS can be written to.
    writable: bool,
    /// DataNodes that live.
    data: u64,
    /// NodeManagers that run.
    nodes: u64,
}

/// Starts all daemons; returns when they work together.
pub(crate) fn start(
    lab: &mut Lab,
    folder: &Path,
    parts: &Parts,
    tell: &dyn Fn(&str),
) -> Result<(), Error> {
    let traffic = lab.group()?.join(TRAFFIC);
    let hosts: Vec<NodeId> = lab.blueprint.topology.hosts().collect();
    let Some(master) = hosts.first().copied() else {
        return Err(Error::Engine("the topology has no host".into()));
    };
    let workers = workers(&hosts).to_vec();
    let mut cluster = Cluster { lab, folder, traffic, master, workers, processes: Vec::new() };
    cluster
        .lay(parts)
        .map_err(|error| Error::Engine(format!("{} can't be filled: {error}", folder.display())))?;
    cluster.launch(tell)?;
    cluster.wait(tell)
}

/// Those of the hosts that store and compute.
fn workers(hosts: &[NodeId]) -> &[NodeId] {
    if hosts.len() > 2 { &hosts[1..] } else { hosts }
}

impl Cluster<'_> {
    /// Fills the folder: configuration, commands, and links to what they consist of.
    fn lay(&self, parts: &Parts) -> io::Result<()> {
        let path = |name: &str| self.folder.join(name);
        for name in [COMMANDS, "plugin", "logs", "data", "tmp"] {
            fs::create_dir(path(name))?;
        }
        // The servers want a folder of pages each, though it be empty.
        for server in ["hdfs", "datanode"] {
            fs::create_dir_all(path("etc/webapps").join(server))?;
        }
        symlink(&parts.libraries, path("lib"))?;
        symlink(&parts.java, path("java"))?;
        fs::copy(&parts.plugin, path("plugin/watermaster-hadoop.jar"))?;
        for name in NAMES {
            let file = path(COMMANDS).join(name);
            fs::write(&file, SCRIPT)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        let folder = self.folder.display().to_string();
        let controller = self.lab.controller().to_string();
        let sites =
            sites(&folder, self.lab.host_name(self.master), self.workers.len(), &controller);
        for (file, properties) in sites {
            fs::write(path("etc").join(file), document(&properties))?;
        }
        let log = "log4j.rootLogger=INFO,console\n\
                   log4j.appender.console=org.apache.log4j.ConsoleAppender\n\
                   log4j.appender.console.target=System.err\n\
                   log4j.appender.console.layout=org.apache.log4j.PatternLayout\n\
                   log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss} %p %c{2}: %m%n\n";
        fs::write(path("etc/log4j.properties"), log)
    }

    /// Starts a command of Hadoop at a host.
    fn spawn(&self, host: NodeId, role: Role, more: &[&str]) -> Result<Process, Error> {
        let name = self.lab.host_name(host);
        let mut command = place::at(&self.lab.journal, name);
        command.arg(self.folder.join(COMMANDS).join("hadoop")).arg(role.command()).args(more);
        command.current_dir(self.folder);
        let what = [&[role.command()], more].concat().join(" ");
        let log = format!("{name}-{}{}.out", role.command(), more.concat());
        let log = self.folder.join("logs").join(log);
        let child = cgroup::spawn(&self.traffic, &command, &log)?;
        Ok(Process { child, what: format!("{what} at {name}"), log })
    }

    /// Starts all, the masters first: those who don't find them wait some time.
    fn launch(&mut self, tell: &dyn Fn(&str)) -> Result<(), Error> {
        let master = self.master;
        let names: Vec<&str> = self.workers.iter().map(|host| self.lab.host_name(*host)).collect();
        tell(&format!(
            "starting NameNode and ResourceManager at {}, DataNodes and NodeManagers at {}",
            self.lab.host_name(master),
            names.join(", ")
        ));
        self.processes.push(self.spawn(master, Role::ResourceManager, &[])?);
        let mut format = self.spawn(master, Role::NameNode, &["-format"])?;
        let status = loop {
            self.check()?;
            if let Some(status) = format.ended()? {
                break status;
            }
            sleep(LOOK);
        };
        if !status.success() {
            return Err(format.fault("has failed"));
        }
        self.processes.push(self.spawn(master, Role::NameNode, &[])?);
        for role in [Role::NodeManager, Role::DataNode] {
            for host in self.workers.clone() {
                self.processes.push(self.spawn(host, role, &[])?);
            }
        }
        Ok(())
    }

    /// Whether all that were started still run.
    fn check(&mut self) -> Result<(), Error> {
        for process in &mut self.processes {
            if let Some(status) = process.ended()? {
                return Err(process.fault(&format!("has ended ({status})")));
            }
        }
        Ok(())
    }

    /// Waits until all works.
    fn wait(&mut self, tell: &dyn Fn(&str)) -> Result<(), Error> {
        let all = self.workers.len() as u64;
        let mut last = (Health::default(), Instant::now());
        loop {
            self.check()?;
            let now = self.health()?;
            if now != last.0 {
                let lock = if now.writable { "" } else { ", safe mode" };
                tell(&format!(
                    "{} of {all} DataNodes{lock}, {} of {all} NodeManagers",
                    now.data, now.nodes
                ));
                last = (now, Instant::now());
            }
            if now == (Health { writable: true, data: all, nodes: all }) {
                return Ok(());
            }
            if last.1.elapsed() > PATIENCE {
                let what = format!(
                    "after {} s there are {} of {all} DataNodes and {} of {all} NodeManagers; see {}",
                    PATIENCE.as_secs(),
                    now.data,
                    now.nodes,
                    self.folder.join("logs").display()
                );
                return Err(Error::Engine(what));
            }
            sleep(LOOK);
        }
    }

    /// What the masters say; who doesn't answer yet knows nobody.
    fn health(&self) -> Result<Health, Error> {
        let _inside = Inside::enter(&self.lab.namespace(self.master))?;
        let address = self.lab.blueprint.address(self.master);
        let state = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
        let state = get(address, HDFS, state).unwrap_or_default();
        let state = &state["beans"][0];
        let nodes = get(address, YARN, "/ws/v1/cluster/nodes?states=RUNNING").unwrap_or_default();
        Ok(Health {
            writable: state["FSState"] == "Operational",
            data: state["NumLiveDataNodes"].as_u64().unwrap_or_default(),
            nodes: nodes["nodes"]["node"].as_array().map_or(0, |nodes| nodes.len() as u64),
        })
    }
}

/// Asks a server of Hadoop for JSON.
fn get(address: Ipv4Addr, port: u16, path: &str) -> io::Result<Value> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, port)), ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    // Version 1.0: the answer ends with the connection, in one piece.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok(serde_json::from_str(body)?)
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
        ("yarn.nodemanager.resource.memory-mb", own("1536")),
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
    fn the_first_host_works_too_where_there_are_few() {
        let hosts = [NodeId(1), NodeId(2), NodeId(3)];
        assert_eq!(workers(&hosts), &hosts[1..]);
        assert_eq!(workers(&hosts[..2]), &hosts[..2]);
        assert_eq!(workers(&hosts[..1]), &hosts[..1]);
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
