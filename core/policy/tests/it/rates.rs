//! Policies that give every flow a rate: what links carry, acknowledgements included.
#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeMap;

use crate::desk::*;
use model::{FlowId, LEAST_RATE, Network, NodeId};
use proptest::prelude::*;
use units::{Rate, Span, Time};
use watermaster_policy::{Acknowledgements, Parameters, Share, find};

/// Octets of an acknowledgement for each so many octets of data frames.
type Echo = (u32, u32);

fn desk(policy: &str, network: &Network, echo: Echo) -> Desk {
    let policy = find(policy).unwrap();
    let mut parameters = Parameters::default().acknowledged(Acknowledgements::new(echo.0, echo.1));
    let has = |name: &str| policy.parameters.iter().any(|parameter| parameter.name == name);
    if has("pause") {
        parameters = parameters.with("pause", Span::ZERO);
    }
    // The example of docs/adding-a-policy.md keeps next to nothing for nobody: a share is never zero.
    if has("reserve") {
        parameters = parameters.with("reserve", Share::LEAST);
    }
    Desk::new(network.clone(), policy.build(&parameters).unwrap())
}

/// The part of every link that is in use at the limits that stand.
fn used(desk: &Desk, flows: &BTreeMap<FlowId, (NodeId, NodeId)>, echo: Echo) -> Vec<f64> {
    let links = desk.network.topology().links();
    let mut used = vec![0.0; links.len()];
    for (id, (src, dst)) in flows {
        let rate = desk.limits[id].as_bps() as f64;
        for link in path(&desk.network, id.0, *src, *dst) {
            used[link.index()] += rate;
        }
        for link in path(&desk.network, id.0, *dst, *src) {
            used[link.index()] += rate * f64::from(echo.0) / f64::from(echo.1);
        }
    }
    used.iter().zip(links).map(|(used, link)| used / link.spec.capacity.as_bps() as f64).collect()
}

/// No link carries more than it can, and every flow has a link that is nearly full: but for two steps of
/// what is kept back, for a floor of every flow, twice as many at most, and for what isn't worth dividing.
fn check(
    desk: &Desk,
    flows: &BTreeMap<FlowId, (NodeId, NodeId)>,
    echo: Echo,
) -> Result<(), TestCaseError> {
    let used = used(desk, flows, echo);
    for (number, used) in used.iter().enumerate() {
        prop_assert!(*used <= 1.0 + 1e-12, "link {number} is used to {used}");
    }
    for (id, (src, dst)) in flows {
        let path = path(&desk.network, id.0, *src, *dst);
        let full = path.iter().any(|link| {
            let capacity = desk.network.topology().link(*link).spec.capacity.as_bps() as f64;
            let floors = LEAST_RATE.as_bps() as f64 * 2.0 * (flows.len() + 1) as f64;
            used[link.index()] >= 1.0 - 3.0 / 256.0 - floors / capacity
        });
        prop_assert!(full, "flow {} waits, and no link of its path is full", id.0);
    }
    Ok(())
}

/// A cable that is busy both ways carries as much each way as acknowledgements leave.
#[test]
fn both_ways_of_a_cable_are_filled() {
    let network = big_switch(2, Rate::from_mbps(100));
    let (a, b) = (host(&network, 0), host(&network, 1));
    let echo = (40, 1500);
    for policy in allocators() {
        let mut desk = desk(policy, &network, echo);
        // Of two jobs: also what comes last in an order has its way for itself.
        for (flow, src, dst) in [(0, a, b), (1, b, a)] {
            desk.settle(Time::ZERO, job_start(flow));
            desk.settle(Time::ZERO, request(flow, flow, src, dst, 1_000_000_000));
        }
        let flows = BTreeMap::from([(FlowId(0), (a, b)), (FlowId(1), (b, a))]);
        let used = used(&desk, &flows, echo);
        let is_full = used.iter().all(|used| (0.99..=1.0).contains(used));
        assert!(is_full, "{policy}: {used:?}, {:?}", desk.limits);
    }
}

/// What nothing comes back for is divided whole.
#[test]
fn a_lone_way_keeps_nothing_back() {
    let network = big_switch(2, Rate::from_mbps(100));
    let mut desk = desk("fair", &network, (40, 1500));
    desk.settle(Time::ZERO, job_start(0));
    let (src, dst) = (host(&network, 0), host(&network, 1));
    desk.settle(Time::ZERO, request(0, 0, src, dst, 1_000_000));
    assert_eq!(desk.limits[&FlowId(0)], Rate::from_mbps(100));
}

/// Where a flow that is granted more leaves another's acknowledgements no room, and gives way to them, divisions
/// don't take turns between all and nothing.
#[test]
fn flows_that_give_way_to_acknowledgements_leave_no_link_idle() {
    let network = big_switch(5, Rate::from_bps(13_000_000));
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let echo = (40, 1500);
    let mut desk = desk("sebf", &network, echo);
    let mut flows = BTreeMap::new();
    // Job, from, to, megabytes.
    let wanted = [
        (1, 4, 2, 1),
        (1, 0, 2, 1),
        (2, 0, 2, 1),
        (1, 2, 0, 33),
        (0, 3, 4, 1),
        (3, 1, 3, 604),
        (4, 1, 0, 34),
    ];
    for (number, (job, from, to, megabytes)) in (0u32..).zip(wanted) {
        let (src, dst) = (hosts[from], hosts[to]);
        desk.settle(Time::ZERO, job_start(job));
        desk.settle(Time::ZERO, request(job, number, src, dst, megabytes * 1_000_000));
        flows.insert(FlowId(number), (src, dst));
        check(&desk, &flows, echo).unwrap();
    }
    for (job, number) in [(1, 1), (3, 5)] {
        desk.settle(Time::ZERO + Span::from_millis(1), flow_complete(job, number));
        desk.limits.remove(&FlowId(number));
        flows.remove(&FlowId(number));
        check(&desk, &flows, echo).unwrap();
    }
}

proptest! {
    #[test]
    fn links_are_full_and_carry_their_acknowledgements(
        network in any_network(),
        policy in prop::sample::select(allocators()),
        echo in (prop::sample::select(&[40u32, 52, 66][..]), prop::sample::select(&[1500u32, 3000][..])),
        wanted in prop::collection::vec((0..6u32, any::<(u32, u32)>(), 1..1_000u64, any::<bool>()), 1..14),
    ) {
        let hosts: Vec<NodeId> = network.topology().hosts().collect();
        prop_assume!(hosts.len() > 1);
        let mut desk = desk(policy, &network, echo);
        let mut flows = BTreeMap::new();
        let count = u32::try_from(hosts.len()).unwrap();
        for (number, (job, (from, to), megabytes, _)) in (0u32..).zip(&wanted) {
            let from = from % count;
            let to = (from + 1 + to % (count - 1)) % count;
            let (src, dst) = (hosts[from as usize], hosts[to as usize]);
            desk.settle(Time::ZERO, job_start(*job));
            desk.settle(Time::ZERO, request(*job, number, src, dst, megabytes * 1_000_000));
            flows.insert(FlowId(number), (src, dst));
            check(&desk, &flows, echo)?;
        }
        for (number, (job, _, _, ends)) in (0u32..).zip(&wanted) {
            if *ends {
                desk.settle(Time::ZERO + Span::from_millis(1), flow_complete(*job, number));
                desk.limits.remove(&FlowId(number));
                flows.remove(&FlowId(number));
                check(&desk, &flows, echo)?;
            }
        }
    }
}
