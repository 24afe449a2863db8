//! The agent's daemon: it connects to the controller, has the kernel do what it is told, and tells
//! what it sees.
//!
//! It holds nothing that must survive: when the controller is gone, leases end in the kernel's own
//! maps; when the agent is gone, they end there too.
#![deny(unsafe_code)]

mod actuator;
mod delay;
mod host;
mod outgoing;
pub mod settings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use document::DocumentError;
use protocol::agent::Commands;
use rand::RngExt as _;
use rustls::ClientConfig;
use tokio::io::BufReader;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout, timeout_at};
use wire::client::Client;
use wire::lines::Lines;
use wire::tls;

use host::Host;
use outgoing::Outgoing;
use settings::Settings;

/// Longest line of commands that is read.
const LINE: usize = 64 << 20;
/// A controller that says nothing for so long is taken for dead: it renews leases more often.
const SILENCE: Duration = Duration::from_secs(30);
/// Between two attempts to connect, the first and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Settings(#[from] DocumentError),
    /// The configuration names what isn't there, or isn't what it should be.
    #[error("{file}: {field}: {source}; {remedy}")]
    Absent {
        /// The configuration.
        file: String,
        /// The field, as it stands there.
        field: String,
        /// What the kernel said.
        source: Box<kernel::Error>,
        /// What to do.
        remedy: &'static str,
    },
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A descriptor or a signal that the system doesn't give.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Runs an agent until SIGTERM or SIGINT.
///
/// # Errors
/// It can't start.
pub async fn run(path: &Path) -> Result<(), StartError> {
    let settings = Settings::load(path)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = settings.tls.as_ref().map(tls::client).transpose()?.map(Arc::new);
    let mut host = Host::start(&settings)?;
    tracing::info!(agent = settings.name, controller = %settings.controller, "agent ready");
    tokio::select! {
        () = converse(&settings, config.as_ref(), &mut host) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    host.stop();
    Ok(())
}

/// Connects again and again.
async fn converse(settings: &Settings, config: Option<&Arc<ClientConfig>>, host: &mut Host) {
    let (least, most) = BACKOFF;
    let mut pause = least;
    loop {
        let began = Instant::now();
        let why = once(settings, config, host).await;
        host.disconnected();
        if began.elapsed() > SILENCE {
            pause = least;
        }
        // Agents that lost their controller together must not come back together.
        let share = rand::rng().random_range(0.5..1.5);
        tracing::warn!(reason = why, "no controller; leases run out");
        host.meanwhile(tokio::time::sleep(pause.mul_f64(share))).await;
        pause = (pause * 2).min(most);
    }
}

/// One connection; why it ended.
async fn once(settings: &Settings, config: Option<&Arc<ClientConfig>>, host: &mut Host) -> String {
    let client = match host.meanwhile(Client::connect(&settings.controller, config)).await {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    let path = format!("/v1/agents/{}/exchange", settings.name);
    let stream = match host.meanwhile(timeout(SILENCE, client.exchange(&path))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return error.to_string(),
        Err(_) => return "the controller does not answer".to_owned(),
    };
    tracing::info!("connected");
    let (reader, writer) = tokio::io::split(stream);
    let mut lines = Lines::new(BufReader::new(reader), LINE);
    let mut outgoing = Outgoing::new(writer);
    let mut reports = vec![host.hello(settings)];
    let mut heard = Instant::now();
    loop {
        if let Err(error) = reports.drain(..).try_for_each(|report| outgoing.tell(&report)) {
            return error.to_string();
        }
        tokio::select! {
            next = timeout_at(heard + SILENCE, lines.next::<Commands>()) => {
                heard = Instant::now();
                match next {
                    Ok(Ok(Some(Some(commands)))) => {
                        if let Err(lapse) = host.obey(&commands, &mut reports) {
                            return lapse.to_string();
                        }
                    }
                    Ok(Ok(Some(None))) => {}
                    Ok(Ok(None)) => return "the controller closed the connection".to_owned(),
                    Ok(Err(error)) => return error.to_string(),
                    Err(_) => return "the controller is silent".to_owned(),
                }
            }
            () = host.ready() => host.attend(&mut reports),
            sent = outgoing.send() => {
                if let Err(error) = sent {
                    return error.to_string();
                }
            }
        }
    }
}
