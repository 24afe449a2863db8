//! A request at its front end.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use units::{Bytes, Span};

use super::{Gathering, Hub, HubOrder, Sample, Way};
use crate::NodeId;

/// How a request is gathered and how far it has come: what a front end makes of orders. Objects and
/// hubs that don't exist are ignored.
#[derive(Clone, Debug)]
pub struct Course {
    hubs: Vec<Hub>,
    ways: Vec<Way>,
    packed: bool,
    has: Vec<bool>,
    missing: usize,
    /// Objects that the front end has yet to ask for itself; how many it may have unanswered, and has.
    to_ask: VecDeque<u32>,
    most_unanswered: u32,
    unanswered: u32,
    /// Since the last sample.
    arrived: Vec<u32>,
    received: Vec<Bytes>,
}

/// What a front end is to do; hubs by their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Have a hub get these objects, each from its way's holder. Without an object it is told only
    /// that it is a hub, with which speed and parent.
    Fetch(u32, Vec<u32>),
    /// Have a hub, and those above it, not send these objects; above it only those of
    /// [`gone`](Course::gone).
    Cancel(u32, Vec<u32>),
    /// Tell a hub its speed.
    Speed(u32),
    /// Tell a hub its parent, to which it sends these objects again.
    Parent(u32, Vec<u32>),
    /// A hub died: it is heard no more, and another node may have its place.
    Replace(u32),
}

impl Course {
    /// Of a request for so many objects.
    pub fn new(objects: usize) -> Self {
        Self {
            hubs: Vec::new(),
            ways: Vec::new(),
            packed: false,
            has: vec![false; objects],
            missing: objects,
            to_ask: VecDeque::new(),
            most_unanswered: u32::MAX,
            unanswered: 0,
            arrived: Vec::new(),
            received: Vec::new(),
        }
    }

    /// The hubs as they are to be now.
    pub fn hubs(&self) -> &[Hub] {
        &self.hubs
    }

    /// The ways of objects; none before the request is ordered.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Whether a hub puts several objects into a packet.
    pub const fn packed(&self) -> bool {
        self.packed
    }

    /// Whether the front end has an object, or there is none such.
    pub fn has(&self, object: u32) -> bool {
        self.has.get(object as usize).is_none_or(|has| *has)
    }

    /// Whether it has all.
    pub const fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// An object arrived; whether for the first time.
    pub fn arrive(&mut self, object: u32) -> bool {
        let Some(has @ false) = self.has.get_mut(object as usize) else { return false };
        *has = true;
        self.missing -= 1;
        self.arrived.push(object);
        true
    }

    /// A hub sent frames of so many octets.
    pub fn receive(&mut self, hub: u32, frames: Bytes) {
        if let Some(received) = self.received.get_mut(hub as usize) {
            *received += frames;
        }
    }

    /// What came in the `span` since the last sample, and what the router has `queued` of its `buffer`.
    pub fn sample(&mut self, span: Span, queued: Bytes, buffer: Bytes) -> Sample {
        let none = vec![Bytes::ZERO; self.received.len()];
        Sample {
            span,
            arrived: core::mem::take(&mut self.arrived),
            received: core::mem::replace(&mut self.received, none),
            queued,
            buffer,
        }
    }

    /// Takes an order in; what to do, before the front end asks [on](Self::ask_next) itself.
    pub fn obey(&mut self, order: &HubOrder) -> Vec<Step> {
        match order {
            HubOrder::Gather(Gathering { hubs, ways, packed }) => {
                self.hubs.clone_from(hubs);
                self.ways.clone_from(ways);
                self.packed = *packed;
                self.received = vec![Bytes::ZERO; hubs.len()];
                let wanted = self.wanted(|_| true);
                self.fetch(wanted)
            }
            HubOrder::Outstanding(queries) => {
                self.most_unanswered = (*queries).max(1);
                Vec::new()
            }
            HubOrder::Speeds(speeds) => {
                let hubs = (0u32..).zip(self.hubs.iter_mut().zip(speeds));
                let changed = hubs.filter_map(|(place, (hub, speed))| {
                    let before = core::mem::replace(&mut hub.speed, *speed);
                    (before != *speed).then_some(Step::Speed(place))
                });
                changed.collect()
            }
            HubOrder::Redirect(moves) => self.redirect(moves),
            HubOrder::Replace { hub, node } => self.replace(*hub, *node),
        }
    }

