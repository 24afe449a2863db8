//! One request, gathered as the policy orders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::gather::{Course, Step, frames};
use model::{HubOrder, JobId, Measured, NodeId, Observation};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use units::{Bytes, Span};

use crate::command::Query;
use crate::decider::Decider;
use crate::front::Inner;
use crate::hubs::{Event, Listening, Outcome};
use crate::message::{Message, Wanted};
use crate::pool::{Answers, Budget, Fault};

/// Objects that a message to a hub names at most.
const NAMED: usize = 256;

/// What a group of queries that the front end sent itself was answered with.
struct Direct {
    holder: u32,
    objects: Vec<u32>,
    began: Instant,
    answers: Result<Answers, Fault>,
}

struct Swarm<'a> {
    front: &'a Inner,
    id: u64,
    job: JobId,
    queries: &'a [Query],
    /// Copies of each object in turn.
    holders: &'a [u32],
    budget: &'a Budget,
    deadline: Instant,
    course: Course,
    /// By hub: when it was last heard, if the front end hears it itself: children go through their roots.
    heard: Vec<Instant>,
    /// Servers whose hub knows of the request, and those whose hub is lost.
    introduced: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    outcomes: Vec<Option<Outcome>>,
    sampled: Instant,
    /// By object: servers that failed it.
    failed: BTreeMap<u32, Vec<u32>>,
    direct: JoinSet<Direct>,
}

/// Gathers `queries`, whose values count in `budget`.
pub(crate) async fn gather(
    front: &Inner,
    id: u64,
    queries: &[Query],
    holders: &[u32],
    budget: &Budget,
) -> Answers {
    let settings = &front.settings;
    let began = Instant::now();
    let nodes = holders.iter().map(|server| NodeId(*server)).collect();
    let me = NodeId(u32::try_from(settings.servers.len()).unwrap_or(u32::MAX));
    let sizes = vec![front.usual_size(); queries.len()];
    let listening = front.hubs.listen(id, budget);
    let (job, orders) = decider(&front.decider).begin(me, sizes, nodes, settings.copies);
    let mut swarm = Swarm {
        front,
        id,
        job,
        queries,
        holders,
        budget,
        deadline: began + settings.deadline,
        course: Course::new(queries.len()),
        heard: Vec::new(),
        introduced: BTreeSet::new(),
        lost: BTreeSet::new(),
        outcomes: vec![None; queries.len()],
        sampled: began,
        failed: BTreeMap::new(),
        direct: JoinSet::new(),
    };
    swarm.run(listening, orders).await;
    let late = || Err("not all servers answered in time".into());
    swarm.outcomes.iter_mut().map(|outcome| outcome.take().unwrap_or_else(late)).collect()
}

fn decider(decider: &Mutex<Decider>) -> std::sync::MutexGuard<'_, Decider> {
    decider.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Swarm<'_> {
    /// However it ends, also when the client has gone.
    fn drop(&mut self) {
        decider(&self.front.decider).end(self.job);
        for server in &self.introduced {
            self.front.hubs.send(*server, &Message::End(self.id));
        }
    }
}

