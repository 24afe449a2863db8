//! Max-min fair rates: by hand, by the optimality conditions, and as the `fair` policy.

#![allow(clippy::unwrap_used)] // a test may panic

use crate::desk::*;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use model::{FlowId, LEAST_RATE, LinkId, Measured};
use proptest::prelude::*;
use units::{Rate, Time};
use watermaster_policy::waterfill::{max_min, together, weighted};
use watermaster_policy::{Parameters, by_name};

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

/// Rates follow arrivals, departures and failures, solved once when everything is said; who isn't
/// affected hears nothing.
#[test]
fn fair_solves_anew_at_each_change() {
    let network = big_switch(6, Rate::from_mbps(90));
    let at = |number| host(&network, number);
    let policy = by_name("fair", &Parameters::default()).unwrap();
    let mut desk = Desk::new(network.clone(), policy);
    let now = Time::ZERO;
    desk.tell(now, job_start(0));
    desk.tell(now, request(0, 0, at(0), at(1), 1));
    assert_eq!(desk.tell(now, request(0, 9, at(4), at(5), 1)), []);
    assert_eq!(desk.policy.deadline(), Some(now));
    desk.tick(now);
    assert_eq!(desk.policy.deadline(), None);
    assert_eq!(desk.limits[&FlowId(0)], Rate::from_mbps(90));
    desk.tell(now, request(0, 1, at(0), at(2), 1));
    assert_eq!(desk.tick(now).len(), 2);
    desk.tell(now, request(0, 2, at(3), at(2), 1));
    desk.tell(now, request(0, 3, at(3), at(2), 1));
    desk.tick(now);
    // Into host 2: flows 1, 2, 3 at 30 each; flow 0 takes what flow 1 leaves of host 0's uplink.
    let rates = |desk: &Desk| -> Vec<u64> {
        let limits = desk.limits.values();
        limits.map(|rate| rate.as_bps() / 1_000_000).collect()
    };
    assert_eq!(rates(&desk), [60, 30, 30, 30, 90]);
    let link = network.topology().out(at(3))[0];
    desk.network.set_up(link, false);
    desk.tell(now, Measured::LinkState { link, up: false });
    desk.tick(now);
    assert_eq!(rates(&desk), [45, 45, 90], "flows 2 and 3 have no path and no limit");
    desk.tell(now, flow_complete(0, 0));
    desk.tick(now);
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
    desk.tick(Time::ZERO);
    assert_eq!(desk.limits[&FlowId(0)], LEAST_RATE);
}

/// The most that the least `rate / weight` of the flows in `growing` can be while the others keep
/// theirs: a linear program.
fn level(capacities: &[u64], paths: &[Vec<LinkId>], weights: &[f64], fixed: &[Option<f64>]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let level = problem.add_var(1.0, (0.0, f64::INFINITY));
    for (link, capacity) in (0..).map(LinkId).zip(capacities) {
        let on = || (0..paths.len()).filter(|flow| paths[*flow].contains(&link));
        let taken: f64 = on().filter_map(|flow| fixed[flow]).sum();
        let weight: f64 = on().filter(|flow| fixed[*flow].is_none()).map(|f| weights[f]).sum();
        problem.add_constraint(
            [(level, weight)],
            ComparisonOp::Le,
            (*capacity as f64 - taken).max(0.0),
        );
    }
    match problem.solve().unwrap() {
        SolveOutcome::Solution(solution) => solution.objective(),
        SolveOutcome::Interrupted(_) => panic!("no limit was set"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Weighted rates against the definition, as a series of linear programs: the least rate by
    /// weight is as large as possible; what a full link stops keeps that; and so on for the others.
    #[test]
    fn weighted_rates_are_those_of_linear_programs(
        capacities in prop::collection::vec(1_000_000..100_000_000u64, 1..5),
        flows in prop::collection::vec((prop::collection::btree_set(0..5u32, 1..4), 1..20u32), 1..8),
    ) {
        let count = u32::try_from(capacities.len()).unwrap();
        let paths: Vec<Vec<LinkId>> = flows
            .iter()
            .map(|(flow, _)| flow.iter().map(|l| LinkId(l % count)).collect::<Vec<_>>())
            .map(|mut path| { path.sort_unstable(); path.dedup(); path })
            .collect();
        let weights: Vec<f64> = flows.iter().map(|(_, weight)| f64::from(*weight)).collect();
        let slices: Vec<&[LinkId]> = paths.iter().map(Vec::as_slice).collect();
        let rates = weighted(&bps(&capacities), &slices, &weights);

        let mut fixed: Vec<Option<f64>> = vec![None; paths.len()];
        while fixed.contains(&None) {
            let level = level(&capacities, &paths, &weights, &fixed);
            let share = |flow: usize| fixed[flow].unwrap_or(level * weights[flow]);
            let full: Vec<LinkId> = (0..).map(LinkId).zip(&capacities).filter(|(link, capacity)| {
                let on = (0..paths.len()).filter(|flow| paths[*flow].contains(link));
                on.map(share).sum::<f64>() > **capacity as f64 - 1.0
            }).map(|(link, _)| link).collect();
            prop_assert!(!full.is_empty());
            for flow in 0..paths.len() {
                if fixed[flow].is_none() && paths[flow].iter().any(|link| full.contains(link)) {
                    fixed[flow] = Some(level * weights[flow]);
                }
            }
        }
        for (rate, fixed) in rates.iter().zip(&fixed) {
            prop_assert!((rate.as_bps() as f64 - fixed.unwrap()).abs() < 30.0, "{rates:?} {fixed:?}");
        }
    }

    /// MADD: nothing ends later than the least time that a linear program finds, all end together,
    /// and no link carries too much.
    #[test]
    fn all_end_together_and_none_could_sooner(
        capacities in prop::collection::vec(1_000_000..100_000_000u64, 1..5),
        flows in prop::collection::vec((prop::collection::btree_set(0..5u32, 1..4), 1..20u32), 1..8),
    ) {
        let count = u32::try_from(capacities.len()).unwrap();
        let paths: Vec<Vec<LinkId>> = flows
            .iter()
            .map(|(flow, _)| flow.iter().map(|l| LinkId(l % count)).collect::<Vec<_>>())
            .map(|mut path| { path.sort_unstable(); path.dedup(); path })
            .collect();
        let sizes: Vec<f64> = flows.iter().map(|(_, size)| f64::from(*size) * 1e6).collect();
        let slices: Vec<&[LinkId]> = paths.iter().map(Vec::as_slice).collect();
        let rates = together(&bps(&capacities), &slices, &sizes);
        let least = 1.0 / level(&capacities, &paths, &sizes, &vec![None; paths.len()]);
        for (rate, size) in rates.iter().zip(&sizes) {
            let end = size / rate.as_bps() as f64;
            prop_assert!(end >= least * (1.0 - 1e-9) && end <= least * 1.001, "{end} {least}");
        }
        for (link, capacity) in (0..).map(LinkId).zip(&capacities) {
            let on = paths.iter().zip(&rates).filter(|(path, _)| path.contains(&link));
            prop_assert!(on.map(|(_, rate)| rate.as_bps()).sum::<u64>() <= *capacity);
        }
    }
}
