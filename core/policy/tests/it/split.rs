//! One link divided: by hand, against a linear program, and by its own laws.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)] // a test may panic

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use proptest::prelude::*;
use units::Rate;
use watermaster_policy::split::{Claim, level, proportional};

fn bps(rates: &[Rate]) -> Vec<u64> {
    rates.iter().map(|rate| rate.as_bps()).collect()
}

fn leveled(capacity: u64, claims: &[Claim]) -> Vec<u64> {
    let (mut order, mut rates) = (Vec::new(), Vec::new());
    level(Rate::from_bps(capacity), claims, &mut order, &mut rates);
    bps(&rates)
}

/// Problem (3): flows that have 40, 20 and 20 to send over a link of 8 all take 10.
#[test]
fn a_fork_in_proportion() {
    assert_eq!(bps(&proportional(Rate::from_bps(8), &[40, 20, 20])), [4, 2, 2]);
    assert_eq!(bps(&proportional(Rate::from_bps(8), &[0, 0])), [4, 4], "no demand");
    assert_eq!(bps(&proportional(Rate::from_bps(8), &[])), [0; 0]);
}

/// Problem (4): a join takes 2 of one flow and 1 of the other, of which 3 wait already. On a link of
/// 6 the level is 3: rates 6 and 0. With a least rate of 1 the level is 2.5: rates 5 and 1.
#[test]
fn a_join_by_level() {
    let claim = |weight, offset, least| Claim { weight, offset, least };
    assert_eq!(leveled(6, &[claim(2, 0, 0), claim(1, 3, 0)]), [6, 0]);
    assert_eq!(leveled(6, &[claim(2, 0, 1), claim(1, 3, 1)]), [5, 1]);
    assert_eq!(leveled(9, &[claim(2, 0, 1), claim(1, 3, 1)]), [8, 1]);
    assert_eq!(leveled(12, &[claim(2, 0, 1), claim(1, 3, 1)]), [10, 2], "level 5");
    assert_eq!(leveled(6, &[claim(0, 0, 1), claim(0, 3, 1)]), [3, 3], "nothing is consumed");
    assert_eq!(leveled(6, &[claim(1, 0, 5), claim(1, 0, 5)]), [3, 3], "no room for the least");
}

fn optimum(program: &Problem) -> f64 {
    match program.solve().unwrap() {
        SolveOutcome::Solution(solution) => solution.objective(),
        SolveOutcome::Interrupted(_) => panic!("there is no limit"),
    }
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let claim = (prop_oneof![1 => Just(0), 6 => 1..1_000_000u64], 0..5_000_000u64, 0..20_000u64);
    let claim = claim.prop_map(|(weight, offset, least)| Claim { weight, offset, least });
    prop::collection::vec(claim, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// max z so that x ≥ z·D and Σx = C: then 1/z is the least possible largest D/x.
    #[test]
    fn the_proportional_split_solves_the_fork(
        capacity in 1_000_000..20_000_000u64,
        demands in prop::collection::vec(1..1_000_000u64, 1..20),
    ) {
        let mut program = Problem::new(OptimizationDirection::Maximize);
        let z = program.add_var(1.0, (0.0, f64::INFINITY));
        let rates: Vec<_> = demands.iter().map(|_| program.add_var(0.0, (0.0, f64::INFINITY))).collect();
        for (x, demand) in rates.iter().zip(&demands) {
            program.add_constraint([(*x, 1.0), (z, -(*demand as f64))], ComparisonOp::Ge, 0.0);
        }
        let all: Vec<_> = rates.iter().map(|x| (*x, 1.0)).collect();
        program.add_constraint(&all, ComparisonOp::Eq, capacity as f64);
        let best = 1.0 / optimum(&program);

        let ours = bps(&proportional(Rate::from_bps(capacity), &demands));
        prop_assert!(ours.iter().sum::<u64>() <= capacity);
        let worst = demands.iter().zip(&ours).map(|(d, x)| *d as f64 / *x as f64).fold(0.0, f64::max);
        // A rate that is rounded down by a bit per second is that much worse.
        let least = ours.iter().min().copied().unwrap() as f64;
        prop_assert!(worst <= best * (1.0 + 2.0 / least.max(1.0)), "{worst} against {best}");
    }

    /// min T so that b + x ≤ T·w, x ≥ least and Σx = C; flows without weight keep their least.
    #[test]
    fn the_level_solves_the_join(capacity in 400_000..20_000_000u64, claims in claims()) {
        prop_assume!(claims.iter().any(|claim| claim.weight > 0));
        let mut program = Problem::new(OptimizationDirection::Minimize);
        let t = program.add_var(1.0, (0.0, f64::INFINITY));
        let mut all = Vec::new();
        for claim in &claims {
            let least = claim.least as f64;
            let most = if claim.weight == 0 { least } else { f64::INFINITY };
            let x = program.add_var(0.0, (least, most));
            all.push((x, 1.0));
            if claim.weight > 0 {
                let level = [(t, claim.weight as f64), (x, -1.0)];
                program.add_constraint(level, ComparisonOp::Ge, claim.offset as f64);
            }
        }
        program.add_constraint(&all, ComparisonOp::Eq, capacity as f64);
        let best = optimum(&program);

        let ours = leveled(capacity, &claims);
        let sum: u64 = ours.iter().sum();
        prop_assert!(sum <= capacity && sum + 20 > capacity, "{sum} of {capacity}");
        let heights = claims.iter().zip(&ours).filter(|(claim, _)| claim.weight > 0);
        let worst = heights.map(|(c, x)| (c.offset + x) as f64 / c.weight as f64).fold(0.0, f64::max);
        prop_assert!(claims.iter().zip(&ours).all(|(claim, x)| *x >= claim.least));
        prop_assert!(worst <= best * (1.0 + 1e-6), "{worst} against {best}");
    }

    /// Without offsets and least rates the level is the proportional split, but for a bit of rounding.
    #[test]
    fn a_fork_is_a_join_without_queues(
        capacity in any::<u64>(),
        weights in prop::collection::vec(0..1u64 << 46, 0..20),
    ) {
        let claims: Vec<_> =
            weights.iter().map(|&weight| Claim { weight, ..Claim::default() }).collect();
        let fork = bps(&proportional(Rate::from_bps(capacity), &weights));
        let join = leveled(capacity, &claims);
        prop_assert!(fork.iter().zip(&join).all(|(fork, join)| fork - join <= 1), "{fork:?} {join:?}");
    }
}
