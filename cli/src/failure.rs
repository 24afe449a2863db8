//! How commands end, and the one place that writes to the standard streams.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Invalid input: a scenario, a trace, an option.
    Misused(String),
    /// Something else went wrong.
    Failed(String),
    /// The reader of the output has gone, such as after `| head`.
    Closed,
}

impl Failure {
    pub(crate) fn misused(error: impl Display) -> Self {
        Self::Misused(error.to_string())
    }

    pub(crate) fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// What is wrong.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Misused(message) | Self::Failed(message) => message,
            Self::Closed => String::new(),
        }
    }

    /// Prints the error; returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Misused(message) => {
                say(&message);
                ExitCode::from(2)
            }
            Self::Failed(message) => {
                say(&message);
                ExitCode::FAILURE
            }
            Self::Closed => ExitCode::SUCCESS,
        }
    }
}

/// Writes an error to standard error, each line once. Failures of that are ignored.
pub(crate) fn say(message: &str) {
    let _ = writeln!(io::stderr(), "error: {message}");
}

/// Tells on standard error how far something is. Failures of that are ignored.
pub(crate) fn note(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::failed(format_args!("can't write the output: {error}")),
    })
}
