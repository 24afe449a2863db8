//! An output directory that appears whole or not at all: files are made in a hidden directory beside
//! it and moved when all are complete; an error or an interrupt leaves nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;

/// What an interrupt removes.
static UNFINISHED: Mutex<Option<Leftover>> = Mutex::new(None);

/// A directory under construction, and the outermost directory that was made for it.
#[derive(Clone)]
struct Leftover {
    directory: PathBuf,
    made: Option<PathBuf>,
}

impl Leftover {
    fn remove(&self) {
        // A thread may still be adding files: try again.
        for _ in 0..10 {
            if fs::remove_dir_all(&self.directory).is_ok() || !self.directory.exists() {
                break;
            }
        }
        let Some(made) = &self.made else {
            return;
        };
        // Removes it only if empty: other files aren't ours.
        let mut at = self.directory.parent();
        while let Some(directory) = at {
            if fs::remove_dir(directory).is_err() || directory == made {
                break;
            }
            at = directory.parent();
        }
    }
}

fn unfinished() -> MutexGuard<'static, Option<Leftover>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hidden directory in which an output directory is made.
pub(crate) struct Staging {
    target: PathBuf,
    leftover: Leftover,
}

impl Staging {
    /// Begins the output directory `target`.
    pub(crate) fn begin(target: &Path) -> Result<Self, Failure> {
        let fail = |error: io::Error| {
            Failure::misused(format_args!(
                "--out {}: {error}; name a directory that can be written",
                target.display()
            ))
        };
        let target = std::path::absolute(target).map_err(fail)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(fail(io::Error::other("it is no directory to write to")));
        };
        if target.exists() && !target.is_dir() {
            return Err(fail(io::Error::other("it is a file")));
        }
        let made = parent.ancestors().take_while(|directory| !directory.exists()).last();
        let hidden = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
        let leftover = Leftover { directory: parent.join(hidden), made: made.map(Path::to_owned) };
        // From here on an interrupt removes it; a failure below does too.
        let mut unfinished = unfinished();
        *unfinished = Some(leftover.clone());
        drop(unfinished);
        let staging = Self { target, leftover };
        fs::create_dir_all(&staging.leftover.directory).map_err(fail)?;
        Ok(staging)
    }

    /// Where to make the files.
    pub(crate) fn directory(&self) -> &Path {
        &self.leftover.directory
    }

    /// Moves all files to the output directory, in place of older ones of the same name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let mut unfinished = unfinished();
        let moved = self.move_all();
        if moved.is_ok() {
            *unfinished = None;
        }
        drop(unfinished);
        moved.map_err(|error| {
            Failure::failed(format_args!("can't write {}: {error}", self.target.display()))
        })
    }

    fn move_all(&self) -> io::Result<()> {
        if !self.target.exists() {
            return fs::rename(self.directory(), &self.target);
        }
        for entry in fs::read_dir(self.directory())? {
            let entry = entry?;
            fs::rename(entry.path(), self.target.join(entry.file_name()))?;
        }
        fs::remove_dir(self.directory())
    }
}

/// Removes what was not finished.
impl Drop for Staging {
    fn drop(&mut self) {
        if let Some(leftover) = unfinished().take() {
            leftover.remove();
        }
    }
}

/// Makes an interrupt (Ctrl-C, termination, a closed terminal) leave nothing behind, neither files
/// nor labs.
pub(crate) fn clean_up_on_interrupt() -> Result<(), Failure> {
    const INTERRUPTED: i32 = 130;
    let clean = || {
        let mut unfinished = unfinished();
        if let Some(leftover) = unfinished.take() {
            leftover.remove();
        }
        ::lab::abandon();
        // The lock is kept until exit, so that no file is moved.
        std::process::exit(INTERRUPTED);
    };
    ctrlc::set_handler(clean).map_err(Failure::failed)
}
