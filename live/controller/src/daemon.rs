//! The daemon as a whole: start, reload, end.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use control::{Config, Controller, Enforcement, HostConfig, PortConfig, SwitchConfig};
use document::DocumentError;
use protocol::operator::Act;
use rustls::ServerConfig;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use units::{Bytes, Span, Time};
use wire::clock::Clock;
use wire::identity;
use wire::tls;

use crate::election::{self, Mandate, Office, Shelf, Stand, Standing};
use crate::epoch::{State, StateError};
use crate::hub::{Hub, Role};
use crate::journal::Journal;
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
    /// One can't stand for election.
    #[error("[election]: {0}")]
    Election(String),
    /// A thread or a signal that the system doesn't give.
    #[error("the system refuses a thread or a signal: {0}; raise TasksMax= of its unit")]
    System(#[from] std::io::Error),
}

/// Loads what a start loads, configuration and certificates, and makes the machine; peers would take the certificate.
/// It takes neither state nor addresses and writes nothing. Returned is what a controller starts with, and nobody may
/// have meant.
///
/// # Errors
/// A controller can't start with it.
pub fn check(path: &Path) -> Result<Vec<String>, StartError> {
    let settings = Settings::load(path)?;
    settings.tls.as_ref().map(tls::server).transpose()?;
    if let Some(files) = &settings.tls {
        tls::check(files, identity::Role::Controller, None)?;
    }
    settings.election.as_ref().map(election::store).transpose().map_err(StartError::Election)?;
    of_etcd(settings.election.as_ref()).map(tls::lasts).transpose()?;
    let notes = notes(&settings);
    Controller::new(settings.control, 1, Time::ZERO)?;
    Ok(notes)
}

/// The certificates that etcd wants, if it does.
fn of_etcd(election: Option<&settings::Election>) -> Option<&tls::Files> {
    match &election?.store {
        settings::Store::Etcd { tls, .. } => tls.as_ref(),
        settings::Store::Kubernetes(_) => None,
    }
}

/// When our own certificates end, those that etcd is shown too: the file, and seconds since 1970.
fn ends(
    shown: Option<&tls::Files>,
    election: Option<&settings::Election>,
) -> Result<Vec<(PathBuf, i64)>, tls::TlsError> {
    let all = shown.into_iter().chain(of_etcd(election)).map(tls::own_ends);
    let mut all = all.collect::<Result<Vec<_>, _>>()?.concat();
    // Both may be of one authority.
    all.sort();
    all.dedup();
    Ok(all)
}

/// What a controller starts with, and nobody may have meant: a policy without effect, peers that don't prove who they are,
/// and those that do where nothing says what each may do.
fn notes(settings: &Settings) -> Vec<String> {
    let control = &settings.control;
    let policy = &control.policy_name;
    let why = policy::find(policy).ok().and_then(policy::Descriptor::why_not_live);
    let mut notes: Vec<String> =
        why.into_iter().map(|why| format!("policy {policy}: {why}")).collect();
    let Some(http) = settings.listen.http else { return notes };
    if settings.tls.is_none() {
        let whoever = if http.ip().is_loopback() {
            "whoever is on this machine"
        } else {
            "whoever reaches it"
        };
        notes.push(format!(
            "listen.http without a [tls] table: {whoever} may declare for any application, act as any agent and see \
             everything there; orders and pins take the Unix socket"
        ));
        return notes;
    }
    if control.tenants.is_empty() {
        let open = "any application with a certificate may declare flows of all hosts; grant each its own by a \
                    [[tenant]]";
        notes.push(open.to_owned());
    }
    let bound: BTreeSet<&str> = control.acting.iter().map(|(node, _)| node.as_str()).collect();
    let hosts = control.hosts.iter().map(|host| &*control.topology.nodes()[host.node.index()].name);
    let mut open = hosts.filter(|host| !bound.contains(host));
    if let Some(first) = open.next() {
        let more = match open.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        notes.push(format!(
            "any agent with a certificate may act for {first}{more}; name the one that does, by agent = \"NAME\", in \
             the [[host]] of each"
        ));
    }
    notes
}

