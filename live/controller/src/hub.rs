//! What all connections share: the way to the machine, and who is connected how often.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use control::question::{PART, Question};
use control::{Answers, ChannelId};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use wire::identity::{Identity, Role as Kind};
use wire::tls::{self, Revoked};

use crate::election::{Shelf, Standing};
use crate::ledger::{Ledger, Unwritten};
use crate::listen::Peer;
use crate::metrics::Measures;
use crate::owner::{Event, Said};
use crate::recordings::Recordings;
use crate::seldom::Each;
use crate::settings::Bounds;
use crate::strangers::Strangers;
use crate::tenant::{Tenant, Tenants, Who};

/// Orders that a connection may have yet to hear of: one that is further behind hears that it is.
const FORGOTTEN: usize = 64;

/// Shared by all connections.
pub struct Hub {
    events: mpsc::Sender<Said>,
    /// Whose words and answers have which share of the daemon.
    pub tenants: Tenants,
    /// All who operate this controller.
    pub operators: Arc<Tenant>,
    /// Connections that have yet to prove who they are.
    pub strangers: Arc<Strangers>,
    bounds: RwLock<Bounds>,
    channels: AtomicU64,
    connected: Mutex<Connected>,
    /// That an identity may not do what it asks for, and that an application is refused something.
    forbidden: Each<Option<Identity>>,
    refused: Each<Arc<str>>,
    /// What is measured of the daemon.
    pub measures: Arc<Measures>,
    /// Whether it leads, and how the others are told.
    pub role: Role,
    /// Orders of operators are carried out by who holds it.
    pub ledger: Arc<tokio::sync::Mutex<Ledger>>,
    unwritten: watch::Receiver<Option<Unwritten>>,
    /// When the first order that stands for a time ends, in seconds since 1970.
    pub ends: watch::Sender<Option<u64>>,
    revoked: watch::Sender<Revoked>,
    /// Applications, or jobs of theirs, that an operator has ended.
    forgotten: broadcast::Sender<Arc<str>>,
    /// What is recorded, if anything is.
    pub recordings: Option<Recordings>,
    changes: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
}

/// The connections of an identity.
#[derive(Default)]
struct OfIdentity {
    connections: usize,
    /// When the certificate that was shown last ends, in seconds since 1970.
    ends: Option<i64>,
}

/// What a controller is while its connections last.
pub enum Role {
    /// Alone, or the one of several that leads.
    Leads {
        /// Under which epoch.
        epoch: u64,
        /// How the election stands, and where the next leader finds orders, if there are several.
        elected: Option<(watch::Receiver<Standing>, Box<Shelf>)>,
    },
    /// It has no machine: another leads, or nobody.
    Follows {
        /// How the election stands.
        standing: watch::Receiver<Standing>,
        /// The epoch under which it leads, and is ready, on other connections.
        serving: watch::Receiver<Option<u64>>,
    },
}

impl Role {
    /// The epoch under which it leads; 0 where it doesn't.
    pub const fn epoch(&self) -> u64 {
        match self {
            Self::Leads { epoch, .. } => *epoch,
            Self::Follows { .. } => 0,
        }
    }
}

#[derive(Default)]
struct Connected {
    /// Over the network, and over the Unix socket; without operators.
    by_way: [usize; 2],
    by_identity: HashMap<Option<Identity>, OfIdentity>,
    /// Applications that connections have spoken for.
    applications: HashMap<Arc<str>, Speaking>,
}

/// The connections that have spoken for an application.
struct Speaking {
    connections: usize,
    tenant: Arc<Tenant>,
}

/// The daemon is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending;

