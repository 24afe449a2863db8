//! SICC: hubs, their tree, their speeds and redirection, by hand from the text, against oracles
//! that share nothing with the code, and as properties of whatever request.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test may panic

use std::sync::Arc;

use crate::desk::tell;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};
use model::build::{Access, racks};
use model::{
    Buffer, Declared, Directive, Directives, Gathering, Hub, HubOrder, JobId, LEAST_RATE, LinkSpec,
    Measured, Network, NodeId, Request, Sample, Way,
};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::sicc::Racks;
use watermaster_policy::sicc::joint::{Limits, assign, bound};
use watermaster_policy::sicc::redirect::{Load, mean, redirect};
use watermaster_policy::sicc::speed::{Yielding, demand, shares};
use watermaster_policy::sicc::tree::{Target, merge, most_hubs, swarms};
use watermaster_policy::{Parameters, Policy, Share, by_name};

const GIGABIT: Rate = Rate::from_mbps(1_000);

fn spec(capacity: Rate) -> LinkSpec {
    LinkSpec { capacity, delay: Span::ZERO, buffer: Buffer::Bytes(Bytes::new(100_000)), mark: None }
}

/// `count` racks of `hosts` at gigabit ports, `group` at an aggregation router.
fn network(count: u32, group: u32, hosts: u32) -> Network {
    let access = Access { link: spec(GIGABIT), nic: Buffer::Unlimited };
    let up = spec(Rate::from_mbps(15_000));
    Network::new(racks(count, group, hosts, &access, &up, &up).unwrap())
}

fn host(network: &Network, number: u32) -> NodeId {
    network.topology().node_named(&format!("h{number}")).unwrap()
}

/// The value of `variable` in the optimum.
fn solved(problem: &Problem, variable: Variable) -> f64 {
    match problem.solve().unwrap() {
        SolveOutcome::Solution(solution) => solution[variable],
        other => panic!("no optimum: {other:?}"),
    }
}

#[test]
fn the_server_with_most_spare_capacity_is_the_hub_and_the_next_its_backup() {
    let network = network(3, 3, 4);
    let racks = Racks::new(&network);
    let at = |number| host(&network, number);
    let swarms = |targets: &[(NodeId, u32, u64)]| {
        let target = |(server, objects, mbps): &(NodeId, u32, u64)| Target {
            server: *server,
            objects: *objects,
            spare: Rate::from_mbps(*mbps),
        };
        swarms(&racks, 1, targets.iter().map(target))
    };
    // Where all have as much, those with most objects (algorithm 1).
    let equal = [
        (at(0), 2, 1000),
        (at(1), 5, 1000),
        (at(2), 5, 1000),
        (at(9), 1, 0),
        (NodeId(u32::MAX), 9, 1000),
    ];
    let equal = swarms(&equal);
    assert_eq!(equal.len(), 2, "the rack without a target has no swarm");
    assert_eq!((equal[0].hub, equal[0].backup), (at(1), Some(at(2))), "the first of equals");
    assert_eq!((equal[0].objects, equal[0].servers), (12, 3));
    assert_eq!((equal[1].hub, equal[1].backup), (at(9), None));
    // Else spare capacity (section 3.1).
    let other = swarms(&[(at(0), 9, 100), (at(1), 1, 900), (at(2), 3, 300)]);
    assert_eq!((other[0].hub, other[0].backup), (at(1), Some(at(2))));
}

/// A server's spare capacity is its link's, or less where the front end knows it.
#[test]
fn hubs_are_chosen_by_what_is_known_of_servers() {
    let network = network(4, 2, 10);
    let racks = Racks::new(&network);
    let mut request = request(&network, 11, 200, 3);
    let hubs = |request: &Request| -> Vec<NodeId> {
        let (_, gathering, _) = begun(&network, "sicc", &Parameters::default(), request);
        gathering.hubs.iter().map(|hub| hub.node).collect()
    };
    let before = hubs(&request);
    request.spare = before.iter().map(|hub| (*hub, Rate::from_mbps(100))).collect();
    for (before, after) in before.iter().zip(hubs(&request)) {
        assert_ne!(*before, after, "a server that is known to be slow");
        assert_eq!(racks.of(*before), racks.of(after), "in the same rack");
    }
    let all = network.topology().hosts().map(|host| (host, Rate::from_mbps(100)));
    request.spare = all.collect();
    assert_eq!(hubs(&request), before, "all are alike");
}

