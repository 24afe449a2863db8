//! The record of what a lab consists of, written before it is made, so that after a crash the file
//! lists what to remove.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::{Error, Switches};

/// Where labs are recorded. Like the labs, it doesn't survive a reboot.
const DIRECTORY: &str = "/run/watermaster/lab";
const VERSION: u32 = 2;
/// Longest name of a lab, and of one of its nodes.
const LONGEST: usize = 64;

/// The phase of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Being made; if its maker is gone: half made.
    Building,
    /// Ready.
    Up,
}

/// The engines that a lab can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Flink: with the plug-in that declares its jobs.
    Flink,
    /// Hadoop: HDFS, YARN and MapReduce, with the plug-in that declares its jobs.
    Hadoop,
    /// Spark: a standalone cluster, with the plug-in that declares its shuffles.
    Spark,
    /// Storm: with the plug-in that pins and declares its topologies.
    Storm,
}

/// A process: its number and start time, so that a reused number doesn't match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did (`proc_pid_stat(5)`, field 22).
    pub start: u64,
}

impl Process {
    /// This one.
    ///
    /// # Errors
    /// `/proc` isn't there.
    pub fn own() -> Result<Self, Error> {
        let pid = std::process::id();
        let none = || Error::State("/proc/self/stat can't be read; mount /proc".into());
        Ok(Self { pid, start: started(pid).ok_or_else(none)? })
    }

    /// Whether it still runs.
    pub fn lives(&self) -> bool {
        started(self.pid) == Some(self.start)
    }
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything, up to the last parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The record of one lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    version: u32,
    /// Its name.
    pub name: String,
    /// The unique mark of its namespaces.
    pub token: String,
    /// Its phase.
    pub phase: Phase,
    /// The process that made it.
    pub maker: Process,
    /// Whether it ends with its maker.
    pub passing: bool,
    /// What forwards.
    pub switches: Switches,
    /// The scenario file that it was made from; may be empty.
    pub scenario: String,
    /// Changes to that, `PATH=VALUE`.
    pub changes: Vec<String>,
    /// Its namespaces.
    pub namespaces: Vec<String>,
    /// The control group of its processes.
    pub cgroup: Option<PathBuf>,
    /// The engines that run in it.
    pub engines: Vec<Engine>,
    /// Its folder, with what its processes write.
    pub folder: PathBuf,
}

impl Journal {
    /// The record of a lab to be made. Nothing is written yet.
    ///
    /// # Errors
    /// A name that isn't valid in file names.
    pub(crate) fn new(name: &str, switches: Switches) -> Result<Self, Error> {
        check_name(name)?;
        let maker = Process::own()?;
        let token = format!("{}.{}", maker.start, maker.pid);
        Ok(Self {
            version: VERSION,
            name: name.to_owned(),
            token,
            phase: Phase::Building,
            maker,
            passing: false,
            switches,
            scenario: String::new(),
            changes: Vec::new(),
            namespaces: Vec::new(),
            cgroup: None,
            engines: Vec::new(),
            folder: Path::new(DIRECTORY).join(name),
        })
    }

    /// Whether nobody will remove it: it ends with its maker, or was never whole, and its maker is gone.
    pub fn is_orphaned(&self) -> bool {
        (self.passing || self.phase == Phase::Building) && !self.maker.lives()
    }

    /// The namespace for the room `room`.
    pub(crate) fn namespace(&self, room: &str) -> String {
        format!("wm-{}-{room}", self.name)
    }

    /// The mark of its namespaces.
    pub(crate) fn mark(&self) -> String {
        format!("watermaster {} {}", self.name, self.token)
    }

    /// Writes it atomically.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let path = path(&self.name);
        let fail = |error: std::io::Error| Error::State(format!("{}: {error}", path.display()));
        let fresh = path.with_extension("new");
        let text = serde_json::to_vec_pretty(self).map_err(|error| fail(error.into()))?;
        let mut file = File::create(&fresh).map_err(fail)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(fail)?;
        fs::rename(&fresh, &path).map_err(fail)
    }

    /// The right to run something in the lab, for as long as the file is open. Processes that are started
    /// meanwhile don't inherit it.
    pub(crate) fn occupy(&self) -> Result<File, Error> {
        let path = self.folder.join(".run");
        let fail = |error: std::io::Error| Error::State(format!("{}: {error}", path.display()));
        let file = File::create(&path).map_err(fail)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy(self.name.clone())),
            Err(error) => Err(fail(error.into())),
        }
    }

    /// Removes the record, once nothing of the lab is left.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let path = path(&self.name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::State(format!("{}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Reads the one called `name`; `None` when there is none.
    ///
    /// # Errors
    /// A file that isn't one.
    pub fn read(name: &str) -> Result<Option<Self>, Error> {
        check_name(name)?;
        let path = path(name);
        let fail = |error: String| Error::State(format!("{}: {error}", path.display()));
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| fail(error.to_string()))?,
        };
        let journal: Self =
            serde_json::from_slice(&text).map_err(|error| fail(format!("{error}; {OTHER}")))?;
        let prefix = format!("wm-{name}-");
        let own = journal
            .namespaces
            .iter()
            .all(|namespace| namespace.starts_with(&prefix) && check_name(namespace).is_ok());
        if journal.version != VERSION || journal.name != name || !own {
            return Err(fail(OTHER.into()));
        }
        Ok(Some(journal))
    }

    /// All of them, by name, and of files that are none why: another version may have written them.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn all() -> Result<Vec<Result<Self, Error>>, Error> {
        let entries = match fs::read_dir(DIRECTORY) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| Error::State(format!("{DIRECTORY}: {error}")))?,
        };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            names.extend(file.strip_suffix(".json").map(str::to_owned));
        }
        names.sort();
        let each = names.iter().filter_map(|name| Self::read(name).transpose());
        Ok(each.collect())
    }
}

/// What to do about a file that can't be read.
const OTHER: &str = "it was not written by this version; have the version that wrote it end the lab, or see \
                     what it names, then remove it by hand";

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.json"))
}

/// Refuses names that can't be part of a namespace's name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty()
        || name.starts_with('-')
        || name.len() > 2 * LONGEST
        || !name.chars().all(fit)
    {
        return Err(Error::Name(name.chars().filter(|c| !c.is_control()).take(LONGEST).collect()));
    }
    Ok(())
}

/// A lock: labs are made and removed one at a time on a machine.
pub(crate) fn lock() -> Result<File, Error> {
    let fail = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => Error::NotRoot,
        _ => Error::State(format!("{DIRECTORY}: {error}")),
    };
    fs::create_dir_all(DIRECTORY).map_err(fail)?;
    let file = File::create(Path::new(DIRECTORY).join(".lock")).map_err(fail)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|error| fail(error.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_too() {
        let own = Process::own().unwrap();
        assert!(own.lives());
        assert!(!Process { start: own.start + 1, ..own }.lives());
    }

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for name in ["", "-x", "../x", "a/b", "a b", "\u{1b}[2J", &"x".repeat(129)] {
            assert!(Journal::read(name).is_err(), "{name}");
        }
        assert_eq!(Journal::new("t-1", Switches::Bridge).unwrap().namespace("h0"), "wm-t-1-h0");
    }
}
