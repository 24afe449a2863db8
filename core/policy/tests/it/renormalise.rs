//! Renormalised rates: by hand, by their bounds, against a linear program, and as the `asy` policy.

#![allow(clippy::unwrap_used)] // a test may panic

use crate::desk::{big_switch, host, tell};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use model::{Directive, Directives, LEAST_RATE, Measured, Network, NodeId};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::renormalise::{Offer, Renormaliser};
use watermaster_policy::{Parameters, Policy, Share, by_name};

const MBIT: u64 = 1_000_000;

fn offers(pairs: &[(u32, u32, u64)]) -> Vec<Offer> {
    let offer = |&(src, dst, mbps)| Offer { src, dst, rate: Rate::from_mbps(mbps) };
    pairs.iter().map(offer).collect()
}

fn solve(sources: &[Rate], destinations: &[Rate], offers: &[Offer]) -> Vec<u64> {
    let mut rates = Vec::new();
    let mut solver = Renormaliser::default();
    // Twice: what the first matrix left behind must not matter.
    solver.solve(destinations, sources, &[], &mut rates);
    solver.solve(sources, destinations, offers, &mut rates);
    rates.iter().map(|rate| rate.as_bps()).collect()
}

/// What fits is given as it is; two into one host halve it; and where a column leaves room, the
/// rows that can use it get it: (1 1; 1 0) has no better total than from the anti-diagonal.
#[test]
fn by_hand() {
    let gbit = [Rate::from_mbps(1000); 2];
    let near = |rates: &[u64], wanted: &[u64], part: f64| {
        assert_eq!(rates.len(), wanted.len());
        for (rate, wanted) in rates.iter().zip(wanted) {
            let off = (*rate as f64 - (wanted * MBIT) as f64).abs();
            assert!(off <= part * 1e9, "{rates:?}");
        }
    };
    let rates = solve(&gbit, &gbit, &offers(&[(0, 0, 300), (0, 1, 400), (1, 1, 500)]));
    near(&rates, &[300, 400, 500], 1e-6);
    let rates = solve(&gbit, &gbit, &offers(&[(0, 1, 1000), (1, 1, 1000)]));
    near(&rates, &[500, 500], 1e-6);
    let rates = solve(&gbit, &gbit, &offers(&[(0, 0, 1000), (0, 1, 1000), (1, 0, 1000)]));
    near(&rates, &[0, 1000, 1000], 0.2);
    assert!(rates.iter().sum::<u64>() > 1850 * MBIT, "{rates:?}");
    // Who has no end gets nothing.
    let lost = solve(&gbit, &gbit, &offers(&[(0, 7, 1000), (5, 0, 1000)]));
    assert_eq!(lost, [0, 0]);
}

/// The largest total rate, by a linear program.
fn most(sources: &[Rate], destinations: &[Rate], offers: &[Offer]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let rates: Vec<_> =
        offers.iter().map(|o| problem.add_var(1.0, (0.0, o.rate.as_bps() as f64 / 1e6))).collect();
    for (side, capacities) in [sources, destinations].into_iter().enumerate() {
        for (line, capacity) in (0u32..).zip(capacities) {
            let own = offers.iter().zip(&rates).filter(|(o, _)| [o.src, o.dst][side] == line);
            let own: Vec<_> = own.map(|(_, rate)| (*rate, 1.0)).collect();
            problem.add_constraint(&own, ComparisonOp::Le, capacity.as_bps() as f64 / 1e6);
        }
    }
    match problem.solve().unwrap() {
        SolveOutcome::Solution(solution) => solution.objective() * 1e6,
        other => panic!("{other:?}"),
    }
}