impl Hub {
    /// With nobody connected.
    pub fn new(
        events: mpsc::Sender<Said>,
        bounds: Bounds,
        measures: Arc<Measures>,
        role: Role,
        ledger: Ledger,
        changes: watch::Receiver<u64>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let tenants = Tenants::new(bounds.memory);
        let operators = tenants.of(Who::Operators);
        Self {
            events,
            tenants,
            operators,
            strangers: Arc::default(),
            bounds: RwLock::new(bounds),
            channels: AtomicU64::new(1),
            connected: Mutex::default(),
            forbidden: Each::default(),
            refused: Each::default(),
            measures,
            role,
            unwritten: ledger.unwritten(),
            ledger: Arc::new(tokio::sync::Mutex::new(ledger)),
            ends: watch::Sender::new(None),
            revoked: watch::Sender::new(Revoked::default()),
            forgotten: broadcast::Sender::new(FORGOTTEN),
            recordings: None,
            changes,
            stopped,
        }
    }

    /// Why a restart would undo what operators ordered, if so.
    pub fn unwritten(&self) -> Option<String> {
        self.unwritten.borrow().as_ref().map(|unwritten| unwritten.why.clone())
    }

    /// Tells the machine, as soon as it has room.
    ///
    /// # Errors
    /// There is no machine any more.
    pub async fn tell(&self, tenant: &Arc<Tenant>, event: Event) -> Result<(), Ending> {
        let said = Said { tenant: Arc::clone(tenant), event, turn: None };
        self.events.send(said).await.map_err(|_| Ending)
    }

    /// The same, as soon as so many octets more of this tenant's may wait.
    ///
    /// # Errors
    /// There is no machine any more.
    pub async fn tell_in_turn(
        &self,
        tenant: &Arc<Tenant>,
        octets: usize,
        event: Event,
    ) -> Result<(), Ending> {
        let turn = Some(tenant.turn(octets).await);
        let said = Said { tenant: Arc::clone(tenant), event, turn };
        self.events.send(said).await.map_err(|_| Ending)
    }

    /// Asks the machine, as of now.
    ///
    /// # Errors
    /// There is no machine any more.
    pub async fn ask<T: Send + 'static>(
        &self,
        tenant: &Arc<Tenant>,
        question: impl FnOnce(&Answers<'_>) -> T + Send + 'static,
    ) -> Result<T, Ending> {
        let (sender, receiver) = oneshot::channel();
        let question = move |answers: &Answers<'_>| {
            // Who asked may have gone, while it waited or since.
            if !sender.is_closed() {
                let _ = sender.send(question(answers));
            }
        };
        self.tell(tenant, Event::ask(question)).await?;
        receiver.await.map_err(|_| Ending)
    }

    /// Asks what has a long answer: others have their turns between its parts.
    ///
    /// # Errors
    /// There is no machine any more.
    pub async fn ask_in_parts<Q>(
        &self,
        tenant: &Arc<Tenant>,
        mut question: Q,
    ) -> Result<Q::Answer, Ending>
    where
        Q: Question<Answer: Send + 'static> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let part = move |answers: &Answers<'_>| {
            // Who asked may have gone, while it waited or since.
            if sender.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return true;
            }
            let Some(answer) = question.go_on(answers, PART) else { return false };
            if let Some(sender) = sender.take() {
                let _ = sender.send(answer);
            }
            true
        };
        self.tell(tenant, Event::Ask(Box::new(part))).await?;
        receiver.await.map_err(|_| Ending)
    }

    /// A number that no connection had before.
    pub fn channel(&self) -> ChannelId {
        ChannelId(self.channels.fetch_add(1, Ordering::Relaxed))
    }

    /// What the daemon limits.
    pub fn bounds(&self) -> Bounds {
        *self.bounds.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits, for what comes from now on.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.tenants.resize(bounds.memory);
        *self.bounds.write().unwrap_or_else(PoisonError::into_inner) = bounds;
    }

    /// Changes when something changes for an application.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// What the authority has revoked: connections that were made with it end.
    pub fn set_revoked(&self, revoked: Revoked) {
        self.revoked.send_replace(revoked);
    }

    /// An operator has ended what an application declared, or a part of it: connections that speak for it end.
    pub fn forget(&self, application: &str) {
        // Nobody may be connected.
        let _ = self.forgotten.send(application.into());
    }

    /// Who is connected with a certificate that ends before `before`, seconds since 1970, and when; the soonest first.
    pub fn ending(&self, before: i64) -> Vec<(i64, String)> {
        let connected = self.connected();
        let of = connected.by_identity.iter();
        let of = of.filter_map(|(who, of)| Some((of.ends?, who.as_ref()?.to_string())));
        let mut soon: Vec<_> = of.filter(|(ends, _)| *ends < before).collect();
        soon.sort_unstable();
        soon
    }

    /// Ends with the daemon.
    pub async fn stopped(&self) {
        let mut stopped = self.stopped.clone();
        // Its sender gone is an end as well.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.connected().by_identity.values().map(|of| of.connections).sum()
    }

    /// A place for a connection of who has proved to be `peer`. Those over the Unix socket are counted by
    /// themselves, and operators, who always have one, not at all: whatever peers take, who operates this machine gets in.
    ///
    /// # Errors
    /// There are too many, or too many of this identity.
    pub fn admit(
        self: &Arc<Self>,
        is_local: bool,
        peer: Option<Peer>,
    ) -> Result<Admission, &'static str> {
        let (bounds, mut connected) = (self.bounds(), self.connected());
        let identity = peer.as_ref().map(|peer| peer.identity.clone());
        let counts = !is_operator(identity.as_ref());
        if counts && connected.by_way[usize::from(is_local)] >= bounds.connections {
            return Err("too many connections; close some, or raise limits.connections");
        }
        let own = connected.by_identity.entry(identity.clone()).or_default();
        // Without certificates all look the same.
        let is_bound = counts && identity.is_some();
        if is_bound && own.connections >= bounds.connections_per_identity {
            return Err(
                "too many connections of this identity; close some, or raise limits.connections_per_identity",
            );
        }
        own.connections += 1;
        own.ends = peer.as_ref().and_then(|peer| tls::ends(&peer.certificate));
        connected.by_way[usize::from(is_local)] += usize::from(counts);
        let hub = Arc::clone(self);
        Ok(Admission { hub, is_local, peer, applications: Mutex::default() })
    }
}

