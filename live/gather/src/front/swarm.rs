//! One request, gathered as the policy orders.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{Gathering, Hub, JobId, Measured, NodeId, Observation, Order, Sample, Way};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use units::{Bytes, Span};

use crate::command::Query;
use crate::decider::Decider;
use crate::front::Inner;
use crate::hubs::{Event, Listening, Outcome};
use crate::message::{Message, Wanted};
use crate::pool::{Answers, Fault};

/// IP and TCP header of a packet, and payload of a full one, octets.
const HEADER: u64 = 40;
const FULL: u64 = 1460;
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
    deadline: Instant,
    ways: Vec<Way>,
    hubs: Vec<Hub>,
    packed: bool,
    /// By hub: when it was last heard.
    heard: Vec<Instant>,
    received: Vec<Bytes>,
    /// Servers whose hub knows of the request, and those whose hub is lost.
    introduced: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    outcomes: Vec<Option<Outcome>>,
    left: usize,
    arrived: Vec<u32>,
    sampled: Instant,
    most_unanswered: usize,
    unanswered: usize,
    to_ask: VecDeque<u32>,
    /// By object: servers that failed it.
    failed: BTreeMap<u32, Vec<u32>>,
    direct: JoinSet<Direct>,
}

/// Gathers `queries`.
pub(crate) async fn gather(front: &Inner, id: u64, queries: &[Query], holders: &[u32]) -> Answers {
    let settings = &front.settings;
    let began = Instant::now();
    let nodes = holders.iter().map(|server| NodeId(*server)).collect();
    let me = NodeId(u32::try_from(settings.servers.len()).unwrap_or(u32::MAX));
    let sizes = vec![front.usual_size(); queries.len()];
    let listening = front.hubs.listen(id);
    let (job, orders) = decider(&front.decider).begin(me, sizes, nodes, settings.copies);
    let mut swarm = Swarm {
        front,
        id,
        job,
        queries,
        holders,
        deadline: began + settings.deadline,
        ways: Vec::new(),
        hubs: Vec::new(),
        packed: false,
        heard: Vec::new(),
        received: Vec::new(),
        introduced: BTreeSet::new(),
        lost: BTreeSet::new(),
        outcomes: vec![None; queries.len()],
        left: queries.len(),
        arrived: Vec::new(),
        sampled: began,
        most_unanswered: usize::MAX,
        unanswered: 0,
        to_ask: VecDeque::new(),
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
        mut orders: mpsc::UnboundedReceiver<Arc<Order>>,
    ) {
        let settings = &self.front.settings;
        let began = Instant::now();
        let mut samples = interval_at(began + settings.period, settings.period);
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What hubs have not brought in half of the time, servers are asked for directly.
        let half = began + settings.deadline / 2;
        let mut is_direct = false;
        while self.left > 0 {
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

    fn has(&self, object: u32) -> bool {
        self.outcomes.get(object as usize).is_none_or(Option::is_some)
    }

    fn is_ordered(&self, object: u32) -> bool {
        (object as usize) < self.ways.len() && !self.has(object)
    }

    fn obey(&mut self, order: &Order) {
        match order {
            Order::Gather(Gathering { hubs, ways, packed }) => {
                self.hubs.clone_from(hubs);
                self.ways.clone_from(ways);
                self.packed = *packed;
                self.heard = vec![Instant::now(); hubs.len()];
                self.received = vec![Bytes::ZERO; hubs.len()];
                let all = 0..u32::try_from(ways.len()).unwrap_or(u32::MAX);
                self.fetch(all.collect());
            }
            Order::Outstanding(queries) => {
                self.most_unanswered = (*queries).max(1) as usize;
                self.ask_on();
            }
            Order::Speeds(speeds) => {
                for (place, speed) in speeds.iter().enumerate().take(self.hubs.len()) {
                    let hub = &mut self.hubs[place];
                    if std::mem::replace(&mut hub.speed, *speed) != *speed {
                        let node = hub.node.0;
                        self.send(node, &Message::Speed(self.id, speed.as_bps()));
                    }
                }
            }
            Order::Redirect(moves) => {
                let mut left = BTreeMap::<u32, Vec<u32>>::new();
                let moves: Vec<_> =
                    moves.iter().filter(|(object, _)| self.is_ordered(*object)).collect();
                for (object, way) in &moves {
                    let before = std::mem::replace(&mut self.ways[*object as usize], *way);
                    let other = before.hub.filter(|_| before.hub != way.hub);
                    if let Some(hub) = other.and_then(|hub| self.hubs.get(hub as usize)) {
                        left.entry(hub.node.0).or_default().push(*object);
                    }
                }
                for (server, objects) in left {
                    self.send(server, &Message::Cancel(self.id, objects));
                }
                self.fetch(moves.into_iter().map(|(object, _)| *object).collect());
            }
            Order::Replace { hub, node } => self.replace(*hub, *node),
        }
    }

    fn replace(&mut self, hub: u32, node: Option<NodeId>) {
        let Some(lost) = self.hubs.get(hub as usize).copied() else { return };
        let above = if node.is_some() { Some(hub) } else { lost.parent };
        let behind = |ways: &[Way]| -> Vec<u32> {
            (0u32..)
                .zip(ways)
                .filter(|(_, way)| way.hub == Some(hub))
                .map(|(object, _)| object)
                .collect()
        };
        let again: Vec<u32> =
            behind(&self.ways).into_iter().filter(|object| !self.has(*object)).collect();
        match node {
            Some(node) => {
                self.hubs[hub as usize].node = node;
                let (root, now) = (self.root(hub) as usize, Instant::now());
                self.heard[root] = now;
                self.heard[hub as usize] = now;
                self.fetch(again);
            }
            // Nobody else stands for it: the servers are asked directly.
            None => {
                for object in &again {
                    self.ways[*object as usize].hub = None;
                }
                self.fetch(again);
            }
        }
        let children: Vec<u32> = (0u32..)
            .zip(&self.hubs)
            .filter(|(_, child)| child.parent == Some(hub))
            .map(|(child, _)| child)
            .collect();
        for child in children {
            self.hubs[child as usize].parent = above;
            let wanted = self.wanted_below(child);
            let (child, parent) = (self.hubs[child as usize].node.0, self.server_of(above));
            self.send(child, &Message::Parent(self.id, parent, wanted));
        }
    }

    fn server_of(&self, hub: Option<u32>) -> Option<u32> {
        Some(self.hubs.get(hub? as usize)?.node.0)
    }

    /// The hub that a hub's objects come to the front end from.
    fn root(&self, mut hub: u32) -> u32 {
        // Never in a circle; the policy says so, and a bound makes sure.
        for _ in 0..self.hubs.len() {
            match self.hubs.get(hub as usize).and_then(|one| one.parent) {
                Some(parent) => hub = parent,
                None => break,
            }
        }
        hub
    }

    fn wanted_below(&self, hub: u32) -> Vec<u32> {
        let through = |way: &Way| {
            let mut at = way.hub;
            for _ in 0..=self.hubs.len() {
                match at {
                    Some(this) if this == hub => return true,
                    Some(this) => at = self.hubs.get(this as usize).and_then(|one| one.parent),
                    None => return false,
                }
            }
            false
        };
        let ways = (0u32..).zip(&self.ways);
        ways.filter(|(object, way)| !self.has(*object) && through(way))
            .map(|(object, _)| object)
            .collect()
    }

    /// Has hubs, or the front end itself, ask for `objects` as their ways say.
    fn fetch(&mut self, objects: Vec<u32>) {
        let mut groups = BTreeMap::<Option<u32>, Vec<u32>>::new();
        for object in objects {
            groups.entry(self.ways[object as usize].hub).or_default().push(object);
        }
        self.to_ask.extend(groups.remove(&None).unwrap_or_default());
        for (hub, objects) in groups {
            let Some(hub) = hub.and_then(|hub| self.hubs.get(hub as usize)).copied() else {
                self.to_ask.extend(objects);
                continue;
            };
            let left = self.deadline.saturating_duration_since(Instant::now()).as_millis();
            let parent = self.server_of(hub.parent);
            for objects in objects.chunks(NAMED) {
                let wanted = |object: &u32| Wanted {
                    object: *object,
                    holder: self.ways[*object as usize].holder.0,
                    query: self.queries[*object as usize].clone(),
                };
                let message = Message::Gather {
                    request: self.id,
                    parent,
                    speed: hub.speed.as_bps(),
                    packed: self.packed,
                    patience: u32::try_from(left).unwrap_or(u32::MAX),
                    wanted: objects.iter().map(wanted).collect(),
                };
                self.introduced.insert(hub.node.0);
                self.send(hub.node.0, &message);
            }
        }
        self.ask_on();
    }

    fn send(&mut self, server: u32, message: &Message) {
        if !self.front.hubs.send(server, message) {
            self.lose(server);
        }
    }

    /// A server's hub is gone.
    fn lose(&mut self, server: u32) {
        if !self.hubs.iter().any(|hub| hub.node.0 == server) || !self.lost.insert(server) {
            return;
        }
        self.front.counters.hubs_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let hubs = (0u32..).zip(&self.hubs).filter(|(_, hub)| hub.node.0 == server);
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
                let octets = octets as u64;
                let frames = Bytes::new(octets + HEADER * octets.div_ceil(FULL));
                for (place, hub) in self.hubs.iter().enumerate() {
                    if hub.node.0 == server && hub.parent.is_none() {
                        self.received[place] += frames;
                        self.heard[place] = now;
                    }
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
        if self.has(object) {
            return;
        }
        if let Ok(Some(record)) = &outcome {
            self.front.saw_size(record.octets.len());
        }
        self.outcomes[object as usize] = Some(outcome);
        self.left -= 1;
        self.arrived.push(object);
    }

    /// A server failed an object: the next that holds it is asked, without a hub.
    fn fail(&mut self, object: u32, fault: &Fault) {
        if !self.is_ordered(object) {
            return;
        }
        let failed = self.ways[object as usize].holder.0;
        self.failed.entry(object).or_default().push(failed);
        match self.next_holder(object) {
            Some(holder) => {
                self.ways[object as usize] = Way { holder: NodeId(holder), hub: None };
                self.to_ask.push_back(object);
            }
            None => self.arrive(object, Err(Arc::clone(fault))),
        }
    }

    fn next_holder(&self, object: u32) -> Option<u32> {
        let copies = self.front.settings.copies;
        let start = object as usize * copies;
        let failed = self.failed.get(&object);
        let mut holders = self.holders[start..start + copies].iter().copied();
        holders.find(|holder| failed.is_none_or(|failed| !failed.contains(holder)))
    }

    /// Asks servers directly for all that is missing.
    fn ask_missing(&mut self) {
        self.most_unanswered = usize::MAX;
        self.to_ask.clear();
        for object in 0..u32::try_from(self.ways.len()).unwrap_or(u32::MAX) {
            if !self.has(object)
                && let Some(holder) = self.next_holder(object)
            {
                self.ways[object as usize] = Way { holder: NodeId(holder), hub: None };
                self.to_ask.push_back(object);
            }
        }
        self.ask_on();
    }

    /// Asks for what the window allows: each server once for all without a window, for each object alone with one, as
    /// that counts queries.
    fn ask_on(&mut self) {
        if self.ways.is_empty() {
            return;
        }
        if self.most_unanswered == usize::MAX {
            let mut groups = BTreeMap::<u32, Vec<u32>>::new();
            for object in std::mem::take(&mut self.to_ask) {
                if !self.has(object) {
                    groups.entry(self.ways[object as usize].holder.0).or_default().push(object);
                }
            }
            for (holder, objects) in groups {
                self.ask(holder, objects);
            }
            return;
        }
        while self.unanswered < self.most_unanswered
            && let Some(object) = self.to_ask.pop_front()
        {
            if !self.has(object) {
                self.ask(self.ways[object as usize].holder.0, vec![object]);
            }
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
        let pending = server.ask(&queries, began + patience);
        self.unanswered += 1;
        self.direct.spawn(async move {
            Direct { holder, objects, began, answers: pending.answer().await }
        });
    }

    fn answered(&mut self, direct: Direct) {
        self.unanswered = self.unanswered.saturating_sub(1);
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
        if self.is_ordered(object) && self.ways[object as usize].holder.0 == holder {
            self.fail(object, fault);
        }
    }

    /// Says how far the request has come, and which hubs are silent.
    fn sample(&mut self) {
        if self.hubs.is_empty() {
            return;
        }
        let now = Instant::now();
        let none = vec![Bytes::ZERO; self.received.len()];
        let sample = Sample {
            span: span(now.duration_since(self.sampled)),
            arrived: std::mem::take(&mut self.arrived),
            received: std::mem::replace(&mut self.received, none),
            // Nobody asks routers for their queues.
            queued: Bytes::ZERO,
            buffer: Bytes::new(1),
        };
        self.sampled = now;
        self.tell(Measured::Gathering { request: self.job, sample: Arc::new(sample) });
        let patience = self.front.settings.patience;
        let waited: BTreeSet<u32> = (0u32..)
            .zip(&self.ways)
            .filter(|(o, _)| !self.has(*o))
            .filter_map(|(_, way)| way.hub)
            .collect();
        for hub in waited {
            let root = self.root(hub) as usize;
            let is_silent =
                self.heard.get(root).is_some_and(|heard| now.duration_since(*heard) > patience);
            if is_silent && let Some(server) = self.server_of(Some(hub)) {
                self.lose(server);
            }
        }
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
