//! Reads a recording for a replay.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use control::record::{Configuration, Content, Continuation, Fnv, Record, Records};
use control::{Change, Config, Configure, Output, Replay};
use serde::Serialize;

use crate::recorder::{file_name, part_of};
use crate::settings::Settings;

/// Octets that are read at once.
const CHUNK: usize = 64 << 10;

/// A recording that can't be replayed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub struct ReplayError {
    file: PathBuf,
    reason: String,
}

/// What came of a replay of files.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// What the machine did.
    #[serde(flatten)]
    pub replay: Replay,
    /// Files that were read.
    pub parts: u64,
    /// Whether the last record is truncated, as after a crash.
    pub truncated: bool,
}

/// Replays the recording that begins in `file`, with the files that follow it; `tell` gets every record
/// and what was decided then.
///
/// # Errors
/// It can't be read, isn't a recording from its beginning, or a part is missing or doesn't belong to it.
pub fn replay(file: &Path, tell: impl FnMut(&Record, &[Output])) -> Result<Replayed, ReplayError> {
    let wrong = |reason: String| ReplayError { file: file.to_owned(), reason };
    let mut parts = Parts::open(file).map_err(wrong)?;
    let replay = control::replay(&mut parts, &mut Recorded::default(), tell).map_err(wrong)?;
    Ok(Replayed { replay, parts: parts.part + 1, truncated: parts.is_truncated() })
}

/// Configurations as the daemon reads them.
#[derive(Default)]
pub struct Recorded {
    /// The policy that decides.
    policy: Option<(String, policy::Parameters)>,
}

impl Configure for Recorded {
    fn start(&mut self, recorded: &Configuration) -> Result<Config, String> {
        let settings = settings(recorded)?;
        self.policy = Some((settings.control.policy_name.clone(), settings.parameters));
        Ok(settings.control)
    }

    fn change(&mut self, recorded: &Configuration) -> Result<Change, String> {
        let settings = settings(recorded)?;
        let policy = self.policy.as_mut().ok_or("no controller has begun")?;
        Ok(change(settings, policy))
    }
}

fn settings(recorded: &Configuration) -> Result<Settings, String> {
    Settings::read(&recorded.file, &recorded.settings, Path::new(""))
        .map_err(|error| error.to_string())
}

/// What a configuration changes that was read again; `policy` is the one that decides.
pub fn change(settings: Settings, policy: &mut (String, policy::Parameters)) -> Change {
    let asked = (settings.control.policy_name, settings.parameters);
    let fresh = if asked == *policy {
        None
    } else {
        *policy = asked;
        Some((policy.0.clone(), settings.control.policy))
    };
    Change {
        policy: fresh,
        limits: Some(settings.control.limits),
        lease: Some(settings.control.lease),
    }
}

/// The records of a recording, read part by part; the recorder may still write to the last one.
pub struct Parts {
    first: PathBuf,
    /// The number of the part that is read.
    part: u64,
    file: File,
    chunk: Vec<u8>,
    records: Records,
    /// Whether the first record of the part was read.
    has_begun: bool,
    epoch: u64,
    /// Over the bytes of all parts before.
    before: Fnv,
    /// Over those and what was read of this part.
    sum: Fnv,
}

impl Parts {
    /// The recording that begins in `first`. Where the file's name ends with `.000.record`, the others
    /// stand beside it.
    ///
    /// # Errors
    /// The file can't be read or is no regular file.
    pub fn open(first: &Path) -> Result<Self, String> {
        Ok(Self {
            first: first.to_owned(),
            part: 0,
            file: open(first)?,
            chunk: vec![0; CHUNK],
            records: Records::default(),
            has_begun: false,
            epoch: 0,
            before: Fnv::default(),
            sum: Fnv::default(),
        })
    }

    /// Whether bytes are left after the last whole record.
    pub const fn is_truncated(&self) -> bool {
        self.records.is_truncated()
    }

    /// Where a part is, if there are several.
    fn path(&self, part: u64) -> Option<PathBuf> {
        let (name, 0) = part_of(self.first.file_name()?.to_str()?)? else { return None };
        Some(self.first.with_file_name(file_name(name, part)))
    }

    fn read(&mut self) -> Result<Option<Record>, String> {
        loop {
            if let Some(record) = self.records.next() {
                let record = record.map_err(|error| error.to_string())?;
                let is_first = !std::mem::replace(&mut self.has_begun, true);
                if !is_first || self.begins(&record.content)? {
                    return Ok(Some(record));
                }
            }
            // A part that another one follows is whole: this must be known before its end is seen.
            let next = self.path(self.part + 1).filter(|next| next.exists());
            let read = self.file.read(&mut self.chunk).map_err(unreadable)?;
            if read > 0 {
                self.sum.update(&self.chunk[..read]);
                self.records.push(&self.chunk[..read]);
            } else if let Some(next) = next {
                self.part += 1;
                self.file = open(&next)?;
                self.before = self.sum;
                self.records = Records::default();
                self.has_begun = false;
            } else {
                self.is_last()?;
                return Ok(None);
            }
        }
    }

    /// Looks at the first record of a part; whether it is one of the recording's.
    fn begins(&mut self, content: &Content) -> Result<bool, String> {
        let (epoch, part, before) = (self.epoch, self.part, self.before);
        match content {
            Content::Started(epoch, _) if part == 0 => self.epoch = *epoch,
            Content::Continued(found) if part == 0 => {
                let Continuation { epoch, part, .. } = found;
                return Err(format!("this is part {part:03} of epoch {epoch}; name part 000"));
            }
            Content::Continued(found) if *found == Continuation { epoch, part, before } => {
                return Ok(false);
            }
            Content::Continued(found) if (found.epoch, found.part) != (epoch, part) => {
                return Err(format!(
                    "it is part {:03} of epoch {}, not part {part:03} of epoch {epoch}",
                    found.part, found.epoch
                ));
            }
            _ if part > 0 => {
                return Err(String::from(
                    "it does not follow the parts before it: they were changed, or are of another \
                     recording",
                ));
            }
            _ => {}
        }
        Ok(true)
    }

    /// Looks whether a part is missing.
    fn is_last(&self) -> Result<(), String> {
        let Some(missing) = self.path(self.part + 1) else { return Ok(()) };
        let name = |path: &Path| Some(part_of(path.file_name()?.to_str()?)?.0.to_owned());
        let folder = match missing.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let there = entry.map_err(unreadable)?.path();
            let part = there.file_name().and_then(|name| part_of(name.to_str()?));
            if name(&there) == name(&missing) && part.is_some_and(|(_, part)| part > self.part) {
                return Err(format!(
                    "{} is missing, although {} is there",
                    missing.display(),
                    there.display()
                ));
            }
        }
        Ok(())
    }
}

impl Iterator for Parts {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.part;
        let read = self.read().transpose()?;
        Some(read.map_err(|reason| match self.part.max(part) {
            0 => reason,
            part => format!("part {part:03}: {reason}"),
        }))
    }
}

/// Opens what can be read to its end: no pipe, no device.
fn open(file: &Path) -> Result<File, String> {
    if !fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(String::from("is no regular file; name part 000 of a recording"));
    }
    File::open(file).map_err(unreadable)
}

fn unreadable(error: std::io::Error) -> String {
    format!("can't be read: {error}")
}
