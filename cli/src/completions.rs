//! `watermaster completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::{Failure, print};

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster completions bash > \
                        ~/.local/share/bash-completion/completions/watermaster")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        let mut command = crate::Cli::command();
        clap_complete::generate(self.shell, &mut command, "watermaster", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
