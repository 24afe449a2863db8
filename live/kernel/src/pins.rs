//! A BPF file system of our own: what is pinned there survives the agent, so that the programs that end
//! leases do. The usual one under /sys is hidden inside `ip netns exec`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, StatFs, flock, statfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Error;

const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// A directory beside those of agents that says who mounted the file system.
const OURS: &str = "mounted-by-watermaster";

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
            let mounts = Path::new("/proc/self/mountinfo");
            let listed = fs::read_to_string(mounts).map_err(Error::file(mounts))?;
            let absolute = fs::canonicalize(root).map_err(Error::file(root))?;
            if is_borrowed(&listed, &absolute) {
                const REMEDY: &str = "what this process mounts there would end with it, and limits \
                    would not; have it mounted beforehand, as packaging/run-watermaster-bpf.mount does";
                return Err(Error::Setting { setting: "pins", remedy: REMEDY });
            }
            mount("bpf", root, "bpf", MountFlags::empty(), None)
                .map_err(|error| Error::file(root)(io::Error::from(error)))?;
            fs::create_dir(root.join(OURS)).map_err(Error::file(root.join(OURS)))?;
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
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Taken(path.to_owned())),
            Err(error) => return Err(Error::file(path)(error.into())),
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

/// Whether the mount that `path` lies on comes from another mount namespace, as for services that
/// systemd shields: what is mounted here isn't seen there. `listed` is `/proc/self/mountinfo`
/// (proc_pid_mountinfo(5)).
fn is_borrowed(listed: &str, path: &Path) -> bool {
    let mounts = listed.lines().filter_map(|line| {
        let (fields, _) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(4);
        let point = Path::new(fields.next()?);
        path.starts_with(point)
            .then(|| (point.as_os_str().len(), fields.any(|field| field.starts_with("master:"))))
    });
    // Of mounts over each other the last one counts.
    mounts.max_by_key(|(length, _)| *length).is_some_and(|(_, borrowed)| borrowed)
}

fn is_bpf(path: &Path) -> Result<bool, Error> {
    let StatFs { f_type, .. } =
        statfs(path).map_err(|error| Error::file(path)(io::Error::from(error)))?;
    Ok(f_type == i64::from(BPF_FS_MAGIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_namespace_that_ends_with_the_process_is_known() {
        let host = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda rw\n\
                    30 22 0:24 / /run rw,nosuid shared:5 - tmpfs tmpfs rw\n";
        let service = "80 79 8:1 / / ro,relatime shared:201 master:1 - ext4 /dev/sda rw\n\
                       90 80 0:24 / /run ro,nosuid shared:205 master:5 - tmpfs tmpfs rw\n\
                       91 90 0:24 /watermaster /run/watermaster rw shared:206 master:5 - tmpfs tmpfs rw\n";
        let container = "50 49 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
        let pins = Path::new("/run/watermaster/bpf");
        assert!(!is_borrowed(host, pins));
        assert!(is_borrowed(service, pins));
        assert!(!is_borrowed(container, pins));
        // Only the mount that it lies on counts.
        let own = format!("{service}92 91 0:50 / /run/watermaster/bpf rw - bpf bpf rw\n");
        assert!(!is_borrowed(&own, &pins.join("agent")));
        assert!(is_borrowed(&own, Path::new("/run/watermaster/bpffs")));
    }
}