/// Runs a controller until SIGTERM or SIGINT; SIGHUP has it read its configuration again.
/// `ready` is called when all sockets listen. Of several controllers it leads while it is elected, and follows else.
/// What is noted in `journal` is told to operators who ask.
///
/// At the end nothing is taken back: what was granted stands until its lease is over.
///
/// # Errors
/// It can't start, or can't lead although it is elected.
pub async fn run(
    path: &Path,
    journal: Arc<Journal>,
    ready: impl FnOnce(),
) -> Result<(), StartError> {
    let settings = Settings::load(path)?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let certificates = settings.tls.as_ref().map(tls::server).transpose()?;
    let certificates = Arc::new(RwLock::new(certificates.map(Arc::new)));
    let election = settings.election.clone();
    let ends = ends(settings.tls.as_ref(), election.as_ref())?;
    let open = if election.is_some() { State::take } else { State::open };
    let mut state = open(&settings.state)?;
    let ledger = Ledger::of(&settings.state);
    let standing = ledger.standing()?;
    let listeners = Listeners::bind(&settings).await?;
    let socket = Socket(settings.listen.socket.clone());
    let kept = Kept::of(&settings);
    let (policy, told) = (settings.control.policy_name.clone(), notes(&settings));
    let mut source = Source::of(path, &settings);
    let measures = Arc::new(Measures::noting(journal));
    measures.set_certificates(ends);
    let serving = watch::channel(None).0;
    let ground = Ground { listeners, certificates, measures, serving };
    let stand = election.as_ref().map(|wanted| {
        election::stand(wanted, state.epoch, Arc::clone(&ground.measures))
            .map_err(StartError::Election)
    });
    let mut stand = stand.transpose()?;
    let mut known = stand.as_ref().map(|stand| stand.standing.clone());
    let mut term = match &stand {
        None => {
            let role = Role::Leads { epoch: state.epoch, elected: None };
            ground.lead(settings, role, Mandate::endless(), &standing)?
        }
        Some(stand) => ground.follow(&settings, stand),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        epoch = state.epoch,
        policy,
        socket = %socket.0.display(),
        "controller ready"
    );
    warn_of(&told);
    ready();

    loop {
        let followed = election.as_ref().filter(|_| term.hub.role.epoch() == 0);
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                let elected = election.as_ref().zip(stand.as_ref());
                match reload(path, &ground.certificates, &term.hub, elected).await {
                    Ok((fresh, policy, told, read)) => {
                        source = read;
                        ground.measures.reloaded(None);
                        match kept.differs(&fresh)[..] {
                            [] => tracing::info!(policy, "configuration read again"),
                            ref other => tracing::warn!(
                                policy,
                                restart = other.join(", "),
                                "configuration read again; some changes need a restart"
                            ),
                        }
                        warn_of(&told);
                    }
                    Err(error) => {
                        tracing::error!(%error, "configuration kept as it was");
                        ground.measures.reloaded(Some(error.to_string()));
                    }
                }
            }
            epoch = passed(&mut known, state.epoch) => state.note(epoch),
            standing = kept_elsewhere(followed) => ledger.copy(&standing),
            turn = turned(&mut stand, &mut term, state.epoch) => {
                let (Some(stand), Some(wanted)) = (&stand, &election) else { continue };
                let office = match turn {
                    Turn::Won(office) => office,
                    Turn::Over { obeyed } => {
                        let led = term.hub.role.epoch();
                        ground.serving.send_replace(None);
                        stand.give_up(led, obeyed.unwrap_or(0));
                        match obeyed {
                            Some(obeyed) => tracing::warn!(
                                epoch = led,
                                obeyed,
                                "most agents obey a later epoch; deciding no more until elected above it"
                            ),
                            None => tracing::warn!(
                                epoch = led,
                                "another leads, or the store is silent; deciding no more"
                            ),
                        }
                        let next = ground.follow(&source.settings()?, stand);
                        std::mem::replace(&mut term, next).end().await;
                        continue;
                    }
                };
                match ground.take_office(&source, &mut state, stand, wanted, &office).await {
                    Ok(next) => {
                        let former = std::mem::replace(&mut term, next);
                        ground.serving.send_replace(Some(office.epoch));
                        former.end_later();
                        ground.measures.offices.fetch_add(1, Ordering::Relaxed);
                        tracing::info!(epoch = office.epoch, "elected; deciding from now on");
                    }
                    Err(Unserved::Store(why)) => {
                        tracing::error!(why, "elected, but the orders that stand can't be read or kept");
                        stand.give_up(office.epoch, 0);
                        tokio::time::sleep(RETRY).await;
                    }
                    Err(Unserved::Start(error)) => return Err(error),
                }
            }
        }
    }
    tracing::info!("ending; what was granted stands until its lease is over");
    drop(socket);
    term.end().await;
    if let Some(stand) = stand {
        stand.release();
    }
    Ok(())
}

