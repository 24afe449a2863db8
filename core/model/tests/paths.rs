//! Paths: shortest, spread over equal ones, stable, around failures, never through a host.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use units::{Rate, Span};
use watermaster_model::build::{Access, dumbbell, fat_tree, leaf_spine, star};
use watermaster_model::{Buffer, LinkId, LinkSpec, Network, NodeId, NodeKind, Topology, interfere};

const SPEC: LinkSpec = LinkSpec {
    capacity: Rate::from_mbps(100),
    delay: Span::ZERO,
    buffer: Buffer::Unlimited,
    mark: None,
};

const ACCESS: Access = Access { link: SPEC, nic: Buffer::Unlimited };

fn path(network: &Network, src: NodeId, dst: NodeId, key: u64) -> Option<Vec<LinkId>> {
    let mut path = Vec::new();
    let found = network.path(src, dst, key, &mut path);
    assert_eq!(found, !path.is_empty());
    found.then_some(path)
}

fn named(network: &Network, name: &str) -> NodeId {
    network.topology().node_named(name).unwrap()
}

/// The names of the nodes on a path.
fn route(network: &Network, src: &str, dst: &str, key: u64) -> Vec<String> {
    let found = path(network, named(network, src), named(network, dst), key);
    let links = found.unwrap_or_default();
    let ends = links.iter().map(|&link| network.topology().link(link).to);
    ends.map(|node| network.topology().nodes()[node.index()].name.clone()).collect()
}

#[test]
fn paths_in_two_racks() {
    let network = Network::new(dumbbell(3, 3, &ACCESS, &SPEC).unwrap());
    assert_eq!(route(&network, "h0", "h2", 7), ["s0", "h2"]);
    assert_eq!(route(&network, "h0", "h3", 7), ["s0", "s1", "h3"]);
    assert_eq!(route(&network, "h0", "s1", 7), ["s0", "s1"]);
}

#[test]
fn no_path_to_oneself_nor_to_what_does_not_exist() {
    let network = Network::new(star(2, &ACCESS).unwrap());
    let mut kept = vec![LinkId(9)];
    for (src, dst) in [(1, 1), (0, 99), (99, 0), (u32::MAX, u32::MAX)] {
        assert!(!network.path(NodeId(src), NodeId(dst), 0, &mut kept));
    }
    assert_eq!(kept, [LinkId(9)], "the caller's links stay");
    assert!(!network.is_up(LinkId(u32::MAX)));
}

/// 3000 keys over 3 spines: 1000 each, with a standard deviation of 26 if they fell at random.
#[test]
fn keys_spread_evenly_and_stay() {
    let network = Network::new(leaf_spine(2, 3, 2, &ACCESS, &SPEC).unwrap());
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    for key in 0..3000 {
        let hops = route(&network, "h0", "h2", key);
        assert_eq!(hops.len(), 4);
        assert_eq!(hops, route(&network.clone(), "h0", "h2", key));
        *used.entry(hops[1].clone()).or_default() += 1;
    }
    assert_eq!(used.len(), 3);
    assert!(used.values().all(|count| (870..=1130).contains(count)), "{used:?}");
}

/// Two choices in a row, at the edge and at the aggregation, don't follow each other: all four core
/// switches carry their share.
#[test]
fn choices_in_a_row_are_independent() {
    let network = Network::new(fat_tree(4, &ACCESS, &SPEC).unwrap());
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    for key in 0..4000 {
        let hops = route(&network, "h0", "h15", key);
        assert_eq!(hops.len(), 6);
        *used.entry(hops[2].clone()).or_default() += 1;
    }
    assert_eq!(used.len(), 4);
    assert!(used.values().all(|count| (850..=1150).contains(count)), "{used:?}");
}

