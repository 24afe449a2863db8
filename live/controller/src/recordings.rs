//! The files of recordings: parts of the running one, the room that earlier ones leave, and copies that operators
//! keep.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use control::record::{self, Continuation, Fnv};
use serde::Serialize;

use crate::epoch::is_full;
use crate::settings;

/// Where what operators keep is, in the folder of recordings.
const PINNED: &str = "pinned";
/// Files beyond those that the configuration has room for, as restarts leave small ones.
const SMALL: usize = 1_000;
/// Whose octets are counted apart in a part; what others say is counted together.
const MOST_APART: usize = 1_000;

/// What each said, in octets of the recording.
pub(crate) type Shares = BTreeMap<Arc<str>, u64>;

/// The name of a part of the recording `name`.
pub fn file_name(name: &str, part: u64) -> String {
    format!("{name}.{part:03}.record")
}

/// The name of the recording and the number of the part that a file of this name is.
pub fn part_of(file_name: &str) -> Option<(&str, u64)> {
    let (name, part) = file_name.strip_suffix(".record")?.rsplit_once('.')?;
    Some((name, part.parse().ok()?))
}

/// A part that is there.
struct Part {
    octets: u64,
    shares: Shares,
}

/// The parts of a recording that is written.
pub(crate) struct Files {
    wanted: settings::Recorder,
    epoch: u64,
    name: String,
    /// The part that is written to; none after records were lost.
    file: Option<File>,
    part: u64,
    /// All parts that are there, with the one that is written to.
    parts: BTreeMap<u64, Part>,
    /// Over all octets of all parts.
    sum: Fnv,
}

impl Files {
    /// Begins a recording, and makes room for it. On a full disk it begins with the next part.
    pub(crate) fn begin(wanted: &settings::Recorder, epoch: u64) -> io::Result<Self> {
        let mut files = Self::begin_late(wanted, epoch)?;
        match files.open_part() {
            Err(error) if !is_full(&error) => Err(error),
            _ => Ok(files),
        }
    }

    /// Begins one whose first part is missing.
    pub(crate) fn begin_late(wanted: &settings::Recorder, epoch: u64) -> io::Result<Self> {
        fs::create_dir_all(&wanted.directory)?;
        let name = free_name(&wanted.directory, epoch)?;
        let (wanted, sum) = (wanted.clone(), Fnv::default());
        Ok(Self { wanted, epoch, name, file: None, part: 0, parts: BTreeMap::new(), sum })
    }

    /// Writes whole records, into the next part where this one is full. `shares` says who said how much of it.
    pub(crate) fn append(&mut self, chunk: &[u8], shares: &Shares) -> io::Result<()> {
        let is_full =
            self.parts.get(&self.part).is_some_and(|part| part.octets >= self.wanted.most);
        if self.file.is_none() || is_full {
            self.next_part()?;
        }
        self.write_all(chunk)?;
        if let Some(part) = self.parts.get_mut(&self.part) {
            for (who, octets) in shares {
                let is_apart = part.shares.len() < MOST_APART || part.shares.contains_key(who);
                let who = if is_apart { Arc::clone(who) } else { "others".into() };
                *part.shares.entry(who).or_default() += octets;
            }
        }
        Ok(())
    }

    /// Records are lost. What comes next is in the part after the next, and the missing one tells it.
    pub(crate) fn interrupt(&mut self) {
        if self.file.take().is_none() {
            return;
        }
        if self.parts.get(&self.part).is_some_and(|part| part.octets == 0) {
            // Nothing of it is there; where that can't be removed it stays empty.
            let _ = self.remove(self.part);
        } else {
            self.part += 1;
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.wanted.directory
    }

    /// Makes what was written last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_all)
    }

    fn next_part(&mut self) -> io::Result<()> {
        self.part += 1;
        self.open_part()?;
        let (epoch, part, before) = (self.epoch, self.part, self.sum);
        let mut head = Vec::new();
        record::write_continued(&Continuation { epoch, part, before }, &mut head)
            .map_err(io::Error::other)?;
        self.write_all(&head)
    }