/// After an office that could not be begun.
const RETRY: Duration = Duration::from_secs(1);
/// How often one that follows looks after the orders that stand.
const COPY: Duration = Duration::from_secs(5);
/// Those who waited for word of a leader are answered within this time.
const FAREWELL: Duration = Duration::from_millis(500);

/// What a role ends with.
enum Turn {
    /// An office was won.
    Won(Office),
    /// The office that was served is at an end; where its agents obey a later epoch, that.
    Over { obeyed: Option<u64> },
}

/// Waits until an epoch above `than` is known, other than one's own, and gives it.
async fn passed(known: &mut Option<watch::Receiver<Standing>>, than: u64) -> u64 {
    if let Some(known) = known {
        let is_passed = |standing: &Standing| standing.office.is_none() && standing.highest > than;
        if let Ok(standing) = known.wait_for(is_passed).await {
            return standing.highest;
        }
    }
    // A thread that is gone hears nothing.
    std::future::pending().await
}

/// The orders that stand by the word of the store, after a while; never without one.
async fn kept_elsewhere(followed: Option<&settings::Election>) -> Vec<Act> {
    if let Some(wanted) = followed {
        loop {
            tokio::time::sleep(COPY).await;
            // Who is elected says what is wrong with the store.
            if let Ok(mut store) = election::store(wanted)
                && let Ok(Some(standing)) = store.standing().await
            {
                return standing;
            }
        }
    }
    std::future::pending().await
}

/// Waits until the office that is served is at an end, or, where none is, until one is won. `last` is an epoch under
/// which nothing is won any more.
async fn turned(stand: &mut Option<Stand>, term: &mut Term, last: u64) -> Turn {
    let Some(stand) = stand else { return std::future::pending().await };
    let led = Some(term.hub.role.epoch()).filter(|epoch| *epoch != 0);
    let is_other = |standing: &Standing| {
        let office = standing.office.as_ref().map(|office| office.epoch);
        // What has ended may not have been told yet.
        led.map_or(office > Some(last), |led| office != Some(led))
    };
    tokio::select! {
        // Its mandate is over, or its agents obey another.
        ended = async { term.owner.as_mut().expect("it is pending without").await }, if led.is_some() => {
            term.owner = None;
            Turn::Over { obeyed: ended.ok().flatten() }
        }
        standing = stand.standing.wait_for(is_other) => match standing {
            Ok(standing) => match (led, &standing.office) {
                (None, Some(office)) => Turn::Won(office.clone()),
                _ => Turn::Over { obeyed: None },
            },
            // A thread that is gone leads no more.
            Err(_) => std::future::pending().await,
        }
    }
}

/// What the configuration was when it was read last.
struct Source {
    file: String,
    text: String,
    folder: PathBuf,
}

impl Source {
    fn of(path: &Path, settings: &Settings) -> Self {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { file: settings.file.clone(), text: settings.text.clone(), folder }
    }

    fn settings(&self) -> Result<Settings, DocumentError> {
        Settings::read(&self.file, &self.text, &self.folder)
    }
}

/// What is listened on.
struct Listeners {
    unix: Arc<Listener>,
    http: Option<Arc<Listener>>,
    openflow: Option<Arc<Listener>>,
    openflow_tls: Option<Arc<Listener>>,
    tls: bool,
    insecure: bool,
}

