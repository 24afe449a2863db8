//! Reads a recording for a replay, and its configurations.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use control::record::{Configuration, Content, Continuation, Fnv, MAGIC, Record, Records};
use control::{Answers, Change, Config, Configure, Output, Replay};
use serde::Serialize;

use crate::recordings::{file_name, part_of};
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

/// Replays the recording that begins in `file`, with the files that follow it; `tell` gets every record,
/// what was decided then, and how the controller answers after it. Where it is damaged, or a part is missing or doesn't belong to it, the replay
/// ends there and says so.
///
/// # Errors
/// It can't be read, or isn't a recording from its beginning.
pub fn replay(
    file: &Path,
    tell: impl FnMut(&Record, &[Output], &Answers<'_>),
) -> Result<Replayed, ReplayError> {
    let wrong = |reason: String| ReplayError { file: file.to_owned(), reason };
    let mut parts = Parts::open(file).map_err(wrong)?;
    let replay = control::replay(&mut parts, &mut Recorded::default(), tell).map_err(wrong)?;
    let truncated = replay.damaged.is_none() && parts.is_truncated();
    Ok(Replayed { replay, parts: parts.part + 1, truncated })
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
        Ok(settings.change(policy))
    }
}

fn settings(recorded: &Configuration) -> Result<Settings, String> {
    Settings::read(&recorded.file, &recorded.settings, Path::new(""))
        .map_err(|error| error.to_string())
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
        let file = open(first)?;
        if file.metadata().map_err(unreadable)?.len() == 0 {
            return Err(String::from(
                "is empty: its controller ended before it recorded anything, or the disk was full; name part 000 of \
                 another recording",
            ));
        }
        Ok(Self {
            first: first.to_owned(),
            part: 0,
            file,
            chunk: vec![0; CHUNK],
            records: Records::default(),
            has_begun: false,
            epoch: 0,
            before: Fnv::default(),
            sum: Fnv::default(),
        })
    }

    /// Whether the last part has bytes after its last whole record, or has none.
    pub const fn is_truncated(&self) -> bool {
        self.records.is_truncated() || !self.has_begun
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
                continue;
            }
            // A part that another one follows is whole: this must be known before its end is seen.
            let next = self.path(self.part + 1).filter(|next| next.exists());
            let read = self.file.read(&mut self.chunk).map_err(unreadable)?;
            if read > 0 {
                if !self.has_begun {
                    of_this_form(&self.chunk[..read])?;
                }
                self.sum.update(&self.chunk[..read]);
                self.records.push(&self.chunk[..read]);
            } else if let Some(next) = next {
                if self.records.is_truncated() {
                    return Err(format!("it is truncated, although {} is there", next.display()));
                }
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
        let named = |path: &Path| {
            let (name, part) = part_of(path.file_name()?.to_str()?)?;
            Some((name.to_owned(), part))
        };
        let folder = missing.parent().filter(|folder| *folder != Path::new(""));
        for entry in fs::read_dir(folder.unwrap_or(Path::new("."))).map_err(unreadable)? {
            let there = entry.map_err(unreadable)?.path();
            if let (Some((ours, number)), Some((name, part))) = (named(&missing), named(&there))
                && ours == name
                && part > number
            {
                let (missing, there) = (missing.display(), there.display());
                return Err(format!(
                    "{missing} is missing, although {there} is there: it went to make room, or the disk was full; \
                     what comes after it can't be replayed"
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

/// Looks at how a part begins: the last octet of that is the version of the form.
fn of_this_form(begins: &[u8]) -> Result<(), String> {
    let [name @ .., own] = MAGIC;
    match begins.strip_prefix(name) {
        Some([found, ..]) if found != own => Err(format!(
            "is of version {found} of the form, and this program reads version {own}; replay it with the program that \
             recorded it"
        )),
        _ => Ok(()),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use control::Input;
    use control::record;
    use tempfile::TempDir;
    use units::Time;

    use super::*;
    use crate::recordings::{Files, Shares};
    use crate::settings;

    /// A recording of ticks in five parts.
    fn recorded(epoch: u64, settings: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let wanted = settings::Recorder { directory: folder.path().into(), most: 128, files: 5 };
        let mut files = Files::begin(&wanted, epoch).unwrap();
        let mut bytes = Vec::new();
        let configuration = Configuration {
            program: "0.1.0".into(),
            file: "c.toml".into(),
            settings: settings.into(),
        };
        record::write_started(Time::ZERO, epoch, &configuration, &mut bytes).unwrap();
        files.append(&bytes, &Shares::new()).unwrap();
        bytes.clear();
        record::write_input(Time::from_nanos(1), &Input::Tick, &mut bytes).unwrap();
        while !path(&folder, epoch, 4).exists() {
            files.append(&bytes, &Shares::new()).unwrap();
        }
        folder
    }

    fn path(folder: &TempDir, epoch: u64, part: u64) -> PathBuf {
        folder.path().join(file_name(&format!("epoch-{epoch:06}"), part))
    }

    fn read(first: &Path) -> Result<Vec<Record>, String> {
        Parts::open(first)?.collect()
    }

    #[test]
    fn parts_are_one_recording() {
        let folder = recorded(7, "");
        let first = path(&folder, 7, 0);
        let mut parts = Parts::open(&first).unwrap();
        let records: Vec<_> = parts.by_ref().map(Result::unwrap).collect();
        assert_eq!((parts.part, parts.is_truncated()), (4, false));
        assert!(matches!(records[0].content, Content::Started(7, _)));
        // The start, and in each part but the last as many ticks as it takes to exceed its size.
        assert_eq!(records.len(), 1 + 4 * 4 + 1);
        // The last one is cut as by a crash.
        let last = path(&folder, 7, 4);
        let bytes = fs::read(&last).unwrap();
        fs::write(&last, &bytes[..bytes.len() - 1]).unwrap();
        let mut parts = Parts::open(&first).unwrap();
        assert_eq!((parts.by_ref().count(), parts.is_truncated()), (records.len() - 1, true));
        fs::write(&last, []).unwrap();
        let mut parts = Parts::open(&first).unwrap();
        assert!(parts.by_ref().count() < records.len() && parts.is_truncated());
    }

    #[test]
    fn what_is_empty_or_of_another_version_is_told_as_that() {
        let folder = recorded(7, "");
        let first = path(&folder, 7, 0);
        let mut bytes = fs::read(&first).unwrap();
        bytes[MAGIC.len() - 1] = 3;
        fs::write(&first, &bytes).unwrap();
        let (why, own) = (read(&first).unwrap_err(), MAGIC[MAGIC.len() - 1]);
        let wanted = format!("is of version 3 of the form, and this program reads version {own}; ");
        assert!(why.starts_with(&wanted), "{why}");
        fs::write(&first, []).unwrap();
        let why = read(&first).unwrap_err();
        assert!(why.starts_with("is empty: ") && why.contains("name part 000"), "{why}");
    }

    #[test]
    fn a_part_that_does_not_belong_is_found() {
        let error = |change: &dyn Fn(&TempDir)| {
            let folder = recorded(7, "");
            change(&folder);
            read(&path(&folder, 7, 0)).unwrap_err()
        };
        let missing = error(&|folder| fs::remove_file(path(folder, 7, 2)).unwrap());
        assert!(missing.contains(".002.record is missing, although "), "{missing}");
        let swapped = error(&|folder| {
            let third = fs::read(path(folder, 7, 3)).unwrap();
            fs::rename(path(folder, 7, 2), path(folder, 7, 3)).unwrap();
            fs::write(path(folder, 7, 2), third).unwrap();
        });
        assert_eq!(swapped, "part 002: it is part 003 of epoch 7, not part 002 of epoch 7");
        let cut = error(&|folder| {
            let bytes = fs::read(path(folder, 7, 2)).unwrap();
            fs::write(path(folder, 7, 2), &bytes[..bytes.len() - 1]).unwrap();
        });
        assert!(cut.starts_with("part 002: it is truncated, although "), "{cut}");
        // Of another controller with the same epoch, and of another epoch.
        let other = error(&|folder| {
            fs::copy(path(&recorded(7, "#"), 7, 2), path(folder, 7, 2)).unwrap();
        });
        assert!(other.starts_with("part 002: it does not follow the parts before it"), "{other}");
        let other = error(&|folder| {
            fs::copy(path(&recorded(8, ""), 8, 1), path(folder, 7, 1)).unwrap();
        });
        assert_eq!(other, "part 001: it is part 001 of epoch 8, not part 001 of epoch 7");
        let later = read(&path(&recorded(7, ""), 7, 1)).unwrap_err();
        assert_eq!(later, "this is part 001 of epoch 7; name part 000");
    }
}