#[test]
fn equation_1() {
    // 100 KB drain in 800 us at 1 Gbit/s, in which 100 KB come in at 1 Gbit/s: 196 packets of 510 B.
    let packet = Bytes::new(510);
    assert_eq!(most_hubs(&spec(GIGABIT), GIGABIT, packet, 1), 196);
    assert_eq!(most_hubs(&spec(GIGABIT), GIGABIT, packet, 4), 49, "four requests at a time");
    assert_eq!(most_hubs(&spec(Rate::from_mbps(100)), GIGABIT, packet, 1), 1960);
    assert_eq!(most_hubs(&spec(GIGABIT), GIGABIT, packet, 1000), 1, "never none");
    let port = LinkSpec { buffer: Buffer::Packets(64), ..spec(GIGABIT) };
    assert_eq!(most_hubs(&port, GIGABIT, packet, 2), 32);
}

#[test]
fn algorithm_1_by_hand() {
    let (a, b) = (NodeId(100), NodeId(200));
    // Under a: 1, 2 and 9 objects; under b: 4. The 1 goes under the 2, that makes 3, which is the
    // smallest and goes under the 9; its child moves up, for the 9 has room.
    let hubs = [(a, 9), (a, 1), (b, 4), (a, 2)];
    assert_eq!(merge(&hubs, 3), [None, Some(3), None, None]);
    assert_eq!(merge(&hubs, 2), [None, Some(0), None, Some(0)]);
    // Nobody is left under b: any hub with as many objects takes the 4. It may have one child only
    // and passes the 4 down, or takes it in place of a child with less.
    assert_eq!(merge(&hubs, 1), [None, Some(3), Some(0), Some(2)]);
    assert_eq!(merge(&hubs, 4), [None; 4], "few enough");
    assert!(merge(&[], 1).is_empty());
}

/// The objects of each hub and all below it.
fn totals(hubs: &[(NodeId, u32)], parents: &[Option<u32>]) -> Vec<u64> {
    let mut totals = vec![0; hubs.len()];
    for (hub, (_, objects)) in hubs.iter().enumerate() {
        let mut at = Some(hub);
        for _ in 0..=hubs.len() {
            let Some(hub) = at else { break };
            totals[hub] += u64::from(*objects);
            at = parents[hub].map(|parent| parent as usize);
        }
        assert_eq!(at, None, "a circle");
    }
    totals
}

/// Algorithm 1 line by line; `None` when a hub would have more than `most` children.
fn literally(hubs: &[(NodeId, u32)], most: usize) -> Option<Vec<Option<u32>>> {
    let mut queue: Vec<(u32, usize)> =
        hubs.iter().enumerate().map(|(hub, (_, objects))| (*objects, hub)).collect();
    let mut children = vec![Vec::new(); hubs.len()];
    let mut own: Vec<u32> = hubs.iter().map(|(_, objects)| *objects).collect();
    while queue.len() > most {
        queue.sort_unstable();
        let (objects, child) = queue.remove(0);
        let near = queue.iter().position(|(_, hub)| hubs[*hub].0 == hubs[child].0);
        let (more, parent) = queue.remove(near.unwrap_or(0));
        children[parent].push(child);
        while children[parent].len() < most && !children[child].is_empty() {
            children[child].sort_by_key(|hub| (own[*hub], *hub));
            let last = children[child].pop().unwrap();
            children[parent].push(last);
            own[child] -= own[last];
        }
        if children[parent].len() > most {
            return None;
        }
        own[parent] = objects + more;
        queue.push((own[parent], parent));
    }
    let parent = |hub: usize| children.iter().position(|children| children.contains(&hub));
    Some((0..hubs.len()).map(|hub| parent(hub).map(|p| u32::try_from(p).unwrap())).collect())
}

