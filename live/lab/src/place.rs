//! Where an engine is in a lab, and how programs get there.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Journal;

/// Where engines are, with all that they write: on a disk, since `/run` is memory and may forbid programs.
const DIRECTORY: &str = "/var/lib/watermaster-lab";
/// Below an engine's folder: names and addresses of the lab's hosts, in the form of `/etc/hosts`.
pub(crate) const HOSTS: &str = "hosts";
/// Below an engine's folder: its commands.
pub(crate) const COMMANDS: &str = "bin";
/// The variable with the name of the host that a process is at.
pub(crate) const HOST: &str = "WATERMASTER_HOST";
/// Gives a command a host's name, and the lab's names of others. Both end with it.
const ENTER: &str =
    r#"mount --bind "$0" /etc/hosts && echo "$1" >/proc/sys/kernel/hostname && shift && exec "$@""#;

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
