//! Reads a recording for a replay.

use std::fs;
use std::path::{Path, PathBuf};

use control::record::{Configuration, Record};
use control::{Change, Config, Configure, Output, Replay};

use crate::settings::Settings;

/// A recording that can't be replayed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub struct ReplayError {
    file: PathBuf,
    reason: String,
}

/// Replays the recording that begins in `file`, with the files that follow it; `tell` gets every record
/// and what was decided then.
///
/// # Errors
/// It can't be read, or isn't a recording from its beginning.
pub fn replay(file: &Path, tell: impl FnMut(&Record, &[Output])) -> Result<Replay, ReplayError> {
    let wrong = |reason: String| ReplayError { file: file.to_owned(), reason };
    let bytes = read(file).map_err(|error| wrong(format!("can't be read: {error}")))?;
    control::replay(&bytes, &mut Recorded::default(), tell).map_err(wrong)
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

/// The parts of a recording, one after another, that begins in `first`.
///
/// # Errors
/// A part can't be read.
pub fn read(first: &Path) -> std::io::Result<Vec<u8>> {
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
