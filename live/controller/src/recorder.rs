//! Writes a recording while the daemon runs.
//!
//! A thread of its own writes, so that a slow disk holds nobody up. A recording with a gap is worth
//! nothing: when the disk is full, broken or too slow, recording stops, says so in the log, the
//! metrics and the status, and the controller goes on. A recording is cut into files; all of one
//! epoch belong together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use control::record::{self, Configuration, TooLong};
use control::{Digest, Input, Output};
use units::Time;

use crate::metrics::{Measures, Recording};
use crate::settings::{self, Settings};

/// Octets that are handed over at once.
const CHUNK: usize = 64 << 10;
/// What may wait for the disk: pieces that were handed over, and octets that were not.
const WAITING: usize = 256;
const MOST: usize = 16 << 20;
/// Outputs between two digests.
const DIGEST: u64 = 1_000;

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
    /// Outputs at the last digest.
    noted: u64,
    now: Time,
}

/// The file `part` of the recording of `epoch`.
pub fn file_of(directory: &Path, epoch: u64, part: usize) -> PathBuf {
    directory.join(format!("epoch-{epoch:06}.{part:03}.record"))
}

impl Recorder {
    /// Begins a recording.
    ///
    /// # Errors
    /// Nothing can be written.
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
        fs::create_dir_all(directory).map_err(wrong(directory))?;
        make_room(directory, wanted.files.saturating_sub(1)).map_err(wrong(directory))?;
        let first = file_of(directory, epoch, 0);
        let file = open(&first).map_err(wrong(&first))?;
        let (sender, receiver) = sync_channel(WAITING);
        let mut files = Files { wanted: wanted.clone(), epoch, part: 0, file, written: 0 };
        let counted = Arc::clone(&measures);
        let writer = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || files.write(&receiver, &counted))
            .map_err(wrong(directory))?;
        let mut recorder = Self {
            buffer: Vec::new(),
            sender: Some(sender),
            writer: Some(writer),
            measures,
            digest: Digest::default(),
            noted: 0,
            now: Time::ZERO,
        };
        recorder.measures.set_recorder(Recording::On);
        recorder
            .note(|out| record::write_started(Time::ZERO, epoch, &configuration(settings), out));
        Ok(recorder)
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
        if self.sender.is_some()
            && let Err(error) = write(&mut self.buffer)
        {
            self.stop(&error.to_string());
        }
    }

    /// Notes what was decided.
    pub fn decided(&mut self, outputs: &[Output]) {
        if self.sender.is_none() {
            return;
        }
        self.digest.update(outputs);
        if self.digest.outputs - self.noted >= DIGEST {
            self.note_digest();
        }
        if self.buffer.len() >= CHUNK {
            self.flush();
        }
    }

    fn note_digest(&mut self) {
        self.noted = self.digest.outputs;
        let (now, digest) = (self.now, self.digest);
        self.note(|out| record::write_digest(now, digest, out));
    }

    /// Hands over what there is.
    pub fn flush(&mut self) {
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
        tracing::error!(reason, "recording stopped; the controller goes on");
        self.measures.set_recorder(Recording::Stopped);
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

fn configuration(settings: &Settings) -> Configuration {
    Configuration {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        file: settings.file.clone(),
        settings: settings.text.clone(),
    }
}

struct Files {
    wanted: settings::Recorder,
    epoch: u64,
    part: usize,
    file: File,
    written: u64,
}

impl Files {
    fn write(&mut self, chunks: &Receiver<Vec<u8>>, measures: &Measures) {
        while let Ok(chunk) = chunks.recv() {
            if let Err(error) = self.append(&chunk) {
                let directory = self.wanted.directory.display();
                tracing::error!(%directory, %error, "recording stopped; the controller goes on");
                measures.set_recorder(Recording::Stopped);
                return;
            }
            let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            measures.recorded_bytes.fetch_add(length, Ordering::Relaxed);
        }
        // Nobody could do anything about it now.
        let _ = self.file.sync_all();
    }

    fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        if self.written >= self.wanted.most {
            if self.part + 1 >= self.wanted.files {
                return Err(io::Error::other(
                    "all files that the configuration allows are full; raise recorder.files",
                ));
            }
            self.part += 1;
            make_room(&self.wanted.directory, self.wanted.files - 1)?;
            self.file = open(&file_of(&self.wanted.directory, self.epoch, self.part))?;
            self.written = 0;
        }
        self.file.write_all(chunk)?;
        self.written += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// Recordings tell what applications do: nobody else may read them.
fn open(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)
}

/// Removes the oldest files but `keep`. Names sort by epoch and part.
fn make_room(directory: &Path, keep: usize) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("epoch-") && name.ends_with(".record") {
            files.push(path);
        }
    }
    files.sort();
    let old = files.len().saturating_sub(keep);
    for file in files.into_iter().take(old) {
        fs::remove_file(file)?;
    }
    Ok(())
}
