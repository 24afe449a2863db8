//! The daemon as a whole: start, reload, end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use control::{Config, Controller, Enforcement, HostConfig, PortConfig, SwitchConfig};
use document::DocumentError;
use rustls::ServerConfig;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use units::{Bytes, Span, Time};
use wire::clock::Clock;
use wire::tls;

use crate::epoch::{State, StateError};
use crate::hub::Hub;
use crate::ledger::{Ledger, LedgerError};
use crate::listen::{ListenError, Listener};
use crate::metrics::Measures;
use crate::owner::{Event, Owner, WAITING};
use crate::recorder::{self, Recorder};
use crate::recordings::Recordings;
use crate::settings::{self, Listen, Settings};
use crate::{http, listen, switches};

/// Why a daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Settings(#[from] DocumentError),
    /// The state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The orders that stood.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// What the machine says of the configuration.
    #[error("{0}; correct the configuration")]
    Control(#[from] control::ConfigError),
    /// The recorder's folder.
    #[error(transparent)]
    Recorder(#[from] recorder::RecorderError),
    /// An address or a socket that can't be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread or a signal that the system doesn't give.
    #[error("the system refuses a thread or a signal: {0}; raise TasksMax= of its unit")]
    System(#[from] std::io::Error),
}

/// Loads what a start loads, configuration and certificates, and makes the machine. It takes neither
/// state nor addresses and writes nothing. Returned is why the policy would have
/// no effect, if so.
///
/// # Errors
/// A controller can't start with it.
pub fn check(path: &Path) -> Result<Option<String>, StartError> {
    let settings = Settings::load(path)?;
    settings.tls.as_ref().map(tls::server).transpose()?;
    let policy = settings.control.policy_name.clone();
    Controller::new(settings.control, 1, Time::ZERO)?;
    Ok(no_effect(&policy))
}

/// Why a policy would have no effect, if so.
fn no_effect(policy: &str) -> Option<String> {
    let why = policy::find(policy).ok().and_then(policy::Descriptor::why_not_live)?;
    Some(format!("policy {policy}: {why}"))
}

/// Runs a controller until SIGTERM or SIGINT; SIGHUP has it read its configuration again.
/// `ready` is called when all sockets listen.
///
/// At the end nothing is taken back: what was granted stands until its lease is over.
///
/// # Errors
/// It can't start.
pub async fn run(path: &Path, ready: impl FnOnce()) -> Result<(), StartError> {
    let settings = Settings::load(path)?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let certificates = settings.tls.as_ref().map(tls::server).transpose()?;
    let certificates = Arc::new(RwLock::new(certificates.map(Arc::new)));
    let state = State::open(&settings.state)?;
    let ledger = Ledger::of(&settings.state);
    let standing = ledger.standing()?;
    let (listen, tls, bounds) = (settings.listen.clone(), settings.tls.is_some(), settings.bounds);
    let http = bound(listen.http).await?;
    let openflow = bound(listen.openflow).await?;
    let openflow_tls = bound(listen.openflow_tls).await?;
    let unix = listen::unix(&listen.socket)?;
    let socket = Socket(listen.socket);
    // Only now, for it removes old recordings: a start that fails leaves them alone.
    let clock = Clock::start();
    let measures = Arc::new(Measures::default());
    let recorder = settings.recorder.as_ref();
    let recorder = recorder
        .map(|wanted| Recorder::start(wanted, &settings, state.epoch, Arc::clone(&measures)))
        .transpose()?;
    let (sender, events) = mpsc::channel(WAITING);
    let kept = Kept::of(&settings);
    let recordings = settings.recorder.clone().map(Recordings::of);
    let policy = settings.control.policy_name.clone();
    let (changing, changes) = watch::channel(0);
    let mut owner =
        Owner::new(settings, state.epoch, clock, recorder, Arc::clone(&measures), changing)?;
    owner.order_again(&standing);
    let owner = tokio::spawn(owner.run(events));
    let (stop, stopped) = watch::channel(false);
    let mut hub = Hub::new(sender, bounds, measures, state.epoch, ledger, changes, stopped);
    hub.recordings = recordings;
    let hub = Arc::new(hub);

    let mut tasks = vec![tokio::spawn(http::serve(unix, None, Arc::clone(&hub)))];
    if let Some(listener) = http {
        let certificates = tls.then(|| Arc::clone(&certificates));
        tracing::info!(address = listener.place(), tls, "HTTP");
        tasks.push(tokio::spawn(http::serve(listener, certificates, Arc::clone(&hub))));
    }
    for (listener, tls) in [(openflow, None), (openflow_tls, Some(Arc::clone(&certificates)))] {
        let Some(listener) = listener else { continue };
        tracing::info!(address = listener.place(), tls = tls.is_some(), "OpenFlow");
        tasks.push(tokio::spawn(switches::serve(listener, tls, Arc::clone(&hub))));
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        epoch = state.epoch,
        policy,
        socket = %socket.0.display(),
        "controller ready"
    );
    warn_of(&policy);
    ready();

    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                match reload(path, &certificates, &hub).await {
                    Ok((fresh, policy)) => {
                        match kept.differs(&fresh)[..] {
                            [] => tracing::info!(policy, "configuration read again"),
                            ref other => tracing::warn!(
                                policy,
                                restart = other.join(", "),
                                "configuration read again; some changes need a restart"
                            ),
                        }
                        warn_of(&policy);
                    }
                    Err(error) => tracing::error!(%error, "configuration kept as it was"),
                }
            }
        }
    }
    tracing::info!("ending; what was granted stands until its lease is over");
    // No task may be left that holds the channel, then the machine's ends.
    let _ = stop.send(true);
    for task in &tasks {
        task.abort();
    }
    drop(hub);
    drop(socket);
    if tokio::time::timeout(std::time::Duration::from_secs(5), owner).await.is_err() {
        tracing::warn!("a connection outlives the daemon's patience; cut off");
    }
    Ok(())
}

