//! Which sockets a process has, and those of a control group.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use protocol::Process;

use crate::{Ended, Error, Statistics};

/// Open files, and control groups, that are looked at for all processes of a sample together: who has more gets no
/// more of the agent's time, which renews leases meanwhile.
const MOST_FILES: usize = 65_536;
const MOST_GROUPS: usize = 4_096;

/// The sockets of a process or of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// By their inodes.
    These(HashSet<u64>),
    /// Those that were made in groups of these inodes.
    MadeIn(HashSet<u64>),
}

impl Sockets {
    /// The sockets of `process` now, where control groups are mounted at `groups`. Who isn't there has none.
    ///
    /// # Errors
    /// [`Error::Hidden`]: a process of another user, or with more rights.
    pub fn of(process: &Process, groups: Option<&Path>) -> Result<Self, Error> {
        let (mut files, mut inner) = (MOST_FILES, MOST_GROUPS);
        Self::within(process, groups, (&mut files, &mut inner))
    }

    /// The same of several, in no more time than for one. Each has an equal share of what is looked at, and what those
    /// before it have left of theirs.
    pub fn of_all<'a>(
        processes: &[&'a Process],
        groups: Option<&Path>,
    ) -> Vec<(&'a Process, Result<Self, Error>)> {
        Self::all_within(processes, groups, (MOST_FILES, MOST_GROUPS))
    }

    fn all_within<'a>(
        processes: &[&'a Process],
        groups: Option<&Path>,
        (mut files, mut inner): (usize, usize),
    ) -> Vec<(&'a Process, Result<Self, Error>)> {
        let mut all = Vec::new();
        for (process, others) in processes.iter().zip((1..=processes.len()).rev()) {
            let (mut own_files, mut own_inner) = (files / others, inner / others);
            (files, inner) = (files - own_files, inner - own_inner);
            let found = Self::within(process, groups, (&mut own_files, &mut own_inner));
            (files, inner) = (files + own_files, inner + own_inner);
            all.push((*process, found));
        }
        all
    }

    /// So many files and groups are looked at, at most; what is not used of it stays.
    fn within(
        process: &Process,
        groups: Option<&Path>,
        (left_files, left_groups): (&mut usize, &mut usize),
    ) -> Result<Self, Error> {
        match process {
            Process::Pid(pid) => files(*pid, left_files).map(Self::These),
            Process::Cgroup(path) => {
                let top = groups.and_then(|groups| below(groups, Path::new(path)));
                let found = top.map(|top| inodes(top, left_groups));
                Ok(Self::MadeIn(found.unwrap_or_default()))
            }
            // Which groups are a pod's its cluster says.
            Process::Pod(_) => Ok(Self::MadeIn(HashSet::new())),
        }
    }

    /// Whether the socket of one that has ended was one of them, as far as that can be known: of a control group.
    pub fn had(&self, ended: &Ended) -> bool {
        matches!(self, Self::MadeIn(groups) if groups.contains(&ended.cgroup))
    }

    /// Whether a connection's socket is one of them.
    pub fn have(&self, connection: &Statistics) -> bool {
        match self {
            Self::These(inodes) => connection.inode.is_some_and(|inode| inodes.contains(&inode)),
            Self::MadeIn(groups) => groups.contains(&connection.cgroup),
        }
    }
}

/// The inodes of a process's sockets. The folder is its user's, and what the links say is for who may trace it
/// (proc_pid_fd(5)).
fn files(pid: u32, left: &mut usize) -> Result<HashSet<u64>, Error> {
    let hidden = |lacks, source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => Err(Error::Hidden { pid, lacks, source }),
        _ => Ok(()), // it has ended, or has closed the file
    };
    let mut found = HashSet::new();
    if is_thread(pid) {
        return Ok(found);
    }
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(files) => {
            for file in files.take(*left) {
                *left -= 1;
                let Ok(file) = file else { continue };
                match fs::read_link(file.path()) {
                    Ok(link) => found.extend(link.to_str().and_then(socket)),
                    Err(error) => hidden("CAP_SYS_PTRACE", error)?,
                }
            }
        }
        Err(error) => hidden("CAP_DAC_READ_SEARCH", error)?,
    }
    Ok(found)
}

