//! The agent's daemon: it connects to the controller, has the kernel do what it is told, and tells
//! what it sees.
//!
//! It holds nothing that must survive: when the controller is gone, leases end in the kernel's own
//! maps; when the agent is gone, they end there too.
#![forbid(unsafe_code)]

mod delay;
mod hands;
mod inbox;
pub mod settings;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TrySendError;
use std::time::Duration;

use document::DocumentError;
use protocol::agent::{Commands, Report};
use rand::RngExt as _;
use rustls::ClientConfig;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;
use wire::client::Client;
use wire::lines::{self, Lines};
use wire::tls;

use hands::{Hands, Order, Word};
use inbox::{Outbox, inbox};
use settings::Settings;

/// Longest line of commands that is read.
const LINE: usize = 64 << 20;
/// Commands and reports that may wait.
const WAITING: usize = 4096;
/// A controller that says nothing for so long is taken for dead: it renews leases more often.
const SILENCE: Duration = Duration::from_secs(30);
/// Between signs of life.
const ALIVE: Duration = Duration::from_secs(5);
/// Between two attempts to connect, the first and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Why an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Settings(#[from] DocumentError),
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] agent::Error),
    /// A thread or a signal that the system doesn't give.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Runs an agent until SIGTERM or SIGINT.
///
/// # Errors
/// It can't start.
pub async fn run(path: &Path) -> Result<(), StartError> {
    let settings = Arc::new(Settings::load(path)?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let config = settings.tls.as_ref().map(tls::client).transpose()?.map(Arc::new);
    let (orders, ordered) = inbox(WAITING)?;
    let (words, mut told) = channel(WAITING);
    let (started, start) = tokio::sync::oneshot::channel();
    let epoch = Arc::new(AtomicU64::new(0));
    let (within, obeyed) = (Arc::clone(&settings), Arc::clone(&epoch));
    // What is attached to the kernel stays on the thread that attached it.
    let hands = std::thread::Builder::new().name("hands".to_owned()).spawn(move || {
        let hands = match Hands::start(&within, words) {
            Ok(hands) => hands,
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        obeyed.store(hands.epoch(), Ordering::Relaxed);
        let _ = started.send(Ok(()));
        hands.run(&ordered);
    })?;
    let gone = || std::io::Error::other("the agent's thread ended at its start");
    start.await.map_err(|_| gone())??;
    tracing::info!(agent = settings.name, controller = %settings.controller, "agent ready");
    let talk = converse(&settings, config.as_ref(), &orders, &mut told, &epoch);
    tokio::select! {
        () = talk => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(orders);
    let _ = tokio::task::spawn_blocking(move || hands.join()).await;
    Ok(())
}

/// Connects again and again; ends with the thread that obeys.
async fn converse(
    settings: &Settings,
    config: Option<&Arc<ClientConfig>>,
    orders: &Outbox<Order>,
    told: &mut Receiver<Word>,
    epoch: &AtomicU64,
) {
    let (least, most) = BACKOFF;
    let mut pause = least;
    loop {
        let began = std::time::Instant::now();
        let why = once(settings, config, orders, told, epoch).await;
        let Some(why) = why else { return };
        if began.elapsed() > SILENCE {
            pause = least;
        }
        // Agents that lost their controller together must not come back together.
        let share = rand::rng().random_range(0.5..1.5);
        tracing::warn!(reason = why, "no controller; leases run out");
        tokio::time::sleep(pause.mul_f64(share)).await;
        pause = (pause * 2).min(most);
    }
}

/// One connection; why it ended, or `None` where nobody obeys any more.
async fn once(
    settings: &Settings,
    config: Option<&Arc<ClientConfig>>,
    orders: &Outbox<Order>,
    told: &mut Receiver<Word>,
    epoch: &AtomicU64,
) -> Option<String> {
    let client = match Client::connect(&settings.controller, config).await {
        Ok(client) => client,
        Err(error) => return Some(error.to_string()),
    };
    let path = format!("/v1/agents/{}/exchange", settings.name);
    let stream = match timeout(SILENCE, client.exchange(&path)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Some(error.to_string()),
        Err(_) => return Some("the controller does not answer".to_owned()),
    };
    tracing::info!("connected");
    let (reader, mut writer) = tokio::io::split(stream);
    order(orders, Order::Connected).await?;
    // What was said to nobody is old.
    while told.try_recv().is_ok() {}
    let hello = Report::Hello {
        hosts: settings.hosts.iter().map(|acting| acting.host.clone()).collect(),
        capabilities: capabilities(settings),
        epoch: epoch.load(Ordering::Relaxed),
    };
    let talk = async {
        let mut batch = Vec::new();
        let mut word = Some(Word::Report(hello));
        loop {
            if word.is_none() {
                batch.push(b'\n');
            }
            while let Some(said) = word.take() {
                let Word::Report(report) = said else {
                    return "leases ended before it was heard again".to_owned();
                };
                if let Err(error) = lines::append(&report, &mut batch) {
                    return error.to_string();
                }
                word = told.try_recv().ok();
            }
            let written = async {
                writer.write_all(&batch).await?;
                writer.flush().await
            };
            match timeout(SILENCE, written).await {
                Ok(Ok(())) => batch.clear(),
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return "the controller does not read".to_owned(),
            }
            word = match timeout(ALIVE, told.recv()).await {
                Ok(Some(word)) => Some(word),
                Ok(None) => return "the agent is ending".to_owned(),
                Err(_) => None,
            };
        }
    };
    let hear = async {
        let mut lines = Lines::new(BufReader::new(reader), LINE);
        loop {
            let next = match timeout(SILENCE, lines.next::<Commands>()).await {
                Ok(Ok(next)) => next,
                Ok(Err(error)) => return Some(error.to_string()),
                Err(_) => return Some("the controller is silent".to_owned()),
            };
            match next {
                None => return Some("the controller closed the connection".to_owned()),
                Some(None) => {}
                Some(Some(commands)) => {
                    epoch.fetch_max(commands.epoch, Ordering::Relaxed);
                    order(orders, Order::Obey(commands)).await?;
                }
            }
        }
    };
    tokio::select! {
        why = talk => Some(why),
        why = hear => why,
    }
}

/// Hands an order over, waiting for room; `None` where nobody obeys any more.
async fn order(orders: &Outbox<Order>, order: Order) -> Option<()> {
    let mut order = order;
    loop {
        order = match orders.try_send(order) {
            Ok(()) => return Some(()),
            Err(TrySendError::Full(back)) => back,
            Err(TrySendError::Disconnected(_)) => return None,
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What it can do here, by the names that the controller knows.
fn capabilities(settings: &Settings) -> Vec<String> {
    let mut names = vec!["pace".to_owned(), "statistics".to_owned()];
    if !settings.ports.is_empty() {
        names.extend(["watch", "window"].map(str::to_owned));
    }
    if settings.ports.iter().any(|port| !port.classes.is_empty()) {
        names.push("prioritize".to_owned());
    }
    names
}