    fn open_part(&mut self) -> io::Result<()> {
        self.file = None;
        self.make_room()?;
        let path = self.wanted.directory.join(file_name(&self.name, self.part));
        self.file = Some(create(&path)?);
        self.parts.insert(self.part, Part { octets: 0, shares: Shares::new() });
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(ErrorKind::NotFound.into()) };
        file.write_all(bytes)?;
        self.sum.update(bytes);
        if let Some(part) = self.parts.get_mut(&self.part) {
            part.octets += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    /// Removes files until there is room for a part more. Half of all is the running recording's at least; beyond
    /// that earlier recordings go first, each whole, the oldest first.
    fn make_room(&mut self) -> io::Result<()> {
        let most_files = self.wanted.files + SMALL;
        let all = self.wanted.most.saturating_mul(self.wanted.files as u64);
        let mut earlier = earlier(&self.wanted, &self.name)?;
        earlier.reverse();
        loop {
            // A part is a little longer than its size.
            let own: u64 = self.parts.values().map(|part| part.octets.min(self.wanted.most)).sum();
            let others: u64 = earlier.iter().map(|recording| recording.octets).sum();
            let count = self.parts.len() + earlier.iter().map(|one| one.files.len()).sum::<usize>();
            let needed = own + self.wanted.most;
            if needed + others <= all && count < most_files {
                return Ok(());
            }
            let victim = self.victim().filter(|_| needed > all / 2 || earlier.is_empty());
            if let Some(part) = victim {
                self.remove(part)?;
            } else if let Some(recording) = earlier.pop() {
                recording.remove()?;
            } else if let Some(part) = self.victim().or(self.parts.keys().next().copied()) {
                self.remove(part)?;
            } else {
                return Ok(());
            }
        }
    }

    fn remove(&mut self, part: u64) -> io::Result<()> {
        let file = self.wanted.directory.join(file_name(&self.name, part));
        tracing::info!(file = %file.display(), "part of the running recording removed to make room");
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => {
                self.parts.remove(&part);
                Ok(())
            }
        }
    }

    /// The part that goes: of who has said most, the oldest that is mostly its. The first part stays, for all that
    /// can be replayed begins with it.
    fn victim(&self) -> Option<u64> {
        let removable = || self.parts.iter().filter(|(number, _)| **number > 0);
        let mut said = Shares::new();
        for (_, part) in removable() {
            for (who, octets) in &part.shares {
                *said.entry(Arc::clone(who)).or_default() += octets;
            }
        }
        let most = |shares: &Shares| {
            let most = shares.iter().max_by_key(|(_, octets)| **octets);
            most.map(|(who, _)| Arc::clone(who))
        };
        let greatest = most(&said);
        let mut its = removable().filter(|(_, part)| most(&part.shares) == greatest);
        its.next().or_else(|| removable().next()).map(|(number, _)| *number)
    }
}

/// Recordings tell what applications do: nobody else may read them. What is there already is kept.
fn create(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// A name for a recording that nothing in the directory has. Where the state directory was lost, epochs begin
/// again, and recordings of the same ones are there.
fn free_name(directory: &Path, epoch: u64) -> io::Result<String> {
    let mut there = recordings(directory)?;
    // What is kept there would be in the way of keeping this one.
    there.extend(recordings(&directory.join(PINNED))?);
    let first = format!("epoch-{epoch:06}");
    let others = (2..).map(|number| format!("{first}-{number}"));
    let mut names = std::iter::once(first.clone()).chain(others);
    let name = names.find(|name| !there.contains_key(name)).unwrap_or_default();
    if name != first {
        tracing::warn!(
            epoch,
            recording = name,
            "a recording of this epoch is there already and is kept; was the state directory lost?"
        );
    }
    Ok(name)
}

/// The files of each recording, by its name; none where there is no such directory.
fn recordings(directory: &Path) -> io::Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let part = path.file_name().and_then(|name| part_of(name.to_str()?));
        if let Some((name, _)) = part.filter(|(name, _)| name.starts_with("epoch-")) {
            found.entry(name.to_owned()).or_default().push(path);
        }
    }
    found.values_mut().for_each(|files| files.sort());
    Ok(found)
}