proptest! {
    #[test]
    fn a_tree_is_a_tree(
        hubs in prop::collection::vec((0..4u32, 1..50u32), 0..60),
        most in 1..9u32,
    ) {
        let hubs: Vec<_> = hubs.into_iter().map(|(router, n)| (NodeId(router), n)).collect();
        let parents = merge(&hubs, most);
        prop_assert_eq!(&parents, &merge(&hubs, most), "equal inputs, equal trees");
        let totals = totals(&hubs, &parents);
        let roots = parents.iter().filter(|parent| parent.is_none()).count();
        prop_assert_eq!(roots, hubs.len().min(most as usize));
        for hub in 0..hubs.len() {
            let of = |p: &&Option<u32>| **p == u32::try_from(hub).ok();
            prop_assert!(parents.iter().filter(of).count() <= most as usize);
            if let Some(parent) = parents[hub] {
                prop_assert!(totals[hub] <= totals[parent as usize], "rule 2");
            }
        }
        // Where nobody is ever full our tree is that of the listing.
        if let Some(literal) = literally(&hubs, most as usize) {
            prop_assert_eq!(parents, literal);
        }
    }

    /// Equations 2 to 4 iterated are max-min fairness: the oracle fills up a bit at a time.
    #[test]
    fn shares_are_max_min_fair(
        planned in 1..400u64,
        demands in prop::collection::vec(prop_oneof![3 => 1..100u64, 1 => Just(u64::MAX)], 1..8),
    ) {
        const UNIT: u64 = 1_000_000;
        let rate = |units: u64| Rate::from_bps(units.saturating_mul(UNIT));
        let hubs: Vec<_> = demands.iter().map(|demand| (rate(*demand), 1)).collect();
        let ours = shares(rate(planned), &hubs);
        let total: Rate = ours.iter().copied().sum();
        prop_assert!(total <= rate(planned));
        // Progressive filling with a thousandth of a unit.
        let (mut filled, mut left) = (vec![0u64; demands.len()], planned * 1000);
        loop {
            let grows = |hub: &usize| filled[*hub] < demands[*hub].saturating_mul(1000);
            let growing: Vec<usize> = (0..demands.len()).filter(grows).collect();
            if growing.is_empty() || left < growing.len() as u64 {
                break;
            }
            for hub in growing {
                filled[hub] += 1;
                left -= 1;
            }
        }
        for (ours, filled) in ours.iter().zip(filled) {
            let off = ours.as_bps().abs_diff(filled * (UNIT / 1000));
            prop_assert!(off <= UNIT / 500, "{ours} instead of {filled} thousandths");
        }
    }

    /// With weights: the smallest share by weight is as large as a linear program can make it.
    #[test]
    fn weighted_shares_maximise_the_least(
        hubs in prop::collection::vec((10..1000u64, 1..20u64), 1..8),
        planned in 100..5000u64,
    ) {
        let rates: Vec<_> =
            hubs.iter().map(|(demand, weight)| (Rate::from_mbps(*demand), *weight)).collect();
        let ours = shares(Rate::from_mbps(planned), &rates);
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let least = problem.add_var(1.0, (0.0, f64::INFINITY));
        let shares: Vec<_> =
            hubs.iter().map(|(demand, _)| problem.add_var(0.0, (0.0, *demand as f64))).collect();
        for (share, (_, weight)) in shares.iter().zip(&hubs) {
            let weight = *weight as f64;
            problem.add_constraint([(*share, 1.0), (least, -weight)], ComparisonOp::Ge, 0.0);
        }
        problem.add_constraint(shares.iter().map(|s| (*s, 1.0)), ComparisonOp::Le, planned as f64);
        let best = solved(&problem, least);
        let smallest = ours.iter().zip(&hubs);
        let smallest = smallest.map(|(share, (_, weight))| share.as_bps() as f64 / *weight as f64);
        let smallest = smallest.fold(f64::INFINITY, f64::min) / 1e6;
        prop_assert!((smallest - best).abs() < 0.01, "{smallest} instead of {best}");
    }

    /// Redirection never makes the last hub later, never moves an object to where it isn't, and
    /// keeps account.
    #[test]
    fn redirection_only_helps(
        hubs in prop::collection::vec(1..1000u64, 2..6),
        objects in prop::collection::vec((20..1000u64, 0..6usize, 0..6usize), 1..60),
    ) {
        let objects: Vec<_> = (0u32..)
            .zip(&objects)
            .map(|(n, (size, hub, _))| (n, Bytes::new(*size), hub % hubs.len()))
            .zip(&objects)
            .map(|(object, (_, _, other))| (object, other % hubs.len()))
            .collect();
        let load = |(hub, mbps): (usize, &u64)| {
            let own = objects.iter().filter(|((_, _, at), _)| *at == hub);
            Load { bytes: own.map(|((_, size, _), _)| *size).sum(), speed: Rate::from_mbps(*mbps) }
        };
        let before: Vec<Load> = hubs.iter().enumerate().map(load).collect();
        let mut after = before.clone();
        let pending: Vec<_> = objects.iter().map(|(object, _)| *object).collect();
        let other = |object: u32| [objects[object as usize].1];
        let moves = redirect(mean(&before), &mut after, &pending, other);
        let slowest = |loads: &[Load]| loads.iter().map(|l| l.speed.time_for(l.bytes)).max();
        prop_assert!(slowest(&after) <= slowest(&before));
        let mut counted = before;
        for (object, to) in moves {
            let ((_, size, from), other) = objects[object as usize];
            prop_assert_eq!(to, other);
            prop_assert_ne!(to, from);
            counted[from].bytes = counted[from].bytes - size;
            counted[to].bytes += size;
        }
        prop_assert_eq!(counted, after);
    }

    /// The joint choice asks holders only, and no other choice ends much sooner: its bound is
    /// within the largest object, on each of the three links, of the mean load that none can beat.
    #[test]
    fn the_joint_choice_is_near_the_best(seed in 0..1000u64, objects in 20..200usize) {
        let network = network(6, 3, 10);
        let racks = Racks::new(&network);
        let limits = Limits::new(&network, &racks);
        let request = request(&network, seed, objects, 3);
        let chosen = assign(&request, &racks, &limits);
        for (object, holder) in chosen.iter().enumerate() {
            prop_assert!(request.holders(object).contains(holder));
        }
        let joint = bound(&request, &chosen, &racks, &limits);
        // Relaxed: an object may be taken from all its holders in parts; minimise the largest hub.
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let most = problem.add_var(1.0, (0.0, f64::INFINITY));
        let mut by_rack: Vec<Vec<(Variable, f64)>> = vec![vec![]; 6];
        for object in 0..objects {
            let parts: Vec<_> =
                request.holders(object).iter().map(|_| problem.add_var(0.0, (0.0, 1.0))).collect();
            problem.add_constraint(parts.iter().map(|p| (*p, 1.0)), ComparisonOp::Eq, 1.0);
            for (part, holder) in parts.iter().zip(request.holders(object)) {
                let size = request.size(object).get() as f64;
                by_rack[racks.of(*holder).unwrap() as usize].push((*part, size));
            }
        }
        for mut terms in by_rack {
            terms.push((most, -1.0));
            problem.add_constraint(terms, ComparisonOp::Le, 0.0);
        }
        let best = solved(&problem, most);
        let ours = GIGABIT.bytes_in(joint).get() as f64;
        prop_assert!(ours <= best + 2000.0, "{ours} octets at the busiest hub, {best} at best");
    }
}

