//! An engine in a lab: where it is, and how programs become its host's.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::NodeId;
use serde::{Deserialize, Serialize};

use crate::{Error, Journal, Lab, hadoop};

/// Where engines are, with all that they write: on a disk, since `/run` is memory and may forbid programs.
const DIRECTORY: &str = "/var/lib/watermaster-lab";
/// The link to an engine's folder in its lab's.
const LINK: &str = "engine";
/// Below an engine's folder: names and addresses of the lab's hosts, in the form of `/etc/hosts`.
pub(crate) const HOSTS: &str = "hosts";
/// Below an engine's folder: its commands.
pub(crate) const COMMANDS: &str = "bin";
/// The variable with the name of the host that a process is at.
pub(crate) const HOST: &str = "WATERMASTER_HOST";
/// Gives a command a host's name, and the lab's names of others. Both end with it.
const ENTER: &str =
    r#"mount --bind "$0" /etc/hosts && echo "$1" >/proc/sys/kernel/hostname && shift && exec "$@""#;

/// The engines that a lab can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Hadoop: HDFS, YARN and MapReduce, with the plug-in that declares its jobs.
    Hadoop,
}

/// What an engine needs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The folder with its jars.
    pub libraries: PathBuf,
    /// The jar of the plug-in.
    pub plugin: PathBuf,
    /// The home of Java.
    pub java: PathBuf,
}

/// The folder of the engine of the lab `name`.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// A command that becomes the one that its further arguments are, at a node of a lab. Where the lab runs
/// an engine, it finds the engine's commands and has the node's name.
pub fn at(lab: &Journal, node: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.namespace(node)]);
    if lab.engine.is_some() {
        let folder = folder(&lab.name);
        command.args(["unshare", "--mount", "--uts", "sh", "-c", ENTER]);
        command.arg(folder.join(HOSTS)).arg(node);
        let mut paths = vec![folder.join(COMMANDS)];
        paths.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        // What was split can be joined, and the new one has no colon.
        command.env("PATH", env::join_paths(paths).unwrap_or_default()).env(HOST, node);
    }
    command
}

impl Lab {
    /// Starts an engine, which the daemons govern that were started before. `tell` hears how far it is.
    /// Returns when all of it works.
    ///
    /// # Errors
    /// [`Error::Engine`], with the end of the log of what has failed.
    pub fn run_engine(
        &mut self,
        engine: Engine,
        parts: &Parts,
        tell: &dyn Fn(&str),
    ) -> Result<(), Error> {
        let names = self.blueprint.topology.hosts().map(|host| self.host_name(host));
        if let Some(name) = names.into_iter().find(|name| name.contains('_')) {
            return Err(Error::Engine(format!(
                "host {name}: Java takes no name with _; rename it"
            )));
        }
        self.journal.engine = Some(engine);
        self.journal.write()?;
        let folder = folder(&self.journal.name);
        self.lay(&folder)
            .map_err(|error| Error::Engine(format!("{}: {error}", folder.display())))?;
        match engine {
            Engine::Hadoop => hadoop::start(self, &folder, parts, tell),
        }
    }

    pub(crate) fn host_name(&self, host: NodeId) -> &str {
        &self.blueprint.topology.nodes()[host.index()].name
    }

    /// Makes the engine's folder anew.
    fn lay(&self, folder: &Path) -> std::io::Result<()> {
        // What a lab left that ended with the machine.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder)?;
        std::os::unix::fs::symlink(folder, self.folder().join(LINK))?;
        let line = |host| format!("{} {}\n", self.blueprint.address(host), self.host_name(host));
        let hosts: String = self.blueprint.topology.hosts().map(line).collect();
        std::fs::write(folder.join(HOSTS), format!("127.0.0.1 localhost\n{hosts}"))
    }
}
