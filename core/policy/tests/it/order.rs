//! Orders of jobs, against brute force over all orders.
#![allow(clippy::unwrap_used)] // a test may panic

use crate::desk::*;
use model::{Declared, FlowId, JobId, Terms};
use proptest::prelude::*;
use units::{Rate, Span, Time};
use watermaster_policy::order::{Demand, bssf, by_bottleneck, improve, total};
use watermaster_policy::{Parameters, by_name};

/// The least sum of completion times of any order.
fn least(jobs: &[Demand]) -> f64 {
    fn extend(jobs: &[Demand], order: &mut Vec<usize>, best: &mut f64) {
        if order.len() == jobs.len() {
            *best = best.min(total(jobs, order));
        }
        for job in 0..jobs.len() {
            if !order.contains(&job) {
                order.push(job);
                extend(jobs, order, best);
                order.pop();
            }
        }
    }
    let mut best = f64::INFINITY;
    extend(jobs, &mut Vec::new(), &mut best);
    best
}

/// Phurti, figure 2.2: A takes 1, 2, 3 on X, Y, Z, B 3, 1, 2, and C 2 on X. By hand, of the order C,
/// A, B: 2, 3 and 6, which is optimal.
#[test]
fn figure_2_2() {
    let jobs: Vec<Demand> = vec![
        vec![(0, 1.0), (1, 2.0), (2, 3.0)],
        vec![(0, 3.0), (1, 1.0), (2, 2.0)],
        vec![(0, 2.0)],
    ];
    assert_eq!(by_bottleneck(&[3.0, 3.0, 2.0]), [2, 0, 1]);
    assert_eq!(total(&jobs, &[2, 0, 1]), 11.0);
    assert_eq!(least(&jobs), 11.0);
    let mut order = [1, 0, 2];
    improve(&jobs, &mut order);
    assert_eq!(order, [2, 0, 1]);
}

/// On one link the least sum is that of the shortest job first, and `bssf` finds it.
#[test]
fn one_link_is_shortest_first() {
    let jobs: Vec<Demand> = [5.0, 1.0, 3.0, 1.0].iter().map(|time| vec![(0, *time)]).collect();
    assert_eq!(bssf(&jobs, &[]), [1, 3, 2, 0]);
    assert_eq!(total(&jobs, &bssf(&jobs, &[])), least(&jobs));
}

/// On one link the least weighted sum is Smith's: by weight over time.
#[test]
fn a_heavy_job_goes_before_a_short_one() {
    let jobs: Vec<Demand> = [5.0, 1.0, 3.0].iter().map(|time| vec![(0, *time)]).collect();
    assert_eq!(bssf(&jobs, &[1.0, 1.0, 1.0]), [1, 2, 0]);
    assert_eq!(bssf(&jobs, &[10.0, 1.0, 1.0]), [0, 1, 2]);
    assert_eq!(bssf(&jobs, &[1.0, 1.0, 9.0]), [2, 1, 0]);
}

/// What a job asks for counts while it runs, too.
#[test]
fn bssf_heeds_the_weight_that_a_job_asks_for() {
    let network = two_racks(Rate::from_mbps(10));
    let policy = by_name("bssf", &Parameters::default()).unwrap();
    let mut desk = Desk::new(network.clone(), policy);
    for (job, bytes) in [(0, 40_000_000), (1, 10_000_000)] {
        desk.settle(Time::ZERO, job_start(job));
        let (src, dst) = (host(&network, job), host(&network, 3 + job));
        desk.settle(Time::ZERO, request(job, job, src, dst, bytes));
    }
    let first = |desk: &Desk| {
        let [large, small] = [0, 1].map(|flow| desk.limits[&FlowId(flow)]);
        let (more, less) = (large.max(small), large.min(small));
        assert!(more >= Rate::from_mbps(9) && less < Rate::from_mbps(1), "{:?}", desk.limits);
        if large > small { 0 } else { 1 }
    };
    assert_eq!(first(&desk), 1, "the smaller");
    for (second, weight, goes_first) in [(1, 100, 0), (2, 1, 1)] {
        let now = Time::ZERO + Span::from_secs(second);
        let terms = Terms { weight, ..Terms::default() };
        desk.settle(now, Declared::JobTerms { job: JobId(0), terms });
        assert_eq!(first(&desk), goes_first, "a weight of {weight}");
    }
}

#[test]
fn nothing_to_order() {
    assert!(bssf(&[], &[]).is_empty());
    assert_eq!(bssf(&[vec![], vec![(3, 0.0)]], &[]), [0, 1]);
    improve(&[], &mut []);
}

/// The rules of [`bssf`] and [`improve`] as they are said, without anything remembered from step to step: to look
/// for every job at every link anew gives the same orders, whatever is rounded.
mod plain {
    use super::Demand;