#[test]
fn failures_are_avoided_and_forgotten() {
    let mut network = Network::new(leaf_spine(2, 2, 1, &ACCESS, &SPEC).unwrap());
    let all = |network: &Network| -> Vec<Vec<String>> {
        (0..100).map(|key| route(network, "h0", "h1", key)).collect()
    };
    let before = all(&network);
    let (leaf, spine) = (named(&network, "leaf0"), named(&network, "spine0"));
    let link = network.topology().link_between(leaf, spine).unwrap();
    network.set_up(link, false);
    assert!(!network.is_up(link));
    assert!(all(&network).iter().all(|hops| hops[1] == "spine1"));
    // The link fails in one direction only.
    let back = (0..100).map(|key| route(&network, "h1", "h0", key));
    assert!(back.into_iter().any(|hops| hops[1] == "spine0"));
    network.set_up(link, true);
    assert_eq!(all(&network), before);

    let uplink = network.topology().out(named(&network, "h0"))[0];
    network.set_up(uplink, false);
    assert_eq!(path(&network, named(&network, "h0"), named(&network, "h1"), 0), None);
    assert!(path(&network, named(&network, "h1"), named(&network, "h0"), 0).is_some());
    network.set_up(LinkId(u32::MAX), false);
}

/// A host with two cables is no bridge between its switches, but reaches and is reached over both.
#[test]
fn hosts_never_forward() {
    let mut topology = Topology::new();
    let mut add = |name: &str, kind| topology.add_node(name.to_owned(), kind).unwrap();
    let (a, b) = (add("a", NodeKind::Host), add("b", NodeKind::Host));
    let (s, t) = (add("s", NodeKind::Switch), add("t", NodeKind::Switch));
    let both = add("both", NodeKind::Host);
    for (x, y) in [(a, s), (s, both), (both, t), (t, b)] {
        topology.connect(x, y, SPEC, SPEC).unwrap();
    }
    let network = Network::new(topology.clone());
    assert_eq!(path(&network, a, b, 0), None);
    assert_eq!(route(&network, "a", "both", 0), ["s", "both"]);
    assert_eq!(route(&network, "both", "b", 0), ["t", "b"]);

    // A switch beside it makes a way of equal length: every key takes the switch.
    let u = topology.add_node("u".to_owned(), NodeKind::Switch).unwrap();
    topology.connect(s, u, SPEC, SPEC).unwrap();
    topology.connect(u, t, SPEC, SPEC).unwrap();
    let network = Network::new(topology);
    for key in 0..20 {
        assert_eq!(route(&network, "a", "b", key), ["s", "u", "t", "b"]);
    }
}

#[test]
fn a_cable_that_cannot_be_is_left_out_in_both_directions() {
    let mut network = Network::new(star(2, &ACCESS).unwrap());
    let [h0, h1] = ["h0", "h1"].map(|name| named(&network, name));
    let none = LinkSpec { capacity: Rate::ZERO, ..SPEC };
    let before = network.topology().links().len();
    assert!(network.connect(h0, h1, SPEC, none).is_err());
    assert_eq!(network.topology().links().len(), before);
    assert_eq!(network.topology().out(h0).len(), 1);
}

/// Phurti, figure 5.2: N1→S1 is shared by flows 1 and 2; flow 3 comes back over the same cable.
#[test]
fn interference_is_by_direction() {
    let network = Network::new(dumbbell(3, 3, &ACCESS, &SPEC).unwrap());
    let between = |src: &str, dst: &str| {
        path(&network, named(&network, src), named(&network, dst), 0).unwrap()
    };
    let (flow1, flow2, flow3) = (between("h0", "h1"), between("h0", "h4"), between("h4", "h0"));
    assert!(interfere(&flow1, &flow2));
    assert!(!interfere(&flow1, &flow3));
    assert!(!interfere(&flow2, &flow3));
    assert!(interfere(&between("h1", "h3"), &between("h2", "h5")), "in the core");
    assert!(!interfere(&flow1, &[]));
}

/// Hops from `src` to `dst` over links that are up, hosts not forwarding: breadth-first search.
fn hops(network: &Network, src: NodeId, dst: NodeId) -> Option<usize> {
    let topology = network.topology();
    let mut seen = BTreeSet::from([src]);
    let mut queue = VecDeque::from([(src, 0)]);
    while let Some((at, count)) = queue.pop_front() {
        if at == dst {
            return Some(count);
        }
        if at != src && topology.nodes()[at.index()].kind == NodeKind::Host {
            continue;
        }
        for &link in topology.out(at) {
            let to = topology.link(link).to;
            if network.is_up(link) && seen.insert(to) {
                queue.push_back((to, count + 1));
            }
        }
    }
    None
}