impl Listeners {
    async fn bind(settings: &Settings) -> Result<Self, ListenError> {
        let listen = &settings.listen;
        let listeners = Self {
            http: bound(listen.http).await?,
            openflow: bound(listen.openflow).await?,
            openflow_tls: bound(listen.openflow_tls).await?,
            unix: Arc::new(listen::unix(&listen.socket)?),
            tls: settings.tls.is_some(),
            insecure: listen.insecure,
        };
        if let Some(http) = &listeners.http {
            tracing::info!(address = http.place(), tls = listeners.tls, "HTTP");
        }
        for (listener, tls) in [(&listeners.openflow, false), (&listeners.openflow_tls, true)] {
            let Some(listener) = listener else { continue };
            tracing::info!(address = listener.place(), tls, "OpenFlow");
        }
        Ok(listeners)
    }
}

/// Why an office is not served.
enum Unserved {
    Store(String),
    Start(StartError),
}

impl<E: Into<StartError>> From<E> for Unserved {
    fn from(error: E) -> Self {
        Self::Start(error.into())
    }
}

/// What outlives roles.
struct Ground {
    listeners: Listeners,
    certificates: Arc<RwLock<Option<Arc<ServerConfig>>>>,
    measures: Arc<Measures>,
    /// The epoch of the office that is served.
    serving: watch::Sender<Option<u64>>,
}

impl Ground {
    /// Begins to decide.
    fn lead(
        &self,
        settings: Settings,
        role: Role,
        mandate: Mandate,
        standing: &[Act],
    ) -> Result<Term, StartError> {
        let epoch = role.epoch();
        let (ledger, bounds) = (Ledger::of(&settings.state), settings.bounds);
        let elected = matches!(role, Role::Leads { elected: Some(_), .. });
        if elected {
            ledger.copy(standing);
        }
        let recordings = settings.recorder.clone().map(Recordings::of);
        let clock = Clock::start();
        let measures = Arc::clone(&self.measures);
        let start =
            |wanted| Recorder::start(wanted, &settings, epoch, elected, Arc::clone(&measures));
        let recorder = settings.recorder.as_ref().map(start).transpose()?;
        let (sender, events) = mpsc::channel(WAITING);
        let (changing, changes) = watch::channel(0);
        let led = (epoch, mandate);
        let mut owner =
            Owner::new(settings, led, clock, recorder, Arc::clone(&measures), changing)?;
        owner.order_again(standing);
        let owner = tokio::spawn(owner.run(events));
        let (stop, stopped) = watch::channel(false);
        let mut hub = Hub::new(sender, bounds, measures, role, ledger, changes, stopped);
        hub.recordings = recordings;
        hub.ends.send_replace(http::orders::first_end(standing));
        let hub = Arc::new(hub);
        if hub.unwritten().is_some() {
            tokio::spawn(http::orders::write_later(Arc::clone(&hub)));
        }
        Ok(self.serve(hub, stop, Some(owner)))
    }

    /// Tells everybody who leads.
    fn follow(&self, settings: &Settings, stand: &Stand) -> Term {
        let (standing, serving) = (stand.standing.clone(), self.serving.subscribe());
        let role = Role::Follows { standing, serving };
        // Nobody hears what is said here.
        let (sender, _) = mpsc::channel(1);
        let (_, changes) = watch::channel(0);
        let (stop, stopped) = watch::channel(false);
        let (ledger, measures) = (Ledger::of(&settings.state), Arc::clone(&self.measures));
        let bounds = settings.bounds;
        let hub = Arc::new(Hub::new(sender, bounds, measures, role, ledger, changes, stopped));
        self.serve(hub, stop, None)
    }

    /// Begins to decide under the epoch that was won, with the orders that stand: those of the last leader.
    async fn take_office(
        &self,
        source: &Source,
        state: &mut State,
        stand: &Stand,
        wanted: &settings::Election,
        office: &Office,
    ) -> Result<Term, Unserved> {
        state.raise(office.epoch)?;
        let shelf = Shelf::of(wanted, office);
        let settings = source.settings()?;
        // As they are now: it may have led before.
        let own = Ledger::of(&settings.state).standing()?;
        let standing = shelf.begin(&own).await.map_err(Unserved::Store)?;
        let elected = Some((stand.standing.clone(), Box::new(shelf)));
        let role = Role::Leads { epoch: office.epoch, elected };
        Ok(self.lead(settings, role, office.mandate.clone(), &standing)?)
    }