/// A recording that isn't written to any more.
struct Earlier {
    name: String,
    files: Vec<PathBuf>,
    octets: u64,
}

impl Earlier {
    fn remove(self) -> io::Result<()> {
        tracing::info!(
            recording = self.name,
            files = self.files.len(),
            "recording removed to make room"
        );
        // The last part first: what a crash leaves can be replayed.
        self.files.iter().rev().try_for_each(fs::remove_file)
    }
}

/// All recordings but `running`, those that were written to the longest ago first.
fn earlier(wanted: &settings::Recorder, running: &str) -> io::Result<Vec<Earlier>> {
    let mut others = Vec::new();
    for (name, files) in recordings(&wanted.directory)? {
        if name == running {
            continue;
        }
        let (mut written, mut octets) = (SystemTime::UNIX_EPOCH, 0);
        for file in &files {
            let found = fs::symlink_metadata(file)?;
            written = written.max(found.modified()?);
            octets += found.len().min(wanted.most);
        }
        others.push((written, Earlier { name, files, octets }));
    }
    others.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    Ok(others.into_iter().map(|(_, recording)| recording).collect())
}

/// A recording, for people.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its files.
    pub files: usize,
    /// Their octets.
    pub bytes: u64,
    /// Whether it is kept: what was recorded until then isn't removed to make room.
    pub pinned: bool,
}

/// Why a recording can't be kept or let go.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is none.
    #[error("there is no recording \"{0}\"; `watermaster recordings list` names them")]
    Unknown(String),
    /// It is there and not kept.
    #[error("recording \"{0}\" isn't pinned")]
    Loose(String),
    /// It can't be replayed.
    #[error("the first part of \"{0}\" is gone: it can't be replayed; pin one that is whole")]
    Headless(String),
    /// Too much is kept.
    #[error(
        "{0} bytes would be kept, and there may be {1}: as many as recordings have room; let another one go, or \
         raise recorder.files"
    )]
    TooMuch(u64, u64),
    /// The disk.
    #[error("{}: {error}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn failed(file: &Path) -> impl FnOnce(io::Error) -> PinError {
    let file = file.to_owned();
    move |error| PinError::File { file, error }
}

/// Recordings in their folder, as operators see them.
#[derive(Clone, Debug)]
pub struct Recordings(settings::Recorder);

impl Recordings {
    /// Those that a recorder writes.
    pub const fn of(wanted: settings::Recorder) -> Self {
        Self(wanted)
    }

    fn kept(&self) -> PathBuf {
        self.0.directory.join(PINNED)
    }

    fn read(&self, directory: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>, PinError> {
        recordings(directory).map_err(failed(directory))
    }

    /// All that are there, with those that are kept.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn list(&self) -> Result<Vec<Listed>, PinError> {
        let mut all = BTreeMap::new();
        for (directory, pinned) in [(&self.0.directory, false), (&self.kept(), true)] {
            for (name, files) in self.read(directory)? {
                let one: &mut (bool, BTreeMap<_, u64>) = all.entry(name).or_default();
                one.0 |= pinned;
                let sizes =
                    files.iter().map(|file| (file.file_name().map(Into::into), octets(file)));
                one.1.extend(sizes.collect::<Vec<(Option<PathBuf>, u64)>>());
            }
        }
        let listed = all.into_iter().map(|(name, (pinned, files))| {
            let bytes = files.values().sum();
            Listed { name, files: files.len(), bytes, pinned }
        });
        Ok(listed.collect())
    }