proptest! {
    /// Neither a capacity nor an offer is exceeded, by no bit; no pair could have much more
    /// alone; and the total is near the largest that there is.
    #[test]
    fn rates_fit_and_use_what_there_is(
        capacities in prop::collection::vec(1..100u64, 12),
        entries in prop::collection::btree_map((0..6u32, 0..6u32), 1..200u64, 1..30),
    ) {
        let rate = |tens: &u64| Rate::from_bps(tens * 10_000_019);
        let sources: Vec<Rate> = capacities[..6].iter().map(rate).collect();
        let destinations: Vec<Rate> = capacities[6..].iter().map(rate).collect();
        let offers: Vec<Offer> = entries.iter()
            .map(|(&(src, dst), tens)| Offer { src, dst, rate: rate(tens) })
            .collect();
        let rates = solve(&sources, &destinations, &offers);
        let sum = |side: usize, line: u32| -> u64 {
            let own = offers.iter().zip(&rates).filter(|(o, _)| [o.src, o.dst][side] == line);
            own.map(|(_, rate)| rate).sum()
        };
        for (line, capacity) in (0..).zip(&sources) {
            prop_assert!(sum(0, line) <= capacity.as_bps());
        }
        for (line, capacity) in (0..).zip(&destinations) {
            prop_assert!(sum(1, line) <= capacity.as_bps());
        }
        for (offer, rate) in offers.iter().zip(&rates) {
            prop_assert!(*rate <= offer.rate.as_bps());
        }
        let total = rates.iter().sum::<u64>() as f64;
        let best = most(&sources, &destinations, &offers);
        prop_assert!(total >= 0.85 * best, "{total} of {best}");
        prop_assert!(total <= best * (1.0 + 1e-6));
    }
}

/// On matrices that can be filled, as those of a loaded network, all but a hundredth is.
#[test]
fn dense_matrices_are_filled() {
    let hosts = 64;
    let capacities = vec![Rate::from_mbps(1000); hosts as usize];
    let pairs = (0..hosts).flat_map(|src| (1..=12).map(move |step| (src, step)));
    let offers: Vec<Offer> = pairs
        .map(|(src, step)| {
            let dst = (src * 7 + step * step * 3 + step) % hosts;
            Offer { src, dst, rate: Rate::from_mbps(1000) }
        })
        .collect();
    let total: u64 = solve(&capacities, &capacities, &offers).iter().sum();
    let best = most(&capacities, &capacities, &offers);
    assert!(total as f64 >= 0.99 * best, "{total} of {best}");
}

/// The policy's rates after `observation`, by sender.
fn told(policy: &mut dyn Policy, network: &Network, what: Measured) -> Vec<(NodeId, u64)> {
    let mut out = Directives::new();
    tell(policy, Time::ZERO, network, &what.into(), &mut out);
    let rate = |directive: &Directive| match directive {
        Directive::PacePair { src, rate, .. } => (*src, rate.as_bps()),
        other => panic!("{other:?}"),
    };
    out.iter().map(rate).collect()
}

/// A pair with packets has the whole link, shares it with another, and has it again when that is
/// done; a pair that was measured has what it offers. Nobody hears of what hardly changes.
#[test]
fn asy_follows_what_is_offered() {
    let network = big_switch(4, Rate::from_mbps(1000));
    let at = |number| host(&network, number);
    let mut policy = by_name("asy", &Parameters::default()).unwrap();
    let queued = |src, dst| Measured::Queued { src, dst, packets: 3, bytes: Bytes::new(4500) };
    // Seven bits of a rate are kept: 992 and 496 Mbit/s.
    let is = |(src, bps): (NodeId, u64), wanted: NodeId, mbps: u64| {
        let most = mbps * MBIT;
        src == wanted && bps <= most && bps >= most - most / 32
    };
    let first = told(&mut *policy, &network, queued(at(0), at(2)));
    assert!(first.len() == 1 && is(first[0], at(0), 1000), "{first:?}");
    assert_eq!(told(&mut *policy, &network, queued(at(0), at(2))), [], "more of the same");
    let both = told(&mut *policy, &network, queued(at(1), at(2)));
    assert!(both.len() == 2 && both.iter().all(|&(src, bps)| is((src, bps), src, 500)));
    let drained = Measured::Drained { src: at(0), dst: at(2) };
    let alone = told(&mut *policy, &network, drained);
    assert!(alone.len() == 1 && is(alone[0], at(1), 1000), "{alone:?}");
    let offered = Measured::Offered { src: at(3), dst: at(2), rate: Rate::from_mbps(100) };
    let shared = told(&mut *policy, &network, offered);
    let of = |host| shared.iter().find(|(src, _)| *src == host).unwrap().1;
    assert!(of(at(3)) <= 100 * MBIT && of(at(1)) + of(at(3)) <= 1000 * MBIT, "{shared:?}");
}

