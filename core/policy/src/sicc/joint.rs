//! Replicas chosen so that no part of the network is left to be waited for.
//!
//! A request can't end before its busiest link has carried its part: the front end's own link, on
//! which nothing can be changed, the uplinks of the aggregation routers and of the racks, and the
//! links of the hubs, through which all of a rack's objects go, and servers of which the front end
//! knows that they are slower than their link. Each object is taken from the one of its replicas
//! that keeps the largest of these times smallest.
//!
//! Largest objects first, each to the least loaded: with c choices the loads end within one object
//! and a few of each other, where the first replica leaves the largest at mean + √mean.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use model::{LEAST_RATE, Link, Network, NodeId, NodeKind, Request};
use units::{Bytes, Rate, Span};

use super::Racks;

/// Picoseconds that an octet takes on the links that a rack's objects share; zero doesn't limit.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// On the slower of the hub's link and the rack's uplinks, and the place of the rack's
    /// aggregation router.
    racks: Vec<(u64, usize)>,
    /// On an aggregation router's links to what is no edge switch.
    routers: Vec<u64>,
}

impl Limits {
    /// Those of a network with these racks.
    pub fn new(network: &Network, racks: &Racks) -> Self {
        let topology = network.topology();
        let mut hubs: Vec<Option<Link>> = vec![None; racks.count()];
        for host in topology.hosts() {
            if let (Some(rack), Some(link)) = (racks.of(host), topology.out(host).first()) {
                hubs[rack as usize].get_or_insert(*topology.link(*link));
            }
        }
        let mut is_edge = vec![false; topology.nodes().len()];
        hubs.iter().flatten().for_each(|link| is_edge[link.to.index()] = true);
        let is_above = |node: NodeId| {
            topology.nodes()[node.index()].kind == NodeKind::Switch && !is_edge[node.index()]
        };
        let up = |switch: NodeId| -> Rate {
            let links = topology.out(switch).iter().map(|link| topology.link(*link));
            links.filter(|link| is_above(link.to)).map(|link| link.spec.capacity).sum()
        };
        let mut routers: Vec<NodeId> =
            (0u32..).take(racks.count()).map(|rack| racks.router(rack)).collect();
        routers.sort_unstable();
        routers.dedup();
        let rack = |(rack, hub): (u32, &Option<Link>)| {
            let own = hub.map_or(0, |link| octet(link.spec.capacity).max(octet(up(link.to))));
            (own, routers.binary_search(&racks.router(rack)).unwrap_or_default())
        };
        let racks = (0u32..).zip(&hubs).map(rack).collect();
        Self { racks, routers: routers.iter().map(|router| octet(up(*router))).collect() }
    }
}

/// Picoseconds that an octet takes, rounded up.
fn octet(rate: Rate) -> u64 {
    match rate {
        Rate::ZERO => 0,
        rate => rate.time_for(Bytes::new(1000)).as_nanos(),
    }
}

/// What is to be carried so far.
struct Work<'a> {
    racks: &'a Racks,
    limits: &'a Limits,
    by_rack: Vec<u64>,
    by_router: Vec<u64>,
    /// Of servers that are slower than their link: what an octet takes, and their work.
    slow: BTreeMap<NodeId, (u64, u64)>,
}

impl<'a> Work<'a> {
    fn new(request: &Request, racks: &'a Racks, limits: &'a Limits) -> Self {
        let least = |spare: Rate| octet(spare.max(LEAST_RATE));
        let slow = request.spare.iter().map(|(server, spare)| (*server, (least(*spare), 0)));
        Self {
            racks,
            limits,
            slow: slow.collect(),
            by_rack: vec![0; limits.racks.len()],
            by_router: vec![0; limits.routers.len()],
        }
    }

    /// The picoseconds that the rack of `holder`, its router and itself would need with `size` more,
    /// the longest first.
    fn with(&self, holder: NodeId, size: Bytes) -> Option<[u64; 3]> {
        let rack = self.racks.of(holder)? as usize;
        let (own, router) = self.limits.racks[rack];
        let time = |bytes: u64, octet: u64| bytes.saturating_add(size.get()).saturating_mul(octet);
        let within = time(self.by_rack[rack], own);
        let beyond = time(self.by_router[router], self.limits.routers[router]);
        let alone = self.slow.get(&holder).map_or(0, |(octet, bytes)| time(*bytes, *octet));
        let mut times = [within, beyond, alone];
        times.sort_unstable_by_key(|time| Reverse(*time));
        Some(times)
    }

    fn add(&mut self, holder: NodeId, size: Bytes) {
        if let Some(rack) = self.racks.of(holder).map(|rack| rack as usize) {
            let router = self.limits.racks[rack].1;
            self.by_rack[rack] = self.by_rack[rack].saturating_add(size.get());
            self.by_router[router] = self.by_router[router].saturating_add(size.get());
            if let Some((_, bytes)) = self.slow.get_mut(&holder) {
                *bytes = bytes.saturating_add(size.get());
            }
        }
    }
}

/// Into how many parts, each with a hub, racks are divided so that there are at most `most` hubs:
/// what goes through one hub hangs on one server. At least one.
pub fn parts(racks: &Racks, servers: impl Iterator<Item = NodeId>, most: u32) -> u32 {
    let mut sizes = vec![0u32; racks.count()];
    servers.filter_map(|server| racks.of(server)).for_each(|rack| sizes[rack as usize] += 1);
    let used = sizes.iter().filter(|size| **size > 0).count();
    let largest = sizes.iter().copied().max().unwrap_or_default().max(1);
    (most / u32::try_from(used).unwrap_or(u32::MAX).max(1)).clamp(1, largest)
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
    let mut work = Work::new(request, racks, limits);
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
    let mut work = Work::new(request, racks, limits);
    for (object, holder) in holders.iter().enumerate() {
        work.add(*holder, request.size(object));
    }
    let longest = |holder: &NodeId| work.with(*holder, Bytes::ZERO).map(|times| times[0]);
    Span::from_nanos(holders.iter().filter_map(longest).max().unwrap_or_default() / 1000)
}
