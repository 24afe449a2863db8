//! Lower bounds against brute force, closed forms and linear programs solved by another.

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use proptest::prelude::*;
use watermaster_experiment::bound::{OrderSearch, Search, Work};

const ROUNDS: u32 = 400;

fn search(jobs: &[Work]) -> f64 {
    let mut search = Search::new(jobs);
    (0..ROUNDS).for_each(|_| search.round());
    search.bound()
}

fn order_search(jobs: &[Work]) -> f64 {
    let mut search = OrderSearch::new(jobs);
    (0..ROUNDS).for_each(|_| search.round());
    search.bound()
}

fn job(release: f64, loads: &[f64]) -> Work {
    Work { release, loads: loads.iter().copied().enumerate().collect() }
}

/// On one link the shortest goes first: ends at 1, 3 and 6. Both bounds are exact there.
#[test]
fn one_link_at_once() {
    let jobs = [job(0.0, &[3.0]), job(0.0, &[1.0]), job(0.0, &[2.0])];
    assert!((search(&jobs) - 10.0 / 3.0).abs() < 0.01, "{}", search(&jobs));
    assert!((order_search(&jobs) - 10.0 / 3.0).abs() < 1e-9);
}

/// A job alone takes as long as its busiest link, whenever it comes.
#[test]
fn one_job_and_none() {
    assert!((search(&[job(7.0, &[1.0, 4.0])]) - 4.0).abs() < 0.01);
    assert!((order_search(&[job(7.0, &[1.0, 4.0])]) - 4.0).abs() < 0.01);
    assert_eq!((search(&[]), order_search(&[])), (0.0, 0.0));
}

/// The mean completion time when every link always serves the released job that is first in
/// `order`: no schedule of the links could have the bound above it.
fn by_priority(jobs: &[Work], order: &[usize]) -> f64 {
    let mut ends: Vec<f64> = jobs.iter().map(|job| job.release).collect();
    for link in 0..3 {
        let mut left: Vec<f64> = (jobs.iter())
            .map(|job| job.loads.iter().find(|(of, _)| *of == link).map_or(0.0, |(_, t)| *t))
            .collect();
        let mut now = 0.0;
        while left.iter().any(|left| *left > 0.0) {
            let first = order.iter().find(|job| left[**job] > 0.0 && jobs[**job].release <= now);
            let coming = jobs.iter().map(|job| job.release).filter(|release| *release > now);
            let coming = coming.fold(f64::INFINITY, f64::min);
            let Some(&first) = first else {
                now = coming;
                continue;
            };
            let served = left[first].min(coming - now);
            now += served;
            left[first] -= served;
            if left[first] <= 1e-12 {
                left[first] = 0.0;
                ends[first] = ends[first].max(now);
            }
        }
    }
    let times = ends.iter().zip(jobs).map(|(end, job)| end - job.release);
    times.sum::<f64>() / jobs.len() as f64
}

/// All orders of so many.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: Vec<usize>| {
        (0..count).map(move |place| {
            let mut order = order.clone();
            order.insert(place, count - 1);
            order
        })
    };
    orders(count - 1).into_iter().flat_map(insert).collect()
}

/// The linear program over ordering variables: for each pair a share of going first, for each job a
/// completion time that no link's load before it allows to be sooner.
#[allow(clippy::needless_range_loop, reason = "two rows are written at once")]
fn ordering_program(jobs: &[Work]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let ends: Vec<_> = jobs.iter().map(|_| problem.add_var(1.0, (0.0, f64::INFINITY))).collect();
    let mut first = vec![vec![None; jobs.len()]; jobs.len()];
    for one in 0..jobs.len() {
        for other in 0..one {
            let (a, b) = (problem.add_var(0.0, (0.0, 1.0)), problem.add_var(0.0, (0.0, 1.0)));
            problem.add_constraint([(a, 1.0), (b, 1.0)], ComparisonOp::Eq, 1.0);
            (first[one][other], first[other][one]) = (Some(a), Some(b));
        }
    }
    for (job, end) in ends.iter().enumerate() {
        for &(link, own) in &jobs[job].loads {
            let mut row = vec![(*end, 1.0)];
            for (other, loads) in jobs.iter().map(|job| &job.loads).enumerate() {
                let load = loads.iter().find(|(of, _)| *of == link);
                if let (Some(before), Some((_, load))) = (first[other][job], load) {
                    row.push((before, -load));
                }
            }
            problem.add_constraint(row, ComparisonOp::Ge, own);
        }
    }
    match problem.solve() {
        Ok(SolveOutcome::Solution(solution)) => solution.objective() / jobs.len() as f64,
        _ => panic!("the program has a solution"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_schedule_is_below_the_bounds(
        rows in prop::collection::vec(
            (0..20u32, prop::collection::btree_map(0..3usize, 1..10u32, 1..4)), 1..6,
        ),
    ) {
        let with = |released: bool| -> Vec<Work> {
            let work = |(release, loads): &(u32, std::collections::BTreeMap<usize, u32>)| Work {
                release: if released { f64::from(*release) } else { 0.0 },
                loads: loads.iter().map(|(link, time)| (*link, f64::from(*time))).collect(),
            };
            rows.iter().map(work).collect()
        };
        for released in [true, false] {
            let jobs = with(released);
            let all = orders(jobs.len());
            let least = all.iter().map(|order| by_priority(&jobs, order)).fold(f64::INFINITY, f64::min);
            let bound = search(&jobs);
            prop_assert!(bound <= least + 1e-9, "{bound} {least}");
            // Each job alone on its busiest link.
            let alone = jobs.iter().map(|job| job.loads.iter().map(|l| l.1).fold(0.0, f64::max));
            prop_assert!(bound >= 0.9 * alone.sum::<f64>() / jobs.len() as f64, "{bound}");
            if !released {
                let bound = order_search(&jobs);
                let program = ordering_program(&jobs);
                prop_assert!(bound <= program + 1e-6 && program <= least + 1e-6);
                prop_assert!(bound > 0.97 * program, "{bound} {program}");
            }
        }
    }
}