/// What the scenario keeps from every link is given to nobody, whether a pair is alone or shares.
#[test]
fn asy_leaves_what_it_may_not_use() {
    let network = big_switch(3, Rate::from_mbps(1000));
    let usable = Share::from_ppm(900_000).unwrap();
    let mut policy = by_name("asy", &Parameters::default().with("usable", usable)).unwrap();
    let queued = |src| {
        let (src, dst) = (host(&network, src), host(&network, 2));
        Measured::Queued { src, dst, packets: 3, bytes: Bytes::new(4500) }
    };
    for pairs in 1..=2 {
        let told = told(&mut *policy, &network, queued(pairs - 1));
        let total: u64 = told.iter().map(|(_, bps)| bps).sum();
        assert!((880 * MBIT..=900 * MBIT).contains(&total), "{total} for {pairs}");
    }
}

/// Two in turn have a link in proportion to what they offered over the period, which is at most their link; one
/// alone has the whole link; and who is done offers nothing.
#[test]
fn asy_weighs_what_joined_over_the_period() {
    let network = big_switch(4, Rate::from_mbps(1000));
    let period = Span::from_millis(1);
    let mut policy = by_name("asy", &Parameters::default().with("period", period)).unwrap();
    let [one, two, sink] = [0, 1, 2].map(|number| host(&network, number));
    let queued = |src, octets| {
        let bytes = Bytes::new(octets);
        Measured::Queued { src, dst: sink, packets: 1, bytes }
    };
    let of =
        |told: &[(NodeId, u64)], src: NodeId| told.iter().find(|(own, _)| *own == src).unwrap().1;
    let is = |bps: u64, mbps: u64| bps <= mbps * MBIT && bps >= (mbps - mbps / 16) * MBIT;
    // 80 Mbit/s over a millisecond, and nobody else.
    let alone = told(&mut *policy, &network, queued(one, 10_000));
    assert!(is(of(&alone, one), 1000), "{alone:?}");
    let both = told(&mut *policy, &network, queued(two, 30_000));
    assert!(is(of(&both, one), 250) && is(of(&both, two), 750), "{both:?}");
    // What joins counts with what did before: 40,000 to 30,000.
    let more = told(&mut *policy, &network, queued(one, 30_000));
    assert!(is(of(&more, one), 572) && is(of(&more, two), 429), "{more:?}");
    // More than the link carries in the period counts as much as that carries, 125,000: nine times the second.
    told(&mut *policy, &network, Measured::Drained { src: two, dst: sink });
    told(&mut *policy, &network, queued(one, 10_000_000));
    let capped = told(&mut *policy, &network, queued(two, 13_889));
    assert!(is(of(&capped, one), 900) && is(of(&capped, two), 100), "{capped:?}");
}

proptest! {
    /// Where what is left is given too no capacity is exceeded either, and no pair has less than otherwise.
    #[test]
    fn what_is_left_is_given_within_the_capacities(
        capacities in prop::collection::vec(1..100u64, 12),
        entries in prop::collection::btree_map((0..6u32, 0..6u32), 1..200u64, 1..30),
    ) {
        let rate = |tens: &u64| Rate::from_bps(tens * 10_000_019);
        let sources: Vec<Rate> = capacities[..6].iter().map(rate).collect();
        let destinations: Vec<Rate> = capacities[6..].iter().map(rate).collect();
        let offers: Vec<Offer> = entries.iter()
            .map(|(&(src, dst), tens)| Offer { src, dst, rate: Rate::from_bps(tens * 1_000_003) })
            .collect();
        let mut rates = Vec::new();
        Renormaliser::filling().solve(&sources, &destinations, &offers, &mut rates);
        let sum = |side: usize, line: u32| -> u64 {
            let own = offers.iter().zip(&rates).filter(|(o, _)| [o.src, o.dst][side] == line);
            own.map(|(_, rate)| rate.as_bps()).sum()
        };
        for (line, (source, destination)) in (0..).zip(sources.iter().zip(&destinations)) {
            prop_assert!(sum(0, line) <= source.as_bps());
            prop_assert!(sum(1, line) <= destination.as_bps());
        }
        for (rate, least) in rates.iter().zip(solve(&sources, &destinations, &offers)) {
            prop_assert!(rate.as_bps() >= least);
        }
    }
}

/// Rate zero is never asked for, however narrow the links.
#[test]
fn asy_keeps_the_floor() {
    let network = big_switch(2, Rate::from_bps(10));
    let mut policy = by_name("asy", &Parameters::default()).unwrap();
    let (src, dst) = (host(&network, 0), host(&network, 1));
    let queued = Measured::Queued { src, dst, packets: 1, bytes: Bytes::new(1500) };
    assert_eq!(told(&mut *policy, &network, queued), [(src, LEAST_RATE.as_bps())]);
}