    fn redirect(&mut self, moves: &[(u32, Way)]) -> Vec<Step> {
        let mut left = BTreeMap::<u32, Vec<u32>>::new();
        let mut moved = Vec::new();
        for (object, way) in moves {
            if self.has(*object) {
                continue;
            }
            let Some(current) = self.ways.get_mut(*object as usize) else { continue };
            let before = core::mem::replace(current, *way);
            if let Some(hub) = before.hub.filter(|_| before.hub != way.hub) {
                left.entry(hub).or_default().push(*object);
            }
            moved.push(*object);
        }
        let cancel = |(hub, mut objects): (u32, Vec<u32>)| {
            objects.sort_unstable();
            Step::Cancel(hub, objects)
        };
        let mut steps: Vec<Step> = left.into_iter().map(cancel).collect();
        steps.append(&mut self.fetch(moved));
        steps
    }

    fn replace(&mut self, hub: u32, node: Option<NodeId>) -> Vec<Step> {
        let Some(lost) = self.hubs.get_mut(hub as usize) else { return Vec::new() };
        let mut steps = vec![Step::Replace(hub)];
        let above = match node {
            Some(node) => {
                lost.node = node;
                steps.push(Step::Fetch(hub, self.wanted(|way| way.hub == Some(hub))));
                Some(hub)
            }
            None => lost.parent,
        };
        let children = (0u32..).zip(&mut self.hubs).filter(|(_, one)| one.parent == Some(hub));
        let children: Vec<u32> = children
            .map(|(child, one)| {
                one.parent = above;
                child
            })
            .collect();
        for child in children {
            steps.push(Step::Parent(child, self.wanted(|way| self.comes_through(child, way))));
        }
        steps
    }

    /// Has hubs get `objects` as their ways say; those without one the front end is to ask for.
    fn fetch(&mut self, objects: Vec<u32>) -> Vec<Step> {
        let mut groups = BTreeMap::<u32, Vec<u32>>::new();
        for object in objects {
            let hub = self.ways.get(object as usize).and_then(|way| way.hub);
            match hub.filter(|hub| (*hub as usize) < self.hubs.len()) {
                Some(hub) => groups.entry(hub).or_default().push(object),
                None => self.to_ask.push_back(object),
            }
        }
        groups.into_iter().map(|(hub, objects)| Step::Fetch(hub, objects)).collect()
    }

    /// The next object that the front end may ask for itself; it counts as asked for.
    pub fn ask_next(&mut self) -> Option<u32> {
        while self.unanswered < self.most_unanswered {
            let object = self.to_ask.pop_front()?;
            if !self.has(object) {
                self.unanswered += 1;
                return Some(object);
            }
        }
        None
    }

    /// Whether a window bounds what the front end asks for.
    pub const fn has_window(&self) -> bool {
        self.most_unanswered != u32::MAX
    }

    /// So many objects that the front end asked for itself were answered, or never will be.
    pub fn answered(&mut self, objects: usize) {
        let objects = u32::try_from(objects).unwrap_or(u32::MAX);
        self.unanswered = self.unanswered.saturating_sub(objects);
    }

    /// The front end is to ask `holder` for an object itself, whatever was ordered.
    pub fn ask_directly(&mut self, object: u32, holder: NodeId) {
        if let Some(way) = self.ways.get_mut(object as usize) {
            *way = Way { holder, hub: None };
            self.to_ask.push_back(object);
        }
    }

    /// The front end asks for all that is missing itself, of these holders, and without a window.
    pub fn ask_all(&mut self, holder: impl Fn(u32) -> Option<NodeId>) {
        self.most_unanswered = u32::MAX;
        self.to_ask.clear();
        for object in self.wanted(|_| true) {
            if let Some(holder) = holder(object) {
                self.ask_directly(object, holder);
            }
        }
    }

    /// Of `objects` those that are not to come through a hub, from its swarm or from hubs below it.
    pub fn gone(&self, hub: u32, objects: &[u32]) -> Vec<u32> {
        let comes = |object: &u32| {
            self.ways.get(*object as usize).is_some_and(|way| self.comes_through(hub, way))
        };
        objects.iter().copied().filter(|object| !comes(object)).collect()
    }

