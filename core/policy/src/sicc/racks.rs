//! Which rack a server stands in, and which aggregation router a rack hangs on: flat tables, made
//! once for a network, so that the tree of a request costs a look-up per server.

use alloc::vec;
use alloc::vec::Vec;

use model::{LinkId, Network, NodeId, NodeKind};
use units::Rate;

/// Not a host, or one without a switch.
const NONE: u32 = u32::MAX;

/// Racks, numbered from 0 by their edge switch's number.
#[derive(Clone, Debug, Default)]
pub struct Racks {
    /// By node.
    rack: Vec<u32>,
    /// By node: what its link carries.
    link: Vec<Rate>,
    /// By rack.
    router: Vec<NodeId>,
}

impl Racks {
    /// The racks of a network. A host is in the rack of the first switch it is cabled to; a rack's
    /// aggregation router is the first switch that its own is cabled to, or its own.
    pub fn new(network: &Network) -> Self {
        let topology = network.topology();
        let switch_at = |node: NodeId| {
            let ends = topology.out(node).iter().map(|link: &LinkId| topology.link(*link).to);
            ends.into_iter().find(|end| topology.nodes()[end.index()].kind == NodeKind::Switch)
        };
        let mut edges: Vec<NodeId> = topology.hosts().filter_map(switch_at).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut rack = vec![NONE; topology.nodes().len()];
        let mut link = vec![Rate::ZERO; rack.len()];
        for host in topology.hosts() {
            let first = topology.out(host).first();
            link[host.index()] = first.map_or(Rate::ZERO, |l| topology.link(*l).spec.capacity);
            let edge = switch_at(host).and_then(|edge| edges.binary_search(&edge).ok());
            rack[host.index()] = edge.and_then(|edge| u32::try_from(edge).ok()).unwrap_or(NONE);
        }
        let router = edges.iter().map(|edge| switch_at(*edge).unwrap_or(*edge)).collect();
        Self { rack, link, router }
    }

    /// The rack of a server; `None` for what is no server of this network.
    pub fn of(&self, server: NodeId) -> Option<u32> {
        self.rack.get(server.index()).copied().filter(|rack| *rack != NONE)
    }

    /// What a server can send at most: the rate of its link.
    pub fn link(&self, server: NodeId) -> Rate {
        self.link.get(server.index()).copied().unwrap_or_default()
    }

    /// How many racks there are.
    pub const fn count(&self) -> usize {
        self.router.len()
    }

    /// How many nodes the network has.
    pub const fn nodes(&self) -> usize {
        self.rack.len()
    }

    /// The aggregation router of a rack.
    ///
    /// # Panics
    /// When there is no such rack.
    pub fn router(&self, rack: u32) -> NodeId {
        self.router[rack as usize]
    }
}
