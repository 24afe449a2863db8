//! The usual shapes: counts, names, capacities, and what the builders refuse.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeSet;

use units::{Bytes, Rate, Span};
use watermaster_model::build::{Access, dumbbell, fat_tree, leaf_spine, star};
use watermaster_model::{Buffer, LinkSpec, NodeKind, Topology, TopologyError};

const EDGE: LinkSpec = LinkSpec {
    capacity: Rate::from_mbps(1_000),
    delay: Span::from_micros(5),
    buffer: Buffer::Packets(100),
    mark: Some(20),
};

const FABRIC: LinkSpec = LinkSpec { capacity: Rate::from_mbps(10_000), ..EDGE };

const ACCESS: Access = Access { link: EDGE, nic: Buffer::Bytes(Bytes::new(1_000_000)) };

/// Hosts, switches and cables; each cable is a link each way, each name is unique, and each host
/// hangs on one switch.
fn counts(topology: &Topology) -> (usize, usize, usize) {
    let hosts = topology.hosts().count();
    let nodes = topology.nodes();
    let switches = nodes.iter().filter(|n| n.kind == NodeKind::Switch).count();
    assert_eq!(hosts + switches, nodes.len());
    let names: BTreeSet<_> = nodes.iter().map(|node| &node.name).collect();
    assert_eq!(names.len(), nodes.len());
    for link in topology.links() {
        assert!(topology.link_between(link.to, link.from).is_some());
    }
    for (number, host) in topology.hosts().enumerate() {
        assert_eq!(topology.nodes()[host.index()].name, format!("h{number}"));
        let [uplink] = topology.out(host) else {
            panic!("host {number} has one cable");
        };
        let switch = topology.link(*uplink).to;
        assert_eq!(topology.nodes()[switch.index()].kind, NodeKind::Switch);
        let downlink = topology.link_between(switch, host).unwrap();
        assert_eq!(topology.link(downlink).spec, EDGE);
        let nic = LinkSpec { buffer: ACCESS.nic, mark: None, ..EDGE };
        assert_eq!(topology.link(*uplink).spec, nic);
    }
    assert!(topology.links().len().is_multiple_of(2));
    (hosts, switches, topology.links().len() / 2)
}

/// The switch that `host` hangs on, by name.
fn switch_of<'a>(topology: &'a Topology, host: &str) -> &'a str {
    let host = topology.node_named(host).unwrap();
    let switch = topology.link(topology.out(host)[0]).to;
    &topology.nodes()[switch.index()].name
}

/// Capacity out of the node of that name, of all links with that capacity.
fn capacity_out(topology: &Topology, name: &str, each: Rate) -> Rate {
    let out = topology.out(topology.node_named(name).unwrap()).iter();
    let capacities = out.map(|&link| topology.link(link).spec.capacity);
    capacities.filter(|capacity| *capacity == each).sum()
}

#[test]
fn a_star() {
    let topology = star(5, &ACCESS).unwrap();
    assert_eq!(counts(&topology), (5, 1, 5));
    assert_eq!(switch_of(&topology, "h4"), "s0");
}

#[test]
fn a_dumbbell() {
    let topology = dumbbell(3, 2, &ACCESS, &FABRIC).unwrap();
    assert_eq!(counts(&topology), (5, 2, 6));
    assert_eq!(switch_of(&topology, "h2"), "s0");
    assert_eq!(switch_of(&topology, "h3"), "s1");
    assert_eq!(capacity_out(&topology, "s0", FABRIC.capacity), FABRIC.capacity);
    assert_eq!(capacity_out(&topology, "s1", FABRIC.capacity), FABRIC.capacity);
}

/// 4 leaves of 30 hosts at 1 Gbit/s and 3 spines at 10 Gbit/s: 30 Gbit/s in, 30 Gbit/s up.
#[test]
fn a_leaf_spine_without_oversubscription() {
    let topology = leaf_spine(4, 3, 30, &ACCESS, &FABRIC).unwrap();
    assert_eq!(counts(&topology), (120, 7, 120 + 12));
    assert_eq!(switch_of(&topology, "h0"), "leaf0");
    assert_eq!(switch_of(&topology, "h119"), "leaf3");
    for leaf in ["leaf0", "leaf3"] {
        let down = capacity_out(&topology, leaf, EDGE.capacity);
        let up = capacity_out(&topology, leaf, FABRIC.capacity);
        assert_eq!((down, up), (Rate::from_mbps(30_000), Rate::from_mbps(30_000)));
    }
    let spine = capacity_out(&topology, "spine2", FABRIC.capacity);
    assert_eq!(spine, Rate::from_mbps(40_000));
}

/// 40 hosts at 1 Gbit/s over one spine at 10 Gbit/s: oversubscribed 4 to 1.
#[test]
fn a_leaf_spine_with_oversubscription() {
    let topology = leaf_spine(2, 1, 40, &ACCESS, &FABRIC).unwrap();
    let down = capacity_out(&topology, "leaf0", EDGE.capacity);
    let up = capacity_out(&topology, "leaf0", FABRIC.capacity);
    assert_eq!(down, up + up + up + up);
}

/// k = 4: 16 hosts, 4 core + 8 aggregation + 8 edge switches, 16 cables on each of three levels.
#[test]
fn a_fat_tree_of_4() {
    let topology = fat_tree(4, &ACCESS, &FABRIC).unwrap();
    assert_eq!(counts(&topology), (16, 20, 48));
    assert_eq!(switch_of(&topology, "h15"), "edge7");
    let neighbours = |name: &str| -> Vec<&str> {
        let out = topology.out(topology.node_named(name).unwrap()).iter();
        let mut names: Vec<&str> =
            out.map(|&link| &*topology.nodes()[topology.link(link).to.index()].name).collect();
        names.sort_unstable();
        names
    };
    // Each core switch reaches each pod once; the aggregation switches of a pod share no core.
    assert_eq!(neighbours("core0"), ["agg0", "agg2", "agg4", "agg6"]);
    assert_eq!(neighbours("core3"), ["agg1", "agg3", "agg5", "agg7"]);
    assert_eq!(neighbours("agg0"), ["core0", "core1", "edge0", "edge1"]);
    assert_eq!(neighbours("edge1"), ["agg0", "agg1", "h2", "h3"]);
}

/// k³/4 hosts, 5k²/4 switches, 3k³/4 cables.
#[test]
fn fat_trees_by_formula() {
    for k in [2, 6, 8, 16] {
        let topology = fat_tree(k, &ACCESS, &FABRIC).unwrap();
        let k = k as usize;
        let expected = (k.pow(3) / 4, 5 * k * k / 4, 3 * k.pow(3) / 4);
        assert_eq!(counts(&topology), expected);
    }
}

#[test]
fn shapes_that_can_not_be_are_refused() {
    let shape = |result: Result<Topology, TopologyError>| {
        assert!(matches!(result, Err(TopologyError::Shape(_))), "{result:?}");
    };
    shape(star(1, &ACCESS));
    shape(star(u32::MAX, &ACCESS));
    shape(dumbbell(0, 3, &ACCESS, &FABRIC));
    shape(leaf_spine(2, 0, 3, &ACCESS, &FABRIC));
    for k in [0, 1, 3, 66, u32::MAX] {
        shape(fat_tree(k, &ACCESS, &FABRIC));
    }
    let dead = LinkSpec { capacity: Rate::ZERO, ..FABRIC };
    let error = dumbbell(1, 1, &ACCESS, &dead).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the link from node 0 to node 1 has no capacity; give it one above zero"
    );
}
