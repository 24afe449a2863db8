//! Max-min fair rates: by hand, by the optimality conditions, and as the `fair` policy.

#![allow(clippy::unwrap_used)] // a test may panic

mod support;

use model::{FlowId, LinkId, Measured};
use proptest::prelude::*;
use support::*;
use units::{Rate, Time};
use watermaster_policy::waterfill::max_min;
use watermaster_policy::{FLOOR, Parameters, by_name};

fn bps(rates: &[u64]) -> Vec<Rate> {
    rates.iter().copied().map(Rate::from_bps).collect()
}

/// Links of 10 and 100. Flow 0 uses both, flow 1 the first, flow 2 the second: 5, 5 and 95.
#[test]
fn three_flows_on_two_links() {
    let (a, b) = (LinkId(0), LinkId(1));
    let rates = max_min(&bps(&[10, 100]), &[&[a, b], &[a], &[b]]);
    assert_eq!(rates, bps(&[5, 5, 95]));
}

/// A third of 10 is rounded down; a flow without a link, or on an unknown one, isn't limited.
#[test]
fn rounding_and_the_unlimited() {
    let a = LinkId(0);
    let rates = max_min(&bps(&[10]), &[&[a], &[a], &[a], &[], &[LinkId(7)]]);
    let three = Rate::from_bps(3);
    assert_eq!(rates, [three, three, three, Rate::MAX, Rate::MAX]);
    assert_eq!(max_min(&[], &[]), []);
    assert_eq!(max_min(&[Rate::MAX], &[&[a], &[a]]), [Rate::from_bps(u64::MAX / 2); 2]);
}

proptest! {
    /// Rates are max-min fair exactly if they are feasible and each flow has a bottleneck: a
    /// saturated link on which no rate is larger (Bertsekas and Gallager, section 6.5.2).
    #[test]
    fn every_flow_has_a_bottleneck(
        capacities in prop::collection::vec(0..10_000u64, 1..12),
        flows in prop::collection::vec(prop::collection::btree_set(0..12u32, 1..5), 1..40),
    ) {
        let count = u32::try_from(capacities.len()).unwrap();
        let paths: Vec<Vec<LinkId>> = flows
            .iter()
            .map(|flow| flow.iter().map(|l| LinkId(l % count)).collect::<Vec<_>>())
            .map(|mut path| { path.sort_unstable(); path.dedup(); path })
            .collect();
        let slices: Vec<&[LinkId]> = paths.iter().map(Vec::as_slice).collect();
        let rates: Vec<u64> =
            max_min(&bps(&capacities), &slices).iter().map(|r| r.as_bps()).collect();
        let on = |link: LinkId| paths.iter().zip(&rates).filter(move |(p, _)| p.contains(&link));
        let used = |link: LinkId| on(link).map(|(_, rate)| rate).sum::<u64>();
        for (link, capacity) in (0..).map(LinkId).zip(&capacities) {
            prop_assert!(used(link) <= *capacity);
        }
        for (path, rate) in paths.iter().zip(&rates) {
            let bottleneck = path.iter().any(|&link| {
                let left = capacities[link.index()] - used(link);
                left < on(link).count() as u64 && on(link).all(|(_, other)| other <= rate)
            });
            prop_assert!(bottleneck, "a flow at {rate} could have more");
        }
    }
}

/// Rates follow arrivals, departures and failures; who isn't affected hears nothing.
#[test]
fn fair_solves_anew_at_each_change() {
    let network = big_switch(6, Rate::from_mbps(90));
    let at = |number| host(&network, number);
    let policy = by_name("fair", &Parameters::default()).unwrap();
    let mut desk = Desk::new(network.clone(), policy);
    let now = Time::ZERO;
    desk.tell(now, job_start(0));
    desk.tell(now, request(0, 0, at(0), at(1), 1));
    desk.tell(now, request(0, 9, at(4), at(5), 1));
    assert_eq!(desk.limits[&FlowId(0)], Rate::from_mbps(90));
    assert_eq!(desk.tell(now, request(0, 1, at(0), at(2), 1)).len(), 2);
    desk.tell(now, request(0, 2, at(3), at(2), 1));
    desk.tell(now, request(0, 3, at(3), at(2), 1));
    // Into host 2: flows 1, 2, 3 at 30 each; flow 0 takes what flow 1 leaves of host 0's uplink.
    let rates = |desk: &Desk| -> Vec<u64> {
        let limits = desk.limits.values();
        limits.map(|rate| rate.as_bps() / 1_000_000).collect()
    };
    assert_eq!(rates(&desk), [60, 30, 30, 30, 90]);
    let link = network.topology().out(at(3))[0];
    desk.network.set_up(link, false);
    desk.tell(now, Measured::LinkState { link, up: false });
    assert_eq!(rates(&desk), [45, 45, 90], "flows 2 and 3 have no path and no limit");
    desk.tell(now, flow_complete(0, 0));
    assert_eq!(desk.limits[&FlowId(1)], Rate::from_mbps(90));
}

/// Rate zero is never asked for, however narrow the link.
#[test]
fn fair_keeps_the_floor() {
    let network = big_switch(2, Rate::from_bps(10));
    let (a, b) = (host(&network, 0), host(&network, 1));
    let policy = by_name("fair", &Parameters::default()).unwrap();
    let mut desk = Desk::new(network, policy);
    desk.tell(Time::ZERO, job_start(0));
    desk.tell(Time::ZERO, request(0, 0, a, b, 1));
    assert_eq!(desk.limits[&FlowId(0)], FLOOR);
}