proptest! {
    /// Hosts and switches that come one by one, and cables between them, make the same network as all
    /// at once.
    #[test]
    fn a_network_that_grows_is_the_same_as_one_made_anew(
        hosts in prop::collection::vec(prop::bool::weighted(0.6), 2..10),
        cables in prop::collection::vec((0..10usize, 0..10usize), 0..12),
        down in prop::collection::vec(0..24u32, 0..4),
        key in any::<u64>(),
    ) {
        let mut network = Network::new(Topology::new());
        let mut nodes = Vec::new();
        let (mut left, mut failures) = (hosts.iter().enumerate(), down.iter().copied());
        for (a, b) in cables {
            // Some nodes come when others have cables already.
            while nodes.len() <= a.max(b).min(hosts.len() - 1) {
                let (number, host) = left.next().unwrap();
                let kind = if *host { NodeKind::Host } else { NodeKind::Switch };
                nodes.push(network.add_node(format!("n{number}"), kind).unwrap());
            }
            let (a, b) = (nodes[a % nodes.len()], nodes[b % nodes.len()]);
            if a != b {
                let (there, back) = network.connect(a, b, SPEC, SPEC).unwrap();
                prop_assert!(network.is_up(there) && network.is_up(back));
                prop_assert_eq!(network.topology().link(back).from, b);
            }
            if let Some(link) = failures.next() {
                network.set_up(LinkId(link), false);
            }
        }
        let mut anew = Network::new(network.topology().clone());
        for link in (0u32..).take(network.topology().links().len()).map(LinkId) {
            anew.set_up(link, network.is_up(link));
        }
        for (src, dst) in nodes.iter().flat_map(|src| nodes.iter().map(move |dst| (*src, *dst))) {
            prop_assert_eq!(path(&network, src, dst, key), path(&anew, src, dst, key));
        }
    }

    #[test]
    fn paths_are_valid_and_shortest(
        hosts in prop::collection::vec(prop::bool::weighted(0.4), 2..10),
        cables in prop::collection::vec((0..10usize, 0..10usize, prop::bool::weighted(0.9)), 0..25),
        down in prop::collection::vec(0..50u32, 0..8),
        key in any::<u64>(),
    ) {
        let mut topology = Topology::new();
        for (number, host) in hosts.iter().enumerate() {
            let kind = if *host { NodeKind::Host } else { NodeKind::Switch };
            topology.add_node(format!("n{number}"), kind).unwrap();
        }
        let node = |number: usize| NodeId(u32::try_from(number % hosts.len()).unwrap());
        for (a, b, both_ways) in cables {
            let (a, b) = (node(a), node(b));
            if a != b {
                topology.add_link(a, b, SPEC).unwrap();
                if both_ways {
                    topology.add_link(b, a, SPEC).unwrap();
                }
            }
        }
        let mut network = Network::new(topology);
        for link in down {
            network.set_up(LinkId(link), false);
        }
        for src in (0..hosts.len()).map(node) {
            for dst in (0..hosts.len()).map(node) {
                let found = path(&network, src, dst, key);
                let expected = hops(&network, src, dst).filter(|_| src != dst);
                prop_assert_eq!(found.as_ref().map(Vec::len), expected, "{:?} to {:?}", src, dst);
                let mut at = src;
                for id in found.into_iter().flatten() {
                    let link = network.topology().link(id);
                    prop_assert_eq!(link.from, at);
                    prop_assert!(network.is_up(id));
                    let kind = network.topology().nodes()[at.index()].kind;
                    prop_assert!(at == src || kind == NodeKind::Switch);
                    at = link.to;
                }
                prop_assert!(expected.is_none() || at == dst);
            }
        }
    }
}
