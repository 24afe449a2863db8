//! A request under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::gather::{Course, frames};
use model::{FlowId, NodeId, Request, Sample};
use units::{Bytes, Span, Time};

use super::hub::Hub;
use super::router::Port;
use super::servers::Servers;

pub(super) struct Active {
    pub(super) request: Arc<Request>,
    /// Which front end, and where the results have the request.
    pub(super) asker: usize,
    pub(super) record: usize,
    /// Hubs and ways as the front end wants them.
    pub(super) course: Course,
    /// Hubs as they are, and whether the front end has told each of them anything yet.
    pub(super) hubs: Vec<Hub>,
    pub(super) introduced: Vec<bool>,
    /// Hubs to which a speed is on its way: until it is there, they aren't told another.
    pub(super) is_telling: Vec<bool>,
    /// How often it has changed speeds.
    pub(super) changes: u32,
    pub(super) servers: Servers,
    /// Servers that died.
    pub(super) dead: Vec<NodeId>,
    begun: Time,
    /// When the front end asked for each object itself.
    pub(super) asked: Vec<Time>,
    /// The port whose queue it asks for, and what it was told: queued and room.
    pub(super) port: Option<Port>,
    pub(super) queue: (Bytes, Bytes),
    /// When the last sample was taken.
    sampled: Time,
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
            course: Course::new(objects),
            hubs: Vec::new(),
            introduced: Vec::new(),
            is_telling: Vec::new(),
            changes: 0,
            servers,
            dead: Vec::new(),
            begun: now,
            asked: vec![now; objects],
            port: None,
            queue: (Bytes::ZERO, Bytes::ZERO),
            sampled: now,
        }
    }

    /// Since it began.
    pub(super) fn age(&self, now: Time) -> Span {
        now.since(self.begun)
    }

    /// A packet from a hub reached the front end; how many of its objects are new there.
    fn receive(&mut self, hub: u32, objects: &[u32]) -> usize {
        let sizes = objects.iter().map(|object| self.request.size(*object as usize));
        self.course.receive(hub, frames(sizes.sum()));
        objects.iter().filter(|object| self.course.arrive(**object)).count()
    }

    /// The gathering has been ordered.
    pub(super) fn begin(&mut self) {
        self.hubs = self.course.hubs().iter().map(Hub::new).collect();
        self.introduced = vec![false; self.hubs.len()];
        self.is_telling = vec![false; self.hubs.len()];
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
                    objects.iter().for_each(|object| parent.queue.take(*object));
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
        let gone = self.course.gone(hub, objects);
        let node = &mut self.hubs[hub as usize];
        node.queue.cancel(gone);
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

    /// A hub was replaced, or given up if it has no other node; the connection to close.
    pub(super) fn replace(&mut self, hub: u32) -> Option<FlowId> {
        let place = hub as usize;
        let (lost, wanted) = (&mut self.hubs[place], &self.course.hubs()[place]);
        if wanted.node == lost.node {
            return lost.line.take().map(|line| line.flow);
        }
        self.introduced[place] = false;
        self.is_telling[place] = false;
        lost.replace(wanted, self.changes)
    }

    /// What came since the last sample.
    pub(super) fn sample(&mut self, now: Time) -> Sample {
        let (queued, buffer) = self.queue;
        let span: Span = now.since(self.sampled);
        self.sampled = now;
        self.course.sample(span, queued, buffer)
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
