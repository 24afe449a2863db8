//! A BPF file system of our own: what is pinned there survives the agent, so that the programs that end
//! leases do. The usual one under /sys is hidden inside `ip netns exec`.

use std::fs::{self, File};
use std::io;
use std::iter;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, StatFs, flock, statfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Error;

const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// A directory beside those of agents that says who mounted the file system.
const OURS: &str = "mounted-by-watermaster";

/// A process that was killed has its lock until it has ended, which takes it so long at most.
const DYING: Duration = Duration::from_secs(2);

/// A directory below a BPF file system, held by this value alone.
#[derive(Debug)]
pub(crate) struct Pins {
    root: PathBuf,
    path: PathBuf,
    /// Nobody left it behind.
    is_new: bool,
    lock: Lock,
}

impl Pins {
    /// The directory `name` of the BPF file system at `root`, which is mounted there if it isn't yet.
    /// [`Error::Taken`] where another process has it.
    pub(crate) fn at(root: &Path, name: &str) -> Result<Self, Error> {
        fs::create_dir_all(root).map_err(Error::file(root))?;
        if !is_bpf(root)? {
            if !outlives_us() {
                const REMEDY: &str = "what this process mounts there would end with it, and limits \
                    would not; have it mounted beforehand, outside of this mount namespace, as \
                    packaging/run-watermaster-bpf.mount does";
                return Err(Error::Setting { setting: "pins", remedy: REMEDY });
            }
            let has_files = !entries(root)?.is_empty();
            // Another agent may have mounted it meanwhile.
            if !is_bpf(root)? {
                if has_files {
                    const REMEDY: &str = "the directory has files, which a mount would hide; name an empty \
                        one or a new one";
                    return Err(Error::Setting { setting: "pins", remedy: REMEDY });
                }
                mount("bpf", root, "bpf", MountFlags::empty(), None)
                    .map_err(|error| Error::file(root)(io::Error::from(error)))?;
                fs::create_dir(root.join(OURS)).map_err(Error::file(root.join(OURS)))?;
            }
        }
        // This file system has no dots in names.
        let path = root.join(name.replace('.', ":"));
        loop {
            let is_new = match fs::create_dir(&path) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(Error::file(&path)(error)),
            };
            if let Some(lock) = Lock::take(&path)? {
                return Ok(Self { root: root.to_owned(), path, is_new, lock });
            }
        }
    }

    /// Where something of this name is pinned, if it is.
    pub(crate) fn existing(&self, name: &str) -> Option<PathBuf> {
        let path = self.path(name);
        path.exists().then_some(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes what was made here, where nothing had been left behind.
    pub(crate) fn undo(self) -> Result<(), Error> {
        if self.is_new { self.remove() } else { Ok(()) }
    }

    /// Removes the directory with all that is pinned there, and with the last one the mount, if it
    /// is ours.
    pub(crate) fn remove(self) -> Result<(), Error> {
        for path in entries(&self.path)? {
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
        fs::remove_dir(&self.path).map_err(Error::file(&self.path))?;
        // What is open keeps the file system mounted.
        drop(self.lock);
        let marker = self.root.join(OURS);
        // Kernels put files of their own there; ours are directories.
        let mut left = entries(&self.root)?;
        left.retain(|path| path.is_dir());
        if left == [marker.clone()] {
            fs::remove_dir(&marker).map_err(Error::file(&marker))?;
            // Lazily: a child of another thread may have a directory of it open until it executes.
            unmount(&self.root, UnmountFlags::DETACH)
                .map_err(|error| Error::file(&self.root)(io::Error::from(error)))?;
            fs::remove_dir(&self.root).map_err(Error::file(&self.root))?;
        }
        Ok(())
    }
}

/// An exclusive lock of a directory.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// `None`: the directory was removed meanwhile.
    fn take(path: &Path) -> Result<Option<Self>, Error> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::file(path))?,
        };
        let given_up = Instant::now() + DYING;
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(Error::file(path)(error.into()));
            }
            if Instant::now() > given_up {
                return Err(Error::Taken(path.to_owned()));
            }
            thread::sleep(DYING / 20);
        }
        let lock = Self(file);
        let locked = lock.0.metadata().map_err(Error::file(path))?;
        let is_there = fs::metadata(path).is_ok_and(|there| there.ino() == locked.ino());
        Ok(is_there.then_some(lock))
    }
}

/// A process that is just being started has a copy of the descriptor until it runs its program: closing
/// ours would not be enough.
impl Drop for Lock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let read =
        || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>();
    read().map_err(Error::file(directory))
}

/// Whether our mount namespace is that of the first process, or, where that may not be looked at, of the eldest
/// from which this one stems and that may be. Any other may end with us, and all that is mounted in it: a service's
/// that systemd shields, one of `unshare`, a container's in which we are the first.
fn outlives_us() -> bool {
    let own = process::id();
    let namespace = |process| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let parent = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let eldest = iter::successors(Some(own), parent).chain([1]);
    let eldest = eldest.filter(|process| *process != own).filter_map(namespace).last();
    eldest.is_some() && eldest == namespace(own)
}

fn is_bpf(path: &Path) -> Result<bool, Error> {
    let StatFs { f_type, .. } =
        statfs(path).map_err(|error| Error::file(path)(io::Error::from(error)))?;
    Ok(f_type == i64::from(BPF_FS_MAGIC))
}