fn is_operator(who: Option<&Identity>) -> bool {
    who.is_some_and(|who| who.role == Kind::Operator)
}

/// A connection's place; dropping it gives it back.
pub struct Admission {
    hub: Arc<Hub>,
    is_local: bool,
    /// Who it has proved to be, if anybody.
    peer: Option<Peer>,
    /// Applications that it has spoken for.
    applications: Mutex<Vec<(Arc<str>, Arc<Tenant>)>>,
}

impl Admission {
    /// Waits until the authority has revoked the certificate that the peer has shown.
    pub async fn revoked(&self) {
        let Some(peer) = &self.peer else {
            return std::future::pending().await;
        };
        let mut revoked = self.hub.revoked.subscribe();
        // The hub holds the sender, and this the hub.
        let _ = revoked.wait_for(|revoked| revoked.has(&peer.certificate)).await;
    }

    /// Waits until an operator has ended what an application declared for which the connection speaks. Applications say
    /// all that holds again on a new connection, and have no other way to hear that it is forgotten.
    pub async fn forgotten(&self) {
        let mut forgotten = self.hub.forgotten.subscribe();
        // Who missed some ends, too: one may have been its own.
        while let Ok(application) = forgotten.recv().await {
            if self.spoken().iter().any(|(known, _)| *known == application) {
                return;
            }
        }
    }

    /// Whether it came by the Unix socket.
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Who it has proved to be; `None`: it came by the Unix socket, or without TLS.
    pub fn identity(&self) -> Option<&Identity> {
        self.peer.as_ref().map(|peer| &peer.identity)
    }

    /// Who it has proved to be, in words.
    pub fn who(&self) -> String {
        match (self.identity(), self.is_local) {
            (Some(identity), _) => identity.to_string(),
            (None, true) => "the Unix socket".to_owned(),
            (None, false) => "somebody without TLS".to_owned(),
        }
    }

