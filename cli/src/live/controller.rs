//! `watermaster controller`: the daemon.

use std::path::PathBuf;

use clap::Args;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;

pub(crate) use ::controller::SOCKET;
use ::controller::StartError;

/// Run the controller's daemon
///
/// It listens for switches (OpenFlow), agents and applications (HTTP) and for commands on this
/// machine (a Unix socket). SIGHUP makes it read its configuration again, SIGTERM ends it; grants
/// last until their lease ends.
#[derive(Args)]
#[command(
    after_help = "Example:\n  watermaster controller --config /etc/watermaster/controller.toml"
)]
pub(crate) struct Controller {
    /// The configuration; docs/operating.md explains its keys
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Check configuration and certificates as a start would, and exit
    ///
    /// Run it as the user that the controller will have. Addresses, state and recordings are not tried.
    #[arg(long)]
    check: bool,
}

impl Controller {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        if self.check {
            let but = ::controller::check(&self.config).map_err(refused)?;
            let but = but.map(|why| format!(", but {why}")).unwrap_or_default();
            return crate::failure::print(&format!("the configuration is good{but}\n"));
        }
        let settings =
            ::controller::settings::Settings::load(&self.config).map_err(Failure::misused)?;
        log(&settings.log_level, settings.log_json);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::failed)?;
        let ran = runtime.block_on(::controller::run(&self.config, || ()));
        // Connections that are still open end with the process.
        runtime.shutdown_background();
        ran.map_err(refused)
    }
}

fn refused(error: StartError) -> Failure {
    match error {
        StartError::Settings(_) | StartError::Control(_) => Failure::misused(error),
        error => Failure::failed(error),
    }
}

/// Logs to standard error; `RUST_LOG` overrides the filter.
pub(crate) fn log(level: &str, json: bool) {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = wanted
        .unwrap_or_else(|| level.parse().expect("the settings have refused what does not parse"));
    let builder =
        tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(std::io::stderr);
    if json {
        builder.json().flatten_event(true).finish().with(filter).init();
    } else {
        builder.with_ansi(false).finish().with(filter).init();
    }
}
