//! Storm in a lab: ZooKeeper and Nimbus at the master, a Supervisor at each worker.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::cluster::{ANSWER, Cluster, Progress};

/// All of Storm's commands in one script.
const SCRIPT: &str = include_str!("storm.sh");
const ZOOKEEPER: u16 = 2181;
const NIMBUS: u16 = 6627;
/// Workers at a host: two, so that two sources can share a host's link without sharing connections.
const SLOTS: [u16; 2] = [6700, 6701];

/// Starts all daemons. Returns when topologies can be submitted, and all workers' hosts take parts of them.
pub(crate) fn start(cluster: &mut Cluster<'_>, tell: &dyn Fn(&str)) -> Result<(), Error> {
    cluster.fill(|cluster| lay(cluster))?;
    tell(&format!(
        "starting ZooKeeper and Nimbus at {}, Supervisors at {}",
        cluster.name(cluster.master),
        cluster.worker_names().join(", ")
    ));
    let (master, workers) = (cluster.master, cluster.workers.clone());
    cluster.start(master, &["storm", "zookeeper"])?;
    // The others don't wait for it for long.
    cluster.wait(tell, |cluster| {
        let is_whole = registered(cluster)?.is_some();
        let words = if is_whole { "ZooKeeper serves" } else { "ZooKeeper starts" };
        Ok(Progress { words: words.into(), is_whole })
    })?;
    cluster.start(master, &["storm", "nimbus"])?;
    for host in &workers {
        cluster.start(*host, &["storm", "supervisor"])?;
    }
    cluster.wait(tell, health)
}

/// Commands and configuration.
fn lay(cluster: &Cluster<'_>) -> io::Result<()> {
    let folder = &cluster.folder;
    // By these names Supervisors look for what workers load.
    symlink(folder.join("lib"), folder.join("lib-worker"))?;
    symlink(folder.join("plugin"), folder.join("extlib"))?;
    cluster.provide(&["storm"], SCRIPT)?;
    for name in ["conf", "log4j2"] {
        fs::create_dir(folder.join(name))?;
    }
    let controller = cluster.lab.controller().to_string();
    let configuration = configuration(folder, cluster.name(cluster.master), &controller);
    // JSON is YAML.
    fs::write(folder.join("conf/storm.yaml"), format!("{configuration:#}\n"))?;
    let console = r#"<Console name="log" target="SYSTEM_ERR">"#;
    let file = r#"<File name="log"
        fileName="${sys:workers.artifacts}/${sys:storm.id}/${sys:worker.port}/${sys:logfile.name}">"#;
    fs::write(folder.join("log4j2/cluster.xml"), logging(console, "Console"))?;
    fs::write(folder.join("log4j2/worker.xml"), logging(file, "File"))
}

/// The configuration, the same at every host.
fn configuration(folder: &Path, master: &str, controller: &str) -> Value {
    // As in storm.sh.
    let java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
                -Djava.net.preferIPv4Stack=true";
    json!({
        "storm.zookeeper.servers": [master],
        "storm.zookeeper.port": ZOOKEEPER,
        "nimbus.seeds": [master],
        "nimbus.thrift.port": NIMBUS,
        "supervisor.slots.ports": SLOTS,
        "storm.log4j2.conf.dir": folder.join("log4j2"),
        "storm.metricstore.rocksdb.location": folder.join("data/metrics"),
        // A start of Java may take minutes on a busy machine, and pauses some seconds. ZooKeeper grants
        // sessions up to 60 s.
        "storm.zookeeper.session.timeout": 60_000,
        "nimbus.supervisor.timeout.secs": 300,
        "nimbus.task.timeout.secs": 300,
        "nimbus.task.launch.secs": 900,
        "supervisor.worker.start.timeout.secs": 900,
        "supervisor.worker.timeout.secs": 300,
        // What is asked for begins when it can, not up to ten seconds later.
        "nimbus.monitor.freq.secs": 2,
        "supervisor.monitor.frequency.secs": 1,
        "task.refresh.poll.secs": 2,
        "worker.childopts": format!("-Xmx256m {java}"),
        "topology.worker.logwriter.childopts": format!("-Xmx16m {java}"),
        "watermaster.controller": controller,
        "watermaster.name": "storm",
        "storm.scheduler": "io.watermaster.storm.PinningScheduler",
        "storm.messaging.transport": "io.watermaster.storm.DeclaringTransport",
    })
}

/// How a process logs: to `appender`, opened as such, which `kind` ends.
fn logging(appender: &str, kind: &str) -> String {
    format!(
        r#"<Configuration>
  <Appenders>
    {appender}
      <PatternLayout pattern="%d{{HH:mm:ss}} %p %c{{2}}: %m%n"/>
    </{kind}>
  </Appenders>
  <Loggers>
    <Root level="${{sys:lab.level:-info}}"><AppenderRef ref="log"/></Root>
  </Loggers>
</Configuration>
"#
    )
}

/// Who is there.
fn health(cluster: &Cluster<'_>) -> Result<Progress, Error> {
    let there = registered(cluster)?.unwrap_or_default();
    let supervisors = count(&there, "supervisors");
    // A Nimbus that leads serves some time later.
    let leads = count(&there, "leader-lock") > 0 && {
        let _inside = cluster.enter_master()?;
        let nimbus = SocketAddr::from((cluster.lab.blueprint.address(cluster.master), NIMBUS));
        TcpStream::connect_timeout(&nimbus, ANSWER).is_ok()
    };
    let all = cluster.workers.len();
    let nimbus = if leads { "serves" } else { "starts" };
    Ok(Progress {
        words: format!("Nimbus {nimbus}, {supervisors} of {all} Supervisors"),
        is_whole: leads && supervisors == all,
    })
}

/// What ZooKeeper knows of those who are connected; `None` where it doesn't answer yet.
fn registered(cluster: &Cluster<'_>) -> Result<Option<String>, Error> {
    let _inside = cluster.enter_master()?;
    Ok(dump(cluster.lab.blueprint.address(cluster.master)).ok())
}

/// ZooKeeper's command `dump`: its sessions, and what ends with them, a path in each line.
fn dump(address: Ipv4Addr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, ZOOKEEPER)), ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(b"dump")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// How many of a kind are there.
fn count(dump: &str, kind: &str) -> usize {
    let path = format!("/storm/{kind}/");
    dump.lines().filter(|line| line.trim_start().starts_with(&path)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_there_are_counted() {
        let dump = "SessionTracker dump:\nephemeral nodes dump:\nSessions with Ephemerals (2):\n\
                    0x10000:\n\t/storm/supervisors/a-10.0.0.2\n0x10001:\n\t/storm/supervisors/b\n\
                    \t/storm/leader-lock/_c_1-latch-0000000000\n";
        assert_eq!(count(dump, "supervisors"), 2);
        assert_eq!(count(dump, "leader-lock"), 1);
        assert_eq!(count(dump, "nimbuses"), 0);
    }

    #[test]
    fn topologies_declare_to_the_controller_of_the_lab() {
        let all = configuration(Path::new("/var/lib/x"), "h0", "unix:/run/c.sock");
        assert_eq!(all["watermaster.controller"], "unix:/run/c.sock");
        assert_eq!(all["nimbus.seeds"], json!(["h0"]));
    }
}
