//! A request under way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::{FlowId, NodeId, Request, Sample, Way};
use units::{Bytes, Span, Time};

use super::hub::{HEADER, Hub};

pub(super) struct Active {
    pub(super) request: Arc<Request>,
    /// Which front end, and where the results have the request.
    pub(super) asker: usize,
    pub(super) record: usize,
    pub(super) hubs: Vec<Hub>,
    pub(super) ways: Vec<Way>,
    pub(super) packed: bool,
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
    /// Since the last sample.
    sampled: Time,
    arrived: Vec<u32>,
    received: Vec<Bytes>,
}

impl Active {
    pub(super) fn new(request: Arc<Request>, asker: usize, record: usize, now: Time) -> Self {
        let objects = request.sizes.len();
        Self {
            request,
            asker,
            record,
            hubs: Vec::new(),
            ways: Vec::new(),
            packed: false,
            dead: Vec::new(),
            begun: now,
            has: vec![false; objects],
            missing: objects,
            to_ask: VecDeque::new(),
            most_unanswered: u32::MAX,
            unanswered: 0,
            asked: vec![now; objects],
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

    pub(super) fn begin(&mut self, hubs: Vec<Hub>, ways: Vec<Way>, packed: bool) {
        self.received = vec![Bytes::ZERO; hubs.len()];
        (self.hubs, self.ways, self.packed) = (hubs, ways, packed);
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
        // What a dead hub had not delivered is lost.
        let is_dead = node.is_dead;
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

    /// A hub's server dies; `false` when there is no such hub or it is dead.
    pub(super) fn kill(&mut self, hub: u32) -> bool {
        let hub = self.hubs.get_mut(hub as usize).filter(|hub| !hub.is_dead);
        let Some(hub) = hub else { return false };
        hub.is_dead = true;
        self.dead.push(hub.node);
        true
    }

    /// `node` takes the place of a hub, or its children go to its parent; connections to close.
    pub(super) fn replace(&mut self, hub: u32, node: Option<NodeId>) -> Vec<FlowId> {
        let Some(lost) = self.hubs.get_mut(hub as usize) else { return Vec::new() };
        let parent = lost.parent;
        let line = match node {
            Some(node) => lost.replace(node),
            None => lost.line.take().map(|line| line.flow),
        };
        let mut lines: Vec<FlowId> = line.into_iter().collect();
        let has = &self.has;
        for child in self.hubs.iter_mut().filter(|child| child.parent == Some(hub)) {
            if node.is_none() {
                child.parent = parent;
            }
            lines.extend(child.start_over(|object| !has[object as usize]));
        }
        lines
    }

    /// Objects that come through a hub's swarm and have not arrived.
    pub(super) fn wanted_of(&self, hub: u32) -> Vec<u32> {
        let ways = (0u32..).zip(&self.ways);
        let own = ways.filter(|(object, way)| way.hub == Some(hub) && !self.has(*object));
        own.map(|(object, _)| object).collect()
    }

    /// What came since the last sample.
    pub(super) fn sample(&mut self, now: Time, queued: Bytes, buffer: Bytes) -> Sample {
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
