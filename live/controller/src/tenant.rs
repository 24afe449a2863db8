//! Who speaks to the machine, and how much of the daemon each takes: memory for what is on its way in and
//! out, and processor time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::identity::{Identity, Role};

/// How much of a tenant may wait for the machine at once, in octets that were sent.
const WAITING: u32 = 64 << 10;
/// A short message counts as so many octets.
const LEAST: u32 = 1 << 10;
/// Octets are parsed into so many times as many at most.
const PARSED: usize = 4;

/// What a tenant is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// All who operate this controller.
    Operators,
    /// Who only reads.
    Viewer(Arc<str>),
    /// An application.
    Application(Arc<str>),
    /// An agent.
    Agent(Arc<str>),
    /// A switch, by the number of its connection.
    Switch(u64),
}

impl Who {
    /// Whose share takes what somebody asks that isn't about an application.
    pub fn asking(identity: Option<&Identity>) -> Self {
        match identity {
            Some(Identity { role: Role::Application, name }) => {
                Self::Application(name.as_str().into())
            }
            Some(Identity { role: Role::Viewer, name }) => Self::Viewer(name.as_str().into()),
            Some(Identity { role: Role::Agent, name }) => Self::Agent(name.as_str().into()),
            _ => Self::Operators,
        }
    }
}

/// Somebody whose words have a share of the daemon of their own.
#[derive(Debug)]
pub struct Tenant {
    /// What it is.
    pub who: Who,
    /// No other has had it.
    pub number: u64,
    waiting: Arc<Semaphore>,
    room: Arc<Room>,
    held: AtomicUsize,
    busy_ns: AtomicU64,
}

/// Memory for what is on its way between peers and the machine.
#[derive(Debug)]
struct Room {
    most: AtomicUsize,
    held: AtomicUsize,
}

/// All tenants.
#[derive(Debug)]
pub struct Tenants {
    room: Arc<Room>,
    known: Mutex<HashMap<Who, Weak<Tenant>>>,
    /// How many there have been.
    numbers: AtomicU64,
    /// Those who are gone are forgotten when so many are known.
    full: AtomicUsize,
}

impl Tenants {
    /// Nobody yet; what is on its way may take `most` octets.
    pub fn new(most: usize) -> Self {
        let room = Room { most: AtomicUsize::new(most), held: AtomicUsize::new(0) };
        Self {
            room: Arc::new(room),
            known: Mutex::default(),
            numbers: AtomicU64::new(0),
            full: AtomicUsize::new(64),
        }
    }

    /// From now on what is on its way may take `most` octets.
    pub fn resize(&self, most: usize) {
        self.room.most.store(most, Ordering::Relaxed);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Who, Weak<Tenant>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same one as long as anybody knows it.
    pub fn of(&self, who: Who) -> Arc<Tenant> {
        let mut known = self.known();
        if let Some(tenant) = known.get(&who).and_then(Weak::upgrade) {
            return tenant;
        }
        if known.len() >= self.full.load(Ordering::Relaxed) {
            known.retain(|_, tenant| tenant.strong_count() > 0);
            self.full.store(64 + 2 * known.len(), Ordering::Relaxed);
        }
        let tenant = Arc::new(Tenant {
            who: who.clone(),
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            waiting: Arc::new(Semaphore::new(WAITING as usize)),
            room: Arc::clone(&self.room),
            held: AtomicUsize::new(0),
            busy_ns: AtomicU64::new(0),
        });
        known.insert(who, Arc::downgrade(&tenant));
        tenant
    }

    /// An application that is known, if so.
    #[cfg(test)]
    pub fn application(&self, name: &str) -> Option<Arc<Tenant>> {
        self.known().get(&Who::Application(name.into())).and_then(Weak::upgrade)
    }
}

/// What a tenant holds is more than its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    held: usize,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kib = self.held >> 10;
        write!(
            f,
            "{kib} KiB of your requests and answers are on their way, no less than is left for all others; read \
             your answers, send less at once, or raise limits.memory"
        )
    }
}

impl Tenant {
    /// Waits until `octets` of this tenant may be read and wait for the machine.
    pub async fn turn(&self, octets: usize) -> OwnedSemaphorePermit {
        let octets = u32::try_from(octets).unwrap_or(u32::MAX).clamp(LEAST, WAITING);
        let waiting = Arc::clone(&self.waiting).acquire_many_owned(octets);
        waiting.await.expect("nobody closes it")
    }

