//! A request under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use model::{FlowId, Gathering, NodeId, Request, Sample, Way};
use units::{Bytes, Span, Time};

use super::hub::{HEADER, Hub};
use super::router::Port;
use super::servers::Servers;

pub(super) struct Active {
    pub(super) request: Arc<Request>,
    /// Which front end, and where the results have the request.
    pub(super) asker: usize,
    pub(super) record: usize,
    pub(super) hubs: Vec<Hub>,
    /// Hubs as the front end wants them, and whether it has told each of them yet.
    pub(super) told: Vec<model::Hub>,
    pub(super) introduced: Vec<bool>,
    /// Hubs to which a speed is on its way: until it is there, they aren't told another.
    pub(super) is_telling: Vec<bool>,
    /// How often it has changed speeds.
    pub(super) changes: u32,
    pub(super) ways: Vec<Way>,
    pub(super) packed: bool,
    pub(super) servers: Servers,
    /// Servers that died.
    pub(super) dead: Vec<NodeId>,
    begun: Time,
    has: Vec<bool>,
    missing: usize,
    /// Objects that the front end itself has yet to ask for, and how many it may and did.
    pub(super) to_ask: VecDeque<u32>,
    pub(super) most_unanswered: u32,
    pub(super) unanswered: u32,
    /// When it asked for each.
    pub(super) asked: Vec<Time>,
    /// The port whose queue it asks for, and what it was told: queued and room.
    pub(super) port: Option<Port>,
    pub(super) queue: (Bytes, Bytes),
    /// Since the last sample.
    sampled: Time,
    arrived: Vec<u32>,
    received: Vec<Bytes>,
}

