//! Forwarding: what entries every switch should have, and how it comes to have them.
//!
//! For every host the shortest paths to it form a tree. An entry is changed only after the switch
//! that it leads to has its own new entry: from the host outwards, a barrier after each ring. So at
//! any moment a packet follows old entries until it meets a new one, and new ones to the end: no
//! loop and no gap. What isn't needed any more is removed last. Adding an entry of the same match
//! replaces the old one in one step, whoever made it; a controller that comes back thus takes over
//! without a moment in which nothing stands.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use model::{FlowId, LinkId, NodeId};

use crate::controller::Controller;
use crate::entry::{self, Does, Key};
use crate::switches::Pending;

/// A change of forwarding that is under way.
#[derive(Default)]
pub(crate) struct Rollout {
    /// Something has changed since the last plan.
    pub(crate) is_due: bool,
    /// Paths may have changed.
    pub(crate) moved: bool,
    /// Rings, from hosts outwards.
    steps: VecDeque<Vec<(NodeId, Key, Does)>>,
    /// What is removed in the end.
    removals: Vec<(NodeId, Key)>,
    /// Switches that have not confirmed the last ring.
    pub(crate) waiting: BTreeSet<NodeId>,
    /// Removals and cleaning are still to come.
    unfinished: bool,
}

impl Rollout {
    pub(crate) fn is_settled(&self, node: NodeId) -> bool {
        !self.is_due && !self.unfinished && self.steps.is_empty() && !self.waiting.contains(&node)
    }
}

/// The ring of entries that lead nowhere themselves: the last, after all that they make use of.
const LAST: u32 = u32::MAX;

impl Controller {
    /// A switch has confirmed its part of a ring, or is gone.
    pub(crate) fn stepped(&mut self, node: NodeId) {
        self.rollout.waiting.remove(&node);
    }

    /// Goes on with a change of forwarding, as far as confirmations allow.
    pub(crate) fn roll(&mut self) {
        while self.rollout.waiting.is_empty() {
            if core::mem::take(&mut self.rollout.is_due) {
                self.plan();
            }
            if let Some(step) = self.rollout.steps.pop_front() {
                let mut nodes = BTreeSet::new();
                for (node, key, does) in step {
                    self.put(node, &key, does);
                    if let Some(switch) = self.switches.get_mut(&node) {
                        switch.routes.insert(key, does);
                    }
                    nodes.insert(node);
                }
                for node in nodes {
                    if self.barrier(node, Pending::Step) {
                        self.rollout.waiting.insert(node);
                    }
                }
            } else if core::mem::take(&mut self.rollout.unfinished) {
                for (node, key) in core::mem::take(&mut self.rollout.removals) {
                    self.take(node, &key);
                    if let Some(switch) = self.switches.get_mut(&node) {
                        switch.routes.remove(&key);
                    }
                }
                let dirty = self.switches.iter().filter(|(_, s)| s.ready && !s.cleaned);
                for node in dirty.map(|(node, _)| *node).collect::<Vec<_>>() {
                    self.clean(node);
                }
            } else {
                return;
            }
        }
    }

    /// Finds out what differs from what should be.
    fn plan(&mut self) {
        if core::mem::take(&mut self.rollout.moved) {
            self.pin_anew();
        }
        let mut rings: BTreeMap<u32, Vec<(NodeId, Key, Does)>> = BTreeMap::new();
        let mut removals = Vec::new();
        let ready: Vec<NodeId> = self
            .switches
            .iter()
            .filter(|(_, switch)| switch.ready && switch.capable)
            .map(|(node, _)| *node)
            .collect();
        for node in &ready {
            let target = self.forwarding(*node);
            let has = &self.switches[node].routes;
            for key in has.keys().filter(|key| !target.contains_key(key)) {
                removals.push((*node, key.clone()));
            }
            for (key, (does, ring)) in target {
                if has.get(&key) != Some(&does) {
                    rings.entry(ring).or_default().push((*node, key, does));
                }
            }
        }
        self.rollout.steps = rings.into_values().collect();
        self.rollout.removals = removals;
        self.rollout.unfinished = true;
    }

