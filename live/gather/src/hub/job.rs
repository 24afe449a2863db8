//! One request at a hub: what it collects, and sends on at its speed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use units::{Bytes as Octets, Rate};

use super::pace::Pace;
use crate::command::{Query, Verb};
use crate::hub::Shared;
use crate::hubs::Outcome;
use crate::message::{Found, Message, Wanted};
use crate::pool::{Answers, Fault};

/// IP and TCP header, and payload of a full packet, octets.
const HEADER: usize = 40;
const FULL: usize = 1460;
/// What a message of objects has besides them, and each object besides its answer, octets.
const AROUND: usize = 13;
const EACH: usize = 9;

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
    pace: Pace,
    packed: bool,
    deadline: Instant,
    /// What can be sent, and all that is kept for another parent.
    queue: VecDeque<u32>,
    kept: HashMap<u32, Outcome>,
    cancelled: HashSet<u32>,
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
            pace: Pace::new(now),
            packed: false,
            deadline,
            queue: VecDeque::new(),
            kept: HashMap::new(),
            cancelled: HashSet::new(),
            asked: JoinSet::new(),
        }
    }

    /// Until the request ends, or nobody waits for it any more.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        loop {
            let can_send = self.is_told && !self.queue.is_empty();
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    None | Some(Event::End) => break,
                    Some(event) => self.hear(event),
                },
                Some(Ok((objects, answers))) = self.asked.join_next() => self.collect(objects, answers),
                () = sleep_until(self.pace.ready()), if can_send => {
                    if !self.send_on().await {
                        break;
                    }
                }
                () = sleep_until(self.deadline) => break,
            }
        }
        self.shared.forget(self.front, self.request);
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Gather { parent, speed, packed, patience, wanted } => {
                self.is_told = true;
                self.parent = parent;
                self.packed = packed;
                self.pace.set(Instant::now(), Rate::from_bps(speed));
                self.deadline = Instant::now() + patience.min(self.shared.settings.deadline);
                self.ask(wanted);
            }
            Event::Speed(speed) => self.pace.set(Instant::now(), Rate::from_bps(speed)),
            Event::Cancel(objects) => {
                let objects: HashSet<u32> = objects.into_iter().collect();
                self.queue.retain(|object| !objects.contains(object));
                self.cancelled.extend(objects);
            }
            Event::Parent(parent, objects) => {
                self.parent = parent;
                let again: HashSet<u32> = objects.into_iter().collect();
                let kept = self.kept.keys().copied();
                self.queue = kept.filter(|object| again.contains(object)).collect();
            }
            Event::Relay(objects) => {
                for (object, outcome) in objects {
                    self.keep(object, outcome);
                }
            }
            Event::End => {}
        }
    }

    fn keep(&mut self, object: u32, outcome: Outcome) {
        // What can be named is bounded, and with it what is kept.
        let most = self.shared.settings.bounds.keys;
        let has_room = (object as usize) < most && self.queue.len() < most;
        if !self.cancelled.contains(&object) && has_room {
            self.kept.insert(object, outcome);
            self.queue.push_back(object);
        }
    }

    fn ask(&mut self, wanted: Vec<Wanted>) {
        let mut groups = BTreeMap::<(u32, u8), (Vec<u32>, Vec<Query>)>::new();
        for Wanted { object, holder, query } in wanted {
            self.cancelled.remove(&object);
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
            let pending = server.ask(&queries, self.deadline);
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
        let (mut objects, mut size) = (Vec::new(), AROUND);
        while let Some(object) = self.queue.front() {
            let Some(outcome) = self.kept.get(object) else {
                self.queue.pop_front();
                continue;
            };
            let found = match outcome {
                Ok(record) => Found::Answer(record.as_ref().map(|record| record.octets.clone())),
                Err(fault) => Found::Failed(fault.chars().take(512).collect()),
            };
            let more = EACH + octets(&found);
            if !objects.is_empty() && (!self.packed || size + more > FULL) {
                break;
            }
            size += more;
            objects.push((*object, found));
            self.queue.pop_front();
        }
        if objects.is_empty() {
            return true;
        }
        let frames = (size + HEADER * size.div_ceil(FULL)) as u64;
        self.pace.sent(Instant::now(), Octets::new(frames));
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

fn octets(found: &Found) -> usize {
    match found {
        Found::Answer(answer) => answer.as_ref().map_or(0, Bytes::len),
        Found::Failed(why) => why.len(),
    }
}
