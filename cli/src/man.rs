//! `watermaster man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::failure::Failure;

/// Write the manual's pages, one a command, into a directory
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// The directory, which exists
    #[arg(value_name = "DIR")]
    into: PathBuf,
}

impl Man {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        if !self.into.is_dir() {
            return Err(Failure::misused(format_args!(
                "{}: is no directory; make it with mkdir -p",
                self.into.display()
            )));
        }
        clap_mangen::generate_to(crate::Cli::command(), &self.into)
            .map_err(|error| Failure::failed(format_args!("{}: {error}", self.into.display())))
    }
}
