//! Matching, colouring, and `syn` over them.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeMap;

use crate::desk::{access, spec, tell};
use model::build::leaf_spine;
use model::{Directive, Directives, Measured, Network, NodeId, Observation};
use proptest::prelude::*;
use units::{Bytes, Rate, Time};
use watermaster_policy::colouring::Colouring;
use watermaster_policy::matching::{Claim, Matcher, Served};
use watermaster_policy::syn::{Arbiter, Order};
use watermaster_policy::{Parameters, by_name};

/// By hand: A→X is first and takes the slot, B→X finds X taken, B→Y is free, A→Y finds A taken.
#[test]
fn a_slot_goes_to_the_first_of_each_port() {
    let mut matcher = Matcher::new(2);
    for (key, src, dst) in [(3, 1, 1), (1, 0, 0), (2, 1, 0), (0, 9, 0)] {
        matcher.enter(Claim { key, src, dst, queue: 0 });
    }
    let mut served = Vec::new();
    matcher.fill(1, |claim, slots| {
        served.push((claim.src, claim.dst));
        Served { slots, key: None }
    });
    assert_eq!(served, [(0, 0), (1, 1)], "and a port that doesn't exist is never served");
    served.clear();
    matcher.fill(1, |claim, slots| {
        served.push((claim.src, claim.dst));
        Served { slots, key: None }
    });
    assert_eq!(served, [(1, 0)]);
    assert!(matcher.is_empty());
}

/// Both send to the same host. One had a slot at 10 and asks again at 12, the other for the first time at 13:
/// by Fastpass the other goes first, though its packet has waited less.
#[test]
fn who_had_a_slot_waits_for_who_had_none() {
    for (order, first) in [(Order::Lra, (1, 2)), (Order::Mmf, (0, 2))] {
        let mut arbiter = Arbiter::new(order, 3);
        let mut slots = Vec::new();
        arbiter.queue(10, 0, 2, 1, 1500);
        arbiter.fill(10, 1, 1, |_, src, dst| slots.push((src, dst)));
        arbiter.queue(12, 0, 2, 1, 1500);
        arbiter.queue(13, 1, 2, 1, 1500);
        for now in [14, 15] {
            arbiter.fill(now, 1, 1, |_, src, dst| slots.push((src, dst)));
        }
        assert_eq!(slots[..2], [(0, 2), first]);
        assert!(arbiter.is_empty() && slots.len() == 3);
    }
}

type Pair = (u16, u16);

/// The slots of a batch as lists of pairs, and what waits after it.
fn fill(
    order: Order,
    slots: u32,
    bursts: &[(u16, u16, u32)],
) -> (Vec<Vec<Pair>>, BTreeMap<Pair, u32>) {
    let mut arbiter = Arbiter::new(order, 6);
    let mut waiting = BTreeMap::new();
    for (now, &(src, dst, packets)) in (0..).zip(bursts) {
        arbiter.queue(now, src, dst, packets, u64::from(packets) * 1500);
        *waiting.entry((src, dst)).or_insert(0) += packets;
    }
    let mut batch = vec![Vec::new(); slots as usize];
    arbiter.fill(100, 1, slots, |slot, src, dst| batch[slot as usize].push((src, dst)));
    for pair in batch.iter().flatten() {
        *waiting.get_mut(pair).unwrap() -= 1;
    }
    let nothing_waits = waiting.values().all(|left| *left == 0);
    assert_eq!(arbiter.is_empty(), nothing_waits);
    (batch, waiting)
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Ocf), Just(Order::Srjf), Just(Order::Mmf), Just(Order::Lra)]
}

