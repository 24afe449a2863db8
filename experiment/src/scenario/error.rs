//! What is wrong with a scenario, and changes to it from a command line.

use std::fmt;
use std::str::FromStr;

use super::fields::shown;

/// Why a scenario can't be used: `file:line:column: field: what is wrong; remedy`, or
/// `--set path=value: field: …` where an override is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    /// An error that says in itself what is wrong where.
    pub(super) fn whole(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }

    pub(super) fn new(at: &str, field: &str, message: impl fmt::Display) -> Self {
        if field.is_empty() {
            Self(format!("{at}: {message}"))
        } else {
            Self(format!("{at}: {field}: {message}"))
        }
    }
}

/// `path=value`: a change to a scenario before it is read, such as
/// `topology.access.capacity=1 Gbit/s` or `policy.smsf.beta=0.05`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    path: String,
    value: String,
}

impl Override {
    const MOST_KEYS: usize = 16;

    /// The override of `path` with `value`.
    ///
    /// # Errors
    /// A path with no key, an empty key or too many keys.
    pub fn new(path: &str, value: &str) -> Result<Self, ScenarioError> {
        let path = path.trim();
        let keys = path.split('.').count();
        if keys > Self::MOST_KEYS || path.split('.').any(|key| key.trim().is_empty()) {
            let at = format!("--set {}", shown(path));
            let what = "is no path; write keys with dots between, such as topology.access.delay";
            return Err(ScenarioError::new(&at, "", what));
        }
        Ok(Self {
            path: path.to_owned(),
            value: value.trim().to_owned(),
        })
    }

    /// Keys with dots between.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The new value: TOML, or a text without quotes.
    pub fn value(&self) -> &str {
        &self.value
    }

    pub(super) fn shown(&self) -> String {
        shown(&format!("{}={}", self.path, self.value))
    }
}

impl FromStr for Override {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let Some((path, value)) = text.split_once('=') else {
            let at = format!("--set {}", shown(text));
            return Err(ScenarioError::new(&at, "", "has no =; write path=value"));
        };
        Self::new(path, value)
    }
}