impl Active {
    pub(super) fn new(
        (request, servers): (Arc<Request>, Servers),
        asker: usize,
        record: usize,
        now: Time,
    ) -> Self {
        let objects = request.sizes.len();
        Self {
            request,
            asker,
            record,
            hubs: Vec::new(),
            told: Vec::new(),
            introduced: Vec::new(),
            is_telling: Vec::new(),
            changes: 0,
            ways: Vec::new(),
            packed: false,
            servers,
            dead: Vec::new(),
            begun: now,
            has: vec![false; objects],
            missing: objects,
            to_ask: VecDeque::new(),
            most_unanswered: u32::MAX,
            unanswered: 0,
            asked: vec![now; objects],
            port: None,
            queue: (Bytes::ZERO, Bytes::ZERO),
            sampled: now,
            arrived: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Whether the front end has the object.
    pub(super) fn has(&self, object: u32) -> bool {
        self.has[object as usize]
    }

    /// Since it began.
    pub(super) fn age(&self, now: Time) -> Span {
        now.since(self.begun)
    }

    /// Whether the front end has all.
    pub(super) const fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// An object reached the front end; whether for the first time.
    pub(super) fn arrive(&mut self, object: u32) -> bool {
        let is_new = !std::mem::replace(&mut self.has[object as usize], true);
        if is_new {
            self.missing -= 1;
            self.arrived.push(object);
        }
        is_new
    }

    /// A packet from a hub reached the front end; how many of its objects are new there.
    fn receive(&mut self, hub: u32, objects: &[u32]) -> usize {
        let sizes = objects.iter().map(|object| self.request.size(*object as usize));
        self.received[hub as usize] += sizes.sum::<Bytes>() + HEADER;
        objects.iter().filter(|object| self.arrive(**object)).count()
    }

    pub(super) fn begin(&mut self, gathering: &Gathering) {
        self.received = vec![Bytes::ZERO; gathering.hubs.len()];
        self.introduced = vec![false; gathering.hubs.len()];
        self.is_telling = vec![false; gathering.hubs.len()];
        self.hubs = gathering.hubs.iter().map(Hub::new).collect();
        self.told.clone_from(&gathering.hubs);
        self.ways.clone_from(&gathering.ways);
        self.packed = gathering.packed;
    }

    /// Where a hub runs, or the front end.
    pub(super) fn end(&self, hub: Option<u32>) -> NodeId {
        hub.map_or(self.request.front, |hub| self.hubs[hub as usize].node)
    }

    /// What a hub sent has arrived; how many objects the front end has more, the parent that now
    /// has more, and the next mark.
    pub(super) fn pass_on(
        &mut self,
        hub: u32,
        flow: FlowId,
        delivered: Bytes,
    ) -> (usize, Option<u32>, Option<Bytes>) {
        let node = &mut self.hubs[hub as usize];
        let parent = node.parent;
        let Some(mut line) = node.line.take_if(|line| line.flow == flow) else {
            return (0, None, None);
        };
        let mut new = 0;
        // What a dead hub had not delivered is lost, and what reaches one.
        let is_dead = node.is_dead || self.dead.contains(&line.to);
        while let Some(objects) = line.arrived(delivered) {
            match parent {
                _ if is_dead => {}
                None => new += self.receive(hub, &objects),
                Some(parent) => {
                    let parent = &mut self.hubs[parent as usize];
                    objects.iter().for_each(|object| parent.take(*object));
                }
            }
        }
        let mark = line.mark();
        self.hubs[hub as usize].line = Some(line);
        (new, parent, mark)
    }

    /// A hub hears that it is not to send `objects`; the hub above it, which is to hear it too. What
    /// comes through it again meanwhile it keeps: orders are numbered, and it knows a later one.
    pub(super) fn cancel(&mut self, hub: u32, objects: &[u32]) -> Option<u32> {
        let gone = objects.iter().copied().filter(|object| !self.comes_through(hub, *object));
        let gone: BTreeSet<u32> = gone.collect();
        let node = &mut self.hubs[hub as usize];
        node.cancel(gone);
        node.parent.filter(|_| !node.is_dead)
    }

    /// A hub's server dies; `false` when there is no such hub or it is dead.
    pub(super) fn kill(&mut self, hub: u32) -> bool {
        let hub = self.hubs.get_mut(hub as usize).filter(|hub| !hub.is_dead);
        let Some(hub) = hub else { return false };
        hub.is_dead = true;
        self.dead.push(hub.node);
        true
    }

    /// `node` takes the place of a hub, or its children go to its parent; the connection to close,
    /// and the children, which are to be told.
    pub(super) fn replace(&mut self, hub: u32, node: Option<NodeId>) -> (Option<FlowId>, Vec<u32>) {
        let place = hub as usize;
        let Some(lost) = self.hubs.get_mut(place) else { return (None, Vec::new()) };
        let line = match node {
            Some(node) => {
                self.told[place].node = node;
                self.introduced[place] = false;
                self.is_telling[place] = false;
                lost.replace(&self.told[place], self.changes)
            }
            None => lost.line.take().map(|line| line.flow),
        };
        let above = if node.is_some() { Some(hub) } else { self.told[place].parent };
        let children = (0u32..).zip(&mut self.told).filter(|(_, told)| told.parent == Some(hub));
        let told = children.map(|(child, told)| {
            told.parent = above;
            child
        });
        (line, told.collect())
    }

    /// Whether an object is to come through a hub, from its swarm or from hubs below it.
    fn comes_through(&self, hub: u32, object: u32) -> bool {
        let mut at = self.ways[object as usize].hub;
        while at.is_some_and(|at| at != hub) {
            at = at.and_then(|at| self.told[at as usize].parent);
        }
        at.is_some()
    }

    /// Objects that come through a hub, from its swarm or from hubs below it, and have not arrived.
    pub(super) fn wanted_below(&self, hub: u32) -> Vec<u32> {
        let all = 0..u32::try_from(self.ways.len()).unwrap_or(u32::MAX);
        all.filter(|object| !self.has(*object) && self.comes_through(hub, *object)).collect()
    }

    /// Objects that come through a hub's swarm and have not arrived.
    pub(super) fn wanted_of(&self, hub: u32) -> Vec<u32> {
        let ways = (0u32..).zip(&self.ways);
        let own = ways.filter(|(object, way)| way.hub == Some(hub) && !self.has(*object));
        own.map(|(object, _)| object).collect()
    }

    /// What came since the last sample.
    pub(super) fn sample(&mut self, now: Time) -> Sample {
        let (queued, buffer) = self.queue;
        let span: Span = now.since(self.sampled);
        self.sampled = now;
        let none = vec![Bytes::ZERO; self.received.len()];
        Sample {
            span,
            arrived: std::mem::take(&mut self.arrived),
            received: std::mem::replace(&mut self.received, none),
            queued,
            buffer,
        }
    }
}

/// The objects in groups of equal `key`, in order of the keys.
pub(super) fn grouped<K: Ord>(
    objects: impl IntoIterator<Item = u32>,
    key: impl Fn(u32) -> K,
) -> BTreeMap<K, Vec<u32>> {
    let mut groups = BTreeMap::<K, Vec<u32>>::new();
    for object in objects {
        groups.entry(key(object)).or_default().push(object);
    }
    groups
}
