//! A topology in operation: shortest paths, equal-cost choice, failed links.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use units::Rate;

use crate::{LinkId, LinkSpec, NodeId, NodeKind, Topology, TopologyError};

/// Hops to where no path leads.
const FAR: u16 = u16::MAX;

/// A topology with the paths that packets take through it now.
///
/// Paths are shortest in hops over the links that are up; hosts don't forward. Among equal next
/// hops a hash of the flow's key and the switch decides (ECMP), so that everyone who asks computes
/// the same path.
#[derive(Clone, Debug)]
pub struct Network {
    topology: Topology,
    up: Vec<bool>,
    /// By [`NodeId`]; `None` where no link leads.
    anchors: Vec<Option<Anchor>>,
    routers: Vec<Router>,
    /// Hops between routers, `distance[to · routers + from]`.
    distance: Vec<u16>,
}

/// Where a node touches the graph of routers. A host with a single cable is a leaf behind its
/// switch; every other node with links is a router itself. Routes are kept between routers only.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    router: u32,
    /// For a leaf, the links to and from its switch.
    cable: Option<(LinkId, LinkId)>,
}

#[derive(Clone, Debug)]
struct Router {
    node: NodeId,
    forwards: bool,
    /// Links to other routers, with the position of the router they lead to.
    out: Vec<(LinkId, u32)>,
}

impl Network {
    /// The network of `topology` with every link up.
    pub fn new(topology: Topology) -> Self {
        let up = vec![true; topology.links().len()];
        Self::with(topology, up)
    }

    fn with(topology: Topology, up: Vec<bool>) -> Self {
        let cables = cables(&topology);
        let mut linked = vec![false; topology.nodes().len()];
        for link in topology.links() {
            (linked[link.from.index()], linked[link.to.index()]) = (true, true);
        }
        let mut anchors: Vec<Option<Anchor>> = vec![None; topology.nodes().len()];
        let mut routers: Vec<Router> = Vec::new();
        for (number, node) in (0u32..).zip(topology.nodes()) {
            let at = number as usize;
            if linked[at] && cables[at].is_none() {
                anchors[at] = Some(Anchor { router: position(routers.len()), cable: None });
                let forwards = node.kind == NodeKind::Switch;
                routers.push(Router { node: NodeId(number), forwards, out: Vec::new() });
            }
        }
        for (number, cable) in cables.iter().enumerate() {
            if let Some((uplink, _)) = cable {
                let switch = anchors[topology.link(*uplink).to.index()];
                anchors[number] = switch.map(|switch| Anchor { cable: *cable, ..switch });
            }
        }
        for router in &mut routers {
            let links = topology.out(router.node).iter().map(|&id| (id, topology.link(id).to));
            let between = links.filter(|(_, to)| cables[to.index()].is_none());
            let anchored = between.filter_map(|(id, to)| Some((id, anchors[to.index()]?.router)));
            router.out = anchored.collect();
        }
        let mut network = Self { topology, up, anchors, routers, distance: Vec::new() };
        network.measure();
        network
    }

    /// Adds a node. No path leads there before a cable does.
    ///
    /// # Errors
    /// As [`Topology::add_node`].
    pub fn add_node(&mut self, name: String, kind: NodeKind) -> Result<NodeId, TopologyError> {
        let node = self.topology.add_node(name, kind)?;
        self.anchors.push(None);
        Ok(node)
    }

    /// As [`Topology::rename_node`].
    pub fn rename_node(&mut self, id: NodeId, name: String) {
        self.topology.rename_node(id, name);
    }