    /// Room for `octets` that come; as much again is needed when they are parsed.
    ///
    /// # Errors
    /// It is refused: see [`Tenant::hold`].
    pub fn hold_request(self: &Arc<Self>, octets: usize) -> Result<Held, Full> {
        self.hold(octets.saturating_mul(PARSED))
    }

    /// Room for `octets`. A tenant may have as much as is left then for all others.
    ///
    /// # Errors
    /// It would have more. Operators always have room.
    pub fn hold(self: &Arc<Self>, octets: usize) -> Result<Held, Full> {
        let own = self.held.fetch_add(octets, Ordering::Relaxed).saturating_add(octets);
        let all = self.room.held.fetch_add(octets, Ordering::Relaxed).saturating_add(octets);
        let held = Held { tenant: Arc::clone(self), octets };
        let left = self.room.most.load(Ordering::Relaxed).saturating_sub(all);
        if own > left && self.who != Who::Operators {
            drop(held);
            return Err(Full { held: self.held() });
        }
        Ok(held)
    }

    /// Octets of its requests and answers that are on their way.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The machine has worked for it.
    pub fn worked(&self, for_it: Duration) {
        let nanos = u64::try_from(for_it.as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How long the machine has worked for it.
    #[cfg(test)]
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed))
    }
}

/// Room that a tenant has; dropping it gives it back.
#[derive(Debug)]
pub struct Held {
    tenant: Arc<Tenant>,
    octets: usize,
}

impl Held {
    /// Takes so many octets more that come.
    ///
    /// # Errors
    /// As [`Tenant::hold`].
    pub fn grow(&mut self, octets: usize) -> Result<(), Full> {
        let mut more = self.tenant.hold_request(octets)?;
        self.octets += std::mem::take(&mut more.octets);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tenant.held.fetch_sub(self.octets, Ordering::Relaxed);
        self.tenant.room.held.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    fn application(tenants: &Tenants, name: &str) -> Arc<Tenant> {
        tenants.of(Who::Application(name.into()))
    }

    #[test]
    fn a_tenant_has_as_much_as_is_left_for_all_others() {
        let tenants = Tenants::new(1_000);
        let [greedy, honest] = ["greedy", "honest"].map(|name| application(&tenants, name));
        let held: Vec<_> = std::iter::from_fn(|| greedy.hold(10).ok()).collect();
        assert_eq!((greedy.held(), held.len()), (500, 50));
        let half = honest.hold(250).unwrap();
        assert!(honest.hold(1).is_err());
        assert!(greedy.hold(1).is_err(), "half of all is more than is left by now");
        assert!(tenants.of(Who::Operators).hold(10_000).is_ok(), "operators always have room");
        drop(held);
        assert_eq!(greedy.held(), 0);
        assert!(honest.hold(100).is_ok());
        drop(half);
    }

    #[test]
    fn a_viewer_has_a_share_of_its_own() {
        let tenants = Tenants::new(1_000);
        let asking =
            |role| tenants.of(Who::asking(Some(&Identity { role, name: "eyes".to_owned() })));
        let [viewer, operator] = [Role::Viewer, Role::Operator].map(asking);
        let held: Vec<_> = std::iter::from_fn(|| viewer.hold(10).ok()).take(1_000).collect();
        assert_eq!((viewer.held(), operator.held()), (500, 0));
        assert!(operator.hold(10_000).is_ok());
        drop(held);
    }

    #[test]
    fn a_tenant_is_the_same_as_long_as_anybody_knows_it() {
        let tenants = Tenants::new(1_000);
        let one = application(&tenants, "a");
        one.worked(Duration::from_secs(1));
        assert_eq!(application(&tenants, "a").busy(), Duration::from_secs(1));
        let mut held = one.hold(10).unwrap();
        held.grow(10).unwrap();
        assert_eq!(one.held(), 50);
        drop(held);
        assert_eq!(one.held(), 0);
        drop(one);
        assert_eq!(application(&tenants, "a").busy(), Duration::ZERO);
        for number in 0..1_000 {
            drop(application(&tenants, &number.to_string()));
        }
        assert!(tenants.known().len() <= 65, "those who are gone are forgotten");
    }

    #[tokio::test]
    async fn what_waits_of_a_tenant_is_bounded() {
        let tenants = Tenants::new(1_000);
        let tenant = application(&tenants, "a");
        let large = tenant.turn(1 << 20).await;
        let soon = Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, tenant.turn(1)).await.is_err());
        drop(large);
        let mut short = Vec::new();
        while let Ok(turn) = tokio::time::timeout(soon, tenant.turn(1)).await {
            short.push(turn);
        }
        assert_eq!(short.len(), 64);
    }
}