#[test]
fn the_speeds_of_the_text() {
    let mbps = Rate::from_mbps;
    // Three hubs at 100: one needs 40. Equation 4 leaves it that, equation 3 gives 30 to each of
    // the others.
    let all = Rate::MAX;
    let divided = shares(mbps(300), &[(mbps(40), 1), (all, 1), (all, 1)]);
    assert_eq!(divided, [mbps(40), mbps(130), mbps(130)]);
    assert_eq!(shares(mbps(300), &[(all, 1), (all, 2)]), [mbps(100), mbps(200)]);
    assert_eq!(shares(Rate::ZERO, &[(all, 1)]), [LEAST_RATE], "never zero");
    assert!(shares(mbps(1), &[]).is_empty());
    // A hub that uses what it has may want more; another twice what it used; none nothing.
    assert_eq!(demand(mbps(100), mbps(95), mbps(100)), Rate::MAX);
    assert_eq!(demand(mbps(100), mbps(20), mbps(100)), mbps(40));
    assert_eq!(demand(mbps(100), Rate::ZERO, mbps(160)), mbps(10));
}

/// No hub stays at a low past rate: one that recovers is back at its part in a few periods.
#[test]
fn a_hub_that_recovers_comes_back() {
    let (planned, part) = (Rate::from_mbps(400), Rate::from_mbps(100));
    let mut speeds = vec![part; 4];
    let mut recovered = None;
    for period in 0..40 {
        let can = if period < 20 { Rate::from_mbps(1) } else { GIGABIT };
        let real = |hub: usize| if hub == 0 { speeds[0].min(can) } else { speeds[hub] };
        let wants: Vec<_> = (0..4).map(|h| (demand(speeds[h], real(h), part), 1)).collect();
        speeds = shares(planned, &wants);
        if period == 19 {
            assert!(speeds[0] < Rate::from_mbps(10) && speeds[1] > Rate::from_mbps(129));
        }
        if period > 20 && speeds[0] == part {
            recovered.get_or_insert(period - 20);
        }
    }
    assert!(recovered.is_some_and(|periods| periods <= 2), "{recovered:?}");
}

#[test]
fn equations_5_and_6() {
    let percent = |percent: u32| Share::from_ppm(percent * 10_000).unwrap();
    let yielding = Yielding { growth: percent(20), cut: percent(20), threshold: percent(10) };
    let mbps = Rate::from_mbps;
    let bytes = |octets| Bytes::new(octets);
    let plan = |planned, received, queued| {
        yielding.planned(mbps(planned), mbps(received), GIGABIT, bytes(queued), bytes(200_000))
    };
    // Half full: cut by 20 % of one half. Full: by 20 %. At the threshold of 10 %: by 2 %.
    assert_eq!(plan(500, 400, 100_000), mbps(450));
    assert_eq!(plan(500, 400, 200_000), mbps(400));
    assert_eq!(plan(500, 400, 900_000), mbps(400), "no more than full");
    assert_eq!(plan(500, 400, 20_000), mbps(490));
    // Below: grow by 20 % of what came in, up to the link.
    assert_eq!(plan(500, 400, 19_999), mbps(580));
    assert_eq!(plan(990, 900, 0), GIGABIT);
    // A port without a known room never cuts.
    assert_eq!(yielding.planned(mbps(5), mbps(5), GIGABIT, bytes(9), Bytes::ZERO), mbps(6));
}