    /// Adds a cable as [`Topology::connect`] does; both its links are up. The first cable of a host leaves
    /// all other paths as they are and costs next to nothing; after any other all routes are made anew.
    ///
    /// # Errors
    /// As [`Topology::connect`].
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        there: LinkSpec,
        back: LinkSpec,
    ) -> Result<(LinkId, LinkId), TopologyError> {
        let (there, back) = self.topology.connect(a, b, there, back)?;
        self.up.extend([true, true]);
        if !self.hang(a, b, (there, back)) && !self.hang(b, a, (back, there)) {
            let topology = core::mem::take(&mut self.topology);
            *self = Self::with(topology, core::mem::take(&mut self.up));
        }
        Ok((there, back))
    }

    /// Makes a host a leaf behind a switch by its first cable, if that is what they are.
    fn hang(&mut self, host: NodeId, switch: NodeId, cable: (LinkId, LinkId)) -> bool {
        let is = |node: NodeId, kind| self.topology.nodes()[node.index()].kind == kind;
        let first = self.anchors[host.index()].is_none() && is(host, NodeKind::Host);
        let known = self.anchors[switch.index()].filter(|_| is(switch, NodeKind::Switch));
        let Some(router) = known.filter(|_| first) else {
            return false;
        };
        self.anchors[host.index()] = Some(Anchor { cable: Some(cable), ..router });
        true
    }

    /// The topology, failed links included.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether `link` carries traffic; a link that doesn't exist doesn't.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.up.get(link.index()).copied().unwrap_or(false)
    }

    /// Takes a link out of service or back. A link that doesn't exist is left alone.
    pub fn set_up(&mut self, link: LinkId, up: bool) {
        if let Some(state) = self.up.get_mut(link.index())
            && *state != up
        {
            *state = up;
            self.measure();
        }
    }

    /// Gives a link another capacity, at least 1 bit/s. Paths stay as they are; a link that doesn't exist
    /// is left alone.
    pub fn set_capacity(&mut self, link: LinkId, capacity: Rate) {
        self.topology.set_capacity(link, capacity);
    }

    /// `GET_PATH`: appends to `path` the links from `src` to `dst` for the flow of this `key`.
    /// Returns whether there is a path; when there is none, or the ends are equal or no nodes of
    /// this network, nothing is appended.
    pub fn path(&self, src: NodeId, dst: NodeId, key: u64, path: &mut Vec<LinkId>) -> bool {
        let start = path.len();
        let found = self.walk(src, dst, key, path).is_some();
        if !found {
            path.truncate(start);
        }
        found
    }

    fn walk(&self, src: NodeId, dst: NodeId, key: u64, path: &mut Vec<LinkId>) -> Option<()> {
        let (from, to) = ((*self.anchors.get(src.index())?)?, (*self.anchors.get(dst.index())?)?);
        if src == dst {
            return None;
        }
        if let Some((uplink, _)) = from.cable {
            path.push(self.is_up(uplink).then_some(uplink)?);
        }
        let row = &self.distance[to.router as usize * self.routers.len()..][..self.routers.len()];
        let mut at = from.router as usize;
        while at != to.router as usize {
            let nearer = row[at].checked_sub(1).filter(|_| row[at] != FAR)?;
            let ways = || {
                let out = self.routers[at].out.iter();
                out.filter(|(id, next)| {
                    row[*next as usize] == nearer
                        && self.is_up(*id)
                        && (nearer == 0 || self.routers[*next as usize].forwards)
                })
            };
            let choice = mix(key ^ ((at as u64 + 1) << 32)).checked_rem(ways().count() as u64)?;
            let (link, next) = ways().nth(usize::try_from(choice).ok()?)?;
            path.push(*link);
            at = *next as usize;
        }
        if let Some((_, downlink)) = to.cable {
            path.push(self.is_up(downlink).then_some(downlink)?);
        }
        Some(())
    }

    /// Breadth-first search from every router, against the direction of the links.
    fn measure(&mut self) {
        let count = self.routers.len();
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (from, router) in (0u32..).zip(&self.routers) {
            for (link, to) in &router.out {
                if self.up[link.index()] {
                    into[*to as usize].push(from);
                }
            }
        }
        self.distance.clear();
        self.distance.resize(count * count, FAR);
        let mut queue = VecDeque::new();
        for (target, row) in (0u32..).zip(self.distance.chunks_mut(count.max(1))) {
            row[target as usize] = 0;
            queue.push_back(target);
            while let Some(at) = queue.pop_front() {
                if at != target && !self.routers[at as usize].forwards {
                    continue;
                }
                let next = row[at as usize].saturating_add(1);
                for &from in &into[at as usize] {
                    if row[from as usize] == FAR {
                        row[from as usize] = next;
                        queue.push_back(from);
                    }
                }
            }
        }
    }
}

/// For each node that is a host with one link out and one in, both to the same switch: the two.
fn cables(topology: &Topology) -> Vec<Option<(LinkId, LinkId)>> {
    let mut into: Vec<Vec<LinkId>> = vec![Vec::new(); topology.nodes().len()];
    for (number, link) in (0u32..).zip(topology.links()) {
        into[link.to.index()].push(LinkId(number));
    }
    let cable = |host: NodeId| {
        let (&[uplink], &[downlink]) = (topology.out(host), &into[host.index()][..]) else {
            return None;
        };
        let switch = topology.link(uplink).to;
        let is_switch = topology.nodes()[switch.index()].kind == NodeKind::Switch;
        (is_switch && topology.link(downlink).from == switch).then_some((uplink, downlink))
    };
    let mut cables = vec![None; topology.nodes().len()];
    for host in topology.hosts() {
        cables[host.index()] = cable(host);
    }
    cables
}

/// `CHECK_PATH`: whether two paths share a directed link (Phurti, section 5.2).
pub fn interfere(a: &[LinkId], b: &[LinkId]) -> bool {
    a.iter().any(|link| b.contains(link))
}

/// A position in a table no longer than [`Topology::MOST`].
#[allow(clippy::cast_possible_truncation)]
const fn position(index: usize) -> u32 {
    index as u32
}

/// Spreads every input bit over the output (the 64-bit finaliser of MurmurHash3).
const fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}
