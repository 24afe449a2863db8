//! Several controllers of which one leads: who, is agreed through a store (`docs/high-availability.md`).
//!
//! [`machine`] decides, [`etcd`] or [`kubernetes`] is the store, and [`stand`] runs the one against the other on a
//! thread of its own, so that a turn that takes long costs nobody an office.

pub mod etcd;
pub mod kubernetes;
pub mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use protocol::application::Leader;
use protocol::operator::Act;
use tokio::sync::{mpsc, watch};
use units::Time;
use wire::clock::{Clock, duration};
use wire::tls;

use crate::metrics::Measures;
use crate::settings;
use etcd::Etcd;
use kubernetes::Kubernetes;
use machine::{Action, Candidate, Election, Record, Said};

/// How long one may decide: as long as the store was heard lately, or without end.
#[derive(Clone, Debug)]
pub struct Mandate {
    clock: Clock,
    until_ns: Arc<AtomicU64>,
}

impl Mandate {
    /// For a controller that is alone.
    pub fn endless() -> Self {
        Self::until(Clock::start(), Time::NEVER)
    }

    fn until(clock: Clock, until: Time) -> Self {
        let until_ns = until.since(Time::ZERO).as_nanos();
        Self { clock, until_ns: Arc::new(AtomicU64::new(until_ns)) }
    }

    fn extend(&self, until: Time) {
        self.until_ns.store(until.since(Time::ZERO).as_nanos(), Ordering::Relaxed);
    }

    /// Whether it holds now.
    pub fn holds(&self) -> bool {
        let now = self.clock.now().since(Time::ZERO).as_nanos();
        now < self.until_ns.load(Ordering::Relaxed)
    }

    fn until_now(&self) -> Time {
        Time::from_nanos(self.until_ns.load(Ordering::Relaxed))
    }

    /// Whether it is that of a controller that is alone.
    pub fn is_endless(&self) -> bool {
        self.until_now() == Time::NEVER
    }

    /// Waits until it holds no longer.
    pub async fn ended(&self) {
        loop {
            if self.is_endless() {
                std::future::pending::<()>().await;
            }
            if !self.holds() {
                return;
            }
            tokio::time::sleep_until(self.clock.instant(self.until_now()).into()).await;
        }
    }
}

/// An office that was won.
#[derive(Clone, Debug)]
pub struct Office {
    /// The epoch.
    pub epoch: u64,
    /// How long it lasts.
    pub mandate: Mandate,
    /// What the store holds of it.
    pub record: Record,
}

/// How the election stands.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Who leads, as far as the store was heard.
    pub leader: Option<Record>,
    /// The office, where this one has it.
    pub office: Option<Office>,
    /// The highest epoch that is known.
    pub highest: u64,
    /// Why the store can't be reached, if so.
    pub fault: Option<String>,
}

impl Standing {
    /// What peers are told; `here` where this one leads and is ready.
    pub fn told(&self, here: bool) -> Leader {
        let leader = self.leader.as_ref();
        Leader {
            epoch: leader.map_or(0, |leader| leader.epoch),
            here,
            name: leader.map(|leader| leader.name.clone()),
            address: leader.map(|leader| leader.address.clone()),
            since_s: leader.map(|leader| leader.since_s),
        }
    }
}

/// What the daemon says to who stands for it.
enum Word {
    /// The office of this epoch is at an end, and somebody obeys that one.
    GiveUp { epoch: u64, obeyed: u64 },
    /// The store is to be asked by this from now on.
    Ask(Box<Store>),
    /// This one leads no more, and others need not wait.
    Release,
}

/// One's own standing.
#[derive(Debug)]
pub struct Stand {
    /// How it stands.
    pub standing: watch::Receiver<Standing>,
    words: mpsc::UnboundedSender<Word>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stand {
    /// The office of `epoch` is at an end: it can't be served. The next one is above `obeyed`, too.
    pub fn give_up(&self, epoch: u64, obeyed: u64) {
        // A thread that is gone leads no more.
        let _ = self.words.send(Word::GiveUp { epoch, obeyed });
    }

    /// The store is asked by `store` from now on, as where there are other certificates: over new connections.
    pub fn ask(&self, store: Store) {
        // As above.
        let _ = self.words.send(Word::Ask(Box::new(store)));
    }

    /// Ends it; what was held is released.
    pub fn release(mut self) {
        let _ = self.words.send(Word::Release);
        if let Some(thread) = self.thread.take() {
            // Its panic would be a defect that its own thread has told of.
            let _ = thread.join();
        }
    }
}

/// Keeps orders where the next leader finds them.
#[derive(Debug)]
pub struct Shelf {
    wanted: settings::Election,
    leader: Record,
    turn: tokio::sync::Mutex<()>,
}

impl Shelf {
    /// That of an office.
    pub fn of(wanted: &settings::Election, office: &Office) -> Self {
        let (wanted, leader) = (wanted.clone(), office.record.clone());
        Self { wanted, leader, turn: tokio::sync::Mutex::default() }
    }

