//! Writes a recording while the daemon runs.
//!
//! A thread of its own writes, so that a slow disk holds nobody up. When the disk is full, broken or too slow,
//! records are lost; the log, the metrics and the status say so, the controller goes on, and so does the recording
//! when the disk does. It is cut into parts, a file each ([`crate::recordings`]): where records were lost, a part is
//! missing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use control::record::{self, Configuration, TooLong};
use control::{ChannelId, Digest, Input, Judged, Output};
use rustix::fs::{FlockOperation, flock};
use units::{Span, Time};

use crate::metrics::{Measures, Recording};
use crate::recordings::{Files, Shares};
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

/// How long a disk rests that could take no more.
const REST: Duration = Duration::from_secs(1);

/// A folder that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("recorder.directory: {}: {error}; name a folder of its own, which the recorder may write to", file.display())]
pub struct RecorderError {
    file: PathBuf,
    error: io::Error,
}

/// What the writer is handed.
enum Piece {
    /// Whole records, and who said how much of them.
    Records(Vec<u8>, Shares),
    /// Records before what comes next were lost.
    Lost,
}

/// The end that takes in.
#[derive(Debug)]
pub struct Recorder {
    buffer: Vec<u8>,
    /// Of what is in it.
    shares: Shares,
    sender: Option<SyncSender<Piece>>,
    /// Records are lost until the writer has heard so.
    is_losing: bool,
    /// Who agents and switches are.
    peers: HashMap<ChannelId, Arc<str>>,
    writer: Option<JoinHandle<()>>,
    measures: Arc<Measures>,
    digest: Digest,
    /// The digest that was noted last, and when.
    noted: (Digest, Time),
    now: Time,
}

impl Recorder {
    /// Begins a recording. Where the disk is full there is none, which is told as when it becomes so. One that was
    /// `elected` goes on without where the folder can't be used, too: another office of its own may still write there.
    ///
    /// # Errors
    /// Nothing can be written for another reason.
    pub fn start(
        wanted: &settings::Recorder,
        settings: &Settings,
        epoch: u64,
        elected: bool,
        measures: Arc<Measures>,
    ) -> Result<Self, RecorderError> {
        let wrong = |error| RecorderError { file: wanted.directory.clone(), error };
        let begun = match take(wanted, epoch, Files::begin).map_err(wrong) {
            Ok(begun) => {
                measures.set_recorder(Recording::On);
                Some(begun)
            }
            Err(error) if elected => {
                interrupted(&error.to_string(), &measures);
                None
            }
            Err(error) => return Err(error),
        };
        let (sender, receiver) = sync_channel(WAITING);
        let (counted, place) = (Arc::clone(&measures), wanted.clone());
        let writer = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                let is_whole = begun.is_some();
                let begun = begun.or_else(|| begin_late(&place, epoch, &receiver));
                let Some((lock, files)) = begun else { return };
                write(files, is_whole, &receiver, &counted);
                // A process that is just being started has a copy of the descriptor.
                let _ = flock(&lock, FlockOperation::Unlock);
            })
            .map_err(wrong)?;
        let mut recorder = Self::to(Some(sender), Some(writer), measures);
        recorder
            .note(|out| record::write_started(Time::ZERO, epoch, &configuration(settings), out));
        recorder.hand_over();
        Ok(recorder)
    }

    fn to(
        sender: Option<SyncSender<Piece>>,
        writer: Option<JoinHandle<()>>,
        measures: Arc<Measures>,
    ) -> Self {
        let digest = Digest::default();
        let noted = (digest, Time::ZERO);
        let (buffer, shares, peers) = (Vec::new(), Shares::new(), HashMap::new());
        let (is_losing, now) = (false, Time::ZERO);
        Self { buffer, shares, sender, is_losing, peers, writer, measures, digest, noted, now }
    }

    /// Notes that the configuration was read again.
    pub fn changed(&mut self, now: Time, settings: &Settings) {
        self.now = now;
        self.note(|out| record::write_changed(now, &configuration(settings), out));
    }

    /// Notes an input before the machine gets it.
    pub fn record(&mut self, now: Time, input: &Input<'_>) {
        self.now = now;
        let from = self.buffer.len();
        self.note(|out| record::write_input(now, input, out));
        let octets = self.buffer.len().saturating_sub(from);
        if let Some(who) = self.who(input)
            && octets > 0
        {
            *self.shares.entry(who).or_default() += u64::try_from(octets).unwrap_or(u64::MAX);
        }
    }

    /// Whose word an input is.
    fn who(&mut self, input: &Input<'_>) -> Option<Arc<str>> {
        match input {
            Input::Declared { application, .. }
            | Input::Unreadable(application)
            | Input::ApplicationHere(application)
            | Input::ApplicationGone(application) => {
                Some(format!("application {application}").into())
            }
            Input::AgentConnected { channel, identity } => {
                let who: Arc<str> = format!("agent {identity}").into();
                self.peers.insert(*channel, Arc::clone(&who));
                Some(who)
            }
            Input::SwitchConnected { channel, identity } => {
                let who: Arc<str> = format!("switch {}", identity.unwrap_or_default()).into();
                self.peers.insert(*channel, Arc::clone(&who));
                Some(who)
            }
            Input::SwitchBytes(channel, _) | Input::Reported(channel, _) => {
                self.peers.get(channel).cloned()
            }
            Input::AgentGone(channel) | Input::SwitchGone(channel) => self.peers.remove(channel),
            Input::Ordered { .. } | Input::Tick => None,
        }
    }

    fn note(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), TooLong>) {
        if self.sender.is_none() || self.is_losing {
            return;
        }
        let from = self.buffer.len();
        match write(&mut self.buffer) {
            Ok(()) => self.digest.add_record(&self.buffer[from..]),
            Err(error) => self.lose(&error.to_string()),
        }
    }

    /// Notes what was decided, and what was judged up to it.
    pub fn decided(&mut self, outputs: &[Output], judged: Judged) {
        if self.sender.is_none() {
            return;
        }
        self.digest.add_outputs(outputs, judged);
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
        if self.is_losing {
            return;
        }
        if let Err(error) = record::write_digest(self.now, self.digest, &mut self.buffer) {
            self.lose(&error.to_string());
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
        let Some(sender) = &self.sender else { return };
        if self.is_losing {
            // What comes next is kept once the writer takes something in again.
            match sender.try_send(Piece::Lost) {
                Ok(()) => self.is_losing = false,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => self.sender = None,
            }
            return;
        }
        if self.buffer.is_empty() {
            return;
        }
        let piece =
            Piece::Records(std::mem::take(&mut self.buffer), std::mem::take(&mut self.shares));
        match sender.try_send(piece) {
            Ok(()) | Err(TrySendError::Full(Piece::Lost)) => {}
            // It waits here instead, as long as it is not too much.
            Err(TrySendError::Full(Piece::Records(buffer, shares))) if buffer.len() < MOST => {
                (self.buffer, self.shares) = (buffer, shares);
            }
            Err(TrySendError::Full(_)) => self.lose("the disk is too slow"),
            Err(TrySendError::Disconnected(_)) => self.sender = None,
        }
    }

    fn lose(&mut self, reason: &str) {
        interrupted(reason, &self.measures);
        self.is_losing = true;
        (self.buffer, self.shares) = (Vec::new(), Shares::new());
    }

    /// Writes the rest and waits for the disk.
    pub fn finish(mut self) {
        self.note_digest();
        if !self.is_losing
            && let Err(error) = record::write_ended(self.now, &mut self.buffer)
        {
            self.lose(&error.to_string());
        }
        if let Some(sender) = self.sender.take() {
            // A writer that failed has said so.
            let _ = sender.send(Piece::Records(self.buffer, self.shares));
        }
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Keeps others from recording there, who would remove what is written to make room.
fn lock(directory: &Path) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    let lock = File::open(directory)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(io::Error::other("another recording is written there"))
        }
        Err(error) => Err(error.into()),
    }
}