    fn spoken(&self) -> MutexGuard<'_, Vec<(Arc<str>, Arc<Tenant>)>> {
        self.applications.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose share what is declared for an application takes.
    pub fn declares_as(&self, application: &str) -> Arc<Tenant> {
        let spoken = self.spoken();
        let known = spoken.iter().find(|(known, _)| **known == *application);
        let known = known.map(|(_, tenant)| Arc::clone(tenant));
        drop(spoken);
        known.unwrap_or_else(|| self.hub.tenants.of(Who::Application(application.into())))
    }

    /// Notes that the connection speaks for an application.
    pub fn speaks_for(&self, application: &str) -> (Arc<str>, Arc<Tenant>) {
        let mut spoken = self.spoken();
        if let Some(known) = spoken.iter().find(|(known, _)| **known == *application) {
            return known.clone();
        }
        let mut connected = self.hub.connected();
        let name: Arc<str> = application.into();
        let tenant = self.hub.tenants.of(Who::Application(Arc::clone(&name)));
        let speaking = connected
            .applications
            .entry(Arc::clone(&name))
            .or_insert(Speaking { connections: 0, tenant });
        speaking.connections += 1;
        let (first, tenant) = (speaking.connections == 1, Arc::clone(&speaking.tenant));
        drop(connected);
        spoken.push((Arc::clone(&name), Arc::clone(&tenant)));
        drop(spoken);
        if first {
            tracing::info!(application, by = self.who(), "application connected");
        }
        (name, tenant)
    }

    /// Whose share a question takes: operators', a viewer's or the application's that is asked about. Who isn't known
    /// acts for that, unless it is on this machine. What is declared takes the application's, whoever brings it.
    pub fn asks_as(&self, application: &str) -> Arc<Tenant> {
        match self.identity() {
            None if self.is_local => Arc::clone(&self.hub.operators),
            Some(Identity { role: Kind::Operator | Kind::Viewer, .. }) => self.asks(),
            _ => self.hub.tenants.of(Who::Application(application.into())),
        }
    }

    /// Whose share takes what isn't about an application.
    pub fn asks(&self) -> Arc<Tenant> {
        self.hub.tenants.of(Who::asking(self.identity()))
    }

    /// Notes that the peer may not do what it asks for `now`, once a second at most of each identity.
    pub fn forbidden(&self, asked: &dyn std::fmt::Display, now: Instant) {
        let Some(untold) = self.hub.forbidden.tell(self.identity().cloned(), now) else { return };
        tracing::warn!(by = self.who(), %asked, untold, "refused: it may not");
    }

