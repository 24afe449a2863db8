//! Network namespaces of others, entered by a thread that ends with the visit.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Error, raw};

/// How much below half a millisecond of round trip TCP may hand over whatever its rate (Linux 5.18).
const BURSTS: &str = "/proc/sys/net/ipv4/tcp_tso_rtt_log";

/// The file system of namespaces (include/uapi/linux/magic.h).
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    path: PathBuf,
    file: File,
}

impl Namespace {
    /// That of the calling process.
    ///
    /// # Errors
    /// [`Error::File`]: there is no /proc.
    pub fn own() -> Result<Self, Error> {
        Self::at("/proc/self/ns/net")
    }

    /// One that `ip netns add NAME` made.
    ///
    /// # Errors
    /// [`Error::File`]: there is none of that name.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::at(Path::new("/run/netns").join(name))
    }

    /// The one that a file stands for, such as `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// [`Error::File`]: there is no such file, or an unmounted namespace has left it.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let file = File::open(&path).map_err(Error::file(&path))?;
        let is_namespace = rustix::fs::fstatfs(&file).is_ok_and(|of| of.f_type == NSFS_MAGIC);
        if !is_namespace {
            let left = io::Error::new(ErrorKind::NotFound, "is a file and no namespace; remove it");
            return Err(Error::file(&path)(left));
        }
        Ok(Self { path, file })
    }

    /// A new one without a name, which ends with this value and the sockets made in it. Its loopback
    /// interface is up.
    ///
    /// # Errors
    /// [`Error::File`]: it can't be made, which needs the capability SYS_ADMIN.
    pub fn private() -> Result<Self, Error> {
        let made = thread::spawn(|| {
            raw::enter_new_namespace()?;
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
            if !up.map_err(|error| io::Error::other(format!("ip: {error}")))?.success() {
                return Err(io::Error::other("ip can't set an interface up"));
            }
            File::open("/proc/thread-self/ns/net")
        });
        let path = PathBuf::from("a new network namespace");
        let made = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let file = made.map_err(Error::file(&path))?;
        Ok(Self { path, file })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still what is found there.
    pub fn stands(&self) -> bool {
        self.is_that_of(&self.path)
    }

    /// Its inode, as statistics name it.
    ///
    /// # Errors
    /// [`Error::File`]
    pub(crate) fn inode(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(Error::file(&self.path))?.ino())
    }

    /// Does something inside.
    ///
    /// # Errors
    /// [`Error::File`]: it can't be entered, which needs the capability SYS_ADMIN where the caller is in
    /// another; and what `action` returns.
    ///
    /// # Panics
    /// When `action` does.
    pub fn visit<T: Send>(
        &self,
        action: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                if !self.is_here() {
                    move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                        .map_err(|error| Error::file(&self.path)(io::Error::from(error)))?;
                }
                action()
            });
            visitor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Has TCP inside hand over no more at once than its rate allows in a millisecond, or two segments. Linux
    /// otherwise makes it up to 64 KB below half a millisecond of round trip, whatever the rate: at 12 kbit/s
    /// nothing would follow for 45 s, and no higher rate and no end of a lease could change that. Kernels before
    /// 5.18 don't.
    ///
    /// # Errors
    /// [`Error::File`]: the setting can't be written.
    pub fn shorten_bursts(&self) -> Result<(), Error> {
        self.visit(|| match fs::write(BURSTS, "0") {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(BURSTS)(error)),
            _ => Ok(()),
        })
    }

    /// Whether the calling thread is inside already.
    fn is_here(&self) -> bool {
        self.is_that_of(Path::new("/proc/thread-self/ns/net"))
    }

    fn is_that_of(&self, path: &Path) -> bool {
        let identity = |about: fs::Metadata| (about.dev(), about.ino());
        let (there, own) = (fs::metadata(path).map(identity), self.file.metadata().map(identity));
        matches!((there, own), (Ok(there), Ok(own)) if there == own)
    }
}
