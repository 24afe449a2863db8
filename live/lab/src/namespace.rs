//! Network namespaces with names, and commands in them.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;

/// Where iproute2 keeps named namespaces.
const DIRECTORY: &str = "/run/netns";

/// The file of the namespace `name`.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Whether a process is in the namespace `name`.
pub(crate) fn holds(name: &str, pid: Pid) -> bool {
    let number = |path: &Path| std::fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let own = number(Path::new(&format!("/proc/{}/ns/net", pid.as_raw_nonzero())));
    own.is_some() && own == number(&path(name))
}

/// Becomes a command, unless whoever started this has died before the kernel was asked to kill it then.
const UNLESS_ORPHAN: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// Runs a command with `input`, shielded from the terminal's interrupts so that no change is left
/// half done. It is killed with whoever runs it: what it makes later nobody would remove.
pub(crate) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let fail = |what: String| Error::Command(format!("{program} {}: {what}", arguments.join(" ")));
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "sh", "-c", UNLESS_ORPHAN])
        .args([&std::process::id().to_string(), program])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| {
            fail(format!("{error}; install util-linux, iproute2 and, for it, ethtool"))
        })?;
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // It may write before it has read all of its input.
        scope.spawn(move || stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes())));
        child.wait_with_output()
    });
    let output = output.map_err(|error| fail(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(fail(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Runs `lines` by `ip -batch` or `tc -batch`, in a namespace where one is given.
pub(crate) fn batch(program: &str, namespace: Option<&str>, lines: &[String]) -> Result<(), Error> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut arguments: Vec<&str> = namespace.into_iter().flat_map(|name| ["-n", name]).collect();
    arguments.extend(["-batch", "-"]);
    run(program, &arguments, &(lines.join("\n") + "\n")).map(|_| ())
}

/// A guard: while it lives, its thread is in another namespace.
pub(crate) struct Inside {
    home: File,
}

impl Inside {
    pub(crate) fn enter(name: &str) -> Result<Self, Error> {
        let open = |path: &Path| {
            File::open(path).map_err(|error| Error::Namespace(path.display().to_string(), error))
        };
        let home = open(Path::new("/proc/thread-self/ns/net"))?;
        let there = open(&path(name))?;
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&there), kind)
            .map_err(|error| Error::Namespace(name.to_owned(), error.into()))?;
        Ok(Self { home })
    }

    /// Writes a setting below `/proc/sys` of this namespace. Returns `false` if the kernel doesn't
    /// have it.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<bool, Error> {
        let path = Path::new("/proc/sys").join(key);
        match std::fs::write(&path, value) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::Setting(format!("{key} = {value}"), error)),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Going back to the own namespace is always allowed.
        let kind = Some(LinkNameSpaceType::Network);
        let back = move_into_link_name_space(std::os::fd::AsFd::as_fd(&self.home), kind);
        debug_assert!(back.is_ok(), "the way back is always open");
    }
}

/// The mark of a namespace's maker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// There is no such namespace.
    Absent,
    /// Untouched: it has only its loopback, and no mark.
    Blank,
    /// The mark on its loopback; empty: unmarked but in use.
    By(String),
}

/// Reads the mark of a namespace.
pub(crate) fn mark(name: &str) -> Result<Mark, Error> {
    if !path(name).exists() {
        return Ok(Mark::Absent);
    }
    let Ok(text) = run("ip", &["-n", name, "-j", "link", "show"], "") else {
        // A crash between creating the file and the mount leaves a plain file, which `ip netns
        // delete` removes.
        let mounted = rustix::fs::statfs(path(name))
            .map_err(|e| Error::Namespace(name.to_owned(), e.into()))?;
        const NSFS: u64 = 0x6e73_6673;
        let is_namespace = u64::try_from(mounted.f_type) == Ok(NSFS);
        return Ok(if is_namespace { Mark::By(String::new()) } else { Mark::Blank });
    };
    let links: Vec<serde_json::Value> = serde_json::from_str(&text)
        .map_err(|error| Error::Command(format!("ip -j link show: {error}")))?;
    let alias = links.iter().find_map(|link| link.get("ifalias")?.as_str());
    Ok(match alias {
        Some(alias) => Mark::By(alias.to_owned()),
        None if links.len() == 1 => Mark::Blank,
        None => Mark::By(String::new()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use testing::wait::{eventually, settled};

    use super::*;

    /// Where `run_until_killed` has its command write which process it is.
    const NOTE: &str = "WATERMASTER_TEST_NOTE";

    /// What `a_command_ends_with_whoever_runs_it` kills.
    #[test]
    #[ignore = "started by a_command_ends_with_whoever_runs_it"]
    fn run_until_killed() {
        let note = std::env::var(NOTE).expect("started with a place");
        run("sh", &["-c", "echo $$ >\"$0\"; exec sleep 600", &note], "").unwrap();
    }

    /// What is left of a killed `lab up` would make what nobody removes.
    #[test]
    fn a_command_ends_with_whoever_runs_it() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("note");
        let mut runner = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "namespace::tests::run_until_killed"])
            .env(NOTE, &note)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let noted = || std::fs::read_to_string(&note).ok()?.trim().parse::<u32>().ok();
        let command = settled(noted, Option::is_some);
        runner.kill().unwrap(); // SIGKILL
        runner.wait().unwrap();
        let command = PathBuf::from(format!("/proc/{}/cmdline", command.expect("it never ran")));
        // Nobody may have asked how it ended: then it has no words any more.
        let is_over = || std::fs::read(&command).unwrap_or_default().is_empty();
        assert!(eventually(is_over), "{} is there", command.display());
    }
}