    /// Notes that declarations of an application are refused, and how many if that is known, once a second at most.
    pub fn refused(&self, application: &str, number: Option<usize>, field: &str, reason: &str) {
        let Some(untold) = self.hub.refused.tell(application.into(), Instant::now()) else {
            return;
        };
        tracing::warn!(application, number, field, reason, untold, "declarations refused");
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let spoken = std::mem::take(&mut self.applications);
        let spoken = spoken.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut connected = self.hub.connected();
        let identity = self.peer.take().map(|peer| peer.identity);
        connected.by_way[usize::from(self.is_local)] -=
            usize::from(!is_operator(identity.as_ref()));
        if let Some(of) = connected.by_identity.get_mut(&identity) {
            of.connections -= 1;
            if of.connections == 0 {
                connected.by_identity.remove(&identity);
            }
        }
        let mut gone = Vec::new();
        for (application, _) in spoken {
            if let Some(speaking) = connected.applications.get_mut(&application) {
                speaking.connections -= 1;
                if speaking.connections == 0
                    && let Some(speaking) = connected.applications.remove(&application)
                {
                    tracing::info!(application = &*application, "application has gone");
                    gone.push((application, speaking.tenant));
                }
            }
        }
        drop(connected);
        if gone.is_empty() {
            return;
        }
        // Room may have to be waited for, which a drop can't.
        let hub = Arc::clone(&self.hub);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for (application, tenant) in gone {
                    let Ok(room) = hub.events.reserve().await else { return };
                    // A new connection notes itself before it declares: what it declares then
                    // comes after this.
                    if !hub.connected().applications.contains_key(&application) {
                        let event = Event::ApplicationGone(application);
                        room.send(Said { tenant, event, turn: None });
                    }
                }
            });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::time::Duration;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::journal::{Entry, Journal, Noting};

    /// One whose answers may take so many octets, and what keeps it.
    pub fn hub(memory: usize) -> (Arc<Hub>, impl Sized) {
        let folder = tempfile::tempdir().unwrap();
        let (sender, events) = mpsc::channel(1);
        let (changing, changes) = watch::channel(0);
        let (stop, stopped) = watch::channel(false);
        let bounds = Bounds { memory, ..Bounds::default() };
        let role = Role::Leads { epoch: 1, elected: None };
        let (measures, ledger) = (Arc::default(), Ledger::of(folder.path()));
        let hub = Hub::new(sender, bounds, measures, role, ledger, changes, stopped);
        (Arc::new(hub), (folder, events, changing, stop))
    }

    /// The place of one who has proved to be this.
    pub fn admitted(hub: &Arc<Hub>, role: Kind, name: &str) -> Admission {
        let identity = Identity { role, name: name.to_owned() };
        let peer = Peer { identity, certificate: Arc::from([]) };
        hub.admit(false, Some(peer)).unwrap()
    }

    /// However many there are of its own or of others, and it takes no place of others.
    #[test]
    fn an_operator_always_has_a_place() {
        let (hub, _kept) = hub(0);
        let (connections, connections_per_identity) = (2, 1);
        hub.set_bounds(Bounds { connections, connections_per_identity, ..Bounds::default() });
        let operators: Vec<_> = (0..3).map(|_| admitted(&hub, Kind::Operator, "me")).collect();
        let _others = ["a", "b"].map(|name| admitted(&hub, Kind::Application, name));
        assert_eq!(hub.connections(), 5);
        assert!(hub.admit(false, None).err().unwrap().ends_with("limits.connections"));
        let _one_more = admitted(&hub, Kind::Operator, "me");
        drop(operators);
        assert_eq!(hub.connections(), 3);
        assert!(hub.admit(false, None).err().unwrap().ends_with("limits.connections"));
    }

    /// Whoever asks for what it may not, as fast as it can, fills no log, and hides nobody else who does.
    #[test]
    fn what_may_not_be_is_told_once_a_second_of_each_identity() {
        let (hub, _kept) = hub(0);
        let other = admitted(&hub, Kind::Viewer, "other");
        let journal = Arc::new(Journal::default());
        let subscriber = tracing_subscriber::registry().with(Noting(Arc::clone(&journal)));
        tracing::subscriber::with_default(subscriber, || {
            let began = Instant::now();
            for _ in 0..3 {
                // Each connection of it ends at once.
                let one = admitted(&hub, Kind::Viewer, "one");
                one.forbidden(&"an order", began);
                // Another connection, which ends at once.
                admitted(&hub, Kind::Viewer, "one").forbidden(&"an order", began);
            }
            other.forbidden(&"an order", began);
            let told = journal.after(0, 9);
            let fields = |entry: &Entry| ["by", "untold"].map(|name| entry.fields[name].clone());
            let first = ["viewer one", "viewer other"].map(|who| [who.to_owned(), "0".to_owned()]);
            assert_eq!(told.iter().map(fields).collect::<Vec<_>>(), first);
            let one = admitted(&hub, Kind::Viewer, "one");
            one.forbidden(&"an order", began + Duration::from_millis(999));
            one.forbidden(&"an order", began + Duration::from_secs(1));
            let told: Vec<_> = journal.after(2, 9).iter().map(fields).collect();
            assert_eq!(told, [["viewer one", "6"]]);
        });
    }
}