    /// The orders that stand when the office begins. The first leader of all brings its `own`, which it had when it was
    /// alone; the next one finds them here, and none revives what it had itself.
    ///
    /// # Errors
    /// The store can't be reached or holds something else, or another leads.
    pub async fn begin(&self, own: &[Act]) -> Result<Vec<Act>, String> {
        let mut store = store(&self.wanted)?;
        if let Some(standing) = store.standing().await? {
            return Ok(standing);
        }
        self.keep(own).await?;
        Ok(own.to_vec())
    }

    /// Keeps them.
    ///
    /// # Errors
    /// The store can't be reached, or another leads.
    pub async fn keep(&self, standing: &[Act]) -> Result<(), String> {
        // One after another: what is kept last is what stands.
        let _turn = self.turn.lock().await;
        let mut store = store(&self.wanted)?;
        store.keep(&self.leader, standing).await
    }
}

/// Where controllers agree on who leads, and the leader keeps its orders.
pub enum Store {
    /// etcd.
    Etcd(Etcd),
    /// A Lease of Kubernetes.
    Kubernetes(Box<Kubernetes>),
}

impl Store {
    /// Does what the machine wants.
    ///
    /// # Errors
    /// No answer, or none that can be understood: why. It may be done all the same.
    pub async fn act(&mut self, action: &Action) -> Result<Said, String> {
        match self {
            Self::Etcd(store) => store.act(action).await,
            Self::Kubernetes(store) => store.act(action).await,
        }
    }

    /// The orders that stand; `None`: none was ever kept.
    ///
    /// # Errors
    /// As [`Store::act`].
    pub async fn standing(&mut self) -> Result<Option<Vec<Act>>, String> {
        match self {
            Self::Etcd(store) => store.standing().await,
            Self::Kubernetes(store) => store.standing().await,
        }
    }