/// Whether it is the number of another thread than a process's first: all threads have the same files.
fn is_thread(number: u32) -> bool {
    let is_others = |status: String| {
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        group.is_some_and(|group| group.trim() != number.to_string())
    };
    fs::read_to_string(format!("/proc/{number}/status")).is_ok_and(is_others)
}

fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// A path from the root of the groups; nothing leads out of it.
fn below(groups: &Path, path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/").ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then(|| groups.join(rest))
}

/// The inodes of a group and of those below it.
fn inodes(top: PathBuf, left: &mut usize) -> HashSet<u64> {
    let (mut found, mut groups) = (HashSet::new(), vec![top]);
    while let Some(group) = groups.pop()
        && *left > 0
    {
        *left -= 1;
        let Ok(about) = fs::symlink_metadata(&group) else { continue };
        if about.is_dir() && found.insert(about.ino()) {
            let inner = fs::read_dir(&group).into_iter().flatten().flatten();
            let is_group = |file: &fs::DirEntry| file.file_type().is_ok_and(|kind| kind.is_dir());
            groups.extend(inner.filter(is_group).take(*left).map(|file| file.path()));
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use super::*;

    #[test]
    fn the_sockets_of_this_process_are_found_and_of_none_none() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let link = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        let inode = super::socket(link.to_str().unwrap()).unwrap();
        let of = |pid| Sockets::of(&Process::Pid(pid), None).unwrap();
        let Sockets::These(found) = of(std::process::id()) else { panic!("a process has files") };
        assert!(found.contains(&inode), "{found:?}");
        assert_eq!(of(0), Sockets::These(HashSet::new()));
        let of_thread = || {
            let number = rustix::thread::gettid().as_raw_nonzero().get();
            of(u32::try_from(number).unwrap())
        };
        let found = std::thread::scope(|scope| scope.spawn(of_thread).join().unwrap());
        assert_eq!(found, Sockets::These(HashSet::new()), "a thread is no process");
    }

    #[test]
    fn groups_are_those_below_the_root_of_groups_only() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::create_dir_all(root.path().join("c")).unwrap();
        let of = |path: &str| match Sockets::of(&Process::Cgroup(path.into()), Some(root.path())) {
            Ok(Sockets::MadeIn(groups)) => groups.len(),
            other => panic!("a group has groups: {other:?}"),
        };
        assert_eq!([of("/"), of("/a"), of("/a/b"), of("/absent")], [4, 2, 1, 0]);
        assert_eq!([of("a"), of("/a/../.."), of("/../a"), of("")], [0; 4]);
    }

    #[test]
    fn many_are_looked_for_in_no_more_time_than_one() {
        let root = tempfile::tempdir().unwrap();
        for group in ["a/1", "a/2", "a/3", "a/4", "b"] {
            fs::create_dir_all(root.path().join(group)).unwrap();
        }
        let of = |paths: [&str; 2]| {
            let processes = paths.map(|path| Process::Cgroup(path.into()));
            let [first, second] = &processes;
            let all = Sockets::all_within(&[first, second], Some(root.path()), (0, 6));
            let found = all.into_iter().map(|(_, found)| match found {
                Ok(Sockets::MadeIn(groups)) => groups.len(),
                other => panic!("a group has groups: {other:?}"),
            });
            found.collect::<Vec<_>>()
        };
        assert_eq!((of(["/a", "/b"]), of(["/b", "/a"])), (vec![3, 1], vec![1, 5]));
        let own = Process::Pid(std::process::id());
        let mut left = 2;
        Sockets::within(&own, None, (&mut left, &mut 0)).unwrap();
        assert_eq!(left, 0, "a process has more than two files");
    }
}
