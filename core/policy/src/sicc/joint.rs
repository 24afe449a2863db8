//! Replicas chosen so that no part of the network is left to be waited for.
//!
//! A request can't end before its busiest link has carried its part: the front end's own link, on
//! which nothing can be changed, the uplinks of the aggregation routers and of the racks, and the
//! links of the hubs, through which all of a rack's objects go. Each object is taken from the one
//! of its replicas that keeps the largest of these times smallest.
//!
//! Largest objects first, each to the least loaded: with c choices the loads end within one object
//! and a few of each other, where the first replica leaves the largest at mean + √mean.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use model::{Network, NodeId, NodeKind, Request};
use units::{Bytes, Rate, Span};

use super::Racks;

/// The capacities of the links that a rack's objects share.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Of a rack's hub, its switch's uplinks, and the place of its aggregation router.
    racks: Vec<(Rate, Rate, usize)>,
    /// Of an aggregation router's links to what is no edge switch.
    routers: Vec<Rate>,
}

impl Limits {
    /// Those of a network with these racks.
    pub fn new(network: &Network, racks: &Racks) -> Self {
        let topology = network.topology();
        let mut hosts = vec![None; racks.count()];
        for host in topology.hosts() {
            if let Some(rack) = racks.of(host) {
                hosts[rack as usize].get_or_insert(host);
            }
        }
        let uplinks = |host: &Option<NodeId>| {
            let link = host.and_then(|host| topology.out(host).first().copied());
            link.map(|link| *topology.link(link))
        };
        let is_switch = |node: NodeId| topology.nodes()[node.index()].kind == NodeKind::Switch;
        let edges: Vec<NodeId> = hosts.iter().filter_map(uplinks).map(|link| link.to).collect();
        let up = |switch: NodeId| -> Rate {
            let links = topology.out(switch).iter().map(|link| topology.link(*link));
            let up = links.filter(|link| is_switch(link.to) && !edges.contains(&link.to));
            up.map(|link| link.spec.capacity).sum()
        };
        let mut routers: Vec<NodeId> =
            (0u32..).take(racks.count()).map(|rack| racks.router(rack)).collect();
        routers.sort_unstable();
        routers.dedup();
        let limits = |(rack, host): (u32, &Option<NodeId>)| {
            let own = uplinks(host);
            let hub = own.map_or(Rate::ZERO, |link| link.spec.capacity);
            let rack_up = own.map_or(Rate::ZERO, |link| up(link.to));
            (hub, rack_up, routers.binary_search(&racks.router(rack)).unwrap_or_default())
        };
        let racks = (0u32..).zip(&hosts).map(limits).collect();
        Self { racks, routers: routers.iter().map(|router| up(*router)).collect() }
    }
}

/// What is to be carried so far.
struct Work<'a> {
    racks: &'a Racks,
    limits: &'a Limits,
    by_rack: Vec<Bytes>,
    by_router: Vec<Bytes>,
}

impl<'a> Work<'a> {
    fn new(racks: &'a Racks, limits: &'a Limits) -> Self {
        Self {
            racks,
            limits,
            by_rack: vec![Bytes::ZERO; limits.racks.len()],
            by_router: vec![Bytes::ZERO; limits.routers.len()],
        }
    }

    /// The times that the rack of `holder` and its router would need with `size` more, the longest
    /// first.
    fn with(&self, holder: NodeId, size: Bytes) -> Option<[Span; 3]> {
        let rack = self.racks.of(holder)? as usize;
        let (hub, up, router) = self.limits.racks[rack];
        let time = |rate: Rate, bytes: Bytes| match rate {
            Rate::ZERO => Span::ZERO,
            rate => rate.time_for(bytes),
        };
        let bytes = self.by_rack[rack] + size;
        let beyond = time(self.limits.routers[router], self.by_router[router] + size);
        let mut times = [time(hub, bytes), time(up, bytes), beyond];
        times.sort_unstable_by_key(|time| Reverse(*time));
        Some(times)
    }

    fn add(&mut self, holder: NodeId, size: Bytes) {
        if let Some(rack) = self.racks.of(holder).map(|rack| rack as usize) {
            self.by_rack[rack] += size;
            self.by_router[self.limits.racks[rack].2] += size;
        }
    }
}

/// The first holder of each object.
pub fn first(request: &Request) -> Vec<NodeId> {
    let copies = request.copies.max(1);
    request.holders.chunks_exact(copies).filter_map(|all| all.first().copied()).collect()
}

/// The holder to ask for each object.
pub fn assign(request: &Request, racks: &Racks, limits: &Limits) -> Vec<NodeId> {
    let mut chosen = first(request);
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by_key(|object| Reverse(request.size(*object)));
    let mut work = Work::new(racks, limits);
    for object in order {
        let size = request.size(object);
        let holders = request.holders(object).iter().copied();
        let times = holders.filter_map(|holder| Some((work.with(holder, size)?, holder)));
        // The first of equals.
        if let Some((_, holder)) = times.min_by_key(|(times, _)| *times) {
            chosen[object] = holder;
        }
        work.add(chosen[object], size);
    }
    chosen
}

/// The time before which a request can't end when `holders` are asked, without what the front end's
/// own link needs.
pub fn bound(request: &Request, holders: &[NodeId], racks: &Racks, limits: &Limits) -> Span {
    let mut work = Work::new(racks, limits);
    for (object, holder) in holders.iter().enumerate() {
        work.add(*holder, request.size(object));
    }
    let longest = |holder: &NodeId| work.with(*holder, Bytes::ZERO).map(|times| times[0]);
    holders.iter().filter_map(longest).max().unwrap_or_default()
}