/// A folder that is this recording's alone, and its files there.
fn take(
    wanted: &settings::Recorder,
    epoch: u64,
    begin: fn(&settings::Recorder, u64) -> io::Result<Files>,
) -> io::Result<(File, Files)> {
    let lock = lock(&wanted.directory)?;
    Ok((lock, begin(wanted, epoch)?))
}

/// Takes the folder as soon as it can; what is handed over until then is lost. `None`: the recording ends before.
fn begin_late(
    wanted: &settings::Recorder,
    epoch: u64,
    pieces: &Receiver<Piece>,
) -> Option<(File, Files)> {
    let mut rests = Instant::now() + REST;
    while pieces.recv().is_ok() {
        if Instant::now() < rests {
            continue;
        }
        if let Ok(taken) = take(wanted, epoch, Files::begin_late) {
            return Some(taken);
        }
        rests = Instant::now() + REST;
    }
    None
}

/// Writes what is handed over; `is_whole`: nothing was lost before. Where the disk takes no more, what comes meanwhile is
/// lost, and it is tried again.
fn write(mut files: Files, mut is_whole: bool, pieces: &Receiver<Piece>, measures: &Measures) {
    let mut rests = None::<Instant>;
    while let Ok(piece) = pieces.recv() {
        let Piece::Records(chunk, shares) = piece else {
            files.interrupt();
            is_whole = false;
            continue;
        };
        if rests.is_some_and(|until| Instant::now() < until) {
            continue;
        }
        match files.append(&chunk, &shares) {
            Ok(()) => {
                let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                measures.recorded_bytes.fetch_add(length, Ordering::Relaxed);
                if !std::mem::replace(&mut is_whole, true) {
                    tracing::info!("recording goes on; what came meanwhile is missing");
                    measures.set_recorder(Recording::On);
                }
                rests = None;
            }
            Err(error) => {
                files.interrupt();
                if rests.is_none() {
                    interrupted(&format!("{}: {error}", files.directory().display()), measures);
                }
                (rests, is_whole) = (Some(Instant::now() + REST), false);
            }
        }
    }
    // Nobody could do anything about it now.
    let _ = files.sync();
}

