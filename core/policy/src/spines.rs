//! The middle of a two-layer Clos network as parallel links of a host's rate.
//!
//! Source: sync-vs-async, section II: a link that is f times as fast as a host's counts as f disjoint unit
//! links, so that a colour of the edge colouring is a unit link up to a spine and down from it.

use alloc::vec;
use alloc::vec::Vec;

use model::{Network, NodeId, NodeKind};
use units::Rate;

/// Unit links through spines, as far as they are up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spines {
    /// Number of each node's leaf among the leaves; `None` for switches and hosts without.
    leaf_of: Vec<Option<usize>>,
    pub(crate) leaves: usize,
    /// The spine of each unit link, taking turns, so that few packets spread over many.
    pub(crate) units: Vec<NodeId>,
}

impl Spines {
    /// The spines of `network`: the switches that link every leaf with every other. Leaves are the
    /// switches with hosts. None are found in a network of another shape.
    pub(crate) fn of(network: &Network) -> Self {
        let topology = network.topology();
        let nodes = topology.nodes().len();
        let is_host = |node: NodeId| topology.nodes()[node.index()].kind == NodeKind::Host;
        let up = |node: NodeId| {
            let links = topology.out(node).iter().filter(|&&link| network.is_up(link));
            links.map(|&link| topology.link(link))
        };
        let mut leaf_of = vec![None; nodes];
        let mut number_of = vec![None; nodes];
        let mut leaves: Vec<NodeId> = Vec::new();
        let mut unit = Rate::ZERO;
        for host in topology.hosts() {
            let Some(link) = up(host).next() else { continue };
            unit = unit.max(link.spec.capacity);
            let number = *number_of[link.to.index()].get_or_insert_with(|| {
                leaves.push(link.to);
                leaves.len() - 1
            });
            leaf_of[host.index()] = Some(number);
        }
        // Unit links between each spine and the leaf that has fewest to it or from it.
        let between = |from: NodeId, to: NodeId| -> u64 {
            let links = up(from).filter(|link| link.to == to);
            links.map(|l| l.spec.capacity.as_bps().checked_div(unit.as_bps()).unwrap_or(0)).sum()
        };
        let spines = (0..nodes).filter_map(|number| {
            let spine = NodeId(u32::try_from(number).ok()?);
            if is_host(spine) || number_of[number].is_some() || leaves.len() < 2 {
                return None;
            }
            let ways = leaves.iter().map(|&leaf| between(leaf, spine).min(between(spine, leaf)));
            let units = ways.min().filter(|units| *units > 0)?;
            Some((spine, units))
        });
        let mut spines: Vec<(NodeId, u64)> = spines.collect();
        let mut units = Vec::new();
        while !spines.is_empty() && units.len() < MOST {
            spines.retain_mut(|(spine, left)| {
                units.push(*spine);
                *left -= 1;
                *left > 0
            });
        }
        Self { leaf_of, leaves: leaves.len(), units }
    }

    /// The leaves of a packet's two ends, when they differ.
    pub(crate) fn between(&self, src: usize, dst: usize) -> Option<(usize, usize)> {
        let leaf = |node: usize| self.leaf_of.get(node).copied().flatten();
        let (from, to) = (leaf(src)?, leaf(dst)?);
        (from != to).then_some((from, to))
    }
}

/// Most unit links: more than any port has.
const MOST: usize = 1 << 12;