    /// Keeps what there is of a recording: the same files have another name, which nothing removes. Of the running
    /// one the part that is written to goes on.
    ///
    /// # Errors
    /// [`PinError`]
    pub fn pin(&self, name: &str) -> Result<(), PinError> {
        let files = self.read(&self.0.directory)?.remove(name).unwrap_or_default();
        let (directory, kept) = (self.kept(), self.read(&self.kept())?);
        if files.is_empty() {
            let known = kept.contains_key(name);
            return if known { Ok(()) } else { Err(PinError::Unknown(name.to_owned())) };
        }
        let first = file_name(name, 0);
        if ![&self.0.directory, &directory].iter().any(|folder| folder.join(&first).exists()) {
            return Err(PinError::Headless(name.to_owned()));
        }
        let place = |file: &PathBuf| directory.join(file.file_name().unwrap_or_default());
        let fresh: Vec<_> = files.iter().filter(|file| !place(file).exists()).collect();
        let before = kept.values().flatten().map(|file| octets(file)).sum::<u64>();
        // The part that is written to may grow to its size.
        let after = before + fresh.iter().map(|file| octets(file).max(self.0.most)).sum::<u64>();
        let most = self.0.most.saturating_mul(self.0.files as u64);
        if !fresh.is_empty() && after > most.max(self.0.most * 2) {
            return Err(PinError::TooMuch(after, most));
        }
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        for file in fresh {
            fs::hard_link(file, place(file)).map_err(failed(&place(file)))?;
        }
        Ok(())
    }

    /// Lets go what was kept of a recording.
    ///
    /// # Errors
    /// [`PinError`]
    pub fn unpin(&self, name: &str) -> Result<(), PinError> {
        let Some(files) = self.read(&self.kept())?.remove(name) else {
            let is_there = self.list()?.iter().any(|listed| listed.name == name);
            let why = if is_there { PinError::Loose } else { PinError::Unknown };
            return Err(why(name.to_owned()));
        };
        for file in files.iter().rev() {
            fs::remove_file(file).map_err(failed(file))?;
        }
        Ok(())
    }
}