    /// Keeps the orders that stand, as long as `leader` leads.
    ///
    /// # Errors
    /// It leads no longer, or as [`Store::act`].
    pub async fn keep(&mut self, leader: &Record, standing: &[Act]) -> Result<(), String> {
        match self {
            Self::Etcd(store) => store.keep(leader, standing).await,
            Self::Kubernetes(store) => store.keep(leader, standing).await,
        }
    }
}

/// The store that the configuration names.
///
/// # Errors
/// The certificates or the token can't be used, or what only a pod knows isn't known.
pub fn store(wanted: &settings::Election) -> Result<Store, String> {
    // An answer may be missing twice, and there is still time for a third.
    let patience = duration(wanted.lease / 4);
    match &wanted.store {
        settings::Store::Etcd { members, tls, prefix } => {
            let tls =
                tls.as_ref().map(tls::client).transpose().map_err(|error| error.to_string())?;
            let tls = tls.map(Arc::new);
            Ok(Store::Etcd(Etcd::new(members.clone(), tls, prefix.clone(), patience)))
        }
        settings::Store::Kubernetes(wanted) => {
            Ok(Store::Kubernetes(Box::new(Kubernetes::new(wanted, patience)?)))
        }
    }
}

/// Stands for election until it is released. `last` is the highest epoch that the state has.
///
/// # Errors
/// The system gives no thread or random number, or as [`store`].
pub fn stand(
    wanted: &settings::Election,
    last: u64,
    measures: Arc<Measures>,
) -> Result<Stand, String> {
    let store = store(wanted)?;
    let process =
        random().map_err(|error| format!("the system gives no random number: {error}"))?;
    let (name, address) = (wanted.name.clone(), wanted.address.to_string());
    let own = Candidate { name, address, process, lease: wanted.lease };
    let (tell, standing) = watch::channel(Standing::default());
    let (words, heard) = mpsc::unbounded_channel();
    let candidacy = Candidacy {
        election: Election::new(own, last),
        store,
        clock: Clock::start(),
        tell,
        measures,
    };
    let refuse = |error: std::io::Error| format!("the system refuses a thread: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(refuse)?;
    let thread = std::thread::Builder::new().name("election".to_owned());
    let thread = thread.spawn(move || runtime.block_on(candidacy.run(heard))).map_err(refuse)?;
    Ok(Stand { standing, words, thread: Some(thread) })
}

fn random() -> std::io::Result<u64> {
    use std::io::Read as _;
    let mut octets = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(u64::from_le_bytes(octets))
}

struct Candidacy {
    election: Election,
    store: Store,
    clock: Clock,
    tell: watch::Sender<Standing>,
    measures: Arc<Measures>,
}

impl Candidacy {
    async fn run(mut self, mut words: mpsc::UnboundedReceiver<Word>) {
        loop {
            let due = self.election.deadline().unwrap_or(Time::ZERO);
            tokio::select! {
                word = words.recv() => match word {
                    Some(Word::GiveUp { epoch, obeyed }) => {
                        self.election.pass(obeyed);
                        if self.election.leads(self.clock.now()).is_some_and(|(led, _)| led == epoch) {
                            self.election.give_up();
                        }
                        self.publish(None);
                    }
                    Some(Word::Ask(store)) => self.store = *store,
                    Some(Word::Release) | None => break,
                },
                () = tokio::time::sleep_until(self.clock.instant(due).into()) => {
                    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    let Some(action) = self.election.poll(self.clock.now(), since.as_secs()) else { continue };
                    let said = self.store.act(&action).await;
                    let fault = said.as_ref().err().cloned();
                    self.election.heard(self.clock.now(), said.ok());
                    self.publish(fault);
                }
            }
        }
        for _ in 0..2 {
            let Some(action) = self.election.release() else { break };
            let said = self.store.act(&action).await.ok();
            let has_changed = matches!(said, Some(Said::Holds(..)));
            self.election.heard(self.clock.now(), said);
            // Else others wait as long as if it had died.
            if !has_changed {
                break;
            }
        }
    }

    /// Tells how it stands now; `fault` is why the store said nothing.
    fn publish(&self, fault: Option<String>) {
        if let Some(fault) = &fault {
            self.measures.store_failed();
            tracing::debug!(fault, "the store can't be reached");
        }
        let leads = self.election.leads(self.clock.now());
        let leader = self.election.leader().cloned();
        let highest = self.election.highest();
        self.tell.send_if_modified(|standing| {
            let led = standing.office.as_ref().map(|office| office.epoch);
            let mut is_news = standing.fault != fault || standing.leader != leader;
            is_news |= std::mem::replace(&mut standing.highest, highest) != highest;
            standing.fault = fault;
            match (leads, &standing.office, &leader) {
                (Some((epoch, until)), Some(office), _) if office.epoch == epoch => {
                    office.mandate.extend(until);
                }
                (Some((epoch, until)), _, Some(record)) => {
                    let mandate = Mandate::until(self.clock, until);
                    standing.office = Some(Office { epoch, mandate, record: record.clone() });
                }
                _ => standing.office = None,
            }
            standing.leader = leader;
            is_news |= led != standing.office.as_ref().map(|office| office.epoch);
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::collections::HashMap;
    use std::sync::Mutex;

    use axum::extract::State;
    use axum::routing::post;
    use axum::{Json, Router};
    use protocol::operator::Order;
    use serde_json::{Value, json};
    use units::Span;

    use super::*;

    type Kept = State<Arc<Mutex<HashMap<String, Value>>>>;

    async fn range(State(kept): Kept, Json(asked): Json<Value>) -> Json<Value> {
        let value = kept.lock().unwrap().get(asked["key"].as_str().unwrap()).cloned();
        let kvs: Vec<_> =
            value.map(|value| json!({ "value": value, "mod_revision": "1" })).into_iter().collect();
        Json(json!({ "header": { "revision": "1" }, "kvs": kvs }))
    }

    /// The leader is always the one that it asks for.
    async fn put(State(kept): Kept, Json(asked): Json<Value>) -> Json<Value> {
        let put = &asked["success"][0]["request_put"];
        let key = put["key"].as_str().unwrap().to_owned();
        kept.lock().unwrap().insert(key, put["value"].clone());
        Json(json!({ "header": { "revision": "2" }, "succeeded": true }))
    }

    #[tokio::test]
    async fn what_the_first_leader_brings_the_next_one_finds() {
        let order = |order| Act { at_s: 1, by: "me".into(), order };
        let freeze = order(Order::Freeze { reason: None });
        let block = order(Order::Block { application: "a".into(), reason: None });
        for first in [vec![freeze], vec![]] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let etcd = format!("http://{}", listener.local_addr().unwrap());
            let gateway = Router::new()
                .route("/v3/kv/range", post(range))
                .route("/v3/kv/txn", post(put))
                .with_state(Kept::default().0);
            let serving = tokio::spawn(async { axum::serve(listener, gateway).await });
            let wanted = settings::Election {
                name: "c1".into(),
                address: etcd.parse().unwrap(),
                store: settings::Store::Etcd {
                    members: vec![etcd.parse().unwrap()],
                    tls: None,
                    prefix: "w/".into(),
                },
                lease: Span::from_secs(40),
            };
            let record = Record {
                name: "c1".into(),
                address: etcd,
                epoch: 1,
                process: 1,
                lease_ns: wanted.lease,
                since_s: 1,
                released: false,
            };
            let office = Office { epoch: 1, mandate: Mandate::endless(), record };
            let begin = async |own| Shelf::of(&wanted, &office).begin(own).await.unwrap();
            assert_eq!(begin(&first).await, first);
            assert_eq!(begin(std::slice::from_ref(&block)).await, first);
            serving.abort();
        }
    }
}
