//! What all connections share: the way to the machine, and who is connected how often.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use control::{Answers, ChannelId};
use tokio::sync::{mpsc, oneshot, watch};
use wire::identity::{Identity, Role};

use crate::ledger::Ledger;
use crate::metrics::Measures;
use crate::owner::{Event, Said};
use crate::settings::Bounds;
use crate::strangers::Strangers;
use crate::tenant::{Tenant, Tenants, Who};

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
    /// What is measured of the daemon.
    pub measures: Arc<Measures>,
    /// The controller's epoch.
    pub epoch: u64,
    /// Orders of operators are carried out by who holds it.
    pub ledger: Arc<tokio::sync::Mutex<Ledger>>,
    changes: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
}

#[derive(Default)]
struct Connected {
    /// Over the network, and over the Unix socket.
    by_way: [usize; 2],
    by_identity: HashMap<Option<Identity>, usize>,
    /// Applications, and how many connections have spoken for each.
    applications: HashMap<Arc<str>, (usize, Arc<Tenant>)>,
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
        epoch: u64,
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
            measures,
            epoch,
            ledger: Arc::new(tokio::sync::Mutex::new(ledger)),
            changes,
            stopped,
        }
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
        self.tell(tenant, Event::Ask(Box::new(question))).await?;
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
        self.connected().by_way.iter().sum()
    }

    /// A place for a connection of who has proved to be `identity`. Those over the Unix socket are counted by
    /// themselves, and operators always have one: whatever peers take, who operates this machine gets in.
    ///
    /// # Errors
    /// There are too many, or too many of this identity.
    pub fn admit(
        self: &Arc<Self>,
        is_local: bool,
        identity: Option<Identity>,
    ) -> Result<Admission, &'static str> {
        let (bounds, mut connected) = (self.bounds(), self.connected());
        let is_operator = identity.as_ref().is_some_and(|who| who.role == Role::Operator);
        if connected.by_way[usize::from(is_local)] >= bounds.connections && !is_operator {
            return Err("too many connections");
        }
        let own = connected.by_identity.entry(identity.clone()).or_default();
        // Without certificates all look the same.
        if *own >= bounds.connections_per_identity && identity.is_some() {
            return Err("too many connections of this identity");
        }
        *own += 1;
        connected.by_way[usize::from(is_local)] += 1;
        let hub = Arc::clone(self);
        Ok(Admission { hub, is_local, identity, applications: Mutex::default() })
    }
}

/// A connection's place; dropping it gives it back.
pub struct Admission {
    hub: Arc<Hub>,
    is_local: bool,
    identity: Option<Identity>,
    applications: Mutex<Vec<Arc<str>>>,
}

impl Admission {
    /// Who it has proved to be; `None`: it may do everything.
    pub const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Who it has proved to be, in words.
    pub fn who(&self) -> String {
        match (self.identity(), self.is_local) {
            (Some(identity), _) => identity.to_string(),
            (None, true) => "the Unix socket".to_owned(),
            (None, false) => "somebody without TLS".to_owned(),
        }
    }

    /// Notes that the connection speaks for an application.
    pub fn speaks_for(&self, application: &str) -> (Arc<str>, Arc<Tenant>) {
        let mut spoken = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !spoken.iter().any(|known| **known == *application);
        let mut connected = self.hub.connected();
        if !is_new
            && let Some((name, (_, tenant))) = connected.applications.get_key_value(application)
        {
            return (Arc::clone(name), Arc::clone(tenant));
        }
        let name: Arc<str> = application.into();
        let tenant = self.hub.tenants.of(Who::Application(Arc::clone(&name)));
        spoken.push(Arc::clone(&name));
        let (count, tenant) =
            connected.applications.entry(Arc::clone(&name)).or_insert((0, tenant));
        *count += 1;
        (name, Arc::clone(tenant))
    }

    /// Whose share a question takes: operators' or the application's that is asked about. Who isn't known
    /// acts for that, unless it is on this machine.
    pub fn asks_as(&self, application: &str) -> Arc<Tenant> {
        match self.identity() {
            None if self.is_local => Arc::clone(&self.hub.operators),
            Some(Identity { role: Role::Operator, .. }) => Arc::clone(&self.hub.operators),
            _ => self.hub.tenants.of(Who::Application(application.into())),
        }
    }

    /// Whose share takes what isn't about an application.
    pub fn asks(&self) -> Arc<Tenant> {
        match self.identity() {
            Some(Identity { role: Role::Application, name }) => self.asks_as(name),
            Some(Identity { role: Role::Agent, name }) => {
                self.hub.tenants.of(Who::Agent(name.as_str().into()))
            }
            _ => Arc::clone(&self.hub.operators),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let spoken = std::mem::take(&mut self.applications);
        let spoken = spoken.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut connected = self.hub.connected();
        connected.by_way[usize::from(self.is_local)] -= 1;
        let identity = self.identity.take();
        if let Some(count) = connected.by_identity.get_mut(&identity) {
            *count -= 1;
            if *count == 0 {
                connected.by_identity.remove(&identity);
            }
        }
        let mut gone = Vec::new();
        for application in spoken {
            if let Some((count, _)) = connected.applications.get_mut(&application) {
                *count -= 1;
                if *count == 0
                    && let Some((_, tenant)) = connected.applications.remove(&application)
                {
                    gone.push((application, tenant));
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
