//! Writes a recording while the daemon runs.
//!
//! A thread of its own writes, so that a slow disk holds nobody up. A recording with a gap is worth
//! nothing: when the disk is full, broken or too slow, or all files that it may have are full, it
//! stops, says so in the log, the metrics and the status, and the controller goes on. A recording is
//! cut into parts, a file each; they are removed together, to make room for newer ones.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use control::record::{self, Configuration, Continuation, Fnv, TooLong};
use control::{Digest, Input, Output};
use units::{Span, Time};

use crate::epoch::is_full;
use crate::metrics::{Measures, Recording};
use crate::settings::{self, Settings};

/// Octets that are handed over at once.
const CHUNK: usize = 64 << 10;
/// What may wait for the disk: pieces that were handed over, and octets that were not.
const WAITING: usize = 256;
const MOST: usize = 16 << 20;
/// A digest is noted after so many outputs, or so long after the one before. What a controller decided
/// last before it was killed can't be verified.
const DIGEST_OUTPUTS: u64 = 1_000;
const DIGEST_AFTER: Span = Span::from_secs(1);

/// A folder that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}; name a folder that the recorder may write to", file.display())]
pub struct RecorderError {
    file: PathBuf,
    error: io::Error,
}

/// The end that takes in.
#[derive(Debug)]
pub struct Recorder {
    buffer: Vec<u8>,
    sender: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    measures: Arc<Measures>,
    digest: Digest,
    /// The digest that was noted last, and when.
    noted: (Digest, Time),
    now: Time,
}

/// The name of a part of the recording `name`.
pub fn file_name(name: &str, part: u64) -> String {
    format!("{name}.{part:03}.record")
}

/// The name of the recording and the number of the part that a file of this name is.
pub fn part_of(file_name: &str) -> Option<(&str, u64)> {
    let (name, part) = file_name.strip_suffix(".record")?.rsplit_once('.')?;
    Some((name, part.parse().ok()?))
}

