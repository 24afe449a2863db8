//! The epoch: a number in the state directory, higher at every start.
//!
//! Whatever a controller grants bears its epoch, and actuators refuse what is of a lower one than
//! they have obeyed. So the number must be on disk before the first word is said, and must never be
//! guessed: a state that can't be read stops the start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use protocol::agent::MOST_EPOCH;
use rustix::fs::{FlockOperation, flock};

/// The state directory, held by this process alone.
#[derive(Debug)]
pub struct State {
    /// Held locked until the end.
    _lock: File,
    directory: PathBuf,
    /// The last epoch that was raised.
    pub epoch: u64,
}

/// A state directory that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file can't be read or written.
    #[error("{}: {error}; {}", file.display(), remedy(error))]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another controller runs.
    #[error("{}: another controller uses this state; stop it, or give this one a state of its own", .0.display())]
    Taken(PathBuf),
    /// The epoch isn't a number.
    #[error(
        "{}: holds no epoch; write into it the highest epoch that agents have obeyed: \
         the last that their logs name", .0.display()
    )]
    Damaged(PathBuf),
    /// No start can have a higher epoch than this.
    #[error(
        "{}: holds {epoch}; no agent obeys an epoch above {MOST_EPOCH}, and this start's would be: write \
         into it the highest that several agents' logs name; an agent that is stopped and started obeys any", file.display()
    )]
    TooHigh {
        /// The file of the epoch.
        file: PathBuf,
        /// What it holds.
        epoch: u64,
    },
}

/// More octets hold no epoch.
const MOST: u64 = 4096;

impl State {
    /// Takes the directory and raises the epoch in it by one, durably.
    ///
    /// # Errors
    /// Another controller has it, it can't be written, or the epoch in it can't be read.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let mut state = Self::take(directory)?;
        state.raise(state.epoch + 1)?;
        Ok(state)
    }

    /// Takes the directory as it is.
    ///
    /// # Errors
    /// As [`State::open`], but it isn't tried whether it can be written.
    pub fn take(directory: &Path) -> Result<Self, StateError> {
        let wrong = |file: &Path| {
            let file = file.to_owned();
            move |error| StateError::File { file, error }
        };
        fs::create_dir_all(directory).map_err(wrong(directory))?;
        let lock_file = directory.join("lock");
        let lock = File::create(&lock_file).map_err(wrong(&lock_file))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StateError::Taken(directory.to_owned()));
            }
            Err(error) => return Err(wrong(&lock_file)(error.into())),
        }
        let file = directory.join("epoch");
        // What isn't a file may have no end, or keep a reader waiting.
        let last = match fs::metadata(&file) {
            Ok(kind) if !kind.is_file() || kind.len() > MOST => None,
            Ok(_) => {
                let text = fs::read_to_string(&file).map_err(wrong(&file))?;
                text.trim().parse::<u64>().ok()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
            Err(error) => return Err(wrong(&file)(error)),
        };
        let last = last.ok_or_else(|| StateError::Damaged(file.clone()))?;
        if last >= MOST_EPOCH {
            return Err(StateError::TooHigh { file, epoch: last });
        }
        Ok(Self { _lock: lock, directory: directory.to_owned(), epoch: last })
    }

    /// Raises the epoch to `epoch`, durably.
    ///
    /// # Errors
    /// It can't be written.
    pub fn raise(&mut self, epoch: u64) -> Result<(), StateError> {
        let (file, beside) = (self.directory.join("epoch"), self.directory.join("epoch.new"));
        let written = write(&beside, epoch).and_then(|()| {
            fs::rename(&beside, &file)?;
            File::open(&self.directory)?.sync_all()
        });
        written.map_err(|error| StateError::File { file, error })?;
        self.epoch = epoch;
        // The next start writes over it: it needs no room, and a full disk doesn't stop it.
        if let Err(error) = write(&beside, epoch) {
            tracing::warn!(
                file = %beside.display(), %error, "no room is kept for the next epoch: make room before a restart"
            );
        }
        Ok(())
    }

    /// Another has this epoch: so that this one begins above it, should nobody else know of it any more.
    pub fn note(&mut self, epoch: u64) {
        if let Err(error) = self.raise(epoch) {
            tracing::warn!(%error, epoch, "the epoch of another controller can't be written down");
            // Who is elected raises it again, and can't lead without.
            self.epoch = epoch;
        }
    }
}

/// Writes an epoch, over what is there.
fn write(file: &Path, epoch: u64) -> io::Result<()> {
    let text = format!("{epoch:<16}\n");
    let mut out = OpenOptions::new().write(true).create(true).truncate(false).open(file)?;
    out.write_all(text.as_bytes())?;
    out.set_len(text.len() as u64)?;
    out.sync_all()
}

fn remedy(error: &io::Error) -> &'static str {
    if is_full(error) {
        "make room there"
    } else {
        "the controller needs a state directory that it may write to"
    }
}

/// Whether a disk has no room for more.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    /// The last epoch is used, and after it there is none: what the file holds then stays.
    #[test]
    fn after_the_last_epoch_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("epoch");
        fs::write(&file, (MOST_EPOCH - 1).to_string()).unwrap();
        assert_eq!(State::open(folder.path()).unwrap().epoch, MOST_EPOCH);
        for last in [MOST_EPOCH, MOST_EPOCH + 1, u64::MAX] {
            fs::write(&file, last.to_string()).unwrap();
            let refused = State::open(folder.path()).unwrap_err();
            assert!(
                matches!(refused, StateError::TooHigh { epoch, .. } if epoch == last),
                "{refused}"
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), last.to_string());
        }
    }
}