    /// The entries that a switch should have for forwarding, and their rings.
    fn forwarding(&self, node: NodeId) -> BTreeMap<Key, (Does, u32)> {
        let watching = self.policy.watch().is_some();
        let base = entry::base(watching).into_iter().map(|(key, does)| (key, (does, LAST)));
        let mut target: BTreeMap<Key, (Does, u32)> = base.collect();
        let mut ways: BTreeMap<NodeId, Option<(u32, u32)>> = BTreeMap::new();
        let mut path = Vec::new();
        let mut way = |host: NodeId| {
            *ways.entry(host).or_insert_with(|| {
                path.clear();
                self.view.network.path(node, host, tree(host), &mut path);
                let port = self.view.links[path.first()?.index()].port?;
                Some((port, u32::try_from(path.len()).unwrap_or(LAST - 1)))
            })
        };
        for (address, host) in self.view.addresses() {
            if let Some((port, ring)) = way(host) {
                target.insert(Key::to(address), (Does::Out(port), ring));
                target.insert(Key::asking_for(address), (Does::Out(port), ring));
            }
        }
        for (address, host) in self.view.ethernet() {
            if let Some((port, ring)) = way(host) {
                target.insert(Key::to_ethernet(address), (Does::Out(port), ring));
            }
        }
        target
    }

    /// Gives a flow entries of its own where the path that the policy reckons with isn't that of all
    /// packets to its destination: with several shortest paths, the policy's is chosen by the flow's
    /// number (`Network::path`), that of the others by the destination's.
    pub(crate) fn pin(&mut self, id: FlowId) {
        if self.switches.is_empty() {
            return;
        }
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        let (connection, (src, dst)) = (flow.connection, flow.ends);
        if self.registry.sharing(&connection).first() != Some(&id) {
            return;
        }
        let mut path = Vec::new();
        self.view.network.path(src, dst, u64::from(id.0), &mut path);
        let mut default = Vec::new();
        self.view.network.path(src, dst, tree(dst), &mut default);
        if path == default {
            return;
        }
        for link in path.into_iter().rev() {
            let from = self.view.network.topology().link(link).from;
            if let (true, Some(port)) = (self.is_switch(from), self.view.links[link.index()].port) {
                let key = Key::of(1, 300, &connection);
                self.put_own(from, key, Does::Out(port));
            }
        }
        if let Some(flow) = self.registry.flow_mut(id) {
            flow.pinned = true;
        }
    }

    /// Takes the entries of a flow from all switches.
    pub(crate) fn unpin(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow_mut(id) else {
            return;
        };
        let connection = flow.connection;
        if core::mem::take(&mut flow.pinned) {
            let key = Key::of(1, 300, &connection);
            for node in self.switches.keys().copied().collect::<Vec<_>>() {
                self.take_own(node, &key);
            }
        }
        if flow_is_counted(self, id) {
            let key = Key::of(0, 700, &connection);
            for node in self.switches.keys().copied().collect::<Vec<_>>() {
                self.take_own(node, &key);
            }
        }
    }

    fn pin_anew(&mut self) {
        let flows: Vec<FlowId> = self.registry.flows().map(|(id, _)| id).collect();
        for id in flows {
            let was = self.registry.flow(id).is_some_and(|flow| flow.pinned);
            if was {
                // Old entries lead over links that may be gone; without them packets go with all
                // others, over a path that is whole.
                self.unpin(id);
            }
            self.pin(id);
            if let Some(flow) = self.registry.flow(id).filter(|flow| flow.intended.is_some()) {
                // The first switch of its path may be another one.
                self.touched.insert(flow.connection);
            }
        }
    }

    /// Gives a switch an entry for a connection, now and whenever it comes back.
    pub(crate) fn put_own(&mut self, node: NodeId, key: Key, does: Does) {
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        let is_ready = switch.ready && switch.capable;
        let is_new = switch.own.insert(key.clone(), does) != Some(does);
        if is_ready && is_new {
            self.put(node, &key, does);
        }
    }

    /// Takes such an entry away.
    pub(crate) fn take_own(&mut self, node: NodeId, key: &Key) -> bool {
        let Some(switch) = self.switches.get_mut(&node) else {
            return false;
        };
        let (had, is_ready) = (switch.own.remove(key).is_some(), switch.ready);
        if had && is_ready {
            self.take(node, key);
        }
        had
    }

    /// The first link of the path of a connection that leaves a switch.
    pub(crate) fn entrance(&self, ends: (NodeId, NodeId), key: u64) -> Option<LinkId> {
        let mut path = Vec::new();
        self.view.network.path(ends.0, ends.1, key, &mut path);
        let leaves = |link: &LinkId| self.is_switch(self.view.network.topology().link(*link).from);
        path.into_iter().find(leaves)
    }
}

fn flow_is_counted(controller: &Controller, id: FlowId) -> bool {
    controller.registry.flow(id).is_some_and(|flow| flow.owner.is_none())
}

/// The key of the tree to a host, apart from those of flows.
fn tree(host: NodeId) -> u64 {
    1 << 32 | u64::from(host.0)
}
