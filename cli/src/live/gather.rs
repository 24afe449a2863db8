//! `watermaster gather`: fan-out in front of memcached.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gather::front::{Front, StartError};
use gather::hub::Hub;
use gather::settings::Settings;

use crate::failure::{Failure, note, print};

/// Gather large requests from pools of memcached: a front end for clients, hubs beside servers
#[derive(Subcommand)]
#[command(after_help = "Example:\n  \
    watermaster gather hub --config gather.toml --server s1\n  \
    watermaster gather front --config gather.toml")]
pub(crate) enum Command {
    Front(FrontEnd),
    Hub(DataServer),
}

/// Serve clients that speak memcached's text and meta protocols
///
/// A request for many keys is gathered as the configured policy decides; everything else goes to the
/// server of its key.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster gather front --config gather.toml")]
pub(crate) struct FrontEnd {
    #[command(flatten)]
    common: Common,
}

/// Collect for front ends beside a memcached server
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster gather hub --config gather.toml --server s1")]
pub(crate) struct DataServer {
    #[command(flatten)]
    common: Common,

    /// The server that it stands beside, by its name in the configuration
    #[arg(long, value_name = "NAME")]
    server: String,
}

#[derive(Args)]
struct Common {
    /// The configuration, the same for front ends and hubs; docs/gather.md explains its keys
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

impl Common {
    /// The settings; `None` if they were only to be checked.
    fn settings(&self) -> Result<Option<Settings>, Failure> {
        let settings = Settings::load(&self.config).map_err(Failure::misused)?;
        if !self.check {
            super::controller::log("info", false, None);
            return Ok(Some(settings));
        }
        print(&format!(
            "{}: {} servers in {} racks, {} copies of each key, gathered by {}\n",
            self.config.display(),
            settings.servers.len(),
            settings.racks.len(),
            settings.copies,
            settings.policy.0.name
        ))?;
        Ok(None)
    }
}

impl Command {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        match self {
            Self::Front(FrontEnd { common }) => {
                let Some(settings) = common.settings()? else { return Ok(()) };
                super::block_on(async {
                    let front = Front::start(settings).await.map_err(failed)?;
                    let address = front.address().map_err(Failure::failed)?;
                    note(&format!("listening at {address}"));
                    until_stopped(front.run()).await
                })
            }
            Self::Hub(DataServer { common, server }) => {
                let Some(settings) = common.settings()? else { return Ok(()) };
                super::block_on(async {
                    let hub = Hub::start(settings, &server).await.map_err(failed)?;
                    let address = hub.address().map_err(Failure::failed)?;
                    note(&format!("hub of {server}, listening at {address}"));
                    until_stopped(hub.run()).await
                })
            }
        }
    }
}

async fn until_stopped(service: impl Future<Output = ()>) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut end = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    tokio::select! {
        () = service => Ok(()),
        _ = end.recv() => Ok(()),
        stopped = tokio::signal::ctrl_c() => stopped.map_err(Failure::failed),
    }
}

fn failed(error: StartError) -> Failure {
    match error {
        StartError::NoHub(_) | StartError::Policy(_) => Failure::misused(error),
        StartError::Listen(..) => Failure::failed(error),
    }
}
