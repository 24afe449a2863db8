//! Puts a recording into the machine again.

use std::fs;
use std::path::{Path, PathBuf};

use control::{Change, Controller, Input, Output};
use serde::Serialize;
use units::Time;

use crate::record::{self, Beginning, Content, Digest};
use crate::settings::Settings;

/// A recording that can't be replayed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub struct ReplayError {
    file: PathBuf,
    reason: String,
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The recorded controller's epoch.
    pub epoch: u64,
    /// The program that recorded.
    pub version: String,
    /// Inputs.
    pub inputs: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Outputs.
    pub outputs: u64,
    /// From the first input to the last.
    pub lasted_ns: u64,
    /// Digests in the recording.
    pub digests: u64,
    /// The first of them that differs: so many outputs in.
    pub differs_after: Option<u64>,
    /// The recording ends within a frame, as after a crash.
    pub cut: bool,
    /// The digest of all outputs.
    pub digest: String,
}

/// Replays the recording that begins in `file`, with the files that follow it; `tell` gets what was
/// decided.
///
/// # Errors
/// It can't be read, or isn't a recording from its beginning.
pub fn replay(file: &Path, mut tell: impl FnMut(Time, &Output)) -> Result<Replayed, ReplayError> {
    let wrong = |reason: String| ReplayError { file: file.to_owned(), reason };
    let bytes = whole(file).map_err(|error| wrong(format!("can't be read: {error}")))?;
    if !bytes.starts_with(record::MAGIC) {
        return Err(wrong("is no recording, or a later part of one; name part 000".to_owned()));
    }
    let at = record::MAGIC.len();
    let read = |at| record::read(&bytes, at).map_err(|error| wrong(error.to_string()));
    let Some((begun, Content::Beginning(beginning), mut at)) = read(at)? else {
        return Err(wrong("does not tell its configuration".to_owned()));
    };
    let settings = settings(&beginning).map_err(&wrong)?;
    let mut policy = (settings.control.policy_name.clone(), settings.parameters.clone());
    let mut controller = Controller::new(settings.control, beginning.epoch, begun)
        .map_err(|error| wrong(error.to_string()))?;
    let mut out = Vec::new();
    let mut digest = Digest::default();
    let mut done = Replayed {
        epoch: beginning.epoch,
        version: beginning.version,
        inputs: 0,
        refused: 0,
        outputs: 0,
        lasted_ns: 0,
        digests: 0,
        differs_after: None,
        cut: false,
        digest: String::new(),
    };
    while let Some((now, content, next)) = read(at)? {
        at = next;
        done.lasted_ns = now.since(begun).as_nanos();
        match content {
            Content::Digest(count, value) => {
                done.digests += 1;
                if (count, value) != (digest.count, digest.value) {
                    done.differs_after.get_or_insert(count);
                }
            }
            Content::Beginning(again) => {
                let fresh = self::settings(&again).map_err(&wrong)?;
                controller.reconfigure(now, change(fresh, &mut policy));
                controller.decide(&mut out);
            }
            content => {
                done.inputs += 1;
                let Some(input) = input(&content) else { continue };
                done.refused += u64::from(controller.observe(now, input).is_err());
                // As the daemon does: a tick ends each turn.
                if input == Input::Tick {
                    controller.decide(&mut out);
                }
            }
        }
        digest.add(&out);
        for output in out.drain(..) {
            tell(now, &output);
        }
    }
    done.cut = at != bytes.len();
    done.outputs = digest.count;
    done.digest = format!("{:016x}", digest.value);
    Ok(done)
}

fn settings(beginning: &Beginning) -> Result<Settings, String> {
    Settings::read(&beginning.file, &beginning.settings, Path::new(""))
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

fn input(content: &Content) -> Option<Input<'_>> {
    Some(match content {
        Content::SwitchConnected(peer) => Input::SwitchConnected(*peer),
        Content::SwitchBytes(peer, bytes) => Input::SwitchBytes(*peer, bytes),
        Content::SwitchGone(peer) => Input::SwitchGone(*peer),
        Content::Declared(application, declaration) => Input::Declared { application, declaration },
        Content::ApplicationGone(application) => Input::ApplicationGone(application),
        Content::AgentConnected(peer, identity) => {
            Input::AgentConnected { channel: *peer, identity }
        }
        Content::Reported(peer, report) => Input::Reported(*peer, report),
        Content::AgentGone(peer) => Input::AgentGone(*peer),
        Content::Tick => Input::Tick,
        Content::Beginning(_) | Content::Digest(..) => return None,
    })
}

/// All files of a recording, one after another.
fn whole(first: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = fs::read(first)?;
    let name = first.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(".000.record") else { return Ok(bytes) };
    for part in 1.. {
        let next = first.with_file_name(format!("{stem}.{part:03}.record"));
        match fs::read(&next) {
            Ok(more) => bytes.extend_from_slice(&more),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