/// Figure 3: the slow hub's objects go to the fast hubs that have replicas.
#[test]
fn redirection_by_hand() {
    let mbps = Rate::from_mbps;
    let load = |bytes, speed| Load { bytes: Bytes::new(bytes), speed: mbps(speed) };
    // 4000 octets at 1 Mbit/s take 32 ms, at 8 Mbit/s 4 ms: the mean is 13.3 ms, or 1667 octets.
    let mut loads = [load(4000, 1), load(4000, 8), load(4000, 8)];
    let objects: Vec<_> = (0..4).map(|object| (object, Bytes::new(1000), 0)).collect();
    let replicas = |object: u32| match object {
        0 => vec![1],
        1 => vec![0],
        2 => vec![2, 1],
        _ => vec![1, 2],
    };
    let moves = redirect(mean(&loads), &mut loads, &objects, replicas);
    // Object 1 has no other hub. After object 0, hub 2 has least; after 2, either: the first.
    assert_eq!(moves, [(0, 1), (2, 2), (3, 1)]);
    assert_eq!(loads, [load(1000, 1), load(6000, 8), load(5000, 8)]);
}

/// `objects` of 20 to 1000 octets on `copies` hosts each, from a small generator of its own.
fn request(network: &Network, seed: u64, objects: usize, copies: usize) -> Request {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut holders = Vec::new();
    for object in 0..objects {
        while holders.len() < (object + 1) * copies {
            let server = hosts[1 + draw(hosts.len() as u64 - 1) as usize];
            if !holders[object * copies..].contains(&server) {
                holders.push(server);
            }
        }
    }
    let sizes = (0..objects).map(|_| 20 + draw(981) as u32).collect();
    Request { id: JobId(0), front: hosts[0], sizes, holders, copies, spare: Vec::new() }
}

fn orders(directives: &Directives) -> Vec<&HubOrder> {
    directives
        .iter()
        .filter_map(|directive| match directive {
            Directive::Gather { order, .. } => Some(order.as_ref()),
            _ => None,
        })
        .collect()
}

