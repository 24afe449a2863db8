//! Why a trace can't be read or a workload can't be made; every message names the remedy.

use std::collections::BTreeSet;
use std::fmt;

use model::NodeId;
use units::Bytes;

/// Most octets in a trace's field or a parameter: 10¹⁸.
pub(crate) const MOST_BYTES: u64 = 1_000_000_000_000_000_000;

/// What is wrong with a trace, and where.
///
/// Shown as `FILE:LINE: FIELD: MESSAGE`, without the parts that don't apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The trace: its path, or the name it was opened under.
    pub file: String,
    /// The line, counted from 1; `None` when the file as a whole is at fault.
    pub line: Option<u64>,
    /// The field of the line, by the name that the format's description gives it.
    pub field: Option<&'static str>,
    /// What was found, what is expected, and what to do.
    pub message: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for TraceError {}

/// Why a workload can't be made from a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The trace is at fault.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A parameter is at fault.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// A parameter of a generator that can't work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {message}")]
pub struct ParameterError {
    /// The parameter, by the name of its field or argument.
    pub parameter: &'static str,
    /// Its value, the range, and what to do.
    pub message: String,
}

/// Refuses a parameter unless `holds`.
pub(crate) fn require(
    holds: bool,
    parameter: &'static str,
    message: impl FnOnce() -> String,
) -> Result<(), ParameterError> {
    if holds {
        return Ok(());
    }
    Err(ParameterError { parameter, message: message() })
}

/// Refuses hosts that are fewer than two, or named twice.
pub(crate) fn require_hosts(hosts: &[NodeId]) -> Result<(), ParameterError> {
    require(hosts.len() >= 2, "hosts", || {
        format!("there are {}; traffic needs at least 2", hosts.len())
    })?;
    let distinct: BTreeSet<_> = hosts.iter().collect();
    require(distinct.len() == hosts.len(), "hosts", || {
        "one is named twice; name each once".to_owned()
    })
}

/// Refuses zero and endless amounts.
pub(crate) fn require_bytes(parameter: &'static str, bytes: Bytes) -> Result<(), ParameterError> {
    require(bytes > Bytes::ZERO && bytes.get() <= MOST_BYTES, parameter, || {
        format!("{bytes} is outside the range from 1 B to {MOST_BYTES} B")
    })
}
