//! The processes of an engine in a lab, each at its host, among those whose connections the lab's agent
//! governs: their folder, their start, and the wait until they work together.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::NodeId;
use serde_json::Value;

use crate::cgroup::{TRAFFIC, tail};
use crate::namespace::Inside;
use crate::place::{self, COMMANDS};
use crate::{Engine, Error, Lab, Parts, cgroup};

/// How long nothing may change until all works: a start of Java may take minutes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long one answer of a server may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);
/// Lines of a log that an error shows: Java tells why it ends, then how it got there.
const SHOWN: usize = 30;

/// A process and where it logs.
struct Process {
    child: Child,
    what: String,
    log: PathBuf,
}

impl Process {
    /// How it ended, if it did.
    fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(|error| Error::Engine(format!("{}: {error}", self.what)))
    }

    fn fault(&self, why: &str) -> Error {
        Error::Engine(format!("{} {why}\n{}", self.what, tail(&self.log, SHOWN)))
    }
}

/// How far an engine is.
pub(crate) struct Progress {
    /// For who waits; what changes with every step.
    pub(crate) words: String,
    /// Whether all of it works.
    pub(crate) is_whole: bool,
}

/// An engine while it comes to life. The topology's first host is the master; all others are workers, and
/// so is the first where there are no more than two.
pub(crate) struct Cluster<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) folder: PathBuf,
    pub(crate) master: NodeId,
    pub(crate) workers: Vec<NodeId>,
    traffic: PathBuf,
    processes: Vec<Process>,
}

impl<'a> Cluster<'a> {
    /// Without processes; its folder has what every engine needs.
    pub(crate) fn new(lab: &'a mut Lab, engine: Engine, parts: &Parts) -> Result<Self, Error> {
        let traffic = lab.group()?.join(TRAFFIC);
        let hosts: Vec<NodeId> = lab.blueprint.topology.hosts().collect();
        let Some(master) = hosts.first().copied() else {
            return Err(Error::Engine("the topology has no host".into()));
        };
        let folder = place::engine(&lab.journal.name, engine);
        let workers = workers(&hosts).to_vec();
        let cluster = Self { lab, folder, master, workers, traffic, processes: Vec::new() };
        cluster.fill(|cluster| cluster.lay(parts))?;
        Ok(cluster)
    }

    /// Makes the folder.
    fn lay(&self, parts: &Parts) -> io::Result<()> {
        let path = |name: &str| self.folder.join(name);
        for name in [COMMANDS, "plugin", "examples", "logs", "data", "tmp"] {
            fs::create_dir_all(path(name))?;
        }
        symlink(&parts.libraries, path("lib"))?;
        symlink(&parts.java, path("java"))?;
        let jars = [("plugin", Some(&parts.plugin)), ("examples", parts.examples.as_ref())];
        for (place, jar) in jars {
            if let Some((jar, name)) = jar.and_then(|jar| Some((jar, jar.file_name()?))) {
                fs::copy(jar, path(place).join(name))?;
            }
        }
        Ok(())
    }

    /// Has the folder filled.
    pub(crate) fn fill(&self, lay: impl FnOnce(&Self) -> io::Result<()>) -> Result<(), Error> {
        lay(self).map_err(|error| {
            Error::Engine(format!("{} can't be filled: {error}", self.folder.display()))
        })
    }

    /// Makes `script` the commands `names`, for itself and for shells.
    pub(crate) fn provide(&self, names: &[&str], script: &str) -> io::Result<()> {
        for name in names {
            let file = self.folder.join(COMMANDS).join(name);
            fs::write(&file, script)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    pub(crate) fn name(&self, host: NodeId) -> &str {
        self.lab.host_name(host)
    }

    pub(crate) fn worker_names(&self) -> Vec<&str> {
        self.workers.iter().map(|host| self.name(*host)).collect()
    }

    /// Where the master's servers can be asked.
    pub(crate) fn enter_master(&self) -> Result<Inside, Error> {
        Inside::enter(&self.lab.namespace(self.master))
    }

    /// Asks a web server at the master for JSON; `None` where it has no answer yet.
    pub(crate) fn ask_master(&self, port: u16, path: &str) -> Result<Option<Value>, Error> {
        let _inside = self.enter_master()?;
        Ok(ask(self.lab.blueprint.address(self.master), port, path).ok())
    }

    /// Starts one of the commands at a host, which runs as long as the lab.
    pub(crate) fn start(&mut self, host: NodeId, command: &[&str]) -> Result<(), Error> {
        let process = self.spawn(host, command)?;
        self.processes.push(process);
        Ok(())
    }

    /// Runs one of the commands to its end.
    pub(crate) fn finish(&mut self, host: NodeId, command: &[&str]) -> Result<(), Error> {
        let mut process = self.spawn(host, command)?;
        loop {
            self.check()?;
            match process.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(process.fault("has failed")),
                None => sleep(LOOK),
            }
        }
    }

    fn spawn(&self, host: NodeId, command: &[&str]) -> Result<Process, Error> {
        let (program, arguments) = command.split_first().unwrap_or((&"", &[]));
        let name = self.name(host);
        let mut at = place::at(&self.lab.journal, name);
        at.arg(self.folder.join(COMMANDS).join(program)).args(arguments);
        at.current_dir(&self.folder);
        let log = self.folder.join("logs").join(format!("{name}-{}.out", arguments.concat()));
        let child = cgroup::spawn(&self.traffic, &at, &log)?;
        Ok(Process { child, what: format!("{} at {name}", arguments.join(" ")), log })
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

    /// Waits until all works, by what `look` says.
    pub(crate) fn wait(
        &mut self,
        tell: &dyn Fn(&str),
        look: impl Fn(&Self) -> Result<Progress, Error>,
    ) -> Result<(), Error> {
        let mut last = (String::new(), Instant::now());
        loop {
            self.check()?;
            let now = look(self)?;
            if now.words != last.0 {
                tell(&now.words);
                last = (now.words, Instant::now());
            }
            if now.is_whole {
                return Ok(());
            }
            if last.1.elapsed() > PATIENCE {
                return Err(Error::Engine(format!(
                    "nothing has changed for {} s: {}; see {}",
                    PATIENCE.as_secs(),
                    last.0,
                    self.folder.join("logs").display()
                )));
            }
            sleep(LOOK);
        }
    }
}

/// Asks a server of HTTP for JSON.
pub(crate) fn ask(address: Ipv4Addr, port: u16, path: &str) -> io::Result<Value> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, port)), ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    // Version 1.0: the answer ends with the connection, in one piece.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok(serde_json::from_str(body)?)
}

/// Those of the hosts that store and compute.
fn workers(hosts: &[NodeId]) -> &[NodeId] {
    if hosts.len() > 2 { &hosts[1..] } else { hosts }
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
}