/// A policy that has begun `request`, with what it ordered.
fn begun(
    network: &Network,
    name: &str,
    parameters: &Parameters,
    request: &Request,
) -> (Box<dyn Policy + Send>, Gathering, Vec<Rate>) {
    let mut policy = by_name(name, parameters).unwrap();
    let mut out = Directives::new();
    let gather = Declared::Gather(Arc::new(request.clone())).into();
    tell(&mut *policy, Time::ZERO, network, &gather, &mut out);
    match orders(&out)[..] {
        [HubOrder::Gather(gathering)] => {
            let speeds = gathering.hubs.iter().map(|hub| hub.speed).collect();
            (policy, gathering.clone(), speeds)
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_is_gathered_rack_by_rack_at_even_speeds() {
    let network = network(8, 4, 10);
    let racks = Racks::new(&network);
    let request = request(&network, 7, 300, 3);
    let (_, gathering, speeds) = begun(&network, "sicc", &Parameters::default(), &request);
    assert_eq!(gathering.hubs.len(), 8);
    assert!(gathering.packed && gathering.hubs.iter().all(|hub| hub.parent.is_none()));
    for (object, way) in gathering.ways.iter().enumerate() {
        assert_eq!(way.holder, request.holders(object)[0]);
        let hub = gathering.hubs[way.hub.unwrap() as usize];
        assert_eq!(racks.of(hub.node), racks.of(way.holder), "a hub serves its own rack");
    }
    assert_eq!(speeds, vec![Rate::from_mbps(125); 8]);
}

#[test]
fn without_proximity_swarms_are_as_large_but_anywhere() {
    let network = network(8, 4, 10);
    let racks = Racks::new(&network);
    let request = request(&network, 7, 300, 3);
    let parameters = Parameters::default().with("proximity", false);
    let (_, scattered, _) = begun(&network, "sicc", &parameters, &request);
    let (_, near, _) = begun(&network, "sicc", &Parameters::default(), &request);
    let servers = |gathering: &Gathering, hub: u32| {
        let mut servers: Vec<_> =
            gathering.ways.iter().filter(|w| w.hub == Some(hub)).map(|w| w.holder).collect();
        servers.sort_unstable();
        servers.dedup();
        servers.len()
    };
    for hub in 0..8 {
        assert_eq!(servers(&scattered, hub), servers(&near, hub));
    }
    let away = scattered.ways.iter().filter(|way| {
        racks.of(way.holder) != racks.of(scattered.hubs[way.hub.unwrap() as usize].node)
    });
    assert!(away.count() > 200, "7 of 8 servers are in another rack than a hub drawn at random");
}

#[test]
fn many_racks_form_a_tree_unless_it_is_off() {
    let network = network(20, 5, 10);
    let request = request(&network, 3, 1000, 3);
    let parameters = Parameters::default().with("hubs", 4u32);
    let (_, tree, speeds) = begun(&network, "sicc", &parameters, &request);
    let roots = tree.hubs.iter().filter(|hub| hub.parent.is_none()).count();
    assert_eq!((tree.hubs.len(), roots), (20, 4));
    assert!(speeds.iter().all(|speed| *speed == Rate::from_mbps(250)));
    let parameters = parameters.with("tree", false);
    let (_, flat, _) = begun(&network, "sicc", &parameters, &request);
    assert!(flat.hubs.iter().all(|hub| hub.parent.is_none()));
}

/// 100 KB in full packets are 66, in objects of 510 B and their headers more than there are racks.
#[test]
fn the_mean_packet_bounds_the_hubs_that_send_to_the_front_end() {
    let network = network(100, 10, 2);
    let request = request(&network, 3, 3000, 3);
    let roots = |parameters: &Parameters| {
        let (_, gathering, _) = begun(&network, "sicc", parameters, &request);
        let roots = gathering.hubs.iter().filter(|hub| hub.parent.is_none()).count();
        (roots, gathering.hubs.len() - roots)
    };
    assert_eq!(roots(&Parameters::default()).0, 66);
    let unpacked = Parameters::default().with("pack", false);
    assert_eq!(roots(&unpacked).1, 0, "no hub is below another");
    let full = unpacked.with("packet", Bytes::new(1500));
    assert_eq!(roots(&full).0, 66);
    assert!(roots(&full).1 > 0);
}

#[test]
fn without_shares_hubs_are_as_fast_as_their_links() {
    let network = network(8, 4, 10);
    let request = request(&network, 7, 300, 3);
    let still = Parameters::default().with("speed", false).with("redirect", false);
    let (mut policy, _, speeds) = begun(&network, "sicc", &still.with("shares", false), &request);
    assert_eq!(speeds, vec![GIGABIT; 8]);
    let sample = Sample { span: Span::from_millis(1), ..Sample::default() };
    let sample = Measured::Gathering { request: request.id, sample: Arc::new(sample) };
    let mut out = Directives::new();
    tell(&mut *policy, Time::ZERO, &network, &sample.into(), &mut out);
    assert!(out.is_empty(), "and stay so");
}

#[test]
fn joint_speeds_follow_what_each_hub_has() {
    let network = network(8, 4, 10);
    let request = request(&network, 7, 300, 3);
    let parameters = Parameters::default().with("hubs", 8u32);
    let (_, gathering, speeds) = begun(&network, "sicc-joint", &parameters, &request);
    let mut bytes = [0u64; 8];
    for (object, way) in gathering.ways.iter().enumerate() {
        bytes[way.hub.unwrap() as usize] += request.size(object).get();
    }
    let total: u64 = bytes.iter().sum();
    for (speed, bytes) in speeds.iter().zip(bytes) {
        let part = GIGABIT.fraction(bytes, total).as_bps();
        assert!(speed.as_bps().abs_diff(part) <= 8, "{speed} for {bytes} of {total}");
    }
}

/// Where racks are fewer than N, the joint choice gives each several hubs: what goes through one
/// hangs on one server.
#[test]
fn joint_divides_racks_among_the_hubs_that_there_may_be() {
    let network = network(2, 2, 30);
    let racks = Racks::new(&network);
    let request = request(&network, 7, 300, 3);
    let hubs = |name, most: u32| {
        let parameters = Parameters::default().with("hubs", most);
        let (_, gathering, _) = begun(&network, name, &parameters, &request);
        for way in &gathering.ways {
            let hub = gathering.hubs[way.hub.unwrap() as usize];
            assert_eq!(racks.of(hub.node), racks.of(way.holder));
            assert!(hub.parent.is_none());
        }
        gathering.hubs.len()
    };
    assert_eq!((hubs("sicc", 12), hubs("sicc-joint", 12)), (2, 12));
    assert_eq!(hubs("sicc-joint", 3), 2, "one and a half each");
    assert!(hubs("sicc-joint", 1000) > 50, "nearly each server its own");
}

/// Of four hubs one is slow. The joint choice asks for what it can't send in time elsewhere: of hubs
/// that keep up, or of servers itself. It orders nothing while all keep up, and nothing where hubs
/// form a tree.
#[test]
fn joint_orders_where_it_gains() {
    let network = network(4, 2, 10);
    let of = |copies| request(&network, 5, 2000, copies);
    let advanced = |request: &Request, most: u32, slow: usize| {
        let parameters = Parameters::default().with("hubs", most);
        let (mut policy, _, speeds) = begun(&network, "sicc-joint", &parameters, request);
        let span = Span::from_millis(1);
        let sent = |(hub, speed): (usize, &Rate)| {
            if hub == slow { speed.fraction(1, 10) } else { *speed }.bytes_in(span)
        };
        let received = speeds.iter().enumerate().map(sent).collect();
        let sample = Arc::new(Sample { span, received, ..Sample::default() });
        let sample = Measured::Gathering { request: JobId(0), sample };
        let mut out = Directives::new();
        tell(&mut *policy, Time::ZERO, &network, &sample.into(), &mut out);
        out
    };
    let out = advanced(&of(3), 4, 2);
    let [HubOrder::Redirect(moves), HubOrder::Speeds(_)] = orders(&out)[..] else {
        panic!("{out:?}")
    };
    assert!(moves.len() > 100, "{}", moves.len());
    assert!(moves.iter().all(|(_, way)| way.hub != Some(2)), "to hubs that keep up");
    // Without replicas the front end asks itself, N at a time.
    let out = advanced(&of(1), 4, 2);
    let [HubOrder::Redirect(moves), HubOrder::Speeds(_)] = orders(&out)[..] else {
        panic!("{out:?}")
    };
    assert!(moves.len() == 4 && moves.iter().all(|(_, way)| way.hub.is_none()), "{moves:?}");
    assert!(advanced(&of(3), 4, 99).is_empty(), "all keep up");
    assert!((0..4).all(|slow| advanced(&of(3), 2, slow).is_empty()), "a tree");
}

#[test]
fn joint_leaves_out_servers_that_are_known_to_be_slow() {
    let network = network(6, 3, 10);
    let (racks, slow) = (Racks::new(&network), Rate::from_mbps(2));
    let limits = Limits::new(&network, &racks);
    let mut request = request(&network, 7, 100, 3);
    let is_slow = |host: NodeId| host.0.is_multiple_of(2);
    let half = network.topology().hosts().filter(|host| is_slow(*host));
    request.spare = half.map(|host| (host, slow)).collect();
    for (object, holder) in assign(&request, &racks, &limits).into_iter().enumerate() {
        let others = request.holders(object).iter().any(|holder| !is_slow(*holder));
        assert!(!is_slow(holder) || !others, "object {object}");
    }
}

#[test]
fn a_dead_hub_is_replaced_and_its_objects_come_from_replicas() {
    let network = network(4, 2, 10);
    let request = request(&network, 11, 200, 3);
    let (mut policy, gathering, _) = begun(&network, "sicc", &Parameters::default(), &request);
    let mut ways = gathering.ways.clone();
    let mut hubs: Vec<Option<Hub>> = gathering.hubs.iter().copied().map(Some).collect();
    let mut dead = Vec::new();
    // The hub of the first rack dies, then its backup.
    for round in 0..2 {
        dead.push(hubs[0].unwrap().node);
        let mut out = Directives::new();
        let lost = Measured::HubLost { request: JobId(0), hub: 0 }.into();
        tell(&mut *policy, Time::ZERO, &network, &lost, &mut out);
        for order in orders(&out) {
            match order {
                HubOrder::Replace { hub: 0, node: Some(node) } if round == 0 => {
                    assert!(!dead.contains(node));
                    hubs[0].as_mut().unwrap().node = *node;
                }
                HubOrder::Replace { hub: 0, node: None } if round == 1 => hubs[0] = None,
                HubOrder::Redirect(moves) => {
                    moves.iter().for_each(|(object, way)| ways[*object as usize] = *way);
                }
                other => panic!("{other:?}"),
            }
        }
        for (object, way) in ways.iter().enumerate() {
            assert!(request.holders(object).contains(&way.holder));
            let others = request.holders(object).iter().filter(|holder| !dead.contains(holder));
            assert!(others.count() == 0 || !dead.contains(&way.holder), "object {object} is lost");
            assert!(way.hub.is_none_or(|hub| hubs[hub as usize].is_some()), "nobody gets {object}");
        }
    }
    let mut out = Directives::new();
    let lost = Measured::HubLost { request: JobId(0), hub: 99 }.into();
    tell(&mut *policy, Time::ZERO, &network, &lost, &mut out);
    assert!(out.is_empty(), "there is no such hub");
}

/// Nobody takes its place, and no other server has its objects: the front end asks the servers.
#[test]
fn what_a_dead_hub_alone_could_get_is_asked_for_directly() {
    let network = network(1, 2, 10);
    let request = request(&network, 11, 50, 1);
    let (mut policy, _, _) = begun(&network, "sicc", &Parameters::default(), &request);
    let mut moved = Vec::new();
    for _ in 0..2 {
        let mut out = Directives::new();
        let lost = Measured::HubLost { request: JobId(0), hub: 0 }.into();
        tell(&mut *policy, Time::ZERO, &network, &lost, &mut out);
        for order in orders(&out) {
            if let HubOrder::Redirect(moves) = order {
                moved.extend(moves.iter().copied());
            }
        }
    }
    assert_eq!(moved.len(), 50);
    for (object, way) in moved {
        assert_eq!(way, Way { holder: request.holders(object as usize)[0], hub: None });
    }
}

/// A hub at a tenth of its speed: what it has left goes to others, and so does its speed.
#[test]
fn an_overloaded_hub_is_relieved() {
    let network = network(4, 2, 10);
    let request = request(&network, 5, 2000, 3);
    let (mut policy, gathering, speeds) = begun(&network, "sicc", &Parameters::default(), &request);
    let span = Span::from_millis(1);
    let received: Vec<Bytes> = (0..4)
        .map(|hub| if hub == 2 { speeds[2].fraction(1, 10) } else { speeds[hub] }.bytes_in(span))
        .collect();
    let sample = Sample { span, received, ..Sample::default() };
    let sample = Measured::Gathering { request: JobId(0), sample: Arc::new(sample) };
    let mut out = Directives::new();
    tell(&mut *policy, Time::ZERO, &network, &sample.clone().into(), &mut out);
    match orders(&out)[..] {
        [HubOrder::Redirect(moves), HubOrder::Speeds(after)] => {
            assert!(moves.len() > 100, "{}", moves.len());
            for (object, way) in moves {
                assert_eq!(gathering.ways[*object as usize].hub, Some(2));
                assert_ne!(way.hub, Some(2));
                assert!(request.holders(*object as usize).contains(&way.holder));
            }
            assert_eq!(after[2], speeds[2].fraction(2, 10));
            assert!(after[0] > speeds[0]);
            assert!(after.iter().copied().sum::<Rate>() <= GIGABIT);
        }
        ref other => panic!("{other:?}"),
    }
    // Without the parts nothing changes; and nothing does for a request that is over.
    let off = Parameters::default().with("speed", false).with("redirect", false);
    let (mut still, _, _) = begun(&network, "sicc", &off, &request);
    let mut out = Directives::new();
    tell(&mut *still, Time::ZERO, &network, &sample.clone().into(), &mut out);
    assert!(out.is_empty());
    tell(
        &mut *policy,
        Time::ZERO,
        &network,
        &Declared::JobComplete { job: JobId(0) }.into(),
        &mut out,
    );
    tell(&mut *policy, Time::ZERO, &network, &sample.into(), &mut out);
    assert!(out.is_empty());
}

/// What an application gets wrong: no such servers, fewer holders than objects, no objects.
#[test]
fn hubs_that_keep_up_share_what_others_leave_at_once() {
    let network = network(8, 4, 10);
    let request = request(&network, 7, 300, 3);
    let parameters = Parameters::default().with("redirect", false);
    let (mut policy, gathering, mut speeds) = begun(&network, "sicc", &parameters, &request);
    let span = Span::from_micros(100);
    // A speed is known after some 0.8 ms; in the middle of it six of eight hubs end.
    for period in 0..20u32 {
        let ends = |hub: Option<u32>| period == 4 && hub.unwrap() >= 2;
        let ways = (0u32..).zip(&gathering.ways);
        let arrived = ways.filter(|(_, way)| ends(way.hub)).map(|(object, _)| object).collect();
        let received = speeds.iter().map(|speed| speed.bytes_in(span)).collect();
        let (queued, buffer) = (Bytes::ZERO, Bytes::new(200_000));
        let sample = Arc::new(Sample { span, arrived, received, queued, buffer });
        let advanced = Measured::Gathering { request: request.id, sample }.into();
        let mut out = Directives::new();
        tell(&mut *policy, Time::ZERO, &network, &advanced, &mut out);
        for order in orders(&out) {
            let HubOrder::Speeds(new) = order else { panic!("{order:?}") };
            speeds.clone_from(new);
        }
        let even = GIGABIT.fraction(1, if period < 4 { 8 } else { 2 });
        assert_eq!(speeds[..2], [even; 2], "after period {period}");
    }
}

#[test]
fn a_hostile_request_does_no_harm() {
    let network = network(2, 2, 3);
    let nowhere = Request {
        id: JobId(0),
        front: NodeId(u32::MAX),
        sizes: vec![u32::MAX; 5],
        holders: vec![NodeId(u32::MAX), NodeId(0), NodeId(3)],
        copies: 2,
        spare: vec![(NodeId(u32::MAX), Rate::ZERO), (NodeId(0), Rate::MAX)],
    };
    for request in
        [nowhere, Request::default(), Request { copies: usize::MAX, ..Request::default() }]
    {
        for name in ["sicc", "sicc-joint"] {
            let mut policy = by_name(name, &Parameters::default()).unwrap();
            let mut out = Directives::new();
            let gather = Declared::Gather(Arc::new(request.clone())).into();
            tell(&mut *policy, Time::ZERO, &network, &gather, &mut out);
            let sample = Sample { arrived: vec![0, 77, u32::MAX], ..Sample::default() };
            let sample = Measured::Gathering { request: request.id, sample: Arc::new(sample) };
            tell(&mut *policy, Time::ZERO, &network, &sample.into(), &mut out);
            for hub in [0, 1, u32::MAX] {
                let lost = Measured::HubLost { request: request.id, hub }.into();
                tell(&mut *policy, Time::ZERO, &network, &lost, &mut out);
            }
        }
    }
}