/// Warns of a policy without effect.
fn warn_of(policy: &str) {
    if let Some(why) = no_effect(policy) {
        tracing::warn!("{why}");
    }
}

/// Listens on an address, where one is wanted.
async fn bound(address: Option<SocketAddr>) -> Result<Option<Listener>, ListenError> {
    match address {
        Some(address) => listen::tcp(address).await.map(Some),
        None => Ok(None),
    }
}

/// The path that is listened on; removed when dropped.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What can't change while the daemon runs.
struct Kept {
    state: PathBuf,
    log: (bool, String),
    listen: Listen,
    tls: bool,
    recorder: Option<settings::Recorder>,
    mss: Bytes,
    enforcement: Enforcement,
    sample: Span,
    probe: Span,
    grace: Span,
    learn: bool,
    topology: (Vec<model::Node>, Vec<model::Link>),
    hosts: Vec<HostConfig>,
    switches: Vec<SwitchConfig>,
    ports: Vec<PortConfig>,
}

impl Kept {
    /// Each key is either here or put into effect by a reload: a new one is named by the compiler.
    fn of(settings: &Settings) -> Self {
        let Settings {
            file: _,
            text: _,
            state,
            log_json,
            log_level,
            listen,
            tls,
            parameters: _,
            bounds: _,
            recorder,
            control,
        } = settings;
        let Config {
            topology,
            hosts,
            switches,
            ports,
            policy_name: _,
            policy: _,
            mss,
            enforcement,
            lease: _,
            sample,
            probe,
            grace,
            learn,
            // No key sets it.
            discovered: _,
            limits: _,
        } = control;
        Self {
            state: state.clone(),
            log: (*log_json, log_level.clone()),
            listen: listen.clone(),
            tls: tls.is_some(),
            recorder: recorder.clone(),
            mss: *mss,
            enforcement: *enforcement,
            sample: *sample,
            probe: *probe,
            grace: *grace,
            learn: *learn,
            topology: (topology.nodes().to_vec(), topology.links().to_vec()),
            hosts: hosts.clone(),
            switches: switches.clone(),
            ports: ports.clone(),
        }
    }

    /// What is otherwise in `fresh`, as the file calls it.
    fn differs(&self, fresh: &Self) -> Vec<&'static str> {
        let all = [
            ("state", self.state != fresh.state),
            ("log", self.log != fresh.log),
            ("[listen]", self.listen != fresh.listen),
            ("whether there is [tls]", self.tls != fresh.tls),
            ("[recorder]", self.recorder != fresh.recorder),
            ("mss", self.mss != fresh.mss),
            ("control.enforcement", self.enforcement != fresh.enforcement),
            ("control.sample", self.sample != fresh.sample),
            ("control.probe", self.probe != fresh.probe),
            ("control.grace", self.grace != fresh.grace),
            ("control.learn", self.learn != fresh.learn),
            ("[topology]", self.topology != fresh.topology),
            ("[[host]]", self.hosts != fresh.hosts),
            ("[[switch]]", self.switches != fresh.switches),
            ("[[port]]", self.ports != fresh.ports),
        ];
        all.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

/// Reads the configuration again and puts into effect what can change while it runs.
async fn reload(
    path: &Path,
    certificates: &RwLock<Option<Arc<ServerConfig>>>,
    hub: &Hub,
) -> Result<(Kept, String), StartError> {
    let settings = Settings::load(path)?;
    if let Some(files) = &settings.tls {
        let fresh = Arc::new(tls::server(files)?);
        // A poisoned lock still holds whole certificates.
        *certificates.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
    }
    hub.set_bounds(settings.bounds);
    let kept = Kept::of(&settings);
    let policy = settings.control.policy_name.clone();
    // The machine lives as long as the daemon.
    let _ = hub.tell(Event::Reload(Box::new(settings))).await;
    Ok((kept, policy))
}