fn octets(file: &Path) -> u64 {
    fs::symlink_metadata(file).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;

    const MOST_OCTETS: usize = 1_000;
    const MOST: u64 = MOST_OCTETS as u64;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Files that were written to one after another.
    fn written(directory: &Path, names: &[&str], octets: usize) {
        for (second, name) in (1..).zip(names) {
            let mut file = create(&directory.join(name)).unwrap();
            file.write_all(&vec![0; octets]).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        }
    }

    fn wanted(folder: &TempDir, files: usize) -> settings::Recorder {
        settings::Recorder { directory: folder.path().into(), most: MOST, files }
    }

    /// Fills parts, each with what one says.
    fn says(files: &mut Files, who: &str, parts: u64) {
        let shares = Shares::from([(who.into(), MOST)]);
        for _ in 0..parts {
            files.append(&[0; MOST_OCTETS], &shares).unwrap();
        }
    }

    #[test]
    fn room_is_made_by_whole_recordings_the_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let old = ["epoch-000009.000.record", "epoch-000009.001.record", "epoch-000009.002.record"];
        let new = ["epoch-000001.000.record", "epoch-000001.001.record"];
        let others = ["notes.txt", "epoch-x.txt"];
        written(folder.path(), &[&old[..], &new, &others].concat(), MOST_OCTETS);
        let kept = |files| {
            let mut running = Files::begin(&wanted(&folder, files), 2).unwrap();
            let left = names(folder.path());
            running.remove(0).unwrap();
            left
        };
        assert_eq!(kept(6).len(), 8);
        let begun = ["epoch-000002.000.record"];
        assert_eq!(kept(5), [&new[..], &begun, &["epoch-x.txt", "notes.txt"]].concat());
        assert_eq!(kept(3).len(), 5);
        assert_eq!(kept(2), [&begun[..], &["epoch-x.txt", "notes.txt"]].concat());
    }

    /// Restarts leave small files, and those cost nobody's room.
    #[test]
    fn many_restarts_leave_what_was_recorded_before() {
        let folder = tempfile::tempdir().unwrap();
        let incident = ["epoch-000001.000.record", "epoch-000001.001.record"];
        written(folder.path(), &incident, MOST_OCTETS);
        for epoch in 2..100 {
            let mut files = Files::begin(&wanted(&folder, 4), epoch).unwrap();
            files.append(b"begun", &Shares::new()).unwrap();
        }
        let left = names(folder.path());
        assert!(left.len() == 100 && left[..2] == incident, "{left:?}");
        // But there is an end to their number.
        for epoch in 100..SMALL as u64 + 10 {
            Files::begin(&wanted(&folder, 4), epoch).unwrap();
        }
        assert_eq!(names(folder.path()).len(), SMALL + 4);
    }

    /// One that fills the disk removes its own records, and leaves the first part and others'.
    #[test]
    fn who_says_most_loses_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::begin(&wanted(&folder, 6), 3).unwrap();
        says(&mut files, "quiet", 2);
        says(&mut files, "loud", 40);
        let left: Vec<_> = files.parts.keys().copied().collect();
        assert_eq!(left[..2], [0, 1], "the beginning, and what the quiet one said");
        assert_eq!(left[2..], [38, 39, 40, 41], "and the latest");
        assert_eq!(names(folder.path()).len(), 6);
        // Earlier recordings have half of the room.
        let mut files = Files::begin(&wanted(&folder, 12), 4).unwrap();
        says(&mut files, "loud", 40);
        assert_eq!((files.parts.len(), names(folder.path()).len()), (6, 12));
        // With room for one file, it is the latest.
        let mut files = Files::begin(&wanted(&folder, 1), 5).unwrap();
        says(&mut files, "loud", 3);
        assert_eq!(names(folder.path()), ["epoch-000005.002.record"]);
    }

    #[test]
    fn what_is_lost_is_a_part_that_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::begin(&wanted(&folder, 6), 3).unwrap();
        files.append(b"first", &Shares::new()).unwrap();
        files.interrupt();
        files.interrupt();
        files.append(b"third", &Shares::new()).unwrap();
        assert_eq!(files.parts.keys().copied().collect::<Vec<_>>(), [0, 2]);
        // A part that could not be begun leaves nothing.
        files.interrupt();
        files.open_part().unwrap();
        files.interrupt();
        files.append(b"fifth", &Shares::new()).unwrap();
        assert_eq!(names(folder.path()).len(), 3);
    }

    #[test]
    fn no_recording_is_overwritten_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let name = |epoch| Files::begin(&wanted(&folder, 9), epoch).unwrap().name;
        assert_eq!([name(1), name(2), name(1)], ["epoch-000001", "epoch-000002", "epoch-000001-2"]);
        assert_eq!(name(1), "epoch-000001-3");
        // Nor a part that is left of one.
        written(folder.path(), &["epoch-000003.001.record"], 0);
        assert_eq!(name(3), "epoch-000003-2");
        let file = folder.path().join("epoch-000001.000.record");
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_kept_outlives_the_room_that_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = Recordings::of(wanted(&folder, 4));
        let mut files = Files::begin(&wanted(&folder, 4), 1).unwrap();
        says(&mut files, "a", 3);
        assert!(matches!(recordings.pin("epoch-000002"), Err(PinError::Unknown(_))));
        assert!(matches!(recordings.pin("../x"), Err(PinError::Unknown(_))));
        written(folder.path(), &["epoch-000003.002.record"], 0);
        assert!(matches!(recordings.pin("epoch-000003"), Err(PinError::Headless(_))));
        fs::remove_file(folder.path().join("epoch-000003.002.record")).unwrap();
        recordings.pin("epoch-000001").unwrap();
        says(&mut files, "a", 9);
        let kept: Vec<_> = (0..3).map(|part| file_name("epoch-000001", part)).collect();
        assert_eq!(names(&folder.path().join(PINNED)), kept);
        let listed = recordings.list().unwrap();
        assert!(listed.len() == 1 && listed[0].pinned && listed[0].files > 4, "{listed:?}");
        let much = recordings.pin("epoch-000001").unwrap_err().to_string();
        assert!(much.contains("let another one go"), "{much}");
        recordings.unpin("epoch-000001").unwrap();
        assert!(matches!(recordings.unpin("epoch-000001"), Err(PinError::Loose(_))));
        assert!(matches!(recordings.unpin("epoch-000009"), Err(PinError::Unknown(_))));
        assert_eq!(names(&folder.path().join(PINNED)), [""; 0]);
        assert!(!recordings.list().unwrap()[0].pinned);
    }
}
