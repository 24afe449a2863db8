//! Where an engine is in a lab, and how programs get there.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Engine, Journal};

/// Where engines are, with all that they write: on a disk, since `/run` is memory and may forbid programs.
const DIRECTORY: &str = "/var/lib/watermaster-lab";
/// Below a lab's folder: names and addresses of its hosts, in the form of `/etc/hosts`.
pub(crate) const HOSTS: &str = "hosts";
/// Below an engine's folder: its commands.
pub(crate) const COMMANDS: &str = "bin";
/// The variable with the name of the host that a process is at.
pub(crate) const HOST: &str = "WATERMASTER_HOST";
/// Gives a command a host's name, and the lab's names of others. Both end with it.
const ENTER: &str =
    r#"mount --bind "$0" /etc/hosts && echo "$1" >/proc/sys/kernel/hostname && shift && exec "$@""#;

/// The folder of all engines of the lab `name`.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// The folder of one of them.
pub(crate) fn engine(name: &str, engine: Engine) -> PathBuf {
    folder(name).join(engine.name())
}

/// A command that becomes the one that its further arguments are, at a node of a lab. Where the lab runs
/// engines, it finds their commands and has the node's name.
pub fn at(lab: &Journal, node: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.namespace(node)]);
    if !lab.engines.is_empty() {
        command.args(["unshare", "--mount", "--uts", "sh", "-c", ENTER]);
        command.arg(folder(&lab.name).join(HOSTS)).arg(node);
        let own = lab.engines.iter().map(|own| engine(&lab.name, *own).join(COMMANDS));
        let mut paths: Vec<PathBuf> = own.collect();
        paths.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        // What was split can be joined, and the new one has no colon.
        command.env("PATH", env::join_paths(paths).unwrap_or_default()).env(HOST, node);
    }
    command
}
