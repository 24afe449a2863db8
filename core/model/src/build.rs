//! Builders for the usual shapes. Hosts are named `h0`, `h1`, … in rack order.

use alloc::format;
use alloc::vec::Vec;

use crate::{Buffer, LinkSpec, NodeId, NodeKind, Topology, TopologyError};

/// How hosts hang on their switch: the switch's port towards the host, and the host's own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The cable and the switch port's queue.
    pub link: LinkSpec,
    /// Room in the host's transmit queue.
    pub nic: Buffer,
}

impl Access {
    /// The host's side of the cable: never marked, queued in the network card.
    fn uplink(&self) -> LinkSpec {
        LinkSpec { buffer: self.nic, mark: None, ..self.link }
    }
}

fn switch(topology: &mut Topology, name: &str, number: u32) -> Result<NodeId, TopologyError> {
    topology.add_node(format!("{name}{number}"), NodeKind::Switch)
}

fn hosts(
    topology: &mut Topology,
    count: u32,
    to: NodeId,
    access: &Access,
) -> Result<(), TopologyError> {
    let first = topology.hosts().count();
    for number in first..first + count as usize {
        let host = topology.add_node(format!("h{number}"), NodeKind::Host)?;
        topology.connect(host, to, access.uplink(), access.link)?;
    }
    Ok(())
}

fn at_least(count: u32, least: u32, rule: &'static str) -> Result<(), TopologyError> {
    if count < least || count as usize > Topology::MOST {
        return Err(TopologyError::Shape(rule));
    }
    Ok(())
}

/// Hosts around one switch `s0`: the big-switch model.
///
/// # Errors
/// Fewer than 2 hosts, a link without capacity, or too many nodes.
pub fn star(count: u32, access: &Access) -> Result<Topology, TopologyError> {
    at_least(count, 2, "a star has at least 2 hosts")?;
    let mut topology = Topology::new();
    let center = switch(&mut topology, "s", 0)?;
    hosts(&mut topology, count, center, access)?;
    Ok(topology)
}

/// Two switches with `left` and `right` hosts and one cable between them. Hosts on the left come
/// first. The dumbbell of congestion studies, and with 3 and 3 the two racks of Phurti's figure 3.1.
///
/// # Errors
/// A side without hosts, a link without capacity, or too many nodes.
pub fn dumbbell(
    left: u32,
    right: u32,
    access: &Access,
    core: &LinkSpec,
) -> Result<Topology, TopologyError> {
    at_least(left.min(right), 1, "a dumbbell has at least 1 host on each side")?;
    let mut topology = Topology::new();
    let s0 = switch(&mut topology, "s", 0)?;
    let s1 = switch(&mut topology, "s", 1)?;
    topology.connect(s0, s1, *core, *core)?;
    hosts(&mut topology, left, s0, access)?;
    hosts(&mut topology, right, s1, access)?;
    Ok(topology)
}

/// Leaves with hosts, each leaf cabled to every spine. Oversubscription is
/// `hosts_per_leaf · access / (spines · fabric)` and follows from the capacities given.
///
/// # Errors
/// No leaf, spine or host, a link without capacity, or too many nodes.
pub fn leaf_spine(
    leaves: u32,
    spines: u32,
    hosts_per_leaf: u32,
    access: &Access,
    fabric: &LinkSpec,
) -> Result<Topology, TopologyError> {
    at_least(
        leaves.min(spines).min(hosts_per_leaf),
        1,
        "a leaf-spine has at least 1 leaf, 1 spine and 1 host on each leaf",
    )?;
    let mut topology = Topology::new();
    let spines = number(&mut topology, "spine", spines)?;
    let leaves = number(&mut topology, "leaf", leaves)?;
    for &leaf in &leaves {
        for &spine in &spines {
            topology.connect(leaf, spine, *fabric, *fabric)?;
        }
    }
    for leaf in leaves {
        hosts(&mut topology, hosts_per_leaf, leaf, access)?;
    }
    Ok(topology)
}

/// Racks under aggregation routers under one core: each of `racks` edge switches, with hosts, is
/// cabled to the aggregation router that it shares with its `per_router - 1` neighbours, and each
/// router to the core.
///
/// # Errors
/// No rack, host or rack at a router, a link without capacity, or too many nodes.
pub fn racks(
    racks: u32,
    per_router: u32,
    hosts_per_rack: u32,
    access: &Access,
    uplink: &LinkSpec,
    core: &LinkSpec,
) -> Result<Topology, TopologyError> {
    at_least(
        racks.min(per_router).min(hosts_per_rack),
        1,
        "racks need at least 1 rack, 1 rack at each router and 1 host in each rack",
    )?;
    let mut topology = Topology::new();
    let top = switch(&mut topology, "core", 0)?;
    let routers = number(&mut topology, "agg", racks.div_ceil(per_router))?;
    let edges = number(&mut topology, "edge", racks)?;
    for router in &routers {
        topology.connect(*router, top, *core, *core)?;
    }
    for (group, router) in edges.chunks(per_router as usize).zip(&routers) {
        for edge in group {
            topology.connect(*edge, *router, *uplink, *uplink)?;
        }
    }
    for edge in edges {
        hosts(&mut topology, hosts_per_rack, edge, access)?;
    }
    Ok(topology)
}

/// The k-ary fat-tree of Al-Fares et al. (SIGCOMM 2008, section 3): k pods of k/2 edge and k/2
/// aggregation switches, (k/2)² core switches, k³/4 hosts.
///
/// # Errors
/// `k` odd, below 2 or above 64, or a link without capacity.
pub fn fat_tree(k: u32, access: &Access, fabric: &LinkSpec) -> Result<Topology, TopologyError> {
    if !(2..=64).contains(&k) || !k.is_multiple_of(2) {
        return Err(TopologyError::Shape("a fat-tree's k is an even number from 2 to 64"));
    }
    let half = k / 2;
    let mut topology = Topology::new();
    let cores = number(&mut topology, "core", half * half)?;
    let aggregations = number(&mut topology, "agg", k * half)?;
    let edges = number(&mut topology, "edge", k * half)?;
    let pods = edges.chunks(half as usize).zip(aggregations.chunks(half as usize));
    for (edges, aggregations) in pods {
        for (aggregation, cores) in aggregations.iter().zip(cores.chunks(half as usize)) {
            for core in cores {
                topology.connect(*aggregation, *core, *fabric, *fabric)?;
            }
            for edge in edges {
                topology.connect(*edge, *aggregation, *fabric, *fabric)?;
            }
        }
        for edge in edges {
            hosts(&mut topology, half, *edge, access)?;
        }
    }
    Ok(topology)
}

fn number(topology: &mut Topology, name: &str, count: u32) -> Result<Vec<NodeId>, TopologyError> {
    (0..count).map(|number| switch(topology, name, number)).collect()
}
