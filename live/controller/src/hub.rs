//! What all connections share: the way to the machine, and who is connected how often.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use control::{Answers, ChannelId};
use tokio::sync::{mpsc, oneshot, watch};
use wire::identity::Identity;

use crate::ledger::Ledger;
use crate::metrics::Measures;
use crate::owner::Event;
use crate::recordings::Recordings;
use crate::settings::Bounds;

/// Shared by all connections.
pub struct Hub {
    events: mpsc::Sender<Event>,
    bounds: RwLock<Bounds>,
    channels: AtomicU64,
    connected: Mutex<Connected>,
    /// What is measured of the daemon.
    pub measures: Arc<Measures>,
    /// The controller's epoch.
    pub epoch: u64,
    /// Orders of operators are carried out by who holds it.
    pub ledger: Arc<tokio::sync::Mutex<Ledger>>,
    /// What is recorded, if anything is.
    pub recordings: Option<Recordings>,
    changes: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
}

#[derive(Default)]
struct Connected {
    /// Over the network, and over the Unix socket.
    by_way: [usize; 2],
    by_identity: HashMap<Option<Identity>, usize>,
    /// Connections that have spoken for an application.
    applications: HashMap<Arc<str>, usize>,
}

/// The daemon is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending;

impl Hub {
    /// With nobody connected.
    pub fn new(
        events: mpsc::Sender<Event>,
        bounds: Bounds,
        measures: Arc<Measures>,
        epoch: u64,
        ledger: Ledger,
        changes: watch::Receiver<u64>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self {
            events,
            bounds: RwLock::new(bounds),
            channels: AtomicU64::new(1),
            connected: Mutex::default(),
            measures,
            epoch,
            ledger: Arc::new(tokio::sync::Mutex::new(ledger)),
            recordings: None,
            changes,
            stopped,
        }
    }

    /// Tells the machine, as soon as it has room.
    ///
    /// # Errors
    /// There is no machine any more.
    pub async fn tell(&self, event: Event) -> Result<(), Ending> {
        self.events.send(event).await.map_err(|_| Ending)
    }

    /// Asks the machine, as of now.
    ///
    /// # Errors
    /// There is no machine any more.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Answers<'_>) -> T + Send + 'static,
    ) -> Result<T, Ending> {
        let (sender, receiver) = oneshot::channel();
        let question = move |answers: &Answers<'_>| {
            // Who asked may have gone, while it waited or since.
            if !sender.is_closed() {
                let _ = sender.send(question(answers));
            }
        };
        self.tell(Event::Ask(Box::new(question))).await?;
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

    /// Room for a connection not yet identified. Those over the Unix socket are counted by themselves:
    /// whatever peers take, who operates this machine gets in.
    pub fn admit(self: &Arc<Self>, is_local: bool) -> Option<Admission> {
        let mut connected = self.connected();
        let count = &mut connected.by_way[usize::from(is_local)];
        if *count >= self.bounds().connections {
            return None;
        }
        *count += 1;
        let hub = Arc::clone(self);
        Some(Admission { hub, is_local, identity: None, applications: Mutex::default() })
    }
}

/// A connection's place; dropping it gives it back.
pub struct Admission {
    hub: Arc<Hub>,
    is_local: bool,
    identity: Option<Option<Identity>>,
    applications: Mutex<Vec<Arc<str>>>,
}

impl Admission {
    /// Counts the connection as `identity`'s; false where that has too many.
    pub fn identify(&mut self, identity: Option<Identity>) -> bool {
        let most = match identity {
            Some(_) => self.hub.bounds().connections_per_identity,
            // Without certificates all look the same.
            None => usize::MAX,
        };
        let mut connected = self.hub.connected();
        let count = connected.by_identity.entry(identity.clone()).or_default();
        let room = *count < most;
        *count += 1;
        drop(connected);
        self.identity = Some(identity);
        room
    }

    /// Who it has proved to be; `None`: it may do everything.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref().and_then(Option::as_ref)
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
    pub fn speaks_for(&self, application: &str) -> Arc<str> {
        let mut spoken = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = spoken.iter().find(|known| ***known == *application) {
            return Arc::clone(known);
        }
        let name: Arc<str> = application.into();
        spoken.push(Arc::clone(&name));
        *self.hub.connected().applications.entry(Arc::clone(&name)).or_default() += 1;
        name
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let spoken = std::mem::take(&mut self.applications);
        let spoken = spoken.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut connected = self.hub.connected();
        connected.by_way[usize::from(self.is_local)] -= 1;
        if let Some(identity) = self.identity.take()
            && let Some(count) = connected.by_identity.get_mut(&identity)
        {
            *count -= 1;
            if *count == 0 {
                connected.by_identity.remove(&identity);
            }
        }
        let mut gone = Vec::new();
        for application in spoken {
            if let Some(count) = connected.applications.get_mut(&application) {
                *count -= 1;
                if *count == 0 {
                    connected.applications.remove(&application);
                    gone.push(application);
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
                for application in gone {
                    let Ok(room) = hub.events.reserve().await else { return };
                    // A new connection notes itself before it declares: what it declares then
                    // comes after this.
                    if !hub.connected().applications.contains_key(&application) {
                        room.send(Event::ApplicationGone(application));
                    }
                }
            });
        }
    }
}
