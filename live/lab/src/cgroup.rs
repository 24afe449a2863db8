//! The processes of a lab, in a control group of its own, so that only they are ended.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::Error;

/// The group of a lab whose connections its agent governs, within the lab's.
pub(crate) const TRAFFIC: &str = "traffic";
/// Longest time for processes to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Characters of a line that an error shows: Java's class paths have thousands.
const WIDEST: usize = 300;

fn root() -> Result<PathBuf, Error> {
    kernel::unified_mount().map_err(|error| Error::State(error.to_string()))
}

/// Where the group of the lab `name` will be. Nobody else has the same `token`.
pub(crate) fn path(name: &str, token: &str) -> Result<PathBuf, Error> {
    Ok(root()?.join(format!("watermaster-{name}-{token}")))
}

fn fail(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::State(format!("{path}: {error}"))
}

/// Makes the group; fails if it exists, since it isn't ours.
pub(crate) fn create(path: &Path) -> Result<(), Error> {
    fs::create_dir(path).map_err(fail(path))
}

/// Starts a program in the group, with its output written to the file `log`.
pub(crate) fn spawn(path: &Path, command: &Command, log: &Path) -> Result<Child, Error> {
    let out = fs::File::create(log).map_err(fail(log))?;
    let both = out.try_clone().map_err(fail(log))?;
    let mut wrapped = Command::new("/bin/sh");
    wrapped
        .args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh"])
        .arg(path.join("cgroup.procs"))
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(both);
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            wrapped.env(key, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    std::os::unix::process::CommandExt::process_group(&mut wrapped, 0);
    wrapped.spawn().map_err(fail(log))
}

/// The last `lines` of such a log, and which it is.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut last = VecDeque::new();
    for line in text.lines() {
        if last.len() == lines {
            last.pop_front();
        }
        let shown: String = line.chars().take(WIDEST).collect();
        last.push_back(format!("  {shown}\n"));
    }
    format!("{} ends:\n{}", log.display(), last.into_iter().collect::<String>())
}

/// The processes in the group itself; none where there is no group.
pub(crate) fn members(path: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Moves this process into a group.
pub(crate) fn enter(path: &Path) -> Result<(), Error> {
    fs::write(path.join("cgroup.procs"), std::process::id().to_string()).map_err(fail(path))
}

/// A guard: while it lives, this process is in a group.
#[derive(Debug)]
pub(crate) struct Membership {
    home: PathBuf,
}

impl Membership {
    /// Moves this process into the group, which is made if missing.
    pub(crate) fn begin(path: &Path) -> Result<Self, Error> {
        let root = root()?;
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        // `0::/path` is the line of version 2 (cgroups(7)).
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        if !path.exists() {
            create(path)?;
        }
        enter(path)?;
        Ok(Self { home: root.join(own) })
    }
}

/// Back to the old group, or to the root if that is gone.
impl Drop for Membership {
    fn drop(&mut self) {
        if enter(&self.home).is_err()
            && let Ok(root) = root()
        {
            // A process that can't leave is ended with the group.
            let _ = enter(&root);
        }
    }
}

/// Moves this process out of the group if it is in it.
fn leave(path: &Path) -> Result<(), Error> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let is_member = path.file_name().is_some_and(|name| own.contains(&*name.to_string_lossy()));
    if is_member { enter(&root()?) } else { Ok(()) }
}

/// Ends every process in the group and below, and removes it.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    leave(path)?;
    let start = Instant::now();
    loop {
        fs::write(path.join("cgroup.kill"), "1").map_err(fail(path))?;
        for entry in fs::read_dir(path).map_err(fail(path))?.flatten() {
            if entry.path().is_dir() {
                // Still busy: removed later with its parent.
                let _ = fs::remove_dir(entry.path());
            }
        }
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if start.elapsed() > PATIENCE => return Err(fail(path)(error)),
            Err(_) => sleep(Duration::from_millis(10)),
        }
    }
}
