//! Open vSwitch with its user-space datapath, in folders of its own.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::{NodeId, NodeKind};

use crate::cgroup::tail;
use crate::namespace::run;
use crate::{Blueprint, Error, Journal, cgroup};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const DATABASE: &str = "ovsdb-server";
const SWITCH: &str = "ovs-vswitchd";
/// Lines of a log that an error shows.
const SHOWN: usize = 5;
/// Longest time for a daemon to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts the daemons in the namespace of the switches, and makes a bridge for each of them.
pub(crate) fn start(journal: &Journal, blueprint: &Blueprint, group: &Path) -> Result<(), Error> {
    let folder = journal.folder.display().to_string();
    let missing = |error: Error| {
        Error::Command(format!("{error}; for Open vSwitch install openvswitch-switch"))
    };
    let database = format!("{folder}/conf.db");
    run("ovsdb-tool", &["create", &database, SCHEMA], "").map_err(missing)?;
    let socket = format!("{folder}/db.sock");
    let remote = format!("--remote=punix:{socket}");
    daemon(journal, group, DATABASE, &[&database, &remote])?;
    listens(&socket)?;
    let server = format!("unix:{socket}");
    daemon(journal, group, SWITCH, &["--disable-system", &server])?;
    let mut arguments = vec![format!("--db={server}"), "--timeout=10".to_owned()];
    for (number, switch) in blueprint.switches().enumerate() {
        let bridge = blueprint.bridge(switch);
        let words = [
            "--",
            "add-br",
            &bridge,
            "--",
            "set",
            "bridge",
            &bridge,
            "datapath_type=netdev",
            "protocols=OpenFlow13",
            "fail_mode=standalone",
            &format!("other_config:datapath-id={:016x}", number + 1),
        ];
        arguments.extend(words.map(str::to_owned));
        for (end, port) in blueprint.ends(switch).zip(1..) {
            let interface = &end.interface;
            let words = [
                "--",
                "add-port",
                &bridge,
                interface,
                "--",
                "set",
                "interface",
                interface,
                &format!("ofport_request={port}"),
            ];
            arguments.extend(words.map(str::to_owned));
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run("ovs-vsctl", &arguments, "").map(|_| ()).map_err(missing)
}

/// Connects every bridge to the controller at `address`; flow entries stay when the controller
/// goes.
pub(crate) fn obey(journal: &Journal, blueprint: &Blueprint, address: &str) -> Result<(), Error> {
    let socket = journal.folder.join("db.sock");
    let mut words = vec![format!("--db=unix:{}", socket.display()), "--timeout=10".to_owned()];
    for switch in blueprint.switches() {
        let bridge = blueprint.bridge(switch);
        let target = format!("tcp:{address}");
        words.extend(["--", "set-controller", &bridge, &target].map(str::to_owned));
        words.extend(["--", "set", "bridge", &bridge, "fail_mode=secure"].map(str::to_owned));
        // Reconnect sooner than after the default of eight seconds.
        words.extend(["--", "set", "controller", &bridge, "max_backoff=1000"].map(str::to_owned));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run("ovs-vsctl", &words, "").map(|_| ())
}

/// Whether both daemons answer.
///
/// # Errors
/// [`Error::Command`], with the end of its log.
pub(crate) fn check(journal: &Journal) -> Result<(), Error> {
    for program in [DATABASE, SWITCH] {
        let file = |extension| journal.folder.join(program).with_extension(extension);
        if let Err(error) = UnixStream::connect(file("ctl")) {
            let end = tail(&file("out"), SHOWN);
            return Err(Error::Command(format!("{program} has ended ({error})\n{end}")));
        }
    }
    Ok(())
}

fn daemon(journal: &Journal, group: &Path, program: &str, arguments: &[&str]) -> Result<(), Error> {
    let folder = &journal.folder;
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &journal.namespace("ovs"), program])
        .args(arguments)
        .arg(format!("--unixctl={}", folder.join(program).with_extension("ctl").display()))
        .args(["--no-chdir", "-vconsole:off", "-vsyslog:off"])
        .current_dir(folder);
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, folder);
    }
    let log = folder.join(program).with_extension("out");
    let mut child = cgroup::spawn(group, &command, &log)?;
    // It may outlive this process; if it ends first, this thread reaps it.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Waits for a socket that connections are accepted at: its path is there before that.
fn listens(path: &str) -> Result<(), Error> {
    let start = Instant::now();
    while UnixStream::connect(path).is_err() {
        if start.elapsed() > PATIENCE {
            return Err(Error::Command(format!(
                "nothing listens at {path}; see the .out files beside it"
            )));
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Blueprint {
    /// Switches in order of creation; as Open vSwitch's bridges, they have the datapath identifiers
    /// from 1 on in that order, and their ports the numbers from 1 on in the order of their cables.
    pub fn switches(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.topology.nodes().iter().zip(0u32..);
        nodes.filter(|(node, _)| node.kind == NodeKind::Switch).map(|(_, number)| NodeId(number))
    }

    /// The name of a switch's bridge.
    pub fn bridge(&self, switch: NodeId) -> String {
        format!("br{}", switch.0)
    }
}