/// Says that records are lost, and why.
fn interrupted(reason: &str, measures: &Measures) {
    tracing::error!(reason, "recording interrupted; the controller goes on");
    measures.set_recorder(Recording::Stopped(reason.to_owned()));
}

fn configuration(settings: &Settings) -> Configuration {
    Configuration {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        file: settings.file.clone(),
        settings: settings.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use testing::wait::eventually;

    use super::*;

    /// A recorder whose thread is the test.
    fn recorder(waiting: usize) -> (Recorder, Receiver<Piece>) {
        let (sender, receiver) = sync_channel(waiting);
        (Recorder::to(Some(sender), None, Arc::default()), receiver)
    }

    fn written(disk: &Receiver<Piece>) -> Vec<u8> {
        match disk.recv().unwrap() {
            Piece::Records(records, _) => records,
            Piece::Lost => panic!("records are lost"),
        }
    }

    #[test]
    fn a_folder_has_the_recordings_of_one_controller() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("recordings");
        let first = lock(&place).unwrap();
        let refused = lock(&place).unwrap_err();
        let error = RecorderError { file: place.clone(), error: refused };
        assert!(
            error
                .to_string()
                .contains("another recording is written there; name a folder of its own")
        );
        flock(&first, FlockOperation::Unlock).unwrap();
        lock(&place).unwrap();
    }

    /// It may be its own, of an office before, for whose end the disk takes its time.
    #[test]
    fn a_folder_that_is_in_use_ends_none_that_was_elected_and_is_used_once_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let text = "state = \"s\"\n[listen]\n[policy]\nname = \"sff\"\n[recorder]\ndirectory = \"records\"\n";
        let settings = Settings::read("c", text, folder.path()).unwrap();
        let wanted = settings.recorder.as_ref().unwrap();
        let other = lock(&wanted.directory).unwrap();
        let measures = Arc::<Measures>::default();
        let start = |elected| Recorder::start(wanted, &settings, 7, elected, Arc::clone(&measures));
        let refused = start(false).unwrap_err().to_string();
        assert_eq!(measures.recorder(), Recording::Off);
        let mut recorder = start(true).unwrap();
        assert_eq!(measures.recorder(), Recording::Stopped(refused));
        flock(&other, FlockOperation::Unlock).unwrap();
        let mut now = Time::ZERO;
        assert!(eventually(|| {
            now += Span::from_millis(1);
            recorder.record(now, &Input::Tick);
            recorder.flush(now);
            measures.recorder() == Recording::On
        }));
        recorder.finish();
        let files = fs::read_dir(&wanted.directory).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["epoch-000007.001.record"], "its beginning is missing");
    }

    #[test]
    fn what_waits_for_a_slow_disk_is_bounded() {
        let (mut recorder, disk) = recorder(1);
        recorder.buffer = vec![1];
        recorder.hand_over();
        recorder.buffer = vec![2; MOST - 1];
        recorder.hand_over();
        assert_eq!(recorder.buffer.len(), MOST - 1, "it waits");
        assert_eq!(written(&disk), [1]);
        recorder.hand_over();
        assert_eq!(written(&disk).len(), MOST - 1, "and is whole when the disk goes on");
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
        assert!(recorder.buffer.is_empty(), "nothing is noted meanwhile");
        recorder.hand_over();
        assert!(recorder.is_losing, "the disk has taken nothing in yet");
        assert_eq!(written(&disk), [3]);
        recorder.hand_over();
        assert!(matches!(disk.recv().unwrap(), Piece::Lost), "and hears that something is missing");
        recorder.buffer = vec![6];
        recorder.hand_over();
        assert_eq!(written(&disk), [6]);
    }

    #[test]
    fn digests_are_noted_after_so_many_outputs_or_so_long() {
        let (mut recorder, _disk) = recorder(8);
        let outputs = |count: u64| {
            let one = Output::CloseSwitch(ChannelId(1), control::Closing::Replaced);
            vec![one; usize::try_from(count).unwrap()]
        };
        assert_eq!(recorder.due(), None);
        recorder.decided(&outputs(DIGEST_OUTPUTS - 1), Judged::default());
        assert!(recorder.buffer.is_empty());
        assert_eq!(recorder.due(), Some(Time::ZERO + DIGEST_AFTER));
        recorder.decided(&outputs(1), Judged::default());
        assert!(!recorder.buffer.is_empty());
        assert_eq!(recorder.due(), None, "all is noted");
        let later = Time::ZERO + DIGEST_AFTER * 3;
        recorder.flush(later);
        assert_eq!(recorder.noted.1, Time::ZERO, "the same is not noted again");
        recorder.now = later;
        recorder.decided(&outputs(DIGEST_OUTPUTS), Judged::default());
        recorder.decided(&outputs(1), Judged::default());
        assert_eq!(recorder.due(), Some(later + DIGEST_AFTER));
        recorder.flush(later + DIGEST_AFTER - Span::from_nanos(1));
        assert_eq!(recorder.noted.1, later);
        recorder.flush(later + DIGEST_AFTER);
        assert_eq!(recorder.noted.1, later + DIGEST_AFTER);
        assert_eq!(recorder.due(), None);
    }
}
