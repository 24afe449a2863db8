//! One request at a hub: what it collects, and sends on at its speed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Pace;
use model::gather::{Queue, frames};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use units::{Bytes as Octets, Rate, Span, Time};

use crate::command::{Query, Verb};
use crate::hub::Shared;
use crate::hubs::Outcome;
use crate::message::{Found, Message, Wanted};
use crate::pool::{Answers, Fault};

/// What a message of objects has besides them, and each object besides its answer, octets.
const AROUND: Octets = Octets::new(13);
const EACH: usize = 9;
/// How late a timer may be: tokio's have ticks of 1 ms, rounded up, and a busy machine adds some.
const LATE: Span = Span::from_millis(4);

/// What a request at a hub hears.
#[derive(Debug)]
pub(crate) enum Event {
    Gather {
        parent: Option<u32>,
        speed: u64,
        packed: bool,
        patience: Duration,
        wanted: Vec<Wanted>,
    },
    Speed(u64),
    Cancel(Vec<u32>),
    Parent(Option<u32>, Vec<u32>),
    /// From a hub below.
    Relay(Vec<(u32, Outcome)>),
    End,
}

pub(crate) struct Job {
    shared: Arc<Shared>,
    front: u64,
    request: u64,
    /// Whether the front end has said what to do; objects from below may come first.
    is_told: bool,
    parent: Option<u32>,
    /// When it began, from where the pace counts.
    began: Instant,
    pace: Pace,
    packed: bool,
    deadline: Instant,
    queue: Queue,
    /// All that came, for another parent too.
    kept: HashMap<u32, Outcome>,
    asked: JoinSet<(Vec<u32>, Result<Answers, Fault>)>,
}

impl Job {
    pub(crate) fn new(shared: Arc<Shared>, front: u64, request: u64) -> Self {
        let now = Instant::now();
        let deadline = now + shared.settings.deadline;
        Self {
            shared,
            front,
            request,
            is_told: false,
            parent: None,
            began: now,
            pace: Pace::new(model::LEAST_RATE),
            packed: false,
            deadline,
            queue: Queue::default(),
            kept: HashMap::new(),
            asked: JoinSet::new(),
        }
    }

    /// Until the request ends, or nobody waits for it any more.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        loop {
            let can_send = self.is_told && !self.queue.is_empty();
            let ready = self.ready();
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    None | Some(Event::End) => break,
                    Some(event) => self.hear(event),
                },
                Some(Ok((objects, answers))) = self.asked.join_next() => self.collect(objects, answers),
                () = sleep_until(ready), if can_send => {
                    if !self.send_on().await {
                        break;
                    }
                }
                () = sleep_until(self.deadline) => break,
            }
        }
        self.shared.forget(self.front, self.request);
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// When the next packet may be sent.
    fn ready(&self) -> Instant {
        self.began + Duration::from_nanos(self.pace.ready().as_nanos())
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Gather { parent, speed, packed, patience, wanted } => {
                self.is_told = true;
                self.parent = parent;
                self.packed = packed;
                self.pace.set(self.now(), Rate::from_bps(speed));
                self.deadline = Instant::now() + patience.min(self.shared.settings.deadline);
                self.ask(wanted);
            }
            Event::Speed(speed) => {
                self.pace.set(self.now(), Rate::from_bps(speed));
            }
            Event::Cancel(objects) => {
                // What can be named is bounded, and with it what is remembered.
                let most = self.shared.settings.bounds.keys;
                let objects: Vec<u32> =
                    objects.into_iter().filter(|object| (*object as usize) < most).collect();
                for object in &objects {
                    self.kept.remove(object);
                }
                self.queue.cancel(objects);
            }
            Event::Parent(parent, objects) => {
                self.parent = parent;
                self.queue.start_over(objects);
            }
            Event::Relay(objects) => {
                for (object, outcome) in objects {
                    if self.has_room(object) {
                        self.queue.take(object);
                        self.kept.insert(object, outcome);
                    }
                }
            }
            Event::End => {}
        }
    }

    /// Whether an object can be kept: what can be named is bounded, and with it what is kept.
    fn has_room(&self, object: u32) -> bool {
        let most = self.shared.settings.bounds.keys;
        (object as usize) < most && self.queue.len() < most
    }

    fn keep(&mut self, object: u32, outcome: Outcome) {
        if self.has_room(object) && self.queue.collect(object) {
            self.kept.insert(object, outcome);
        }
    }

    fn ask(&mut self, wanted: Vec<Wanted>) {
        let mut groups = BTreeMap::<(u32, u8), (Vec<u32>, Vec<Query>)>::new();
        for Wanted { object, holder, query } in wanted {
            self.queue.expect(object);
            // It could smuggle commands into a server's connection.
            if !query.is_plain() {
                self.keep(object, Err("no key or flags as memcached takes them".into()));
                continue;
            }
            let verb = match &query.verb {
                Verb::Get => 0,
                Verb::Gets => 1,
                Verb::Meta(_) => 2,
            };
            let group = groups.entry((holder, verb)).or_default();
            group.0.push(object);
            group.1.push(query);
        }
        for ((holder, _), (objects, queries)) in groups {
            let Some(server) = self.shared.servers.get(holder as usize) else { continue };
            let pending = server.ask(&queries, &self.shared.budget, self.deadline);
            self.asked.spawn(async move { (objects, pending.answer().await) });
        }
    }

    fn collect(&mut self, objects: Vec<u32>, answers: Result<Answers, Fault>) {
        match answers {
            Ok(answers) => {
                for (object, outcome) in objects.into_iter().zip(answers) {
                    self.keep(object, outcome);
                }
            }
            Err(fault) => {
                for object in objects {
                    self.keep(object, Err(Arc::clone(&fault)));
                }
            }
        }
    }

    /// Sends the next packet; `false` if nobody takes it in time.
    async fn send_on(&mut self) -> bool {
        let size = |object| {
            let octets = self.kept.get(&object).map_or(0, octets);
            Octets::new((EACH + octets) as u64)
        };
        let (objects, size) = self.queue.packet(self.packed, AROUND, size);
        if objects.is_empty() {
            return true;
        }
        let found =
            objects.iter().filter_map(|object| Some((*object, found(self.kept.get(object)?))));
        let objects: Vec<(u32, Found)> = found.collect();
        self.pace.sent(self.now(), frames(size), LATE);
        let Some(to) = self.shared.way(self.front, self.parent) else {
            // A lost parent is the front end's to replace; a lost front end has no wish.
            return self.parent.is_some();
        };
        let frame: Bytes = Message::Objects(self.request, objects).frame();
        match timeout_at(self.deadline, to.send(frame)).await {
            Err(_) => false,
            Ok(Err(_)) => self.parent.is_some(),
            Ok(Ok(())) => true,
        }
    }
}

/// Most of a reason that is passed on, octets.
const REASON: usize = 512;

/// Octets of what is said of an object.
fn octets(outcome: &Outcome) -> usize {
    match outcome {
        Ok(record) => record.as_ref().map_or(0, |record| record.octets.len()),
        Err(fault) => fault.floor_char_boundary(REASON),
    }
}

fn found(outcome: &Outcome) -> Found {
    match outcome {
        Ok(record) => Found::Answer(record.as_ref().map(|record| record.octets.clone())),
        Err(fault) => Found::Failed(fault[..fault.floor_char_boundary(REASON)].to_owned()),
    }
}