proptest! {
    /// In every slot no port is used twice, and every pair that still waits after the batch has a
    /// port in use: the matching is maximal. Nobody gets more than waits.
    #[test]
    fn matchings_are_maximal(
        order in orders(),
        slots in 1..=64u32,
        bursts in prop::collection::vec((0..6u16, 0..6u16, 1..40u32), 0..40),
    ) {
        let (batch, waiting) = fill(order, slots, &bursts);
        for slot in &batch {
            let (mut sources, mut destinations) = ([false; 6], [false; 6]);
            for &(src, dst) in slot {
                prop_assert!(!std::mem::replace(&mut sources[usize::from(src)], true));
                prop_assert!(!std::mem::replace(&mut destinations[usize::from(dst)], true));
            }
            for (&(src, dst), _) in waiting.iter().filter(|(_, left)| **left > 0) {
                prop_assert!(sources[usize::from(src)] || destinations[usize::from(dst)]);
            }
        }
    }

    /// One slot at a time, against a greedy matching written down as the text says it: of all
    /// that waits the best by priority, then the best that its ports allow, and so on.
    #[test]
    fn a_slot_is_what_greedy_choice_gives(
        order in orders(),
        bursts in prop::collection::vec((0..5u16, 0..5u16, 1..6u32), 1..20),
    ) {
        let mut arbiter = Arbiter::new(order, 5);
        /// (queued, packets left) of the bursts of a pair, and since when its head is the head.
        type Queue = (Vec<(u64, u32)>, u64);
        let mut queues: BTreeMap<Pair, Queue> = BTreeMap::new();
        for (now, &(src, dst, packets)) in (0..).zip(&bursts) {
            arbiter.queue(now, src, dst, packets, u64::from(packets) * 1500);
            queues.entry((src, dst)).or_insert((Vec::new(), now)).0.push((now, packets));
        }
        for now in 100.. {
            let mut granted = Vec::new();
            arbiter.fill(now, 1, 1, |_, src, dst| granted.push((src, dst)));
            let (mut sources, mut destinations) = ([false; 5], [false; 5]);
            for &(src, dst) in &granted {
                // None of the pairs whose ports are free goes before the one that was chosen.
                let key = |pair: &(u16, u16)| {
                    let (bursts, since) = &queues[pair];
                    match order {
                        Order::Ocf => bursts[0].0,
                        Order::Mmf => *since,
                        // All wait before the first slot.
                        Order::Lra => if *since < 100 { 0 } else { *since },
                        Order::Srjf => u64::from(bursts[0].1),
                    }
                };
                let free = queues.keys()
                    .filter(|(s, d)| !sources[usize::from(*s)] && !destinations[usize::from(*d)]);
                let best = free.map(key).min();
                prop_assert_eq!(best, Some(key(&(src, dst))));
                sources[usize::from(src)] = true;
                destinations[usize::from(dst)] = true;
            }
            for pair in &granted {
                let (bursts, since) = queues.get_mut(pair).unwrap();
                *since = now + 1;
                bursts[0].1 -= 1;
                if bursts[0].1 == 0 {
                    bursts.remove(0);
                }
                if bursts.is_empty() {
                    queues.remove(pair);
                }
            }
            if queues.is_empty() {
                break;
            }
        }
        prop_assert!(arbiter.is_empty());
    }

    /// Of pairs that come and go, those go first that had their last slot longest ago, of all that wait and
    /// whose ports are free: Fastpass's order, written down anew.
    #[test]
    fn the_least_recently_allocated_goes_first(
        arrivals in prop::collection::vec((0..60u64, 0..4u16, 0..4u16, 1..4u32), 1..40),
    ) {
        let mut arbiter = Arbiter::new(Order::Lra, 4);
        let (mut waiting, mut lasts) = (BTreeMap::<Pair, u32>::new(), BTreeMap::<Pair, u64>::new());
        for now in 0..250 {
            for &(_, src, dst, packets) in arrivals.iter().filter(|(at, ..)| *at == now) {
                arbiter.queue(now, src, dst, packets, u64::from(packets) * 1500);
                *waiting.entry((src, dst)).or_insert(0) += packets;
            }
            let (mut sources, mut destinations) = ([false; 4], [false; 4]);
            let mut granted = Vec::new();
            arbiter.fill(now, 1, 1, |_, src, dst| granted.push((src, dst)));
            for (src, dst) in granted {
                let last = |pair: &Pair| lasts.get(pair).copied().unwrap_or(0);
                let free = waiting.iter().filter(|((s, d), left)| {
                    **left > 0 && !sources[usize::from(*s)] && !destinations[usize::from(*d)]
                });
                prop_assert_eq!(free.map(|(pair, _)| last(pair)).min(), Some(last(&(src, dst))));
                (sources[usize::from(src)], destinations[usize::from(dst)]) = (true, true);
                *waiting.get_mut(&(src, dst)).unwrap() -= 1;
                lasts.insert((src, dst), now + 1);
            }
        }
        prop_assert!(arbiter.is_empty());
    }

    /// With as many colours as the largest degree every edge gets one, and no two at a node are
    /// equal; with fewer, those that get one still differ at each node.
    #[test]
    fn colourings_are_proper(
        edges in prop::collection::vec((0..7usize, 0..7usize), 0..120),
        missing in 0..3usize,
    ) {
        let degree = |node: usize, side: usize| {
            edges.iter().filter(|edge| [edge.0, edge.1][side] == node).count()
        };
        let largest = (0..7).flat_map(|n| [degree(n, 0), degree(n, 1)]).max().unwrap_or(0);
        let colours = largest.saturating_sub(missing);
        let mut out = Vec::new();
        let mut colouring = Colouring::new(7, colours);
        // Twice: what the first graph left behind must not matter.
        colouring.colour(&edges, &mut out);
        colouring.colour(&edges, &mut out);
        prop_assert_eq!(out.len(), edges.len());
        let mut seen = std::collections::BTreeSet::new();
        for (edge, colour) in edges.iter().zip(&out) {
            match colour {
                Some(colour) => {
                    prop_assert!(*colour < colours);
                    prop_assert!(seen.insert((0, edge.0, *colour)));
                    prop_assert!(seen.insert((1, edge.1, *colour)));
                }
                None => prop_assert!(missing > 0),
            }
        }
    }
}