    /// A hub and those above it, up to the one that sends to the front end.
    pub fn line(&self, hub: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |hub: &u32| self.hubs.get(*hub as usize).and_then(|one| one.parent);
        // Hubs are never in a circle; the bound makes sure.
        core::iter::successors(Some(hub), parent).take(self.hubs.len())
    }

    fn comes_through(&self, hub: u32, way: &Way) -> bool {
        way.hub.is_some_and(|at| self.line(at).any(|one| one == hub))
    }

    /// Objects that have not arrived and whose way is such.
    fn wanted(&self, is_such: impl Fn(&Way) -> bool) -> Vec<u32> {
        let ways = (0u32..).zip(&self.ways);
        let wanted = ways.filter(|(object, way)| !self.has(*object) && is_such(way));
        wanted.map(|(object, _)| object).collect()
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;

    fn way(hub: Option<u32>) -> Way {
        Way { holder: NodeId(7), hub }
    }

    /// Hubs 1 and 2 below 0; objects 0 and 1 of hub 0, 2 of hub 1, 3 of hub 2, 4 of the front end.
    fn begun() -> Course {
        let mut course = Course::new(5);
        let hub = |node, parent| Hub { node: NodeId(node), parent, speed: Rate::from_mbps(1) };
        let hubs = vec![hub(0, None), hub(1, Some(0)), hub(2, Some(0))];
        let ways = [Some(0), Some(0), Some(1), Some(2), None].map(way).to_vec();
        let steps = course.obey(&HubOrder::Gather(Gathering { hubs, ways, packed: true }));
        let fetch = [(0, vec![0, 1]), (1, vec![2]), (2, vec![3])];
        assert_eq!(steps, fetch.map(|(hub, objects)| Step::Fetch(hub, objects)));
        assert_eq!((course.ask_next(), course.ask_next()), (Some(4), None));
        course
    }

    #[test]
    fn a_backup_is_told_although_nothing_is_missing() {
        let mut course = begun();
        assert!(course.arrive(0) && course.arrive(1) && course.arrive(2));
        let steps = course.obey(&HubOrder::Replace { hub: 0, node: Some(NodeId(9)) });
        let parents = [Step::Parent(1, vec![]), Step::Parent(2, vec![3])];
        assert_eq!(steps[..2], [Step::Replace(0), Step::Fetch(0, vec![])]);
        assert_eq!(steps[2..], parents);
        assert_eq!(course.hubs()[0].node, NodeId(9));
    }

    #[test]
    fn without_a_backup_the_policy_says_how_objects_come() {
        let mut course = begun();
        let steps = course.obey(&HubOrder::Replace { hub: 0, node: None });
        assert_eq!(steps, [Step::Replace(0), Step::Parent(1, vec![2]), Step::Parent(2, vec![3])]);
        assert_eq!(course.hubs()[1].parent, None);
        assert_eq!(course.ask_next(), None);
        let steps = course.obey(&HubOrder::Redirect(vec![(0, way(Some(1))), (1, way(None))]));
        assert_eq!(steps, [Step::Cancel(0, vec![0, 1]), Step::Fetch(1, vec![0])]);
        assert_eq!(course.ask_next(), Some(1));
    }

    #[test]
    fn what_still_comes_through_a_hub_is_not_gone() {
        let mut course = begun();
        course.obey(&HubOrder::Redirect(vec![(2, way(Some(2))), (3, way(None)), (9, way(None))]));
        assert_eq!(course.line(1).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(course.gone(1, &[2, 3]), [2, 3]);
        assert_eq!(course.gone(0, &[2, 3]), [3]);
    }

    #[test]
    fn a_window_holds_back_what_is_not_answered() {
        let mut course = begun();
        course.obey(&HubOrder::Outstanding(2));
        course.obey(&HubOrder::Redirect((0..4).map(|object| (object, way(None))).collect()));
        assert_eq!((course.ask_next(), course.ask_next()), (Some(0), None));
        course.arrive(1);
        course.answered(1);
        assert_eq!((course.ask_next(), course.ask_next()), (Some(2), None));
        course.ask_all(|object| (object != 2).then_some(NodeId(3)));
        let all: Vec<u32> = core::iter::from_fn(|| course.ask_next()).collect();
        assert_eq!(all, [0, 3, 4]);
    }
}