impl Recorder {
    /// Begins a recording. Where the disk is full there is none, which is told as when it becomes so.
    ///
    /// # Errors
    /// Nothing can be written for another reason.
    pub fn start(
        wanted: &settings::Recorder,
        settings: &Settings,
        epoch: u64,
        measures: Arc<Measures>,
    ) -> Result<Self, RecorderError> {
        let directory = &wanted.directory;
        let wrong = |file: &Path| {
            let file = file.to_owned();
            move |error| RecorderError { file, error }
        };
        let files = fs::create_dir_all(directory).and_then(|()| Files::begin(wanted, epoch));
        let mut files = match files {
            Err(error) if is_full(&error) => {
                stopped(&format!("{}: {error}", directory.display()), &measures);
                return Ok(Self::to(None, None, measures));
            }
            files => files.map_err(wrong(directory))?,
        };
        let (sender, receiver) = sync_channel(WAITING);
        let counted = Arc::clone(&measures);
        let writer = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || files.write(&receiver, &counted))
            .map_err(wrong(directory))?;
        let mut recorder = Self::to(Some(sender), Some(writer), measures);
        recorder.measures.set_recorder(Recording::On);
        recorder
            .note(|out| record::write_started(Time::ZERO, epoch, &configuration(settings), out));
        recorder.hand_over();
        Ok(recorder)
    }

    fn to(
        sender: Option<SyncSender<Vec<u8>>>,
        writer: Option<JoinHandle<()>>,
        measures: Arc<Measures>,
    ) -> Self {
        let digest = Digest::default();
        let noted = (digest, Time::ZERO);
        Self { buffer: Vec::new(), sender, writer, measures, digest, noted, now: Time::ZERO }
    }

    /// Notes that the configuration was read again.
    pub fn changed(&mut self, now: Time, settings: &Settings) {
        self.now = now;
        self.note(|out| record::write_changed(now, &configuration(settings), out));
    }

    /// Notes an input before the machine gets it.
    pub fn record(&mut self, now: Time, input: &Input<'_>) {
        self.now = now;
        self.note(|out| record::write_input(now, input, out));
    }

    fn note(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), TooLong>) {
        if self.sender.is_none() {
            return;
        }
        let from = self.buffer.len();
        match write(&mut self.buffer) {
            Ok(()) => self.digest.add_record(&self.buffer[from..]),
            Err(error) => self.stop(&error.to_string()),
        }
    }

    /// Notes what was decided.
    pub fn decided(&mut self, outputs: &[Output]) {
        if self.sender.is_none() {
            return;
        }
        self.digest.add_outputs(outputs);
        if self.digest.outputs - self.noted.0.outputs >= DIGEST_OUTPUTS {
            self.note_digest();
        }
        if self.buffer.len() >= CHUNK {
            self.hand_over();
        }
    }

    /// When a digest is due: then [`Recorder::flush`] notes it.
    pub fn due(&self) -> Option<Time> {
        let (noted, at) = self.noted;
        (self.sender.is_some() && noted != self.digest).then(|| at + DIGEST_AFTER)
    }

    fn note_digest(&mut self) {
        self.noted = (self.digest, self.now);
        if let Err(error) = record::write_digest(self.now, self.digest, &mut self.buffer) {
            self.stop(&error.to_string());
        }
    }

    /// Hands over what there is, at the end of a turn.
    pub fn flush(&mut self, now: Time) {
        self.now = now;
        if self.due().is_some_and(|due| due <= now) {
            self.note_digest();
        }
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let Some(sender) = &self.sender else { return self.buffer.clear() };
        if self.buffer.is_empty() {
            return;
        }
        match sender.try_send(std::mem::take(&mut self.buffer)) {
            Ok(()) => {}
            // It waits here instead, as long as it is not too much.
            Err(TrySendError::Full(buffer)) if buffer.len() < MOST => self.buffer = buffer,
            Err(TrySendError::Full(_)) => self.stop("the disk is too slow"),
            // The writer has said why.
            Err(TrySendError::Disconnected(_)) => self.sender = None,
        }
    }

    fn stop(&mut self, reason: &str) {
        stopped(reason, &self.measures);
        self.sender = None;
        self.buffer = Vec::new();
    }

    /// Writes the rest and waits for the disk.
    pub fn finish(mut self) {
        self.note_digest();
        if let Some(sender) = self.sender.take() {
            // A writer that failed has said so.
            let _ = sender.send(self.buffer);
        }
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Says that a recording has ended before the controller, and why.
fn stopped(reason: &str, measures: &Measures) {
    tracing::error!(reason, "recording stopped; the controller goes on");
    measures.set_recorder(Recording::Stopped(reason.to_owned()));
}

fn configuration(settings: &Settings) -> Configuration {
    Configuration {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        file: settings.file.clone(),
        settings: settings.text.clone(),
    }
}

/// The parts of a recording that is written.
pub(crate) struct Files {
    wanted: settings::Recorder,
    epoch: u64,
    name: String,
    part: u64,
    file: File,
    /// Octets of this part.
    written: u64,
    /// Over all octets of all parts.
    sum: Fnv,
}

impl Files {
    /// Begins a recording, and makes room for it.
    pub(crate) fn begin(wanted: &settings::Recorder, epoch: u64) -> io::Result<Self> {
        let (name, file) = begin(&wanted.directory, epoch)?;
        make_room(&wanted.directory, &name, wanted.files - 1)?;
        let (wanted, sum) = (wanted.clone(), Fnv::default());
        Ok(Self { wanted, epoch, name, part: 0, file, written: 0, sum })
    }

    fn write(&mut self, chunks: &Receiver<Vec<u8>>, measures: &Measures) {
        while let Ok(chunk) = chunks.recv() {
            if let Err(error) = self.append(&chunk) {
                let directory = self.wanted.directory.display();
                return stopped(&format!("{directory}: {error}"), measures);
            }
            let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            measures.recorded_bytes.fetch_add(length, Ordering::Relaxed);
        }
        // Nobody could do anything about it now.
        let _ = self.file.sync_all();
    }

    /// Writes whole records, into the next part where this one is full.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        if self.written >= self.wanted.most {
            self.next_part()?;
        }
        self.write_all(chunk)
    }

    fn next_part(&mut self) -> io::Result<()> {
        self.part += 1;
        let others =
            self.wanted.files.checked_sub(usize::try_from(self.part).unwrap_or(usize::MAX) + 1);
        let others = others.ok_or_else(|| {
            io::Error::other(
                "this recording has filled all files that it may; raise recorder.files and restart",
            )
        })?;
        let directory = &self.wanted.directory;
        make_room(directory, &self.name, others)?;
        self.file = create(&directory.join(file_name(&self.name, self.part)))?;
        self.written = 0;
        let (epoch, part, before) = (self.epoch, self.part, self.sum);
        let mut head = Vec::new();
        record::write_continued(&Continuation { epoch, part, before }, &mut head)
            .map_err(io::Error::other)?;
        self.write_all(&head)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.sum.update(bytes);
        self.written += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// Recordings tell what applications do: nobody else may read them. What is there already is kept.
fn create(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// Begins a recording under a name that nothing in the directory has: its name and first part. Where the
/// state directory was lost, epochs begin again, and recordings of the same ones are there.
fn begin(directory: &Path, epoch: u64) -> io::Result<(String, File)> {
    let there = recordings(directory)?;
    let first = format!("epoch-{epoch:06}");
    let others = (2..).map(|number| format!("{first}-{number}"));
    let names = std::iter::once(first.clone()).chain(others);
    for name in names.filter(|name| !there.contains_key(name)) {
        match create(&directory.join(file_name(&name, 0))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                if name != first {
                    tracing::warn!(
                        epoch,
                        recording = name,
                        "a recording of this epoch is there already and is kept; was the state \
                         directory lost?"
                    );
                }
                return Ok((name, file));
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The files of each recording, by its name.
fn recordings(directory: &Path) -> io::Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let part = path.file_name().and_then(|name| part_of(name.to_str()?));
        if let Some((name, _)) = part.filter(|(name, _)| name.starts_with("epoch-")) {
            found.entry(name.to_owned()).or_default().push(path);
        }
    }
    Ok(found)
}

/// Removes whole recordings, those that were written to the longest ago first, until all but `running`
/// have no more than `keep` files.
fn make_room(directory: &Path, running: &str, keep: usize) -> io::Result<()> {
    let mut others = Vec::new();
    for (name, mut files) in recordings(directory)? {
        if name == running {
            continue;
        }
        let mut written = SystemTime::UNIX_EPOCH;
        for file in &files {
            written = written.max(fs::symlink_metadata(file)?.modified()?);
        }
        files.sort();
        others.push((written, name, files));
    }
    others.sort();
    let mut left: usize = others.iter().map(|(.., files)| files.len()).sum();
    for (_, recording, files) in others {
        if left <= keep {
            break;
        }
        tracing::info!(recording, files = files.len(), "recording removed to make room");
        // The last part first: what a crash leaves can be replayed.
        for file in files.iter().rev() {
            fs::remove_file(file)?;
        }
        left -= files.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::time::Duration;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Files that were written to one after another.
    fn written(directory: &Path, names: &[&str]) {
        for (second, name) in (1..).zip(names) {
            let file = create(&directory.join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        }
    }

    #[test]
    fn room_is_made_by_whole_recordings_the_oldest_first() {
        let folder = tempfile::tempdir().unwrap();
        let old = ["epoch-000009.000.record", "epoch-000009.001.record", "epoch-000009.002.record"];
        let new = ["epoch-000001.000.record", "epoch-000001.001.record"];
        let running = ["epoch-000001-2.000.record"];
        written(folder.path(), &[&old[..], &new, &running, &["notes.txt"]].concat());
        let kept = |keep| {
            make_room(folder.path(), "epoch-000001-2", keep).unwrap();
            names(folder.path())
        };
        assert_eq!(kept(5).len(), 7);
        assert_eq!(kept(4), [&running[..], &new, &["notes.txt"]].concat());
        assert_eq!(kept(2).len(), 4);
        assert_eq!(kept(0), [&running[..], &["notes.txt"]].concat());
    }

    /// A new recording leaves as many files as there may be, itself included, and nobody else reads it.
    #[test]
    fn a_new_recording_takes_its_place_among_the_files() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().to_owned();
        let old = ["epoch-000001.000.record", "epoch-000002.000.record"];
        written(folder.path(), &[&old[..], &["epoch-x.000.record", "other.000.record"]].concat());
        let wanted = settings::Recorder { directory, most: 1 << 20, files: 3 };
        Files::begin(&wanted, 3).unwrap();
        let new = "epoch-000003.000.record";
        let left = names(folder.path());
        let recorded = left.iter().filter(|name| name.starts_with("epoch-")).count();
        assert_eq!(recorded, 3, "{left:?}");
        assert!(left.contains(&new.to_owned()) && left.contains(&"other.000.record".to_owned()));
        assert_eq!(fs::metadata(folder.path().join(new)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn no_recording_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let name = |epoch| begin(folder.path(), epoch).unwrap().0;
        assert_eq!([name(1), name(2), name(1)], ["epoch-000001", "epoch-000002", "epoch-000001-2"]);
        assert_eq!(name(1), "epoch-000001-3");
        // Nor a part that is left of one.
        written(folder.path(), &["epoch-000003.001.record"]);
        assert_eq!(name(3), "epoch-000003-2");
    }

    /// A recorder whose thread is the test.
    fn recorder(waiting: usize) -> (Recorder, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(waiting);
        (Recorder::to(Some(sender), None, Arc::default()), receiver)
    }

    #[test]
    fn what_waits_for_a_slow_disk_is_bounded() {
        let (mut recorder, disk) = recorder(1);
        recorder.buffer = vec![1];
        recorder.hand_over();
        recorder.buffer = vec![2; MOST - 1];
        recorder.hand_over();
        assert_eq!(recorder.buffer.len(), MOST - 1, "it waits");
        assert_eq!(disk.recv().unwrap(), [1]);
        recorder.hand_over();
        assert_eq!(disk.recv().unwrap().len(), MOST - 1, "and is whole when the disk goes on");
        recorder.buffer = vec![3];
        recorder.hand_over();
        recorder.buffer = vec![4; MOST];
        recorder.hand_over();
        let slow = Recording::Stopped("the disk is too slow".to_owned());
        assert_eq!(recorder.measures.recorder(), slow);
        assert_eq!(recorder.buffer.capacity(), 0);
        recorder.note(|out| {
            out.push(5);
            Ok(())
        });
        assert!(recorder.buffer.is_empty(), "nothing is noted any more");
    }

    #[test]
    fn digests_are_noted_after_so_many_outputs_or_so_long() {
        let (mut recorder, _disk) = recorder(8);
        let outputs = |count: u64| {
            let one = Output::CloseSwitch(control::ChannelId(1), control::Closing::Replaced);
            vec![one; usize::try_from(count).unwrap()]
        };
        assert_eq!(recorder.due(), None);
        recorder.decided(&outputs(DIGEST_OUTPUTS - 1));
        assert!(recorder.buffer.is_empty());
        assert_eq!(recorder.due(), Some(Time::ZERO + DIGEST_AFTER));
        recorder.decided(&outputs(1));
        assert!(!recorder.buffer.is_empty());
        assert_eq!(recorder.due(), None, "all is noted");
        let later = Time::ZERO + DIGEST_AFTER * 3;
        recorder.flush(later);
        assert_eq!(recorder.noted.1, Time::ZERO, "the same is not noted again");
        recorder.now = later;
        recorder.decided(&outputs(DIGEST_OUTPUTS));
        recorder.decided(&outputs(1));
        assert_eq!(recorder.due(), Some(later + DIGEST_AFTER));
        recorder.flush(later + DIGEST_AFTER - Span::from_nanos(1));
        assert_eq!(recorder.noted.1, later);
        recorder.flush(later + DIGEST_AFTER);
        assert_eq!(recorder.noted.1, later + DIGEST_AFTER);
        assert_eq!(recorder.due(), None);
    }
}