    fn serve(
        &self,
        hub: Arc<Hub>,
        stop: watch::Sender<bool>,
        owner: Option<JoinHandle<Option<u64>>>,
    ) -> Term {
        let listeners = &self.listeners;
        let unix = Arc::clone(&listeners.unix);
        let mut tasks = vec![
            tokio::spawn(http::serve(unix, None, true, Arc::clone(&hub))),
            tokio::spawn(http::orders::end_in_time(Arc::clone(&hub))),
        ];
        if let Some(listener) = &listeners.http {
            let certificates = listeners.tls.then(|| Arc::clone(&self.certificates));
            let (listener, any_name) = (Arc::clone(listener), listeners.insecure);
            let serving = http::serve(listener, certificates, any_name, Arc::clone(&hub));
            tasks.push(tokio::spawn(serving));
        }
        let certificates = Some(Arc::clone(&self.certificates));
        for (listener, tls) in
            [(&listeners.openflow, None), (&listeners.openflow_tls, certificates)]
        {
            let Some(listener) = listener.clone() else { continue };
            tasks.push(tokio::spawn(switches::serve(listener, tls, Arc::clone(&hub))));
        }
        Term { hub, stop, owner, tasks }
    }
}

/// A role, and those who are connected while it lasts.
struct Term {
    hub: Arc<Hub>,
    stop: watch::Sender<bool>,
    owner: Option<JoinHandle<Option<u64>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Term {
    /// Ends it, with all connections.
    async fn end(self) {
        // No task may be left that holds the channel, then the machine's ends.
        let _ = self.stop.send(true);
        for task in &self.tasks {
            task.abort();
        }
        drop(self.hub);
        let Some(owner) = self.owner else { return };
        if tokio::time::timeout(Duration::from_secs(5), owner).await.is_err() {
            tracing::warn!("a connection outlives the daemon's patience; cut off");
        }
    }

    /// Takes in nobody any more; those who wait for word of the leader still get it.
    fn end_later(self) {
        for task in &self.tasks {
            task.abort();
        }
        tokio::spawn(async move {
            tokio::time::sleep(FAREWELL).await;
            self.end().await;
        });
    }
}

fn warn_of(notes: &[String]) {
    for note in notes {
        tracing::warn!("{note}");
    }
}

/// Listens on an address, where one is wanted.
async fn bound(address: Option<SocketAddr>) -> Result<Option<Arc<Listener>>, ListenError> {
    match address {
        Some(address) => listen::tcp(address).await.map(|listener| Some(Arc::new(listener))),
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
    election: Option<settings::Election>,
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
            election,
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
            tenants: _,
            acting: _,
        } = control;
        Self {
            state: state.clone(),
            log: (*log_json, log_level.clone()),
            listen: listen.clone(),
            tls: tls.is_some(),
            recorder: recorder.clone(),
            election: election.clone(),
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
            ("[election]", self.election != fresh.election),
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
    elected: Option<(&settings::Election, &Stand)>,
) -> Result<(Kept, String, Vec<String>, Source), StartError> {
    let settings = Settings::load(path)?;
    // Which files those for the store are only a restart changes.
    let wanted = elected.map(|(wanted, _)| wanted);
    let store = wanted.map(election::store).transpose().map_err(StartError::Election)?;
    let ends = ends(settings.tls.as_ref(), wanted)?;
    if let Some(files) = &settings.tls {
        let (fresh, revoked) = (Arc::new(tls::server(files)?), tls::revoked(files)?);
        // A poisoned lock still holds whole certificates.
        *certificates.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        // Only now: who is cut off must not get in again.
        hub.set_revoked(revoked);
    }
    hub.measures.set_certificates(ends);
    if let (Some((_, stand)), Some(store)) = (elected, store) {
        stand.ask(store);
    }
    hub.set_bounds(settings.bounds);
    let kept = Kept::of(&settings);
    let (policy, told) = (settings.control.policy_name.clone(), notes(&settings));
    let source = Source::of(path, &settings);
    // One that follows has no machine.
    let _ = hub.tell(&hub.operators, Event::Reload(Box::new(settings))).await;
    Ok((kept, policy, told, source))
}
