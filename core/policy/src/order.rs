//! In which order jobs should go through links that each serves in turn: the concurrent open shop,
//! to which coflow scheduling comes down when only the load of each link counts.
//!
//! A job is given by the time that it takes on each link. When every link serves jobs in one order,
//! a job is complete when the last of its links has served it and all before it.

use alloc::vec;
use alloc::vec::Vec;

/// What a job takes: links, by any number, and the time on each, s; each link once.
pub type Demand = Vec<(usize, f64)>;

/// The job first whose busiest link takes least; ties as given.
pub fn by_bottleneck(jobs: &[Demand]) -> Vec<usize> {
    let bottleneck = |job: &Demand| job.iter().fold(0.0, |most: f64, (_, time)| time.max(most));
    let bottlenecks: Vec<f64> = jobs.iter().map(bottleneck).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|&a, &b| f64::total_cmp(&bottlenecks[a], &bottlenecks[b]));
    order
}

/// Sincronia's order, "bottleneck, select, scale, iterate" (Agarwal et al., SIGCOMM 2018), last goes the job that weighs least for what it takes of the most loaded link;
/// the others are then valued less for what it would have made them wait. At most four times the least sum of
/// completion times on links, each times the job's weight; ties go to the later. Weights are positive; jobs
/// without have 1.
pub fn bssf(jobs: &[Demand], weights: &[f64]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..jobs.len()).collect();
    let mut weights = weights.to_vec();
    weights.resize(jobs.len(), 1.0);
    let mut loads = vec![0.0; links(jobs)];
    for job in jobs {
        serve(&mut loads, job);
    }
    let mut order = Vec::with_capacity(jobs.len());
    while !left.is_empty() {
        let loaded = loads.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let bottleneck = loaded.map_or(0, |(link, _)| link);
        let takes = |job: usize| {
            jobs[job].iter().find(|(link, _)| *link == bottleneck).map_or(0.0, |(_, time)| *time)
        };
        let value = |job: usize| weights[job] / takes(job);
        let last = (left.iter().copied())
            .filter(|job| takes(*job) > 0.0)
            .min_by(|a, b| value(*a).total_cmp(&value(*b)).then(b.cmp(a)));
        // No link has a load: jobs that take nothing.
        let Some(last) = last.or(left.last().copied()) else {
            break;
        };
        left.retain(|job| *job != last);
        let price = value(last);
        for &job in left.iter().filter(|job| takes(**job) > 0.0) {
            weights[job] -= price * takes(job);
        }
        for &(link, time) in &jobs[last] {
            loads[link] -= time;
        }
        order.push(last);
    }
    order.reverse();
    order
}

/// Sum of the completion times when every link serves the jobs in this order, s.
pub fn total(jobs: &[Demand], order: &[usize]) -> f64 {
    let mut busy = vec![0.0; links(jobs)];
    order.iter().map(|&job| serve(&mut busy, &jobs[job])).sum()
}

/// Most passes over an order.
const PASSES: usize = 8;
/// A gain below this, s, is none.
const MARGIN: f64 = 1e-9;

/// Makes an order better by moving single jobs forward, each to where that lowers the sum of
/// completion times most, until none does.
pub fn improve(jobs: &[Demand], order: &mut [usize]) {
    let count = links(jobs);
    let (mut before, mut extra) = (vec![0.0; count], vec![0.0; count]);
    for _ in 0..PASSES {
        let mut is_better = false;
        for from in 1..order.len() {
            before.fill(0.0);
            for &job in &order[..from] {
                serve(&mut before, &jobs[job]);
            }
            let moved = &jobs[order[from]];
            for &(link, time) in moved {
                extra[link] = time;
            }
            let at_first = finish(&before, moved, |_| 0.0);
            // What those that it goes ahead of lose, while it goes ahead of one more.
            let (mut lost, mut best, mut place) = (0.0, MARGIN, from);
            for to in (0..from).rev() {
                let passed = &jobs[order[to]];
                for &(link, time) in passed {
                    before[link] -= time;
                }
                lost += finish(&before, passed, |link| extra[link]);
                lost -= finish(&before, passed, |_| 0.0);
                let gain = at_first - finish(&before, moved, |_| 0.0) - lost;
                if gain > best {
                    (best, place) = (gain, to);
                }
            }
            for &(link, _) in moved {
                extra[link] = 0.0;
            }
            order[place..=from].rotate_right(1);
            is_better |= place < from;
        }
        if !is_better {
            break;
        }
    }
}

/// When a job is complete on links that are busy so long with others, and with `extra`.
fn finish(busy: &[f64], job: &Demand, extra: impl Fn(usize) -> f64) -> f64 {
    job.iter().map(|&(link, time)| busy[link] + time + extra(link)).fold(0.0, f64::max)
}

/// Has the links serve a job next; when it is complete.
fn serve(busy: &mut [f64], job: &Demand) -> f64 {
    for &(link, time) in job {
        busy[link] += time;
    }
    job.iter().map(|&(link, _)| busy[link]).fold(0.0, f64::max)
}

fn links(jobs: &[Demand]) -> usize {
    jobs.iter().flatten().map(|(link, _)| link + 1).max().unwrap_or(0)
}