/// Two leaves of four hosts at 1 Gbit/s and two spines at 2 Gbit/s: four unit links a leaf.
fn clos() -> Network {
    let rate = Rate::from_mbps;
    Network::new(leaf_spine(2, 2, 4, &access(rate(1000)), &spec(rate(2000))).unwrap())
}

fn queued(src: NodeId, dst: NodeId, packets: u32) -> Observation {
    let bytes = Bytes::new(u64::from(packets) * 1500);
    Measured::Queued { src, dst, packets, bytes }.into()
}

/// Each slot lasts 12 µs. Four hosts send to the other leaf, and each spine takes two of them.
#[test]
fn a_full_slot_uses_every_unit_link_once() {
    let network = clos();
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut policy = by_name("syn", &Parameters::default()).unwrap();
    let mut out = Directives::new();
    let now = Time::from_nanos(1_000);
    for i in 0..4 {
        tell(&mut *policy, now, &network, &queued(hosts[i], hosts[7 - i], 2), &mut out);
    }
    let first = Time::from_nanos(12_000);
    assert_eq!(policy.deadline(), Some(first));
    tell(&mut *policy, first, &network, &Observation::Tick, &mut out);
    let mut spines = BTreeMap::new();
    for directive in &out {
        let Directive::Grant { slot, via, .. } = directive else { panic!("{directive:?}") };
        assert_eq!(*slot, first);
        *spines.entry(via.unwrap()).or_insert(0) += 1;
    }
    assert_eq!((out.len(), spines.into_values().collect::<Vec<_>>()), (4, vec![2, 2]));
    assert_eq!(policy.deadline(), Some(Time::from_nanos(24_000)));
    tell(&mut *policy, Time::from_nanos(24_000), &network, &Observation::Tick, &mut out);
    assert_eq!((out.len(), policy.deadline()), (8, None));
}

