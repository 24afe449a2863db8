//! Forwarding: what entries every switch should have, and how it comes to have them.
//!
//! For every host the shortest paths to it form a tree. An entry is changed only after the switch
//! that it leads to has its own new entry: from the host outwards, a barrier after each ring. So at
//! any moment a packet follows old entries until it meets a new one, and new ones to the end: no
//! loop and no gap. What isn't needed any more is removed last. Adding an entry of the same match
//! replaces the old one in one step, whoever made it; a controller that comes back thus takes over
//! without a moment in which nothing stands.
//!
//! A flow gets entries of its own where the path that the policy reckons with isn't that of all
//! packets to its destination: with several shortest paths, the policy's is chosen by the flow's
//! number ([`model::Network::path`]), that of the others by the destination's. Beside trees that are
//! not of the same paths such entries could make loops: they are taken away before trees change, and
//! given again after that.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use model::{FlowId, NodeId};
use protocol::Connection;

use crate::context::Context;
use crate::fabric::entry::{self, Does, Key};
use crate::fabric::switches::{Pending, Switches};
use crate::view::View;

/// A change of forwarding that is under way, and the flows with entries of their own.
#[derive(Default)]
pub(crate) struct Rollout {
    /// Something has changed since the last plan.
    is_due: bool,
    /// Paths may have changed.
    moved: bool,
    /// So may who caps windows at switches.
    recaps: bool,
    /// Rings, from hosts outwards.
    steps: VecDeque<Vec<(NodeId, Key, Does)>>,
    /// What is removed in the end.
    removals: Vec<(NodeId, Key)>,
    /// Switches that have not confirmed the last ring.
    waiting: BTreeSet<NodeId>,
    /// Removals and cleaning are still to come.
    unfinished: bool,
    /// Trees change: no flow has entries of its own until they have.
    changing: bool,
    pinned: BTreeSet<FlowId>,
}

/// The ring of entries that lead nowhere themselves: the last, after all that they make use of.
const LAST: u32 = u32::MAX;

impl Rollout {
    /// What switches should have may have changed.
    pub(crate) fn make_due(&mut self) {
        self.is_due = true;
    }

    /// Paths may have changed.
    pub(crate) fn paths_changed(&mut self) {
        self.moved = true;
        self.recap();
    }

    /// The port of a link, or its name, is known that was not, or who acts at a switch that caps windows has changed.
    pub(crate) fn recap(&mut self) {
        (self.is_due, self.recaps) = (true, true);
    }

    /// Whether windows may have to be capped otherwise, or by others, since this was asked.
    pub(crate) fn take_recaps(&mut self) -> bool {
        core::mem::take(&mut self.recaps)
    }

    pub(crate) fn is_settled(&self, node: NodeId) -> bool {
        !self.is_due && !self.unfinished && self.steps.is_empty() && !self.waiting.contains(&node)
    }

    /// A switch has confirmed its part of a ring, or is gone.
    pub(crate) fn confirmed(&mut self, node: NodeId) {
        self.waiting.remove(&node);
    }

    /// Whether a new plan is due and no ring is under way.
    pub(crate) fn wants_plan(&self) -> bool {
        self.is_due && self.waiting.is_empty()
    }

    /// Whether paths may have changed since this was asked: then flows lose their own entries.
    pub(crate) fn take_moved(&mut self) -> bool {
        self.changing |= self.moved;
        core::mem::take(&mut self.moved)
    }

    /// Whether trees have changed and flows may have entries of their own again.
    pub(crate) fn take_changed(&mut self) -> bool {
        let is_done = !self.is_due && !self.unfinished && self.waiting.is_empty();
        is_done && core::mem::take(&mut self.changing)
    }

    /// Goes on with a change, as far as confirmations allow; whether there was something to do.
    pub(crate) fn step(&mut self, cx: &Context, switches: &mut Switches) -> bool {
        if !self.waiting.is_empty() {
            return false;
        }
        if let Some(step) = self.steps.pop_front() {
            let mut nodes = BTreeSet::new();
            for (node, key, does) in step {
                let xid = switches.put(cx, node, &key, does);
                if let Some(switch) = switches.get_mut(node) {
                    switch.sent(xid, key, does);
                }
                nodes.insert(node);
            }
            self.wait_for(cx, switches, nodes);
            return true;
        }
        if !core::mem::take(&mut self.unfinished) {
            return false;
        }
        for (node, key) in core::mem::take(&mut self.removals) {
            switches.take(cx, node, &key);
            if let Some(switch) = switches.get_mut(node) {
                switch.routes.remove(&key);
                switch.refused.remove(&key);
            }
        }
        switches.clean(cx);
        true
    }

    /// Nothing more is changed until these switches have done all that they were told.
    fn wait_for(
        &mut self,
        cx: &Context,
        switches: &mut Switches,
        nodes: impl IntoIterator<Item = NodeId>,
    ) {
        for node in nodes {
            if switches.barrier(cx, node, Pending::Step) {
                self.waiting.insert(node);
            }
        }
    }

    /// Finds out what differs from what should be, or was refused. `watching`: the policy watches connections.
    pub(crate) fn plan(&mut self, switches: &Switches, view: &View, watching: bool) {
        self.is_due = false;
        let mut rings: BTreeMap<u32, Vec<(NodeId, Key, Does)>> = BTreeMap::new();
        let mut removals = Vec::new();
        for (node, switch) in switches.iter().filter(|(_, switch)| switch.takes_entries()) {
            let target = forwarding(view, node, watching);
            for key in switch.routes.keys().filter(|key| !target.contains_key(key)) {
                removals.push((node, key.clone()));
            }
            for (key, (does, ring)) in target {
                if switch.routes.get(&key) != Some(&does) || switch.refused.contains_key(&key) {
                    rings.entry(ring).or_default().push((node, key, does));
                }
            }
        }
        self.steps = rings.into_values().collect();
        self.removals = removals;
        self.unfinished = true;
    }

