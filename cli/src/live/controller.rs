//! `watermaster controller`: the daemon.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;

pub(crate) use ::controller::SOCKET;
use ::controller::StartError;
use ::controller::journal::{Journal, Noting};

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
    /// The configuration; docs/configuration.md explains its keys
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
            let notes = ::controller::check(&self.config).map_err(refused)?;
            let notes: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
            return crate::failure::print(&format!("the configuration is good\n{notes}"));
        }
        let settings =
            ::controller::settings::Settings::load(&self.config).map_err(Failure::misused)?;
        let journal = Arc::new(Journal::default());
        log(&settings.log_level, settings.log_json, Some(Noting(Arc::clone(&journal))));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::failed)?;
        let ran = runtime.block_on(::controller::run(&self.config, journal, || ()));
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

/// Logs to standard error; `RUST_LOG` overrides the filter. What is noted in a journal doesn't pass it.
pub(crate) fn log(level: &str, json: bool, noting: Option<Noting>) {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = wanted
        .unwrap_or_else(|| level.parse().expect("the settings have refused what does not parse"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if json {
        lines.json().flatten_event(true).with_filter(filter).boxed()
    } else {
        lines.with_ansi(false).with_filter(filter).boxed()
    };
    let noting = noting.map(|noting| noting.with_filter(LevelFilter::INFO));
    tracing_subscriber::registry().with(lines).with(noting).init();
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use kernel::PacerOptions;

    use super::SOCKET;

    /// The folder that a unit has at run time.
    fn folder(unit: &str) -> PathBuf {
        let named = unit.lines().find_map(|line| line.strip_prefix("RuntimeDirectory=")).unwrap();
        Path::new("/run").join(named)
    }

    /// systemd gives a unit's folder, and all that is in it, to the unit's user at each start.
    #[test]
    fn controller_and_agent_keep_what_they_run_with_in_folders_of_their_own() {
        let controller = folder(include_str!("../../../packaging/watermaster-controller.service"));
        let agent = folder(include_str!("../../../packaging/watermaster-agent.service"));
        assert!(!controller.starts_with(&agent) && !agent.starts_with(&controller));
        assert_eq!(Path::new(SOCKET).parent(), Some(controller.as_path()));
        assert!(PacerOptions::default().pins.starts_with(&agent));
    }
}
