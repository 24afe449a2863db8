//! Rates have one answer, whatever came before and however it is found, and it is found in a bounded
//! number of rounds: with limits that fill links exactly, where rounding decides.

use engine::World as _;
use model::{Buffer, FlowId, Network, NodeId, NodeKind, Topology};
use proptest::prelude::*;
use testing::network::link;
use units::{Bytes, Rate, Time};

use crate::world::World;

/// Two switches with three hosts each; capacities that have many divisors.
fn network(capacities: &[u64]) -> Network {
    let mut mbps = capacities.iter().copied().cycle();
    let mut cable = || {
        let mbps = mbps.next().unwrap();
        (link(mbps, 0, Buffer::Unlimited), link(mbps, 0, Buffer::Unlimited))
    };
    let mut topology = Topology::new();
    let switches =
        ["s0", "s1"].map(|name| topology.add_node(name.into(), NodeKind::Switch).unwrap());
    let (there, back) = cable();
    topology.connect(switches[0], switches[1], there, back).unwrap();
    for host in 0..6 {
        let node = topology.add_node(format!("h{host}"), NodeKind::Host).unwrap();
        let (up, down) = cable();
        topology.connect(node, switches[host % 2], up, down).unwrap();
    }
    Network::new(topology)
}

/// A flow from a host to one so many further, and the parts of a link's capacity that it is limited to
/// before the last and then; none where the divisor is zero.
type Case = (usize, usize, (u64, u64), (u64, u64));

fn rate((link, divisor): (u64, u64), capacities: &[u64]) -> Option<Rate> {
    let capacity = capacities[usize::try_from(link).unwrap() % capacities.len()] * 1_000_000;
    (divisor > 0).then(|| Rate::from_bps(capacity / divisor))
}

/// Starts the flows, has each limited, and returns what each has sent at several times, and the levels.
fn play(
    mut world: World,
    network: &Network,
    capacities: &[u64],
    flows: &[Case],
    is_limited_before: bool,
) -> Result<(Vec<Option<Bytes>>, Vec<u64>), String> {
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let (mut sent, mut levels) = (Vec::new(), Vec::new());
    for &(src, step, ..) in flows {
        let (src, dst) = (hosts[src], hosts[(src + step) % 6]);
        world.start(network, src, dst, Bytes::new(1 << 40)).map_err(|error| error.to_string())?;
    }
    let ids = || (0u32..).map(FlowId).zip(flows);
    let settle = |world: &mut World, time| {
        while let engine::Notice::Pause = world.run(Time::from_nanos(time)) {
            world.check().map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    };
    if is_limited_before {
        // What is limited first leaves its side; nothing is sent as no time passes.
        for (flow, case) in ids() {
            world.limit(flow, rate(case.2, capacities));
            settle(&mut world, 0)?;
        }
    }
    for (flow, case) in ids() {
        world.limit(flow, rate(case.3, capacities));
        if is_limited_before {
            settle(&mut world, 0)?;
        }
    }
    settle(&mut world, 1_000_000_000)?;
    sent.extend(ids().map(|(flow, _)| world.state(flow).map(|state| state.sent)));
    levels.extend(world.levels());
    // Those of every other flow lift.
    for (flow, _) in ids().step_by(2) {
        world.limit(flow, None);
    }
    settle(&mut world, 2_000_000_000)?;
    sent.extend(ids().map(|(flow, _)| world.state(flow).map(|state| state.sent)));
    levels.extend(world.levels());
    Ok((sent, levels))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rates_have_one_answer(
        capacities in prop::collection::vec(prop::sample::select(vec![12u64, 24, 36, 60]), 1..8),
        flows in prop::collection::vec(
            (0usize..6, 1usize..6, (0u64..8, 0u64..5), (0u64..8, 0u64..7)), 1..16
        ),
    ) {
        let network = network(&capacities);
        let once = |world, before| play(world, &network, &capacities, &flows, before);
        let all_at_once = once(World::new(&network, None), false);
        prop_assert!(all_at_once.is_ok(), "{all_at_once:?}");
        prop_assert_eq!(&once(World::new(&network, None), true), &all_at_once);
        // From nothing, in order of levels, each time.
        for before in [false, true] {
            prop_assert_eq!(&once(World::new(&network, None).without_patience(), before), &all_at_once);
        }
    }
}

#[test]
fn what_is_not_settled_is_said_with_the_case() {
    // Three flows of which one is limited to a third share two links.
    let capacities = [12];
    let network = network(&capacities);
    let flow = |divisor| (0, 2, (0, 0), (0, divisor));
    let flows = [flow(3), flow(0), flow(0)];
    let error =
        play(World::new(&network, None).with_rounds(0), &network, &capacities, &flows, false);
    let error = error.unwrap_err();
    for part in ["0.000000000 s", "after 0 rounds", "link 2 of capacity 786432000000"] {
        assert!(error.contains(part), "{error}");
    }
}

/// What each flow has sent and what levels are, step by step, where some come at once and then go by limit, by
/// end, or by neither, between hosts of one switch.
fn follow(
    mut world: World,
    network: &Network,
    steps: &[(usize, usize, u64, u64)],
) -> Vec<Vec<u64>> {
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut seen = Vec::new();
    for (step, &(src, to, kilobytes, part)) in (0u64..).zip(steps) {
        let dst = (src + to) % hosts.len();
        let flow =
            world.start(network, hosts[src], hosts[dst], Bytes::new(1_000 * kilobytes)).unwrap();
        let limit = 12_000_000u64.checked_div(part).map(Rate::from_bps);
        world.limit(flow, limit);
        // Some come at the same instant.
        let until = Time::from_nanos(step / 3 * 5_000_000);
        while !matches!(world.run(until), engine::Notice::Limit) {
            world.check().unwrap();
        }
        let sent = (0u32..).take(usize::try_from(step).unwrap() + 1);
        let sent = sent.map(|flow| world.state(FlowId(flow)).map_or(u64::MAX, |of| of.sent.get()));
        seen.push(world.levels().into_iter().chain(sent).collect());
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Levels that are followed by sums are those that come from nothing each time.
    #[test]
    fn what_is_followed_is_what_comes_from_nothing(
        capacities in prop::collection::vec(prop::sample::select(vec![12u64, 13, 24, 60]), 1..30),
        steps in prop::collection::vec((0usize..12, 1usize..12, 1u64..60, 0u64..6), 1..120),
    ) {
        let mut mbps = capacities.iter().copied().cycle();
        let mut cable = || link(mbps.next().unwrap(), 0, Buffer::Unlimited);
        let mut topology = Topology::new();
        let switch = topology.add_node("s".into(), NodeKind::Switch).unwrap();
        for host in 0..12 {
            let host = topology.add_node(format!("h{host}"), NodeKind::Host).unwrap();
            topology.connect(host, switch, cable(), cable()).unwrap();
        }
        let network = Network::new(topology);
        // Few flows have a limit.
        let steps: Vec<_> =
            steps.into_iter().map(|(src, to, size, part)| (src, to, size, part / 4 * part)).collect();
        let followed = follow(World::new(&network, None), &network, &steps);
        let anew = follow(World::new(&network, None).without_patience(), &network, &steps);
        prop_assert_eq!(followed, anew);
    }
}