    /// Gives a flow entries of its own where it needs them, unless trees change.
    pub(crate) fn pin(
        &mut self,
        cx: &Context,
        switches: &mut Switches,
        view: &View,
        (flow, connection): (FlowId, Connection),
        ends: (NodeId, NodeId),
    ) {
        if self.moved || self.changing {
            return;
        }
        let path = view.path(ends, u64::from(flow.0));
        if path == view.path(ends, tree(ends.1)) {
            return;
        }
        for link in path.into_iter().rev() {
            let from = view.start(link);
            if let (true, Some(port)) = (view.is_switch(from), view.link(link).port) {
                switches.put_own(cx, from, pin_of(&connection), Does::Out(port));
            }
        }
        self.pinned.insert(flow);
    }

    /// Takes all such entries away, and waits until they are gone. `connection` is a flow's.
    pub(crate) fn unpin_all(
        &mut self,
        cx: &Context,
        switches: &mut Switches,
        connection: impl Fn(FlowId) -> Option<Connection>,
    ) {
        let pinned = core::mem::take(&mut self.pinned);
        let keys = pinned.into_iter().filter_map(connection).map(|connection| pin_of(&connection));
        let told: BTreeSet<NodeId> =
            keys.flat_map(|key| switches.take_own_everywhere(cx, &key)).collect();
        self.wait_for(cx, switches, told);
    }

    /// Takes these entries away, where there are any.
    pub(crate) fn unpin(
        &mut self,
        cx: &Context,
        switches: &mut Switches,
        flow: FlowId,
        connection: &Connection,
    ) {
        if self.pinned.remove(&flow) {
            switches.take_own_everywhere(cx, &pin_of(connection));
        }
    }
}

/// The entries that a switch should have for forwarding, and their rings.
fn forwarding(view: &View, node: NodeId, watching: bool) -> BTreeMap<Key, (Does, u32)> {
    let base = entry::base(watching).into_iter().map(|(key, does)| (key, (does, LAST)));
    let mut target: BTreeMap<Key, (Does, u32)> = base.collect();
    let mut ways: BTreeMap<NodeId, Option<(u32, u32)>> = BTreeMap::new();
    let mut way = |host: NodeId| {
        *ways.entry(host).or_insert_with(|| {
            let path = view.path((node, host), tree(host));
            let port = view.link(*path.first()?).port?;
            Some((port, u32::try_from(path.len()).unwrap_or(LAST - 1)))
        })
    };
    for (address, host) in view.addresses() {
        if let Some((port, ring)) = way(host) {
            target.insert(Key::to(address), (Does::Out(port), ring));
            target.insert(Key::asking_for(address), (Does::Out(port), ring));
        }
    }
    for (address, host) in view.ethernet() {
        if let Some((port, ring)) = way(host) {
            target.insert(Key::to_ethernet(address), (Does::Out(port), ring));
        }
    }
    target
}

fn pin_of(connection: &Connection) -> Key {
    Key::of(1, 300, connection)
}

/// The key of the tree to a host, apart from those of flows.
fn tree(host: NodeId) -> u64 {
    1 << 32 | u64::from(host.0)
}

#[cfg(test)]
mod tests {
    use model::{LinkId, NodeKind, Topology};
    use units::Time;

    use super::*;
    use crate::config::{HostConfig, PortConfig};
    use crate::fixture::config;
    use crate::view::Changed;

    const ADDRESS: core::net::IpAddr = core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));

    /// Two switches in a row, with a host behind the second.
    fn view() -> View {
        let mut config = config();
        let mut topology = Topology::new();
        let kinds = [NodeKind::Switch, NodeKind::Switch, NodeKind::Host];
        for (name, kind) in ["far", "near", "host"].into_iter().zip(kinds) {
            topology.add_node(name.into(), kind).expect("there is room");
        }
        for (a, b) in [(NodeId(0), NodeId(1)), (NodeId(1), NodeId(2))] {
            topology.connect(a, b, config.discovered, config.discovered).expect("both are there");
        }
        config.topology = topology;
        for (link, port) in [(0, 10), (1, 11), (2, 12)] {
            let (link, port) = (LinkId(link), Some(port));
            config.ports.push(PortConfig { link, port, interface: Default::default() });
        }
        let (addresses, ethernet) = (Vec::from([ADDRESS]), Vec::new());
        config.hosts.push(HostConfig { node: NodeId(2), addresses, ethernet });
        View::new(&mut config).expect("a view")
    }

    #[test]
    fn rings_go_from_the_host_outwards() {
        let mut view = view();
        let entry =
            |view: &View, node| forwarding(view, node, false).get(&Key::to(ADDRESS)).copied();
        assert_eq!(entry(&view, NodeId(1)), Some((Does::Out(12), 1)));
        assert_eq!(entry(&view, NodeId(0)), Some((Does::Out(10), 2)));
        view.set_port_up(LinkId(2), false);
        assert_eq!(view.settle(Time::ZERO), Some(Changed::State(LinkId(2), false)));
        assert_eq!(entry(&view, NodeId(0)), None, "no way, no entry");
    }

    #[test]
    fn a_plan_waits_for_what_is_under_way() {
        let mut rollout = Rollout::default();
        rollout.waiting.insert(NodeId(0));
        rollout.paths_changed();
        assert!(!rollout.wants_plan() && !rollout.is_settled(NodeId(1)));
        rollout.confirmed(NodeId(0));
        assert!(rollout.wants_plan() && rollout.take_moved() && !rollout.take_moved());
    }
}
