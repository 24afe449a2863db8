//! A BPF file system of our own: what is pinned there survives the agent, so that the programs that end
//! leases do. The usual one under /sys is hidden inside `ip netns exec`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{StatFs, statfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Error;

const BPF_FS_MAGIC: u32 = 0xcafe_4a11;

/// A directory beside those of agents that says who mounted the file system.
const OURS: &str = "mounted-by-watermaster";

/// A directory below a BPF file system.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    root: PathBuf,
    path: PathBuf,
}

impl Pins {
    /// The directory `name` of the BPF file system at `root`, which is mounted there if it isn't yet.
    pub(crate) fn at(root: &Path, name: &str) -> Result<Self, Error> {
        fs::create_dir_all(root).map_err(Error::file(root))?;
        if !is_bpf(root)? {
            mount("bpf", root, "bpf", MountFlags::empty(), None)
                .map_err(|error| Error::file(root)(io::Error::from(error)))?;
            fs::create_dir(root.join(OURS)).map_err(Error::file(root.join(OURS)))?;
        }
        let path = root.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::file(&path)(error))
            }
            _ => Ok(Self { root: root.to_owned(), path }),
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

    /// Removes the directory with all that is pinned there, and with the last one the mount, if it
    /// is ours.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        for path in entries(&self.path)? {
            fs::remove_file(&path).map_err(Error::file(&path))?;
        }
        fs::remove_dir(&self.path).map_err(Error::file(&self.path))?;
        let marker = self.root.join(OURS);
        // Kernels put files of their own there; ours are directories.
        let mut left = entries(&self.root)?;
        left.retain(|path| path.is_dir());
        if left == [marker.clone()] {
            fs::remove_dir(&marker).map_err(Error::file(&marker))?;
            unmount(&self.root, UnmountFlags::empty())
                .map_err(|error| Error::file(&self.root)(io::Error::from(error)))?;
            fs::remove_dir(&self.root).map_err(Error::file(&self.root))?;
        }
        Ok(())
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let read =
        || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>();
    read().map_err(Error::file(directory))
}

fn is_bpf(path: &Path) -> Result<bool, Error> {
    let StatFs { f_type, .. } =
        statfs(path).map_err(|error| Error::file(path)(io::Error::from(error)))?;
    Ok(f_type == i64::from(BPF_FS_MAGIC))
}