/// A spine that lost a link to a leaf takes nothing; the packets for which no unit link is left go
/// as the network likes. Packets within a leaf never have a spine.
#[test]
fn a_broken_spine_is_left_out() {
    let mut network = clos();
    let topology = network.topology().clone();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let spine = topology.node_named("spine0").unwrap();
    let leaf = topology.node_named("leaf1").unwrap();
    let broken = (0..).map(model::LinkId).zip(topology.links());
    let (link, _) = broken.into_iter().find(|(_, l)| (l.from, l.to) == (spine, leaf)).unwrap();
    network.set_up(link, false);
    let policy = &mut *by_name("syn", &Parameters::default()).unwrap();
    let mut out = Directives::new();
    tell(policy, Time::ZERO, &network, &Measured::LinkState { link, up: false }.into(), &mut out);
    for i in 0..3 {
        tell(policy, Time::ZERO, &network, &queued(hosts[i], hosts[7 - i], 1), &mut out);
    }
    tell(policy, Time::ZERO, &network, &queued(hosts[3], hosts[0], 1), &mut out);
    tell(policy, Time::ZERO, &network, &Observation::Tick, &mut out);
    let over = |wanted: Option<&str>| {
        let wanted = wanted.map(|name| topology.node_named(name).unwrap());
        let is = |d: &&Directive| matches!(d, Directive::Grant { via, .. } if *via == wanted);
        out.iter().filter(is).count()
    };
    assert_eq!((over(Some("spine0")), over(Some("spine1")), over(None)), (0, 2, 2));
}

/// A controller that was not asked for a while begins with the slot in progress; what is out of
/// range is refused.
#[test]
fn slots_that_passed_are_gone() {
    let network = clos();
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut policy = by_name("syn", &Parameters::default().with("batch", 4u32)).unwrap();
    let mut out = Directives::new();
    tell(&mut *policy, Time::ZERO, &network, &queued(hosts[0], hosts[1], 6), &mut out);
    tell(&mut *policy, Time::from_nanos(1_000_000), &network, &Observation::Tick, &mut out);
    let slots: Vec<u64> = out
        .iter()
        .map(|directive| match directive {
            Directive::Grant { slot, .. } => slot.as_nanos() / 12_000,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(slots, [83, 84, 85, 86]);
    assert_eq!(policy.deadline(), Some(Time::from_nanos(87 * 12_000)));
    assert!(by_name("syn", &Parameters::default().with("batch", 65u32)).is_err());
    assert!(by_name("syn", &Parameters::default().with("packet", Bytes::ZERO)).is_err());
}

/// Where 97 % is offered, at least 95 % is carried (Fastpass's allocator stops at 90 %),
/// in every order and length of batch.
#[test]
fn a_heavy_load_is_carried() {
    for (order, batch) in
        [(Order::Mmf, 1), (Order::Mmf, 64), (Order::Ocf, 1), (Order::Ocf, 64), (Order::Srjf, 64)]
    {
        const PORTS: u16 = 64;
        let mut arbiter = Arbiter::new(order, PORTS);
        let mut state = 1u64;
        let mut roll = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let port = |number: u64| u16::try_from(number).unwrap();
        let (mut carried, mut offered, mut now) = (0u64, 0u64, 0u64);
        let slots = 25_600;
        while now < slots {
            while offered * 100 < (now + u64::from(batch)) * u64::from(PORTS) * 97 {
                let (src, packets) = (roll(64), 1 + roll(19));
                let dst = (src + 1 + roll(63)) % 64;
                let packets = u32::try_from(packets).unwrap();
                arbiter.queue(now, port(src), port(dst), packets, u64::from(packets) * 1500);
                offered += u64::from(packets);
            }
            // Queues build up first.
            arbiter.fill(now, 1, batch, |_, _, _| carried += u64::from(2 * now >= slots));
            now += u64::from(batch);
        }
        let part = 2.0 * carried as f64 / (slots * u64::from(PORTS)) as f64;
        assert!(part >= 0.95, "{order:?}, batches of {batch}: {part}");
    }
}