impl Swarm<'_> {
    async fn run(
        &mut self,
        mut listening: Listening,
        mut orders: mpsc::UnboundedReceiver<Arc<HubOrder>>,
    ) {
        let settings = &self.front.settings;
        let began = Instant::now();
        let mut samples = interval_at(began + settings.period, settings.period);
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What hubs have not brought in half of the time, servers are asked for directly.
        let half = began + settings.deadline / 2;
        let mut is_direct = false;
        while !self.course.is_complete() {
            tokio::select! {
                biased;
                Some(order) = orders.recv() => self.obey(&order),
                Some(event) = listening.events.recv() => self.hear(event),
                Some(Ok(direct)) = self.direct.join_next() => self.answered(direct),
                _ = samples.tick() => self.sample(),
                () = sleep_until(half), if !is_direct => {
                    is_direct = true;
                    self.ask_missing();
                }
                () = sleep_until(self.deadline) => return,
            }
        }
    }

    fn tell(&self, what: Measured) {
        decider(&self.front.decider).tell(Observation::Measured(what));
    }

    fn is_ordered(&self, object: u32) -> bool {
        (object as usize) < self.course.ways().len() && !self.course.has(object)
    }

    fn obey(&mut self, order: &HubOrder) {
        let steps = self.course.obey(order);
        if let HubOrder::Gather(gathering) = order {
            self.heard = vec![Instant::now(); gathering.hubs.len()];
        }
        for step in steps {
            match step {
                Step::Fetch(hub, objects) => self.have_fetched(hub, &objects),
                Step::Cancel(hub, objects) => {
                    let line: Vec<u32> = self.course.line(hub).collect();
                    for hub in line {
                        let gone = self.course.gone(hub, &objects);
                        self.tell_hub(hub, &Message::Cancel(self.id, gone));
                    }
                }
                Step::Speed(hub) => {
                    if let Some(speed) = self.course.hubs().get(hub as usize).map(|hub| hub.speed) {
                        self.tell_hub(hub, &Message::Speed(self.id, speed.as_bps()));
                    }
                }
                Step::Parent(hub, objects) => {
                    let parent = self.parent(hub);
                    self.tell_hub(hub, &Message::Parent(self.id, parent, objects));
                }
                Step::Replace(hub) => {
                    let now = Instant::now();
                    for hub in [Some(hub), self.course.line(hub).last()].into_iter().flatten() {
                        self.heard[hub as usize] = now;
                    }
                }
            }
        }
        self.ask_on();
    }

    /// The server of a hub.
    fn server_of(&self, hub: u32) -> Option<u32> {
        self.course.hubs().get(hub as usize).map(|hub| hub.node.0)
    }

    /// The server of a hub's parent.
    fn parent(&self, hub: u32) -> Option<u32> {
        self.server_of(self.course.hubs().get(hub as usize)?.parent?)
    }

    fn tell_hub(&mut self, hub: u32, message: &Message) {
        if let Some(server) = self.server_of(hub) {
            self.send(server, message);
        }
    }

    /// Has a hub ask for `objects` as their ways say.
    fn have_fetched(&mut self, hub: u32, objects: &[u32]) {
        let Some(to) = self.course.hubs().get(hub as usize).copied() else { return };
        let left = self.deadline.saturating_duration_since(Instant::now()).as_millis();
        let parent = self.parent(hub);
        // Without objects it still has to know that it is a hub.
        let none = objects.is_empty().then_some(objects);
        for objects in none.into_iter().chain(objects.chunks(NAMED)) {
            let wanted = |object: &u32| Wanted {
                object: *object,
                holder: self.course.ways()[*object as usize].holder.0,
                query: self.queries[*object as usize].clone(),
            };
            let message = Message::Gather {
                request: self.id,
                parent,
                speed: to.speed.as_bps(),
                packed: self.course.packed(),
                patience: u32::try_from(left).unwrap_or(u32::MAX),
                wanted: objects.iter().map(wanted).collect(),
            };
            self.introduced.insert(to.node.0);
            self.send(to.node.0, &message);
        }
    }

    fn send(&mut self, server: u32, message: &Message) {
        if !self.front.hubs.send(server, message) {
            self.lose(server);
        }
    }

    /// A server's hub is gone.
    fn lose(&mut self, server: u32) {
        if !self.course.hubs().iter().any(|hub| hub.node.0 == server) || !self.lost.insert(server) {
            return;
        }
        self.front.counters.hubs_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let hubs = (0u32..).zip(self.course.hubs()).filter(|(_, hub)| hub.node.0 == server);
        let hubs: Vec<u32> = hubs.map(|(hub, _)| hub).collect();
        for hub in hubs {
            self.tell(Measured::HubLost { request: self.job, hub });
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Lost(server) => self.lose(server),
            Event::Objects(server, octets, objects) => {
                let now = Instant::now();
                let frames = frames(Bytes::new(octets as u64));
                let hubs = (0u32..).zip(self.course.hubs());
                let heard = hubs.filter(|(_, hub)| hub.node.0 == server && hub.parent.is_none());
                let heard: Vec<u32> = heard.map(|(hub, _)| hub).collect();
                for hub in heard {
                    self.course.receive(hub, frames);
                    self.heard[hub as usize] = now;
                }
                for (object, outcome) in objects {
                    match outcome {
                        Ok(_) => self.arrive(object, outcome),
                        Err(fault) => self.fail(object, &fault),
                    }
                }
                self.ask_on();
            }
        }
    }

    fn arrive(&mut self, object: u32, outcome: Outcome) {
        if !self.course.arrive(object) {
            return;
        }
        if let Ok(Some(record)) = &outcome {
            self.front.saw_size(record.octets.len());
        }
        self.outcomes[object as usize] = Some(outcome);
    }

    /// A server failed an object: the next that holds it is asked, without a hub.
    fn fail(&mut self, object: u32, fault: &Fault) {
        if !self.is_ordered(object) {
            return;
        }
        let failed = self.course.ways()[object as usize].holder.0;
        self.failed.entry(object).or_default().push(failed);
        match self.next_holder(object) {
            Some(holder) => self.course.ask_directly(object, NodeId(holder)),
            None => self.arrive(object, Err(Arc::clone(fault))),
        }
    }

    fn next_holder(&self, object: u32) -> Option<u32> {
        next_holder(self.holders, self.front.settings.copies, &self.failed, object)
    }

    /// Asks servers directly for all that is missing.
    fn ask_missing(&mut self) {
        let (holders, copies, failed) = (self.holders, self.front.settings.copies, &self.failed);
        self.course.ask_all(|object| next_holder(holders, copies, failed, object).map(NodeId));
        self.ask_on();
    }

    /// Asks for what the window allows: each server once for all without a window, for each object alone with one, as
    /// that counts queries.
    fn ask_on(&mut self) {
        let mut groups = BTreeMap::<u32, Vec<u32>>::new();
        while let Some(object) = self.course.ask_next() {
            let holder = self.course.ways()[object as usize].holder.0;
            if self.course.has_window() {
                self.ask(holder, vec![object]);
            } else {
                groups.entry(holder).or_default().push(object);
            }
        }
        for (holder, objects) in groups {
            self.ask(holder, objects);
        }
    }

    fn ask(&mut self, holder: u32, objects: Vec<u32>) {
        let Some(server) = self.front.servers.get(holder as usize) else { return };
        let queries: Vec<Query> =
            objects.iter().map(|o| self.queries[*o as usize].clone()).collect();
        let began = Instant::now();
        // Another copy is to have its chance.
        let left = self.deadline.saturating_duration_since(began);
        let patience = if self.front.settings.copies > 1 { left / 2 } else { left };
        let pending = server.ask(&queries, self.budget, began + patience);
        self.direct.spawn(async move {
            Direct { holder, objects, began, answers: pending.answer().await }
        });
    }

    fn answered(&mut self, direct: Direct) {
        self.course.answered(direct.objects.len());
        let took = direct.began.elapsed();
        match direct.answers {
            Ok(answers) => {
                for (object, answer) in direct.objects.into_iter().zip(answers) {
                    match answer {
                        Ok(_) => self.arrive(object, answer),
                        Err(fault) => self.fail_at(object, direct.holder, &fault),
                    }
                }
            }
            Err(fault) => {
                for object in direct.objects {
                    self.fail_at(object, direct.holder, &fault);
                }
            }
        }
        let (late, took) = (took > self.front.settings.late, span(took));
        self.tell(Measured::Answered { request: self.job, late, took });
        self.ask_on();
    }

    fn fail_at(&mut self, object: u32, holder: u32, fault: &Fault) {
        // Another may have been asked meanwhile.
        if self.is_ordered(object) && self.course.ways()[object as usize].holder.0 == holder {
            self.fail(object, fault);
        }
    }

    /// Says how far the request has come, and which hubs are silent.
    fn sample(&mut self) {
        if self.course.hubs().is_empty() {
            return;
        }
        let now = Instant::now();
        // Nobody asks routers for their queues: they count as empty, however long they could be.
        let span = span(now.duration_since(self.sampled));
        let sample = self.course.sample(span, Bytes::ZERO, Bytes::new(1));
        self.sampled = now;
        self.tell(Measured::Gathering { request: self.job, sample: Arc::new(sample) });
        let patience = self.front.settings.patience;
        let waited: BTreeSet<u32> = (0u32..)
            .zip(self.course.ways())
            .filter(|(o, _)| !self.course.has(*o))
            .filter_map(|(_, way)| way.hub)
            .collect();
        for hub in waited {
            let root = self.course.line(hub).last().map(|root| root as usize);
            let heard = root.and_then(|root| self.heard.get(root));
            let is_silent = heard.is_some_and(|heard| now.duration_since(*heard) > patience);
            if is_silent {
                // Which of them keeps the objects isn't known.
                let both = [Some(hub), root.and_then(|root| u32::try_from(root).ok())];
                for hub in both.into_iter().flatten() {
                    if let Some(server) = self.server_of(hub) {
                        self.lose(server);
                    }
                }
            }
        }
    }
}

/// The first server that holds an object and hasn't failed it.
fn next_holder(
    holders: &[u32],
    copies: usize,
    failed: &BTreeMap<u32, Vec<u32>>,
    object: u32,
) -> Option<u32> {
    let start = object as usize * copies;
    let failed = failed.get(&object);
    let mut holders = holders[start..start + copies].iter().copied();
    holders.find(|holder| failed.is_none_or(|failed| !failed.contains(holder)))
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
