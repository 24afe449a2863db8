//! `watermaster agent`: the daemon of a host.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;

/// Run the agent's daemon of a host (root, or the capabilities that docs/agent.md names)
///
/// It connects to the controller and enforces its commands through the kernel. When either of them
/// is gone, leases end in the kernel's own maps, and traffic is plain TCP again. SIGHUP makes it read its
/// configuration again, SIGTERM ends it.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster agent --config /etc/watermaster/agent.toml")]
pub(crate) struct Agent {
    /// The configuration; docs/configuration.md explains its keys
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Check configuration, certificates and network namespaces as a start would, and exit
    ///
    /// Run it as the user that the agent will have. Control group, interfaces and the kernel are not tried:
    /// `watermaster doctor` tells what the kernel gives.
    #[arg(long)]
    check: bool,
}

impl Agent {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        if self.check {
            agentd::check(&self.config).map_err(refused)?;
            return crate::failure::print("the configuration is good\n");
        }
        let settings = agentd::settings::Settings::load(&self.config).map_err(Failure::misused)?;
        super::controller::log("info", settings.log_json, None);
        super::block_on(async { agentd::run(&self.config).await.map_err(refused) })
    }
}

fn refused(error: agentd::StartError) -> Failure {
    match error {
        agentd::StartError::Settings(_) => Failure::misused(error),
        error => Failure::failed(error),
    }
}