    pub fn bssf(jobs: &[Demand]) -> Vec<usize> {
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        let mut weights = vec![1.0; jobs.len()];
        let mut loads = loads(jobs, &left);
        let mut order = Vec::new();
        while !left.is_empty() {
            let loaded = loads.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            let bottleneck = loaded.map(|(link, _)| link);
            let takes = |job: usize| {
                let taken = jobs[job].iter().find(|(link, _)| Some(*link) == bottleneck);
                taken.map_or(0.0, |(_, time)| *time)
            };
            let value = |job: usize| weights[job] / takes(job);
            let last = left.iter().copied().filter(|job| takes(*job) > 0.0);
            let last = last.min_by(|a, b| value(*a).total_cmp(&value(*b)).then(b.cmp(a)));
            let last = last.unwrap_or(left[left.len() - 1]);
            left.retain(|job| *job != last);
            let price = value(last);
            for &job in left.iter().filter(|job| takes(**job) > 0.0) {
                weights[job] -= price * takes(job);
            }
            for &(link, time) in &jobs[last] {
                loads[link] -= time;
            }
            order.insert(0, last);
        }
        order
    }

    pub fn improve(jobs: &[Demand], order: &mut [usize]) {
        for _ in 0..8 {
            let before_pass = order.to_vec();
            for from in 1..order.len() {
                let place = place(jobs, order, from);
                order[place..=from].rotate_right(1);
            }
            if before_pass == order {
                break;
            }
        }
    }

    /// Where the job at `from` had better go.
    fn place(jobs: &[Demand], order: &[usize], from: usize) -> usize {
        let mut before = loads(jobs, &order[..from]);
        let moved = &jobs[order[from]];
        let finish = |busy: &[f64], job: &Demand, with_moved: bool| {
            let end = |&(link, time): &(usize, f64)| {
                let extra = moved.iter().find(|(of, _)| *of == link).map_or(0.0, |of| of.1);
                busy[link] + time + if with_moved { extra } else { 0.0 }
            };
            job.iter().map(end).fold(0.0, f64::max)
        };
        let at_first = finish(&before, moved, false);
        let (mut lost, mut best, mut place) = (0.0, 1e-9, from);
        for to in (0..from).rev() {
            let passed = &jobs[order[to]];
            for &(link, time) in passed {
                before[link] -= time;
            }
            lost += finish(&before, passed, true);
            lost -= finish(&before, passed, false);
            let gain = at_first - finish(&before, moved, false) - lost;
            if gain > best {
                (best, place) = (gain, to);
            }
        }
        place
    }

    fn loads(jobs: &[Demand], of: &[usize]) -> Vec<f64> {
        let links = jobs.iter().flatten().map(|(link, _)| link + 1).max().unwrap_or(0);
        let mut loads = vec![0.0; links];
        for &(link, time) in of.iter().flat_map(|job| &jobs[*job]) {
            loads[link] += time;
        }
        loads
    }
}

proptest! {
    #[test]
    fn orders_are_those_of_the_plain_search(
        jobs in prop::collection::vec(
            prop::collection::btree_map(0..6usize, 1..1_000_000u32, 0..5), 0..20,
        ),
    ) {
        // Sevenths, so that sums are rounded.
        let jobs: Vec<Demand> = jobs
            .iter()
            .map(|job| job.iter().map(|(link, time)| (*link, f64::from(*time) / 7.0)).collect())
            .collect();
        let order = bssf(&jobs, &[]);
        prop_assert_eq!(&order, &plain::bssf(&jobs));
        for mut order in [order, (0..jobs.len()).collect()] {
            let mut plain = order.clone();
            plain::improve(&jobs, &mut plain);
            improve(&jobs, &mut order);
            prop_assert_eq!(order, plain);
        }
    }

    #[test]
    fn orders_keep_what_they_promise(
        jobs in prop::collection::vec(
            prop::collection::btree_map(0..4usize, 1..100u32, 1..4), 1..7,
        ),
    ) {
        let jobs: Vec<Demand> = jobs
            .iter()
            .map(|job| job.iter().map(|(link, time)| (*link, f64::from(*time))).collect())
            .collect();
        let least = least(&jobs);
        let order = bssf(&jobs, &[]);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..jobs.len()).collect::<Vec<_>>());
        let sum = total(&jobs, &order);
        // In the concurrent open shop the primal-dual order is at most twice the least.
        prop_assert!(sum <= 2.0 * least + 1e-6, "{sum} {least}");
        let mut better = order.clone();
        improve(&jobs, &mut better);
        let improved = total(&jobs, &better);
        prop_assert!(improved <= sum + 1e-6 && improved >= least - 1e-6);
        // No single job gains by going ahead of others.
        for from in 0..better.len() {
            for to in 0..from {
                let mut other = better.clone();
                other[to..=from].rotate_right(1);
                prop_assert!(total(&jobs, &other) >= improved - 1e-6);
            }
        }
    }
}
