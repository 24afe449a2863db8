//! In which order jobs should go through links that each serves in turn: the concurrent open shop,
//! to which coflow scheduling comes down when only the load of each link counts.
//!
//! A job is given by the time that it takes on each link. When every link serves jobs in one order,
//! a job is complete when the last of its links has served it and all before it.

use alloc::vec;
use alloc::vec::Vec;

/// What a job takes: links, by any number, and the time on each, s; each link once.
pub type Demand = Vec<(usize, f64)>;

/// The job first whose busiest link takes least, by the time that this takes for each, s; ties as given.
pub fn by_bottleneck(bottlenecks: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..bottlenecks.len()).collect();
    order.sort_by(|&a, &b| f64::total_cmp(&bottlenecks[a], &bottlenecks[b]));
    order
}

/// Sincronia's order, "bottleneck, select, scale, iterate" (Agarwal et al., SIGCOMM 2018): last goes the job that
/// weighs least for what it takes of the most loaded link; the others are then valued less for what it would have
/// made them wait. At most four times the least sum of completion times on links, each times the job's weight; ties
/// go to the later. Weights are positive; jobs without have 1.
///
/// A step looks at all links, and at the jobs that take some of the most loaded one.
pub fn bssf(jobs: &[Demand], weights: &[f64]) -> Vec<usize> {
    let mut weights = weights.to_vec();
    weights.resize(jobs.len(), 1.0);
    let mut loads = vec![0.0; links(jobs)];
    for job in jobs {
        serve(&mut loads, job);
    }
    let (takers, starts) = takers(jobs, loads.len());
    let mut is_left = vec![true; jobs.len()];
    // Of jobs from here on none is left.
    let mut rest = jobs.len();
    let mut order = Vec::with_capacity(jobs.len());
    for _ in jobs {
        let loaded = loads.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let bottleneck = loaded.map_or(0..0, |(link, _)| starts[link]..starts[link + 1]);
        let takers = &takers[bottleneck];
        let value = |(job, time): &(usize, f64)| weights[*job] / time;
        let last = (takers.iter())
            .filter(|(job, time)| is_left[*job] && *time > 0.0)
            .min_by(|a, b| value(a).total_cmp(&value(b)).then(b.0.cmp(&a.0)))
            .map(|taker| (taker.0, value(taker)));
        // No link has a load: jobs that take nothing.
        let idle = rest.checked_sub(1).map(|job| (job, 0.0));
        let Some((last, price)) = last.or(idle) else {
            break;
        };
        is_left[last] = false;
        while rest > 0 && !is_left[rest - 1] {
            rest -= 1;
        }
        for &(job, time) in takers.iter().filter(|(job, time)| is_left[*job] && *time > 0.0) {
            weights[job] -= price * time;
        }
        for &(link, time) in &jobs[last] {
            loads[link] -= time;
        }
        order.push(last);
    }
    order.reverse();
    order
}

/// Who takes some of each link, with the time, s: jobs in order, link by link; and where each link begins.
fn takers(jobs: &[Demand], links: usize) -> (Vec<(usize, f64)>, Vec<usize>) {
    let mut starts = vec![0; links + 1];
    for (link, _) in jobs.iter().flatten() {
        starts[link + 1] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut next = starts.clone();
    let mut takers = vec![(0, 0.0); sum];
    for (number, job) in jobs.iter().enumerate() {
        for &(link, time) in job {
            takers[next[link]] = (number, time);
            next[link] += 1;
        }
    }
    (takers, starts)
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
    let [mut served, mut before, mut extra] = [(); 3].map(|()| vec![0.0; count]);
    // Where nothing is gained nothing is as long as the order up to there stays.
    let mut may_gain = vec![true; order.len()];
    for _ in 0..PASSES {
        let mut is_better = false;
        served.fill(0.0);
        for from in 1..order.len() {
            serve(&mut served, &jobs[order[from - 1]]);
            if !core::mem::replace(&mut may_gain[from], false) {
                continue;
            }
            before.copy_from_slice(&served);
            let moved = &jobs[order[from]];
            for &(link, time) in moved {
                extra[link] = time;
            }
            let (at_first, mut last) = Last::find(&before, moved);
            // What those that it goes ahead of lose, while it goes ahead of one more.
            let (mut lost, mut best, mut place) = (0.0, MARGIN, from);
            for to in (0..from).rev() {
                let (mut alone, mut behind) = (0.0, 0.0);
                for &(link, time) in &jobs[order[to]] {
                    before[link] -= time;
                    let end = before[link] + time;
                    alone = f64::max(alone, end);
                    behind = f64::max(behind, end + extra[link]);
                }
                lost += behind;
                lost -= alone;
                let gain = at_first - last.finish(&before, moved) - lost;
                if gain > best {
                    (best, place) = (gain, to);
                }
            }
            for &(link, _) in moved {
                extra[link] = 0.0;
            }
            if place < from {
                order[place..=from].rotate_right(1);
                may_gain[place..].fill(true);
                is_better = true;
                // Sums are rounded in the order of their parts.
                served.fill(0.0);
                for &job in &order[..from] {
                    serve(&mut served, &jobs[job]);
                }
            }
        }
        if !is_better {
            break;
        }
    }
}

/// The last link that serves a job, while links are less and less busy with others: the same as long as it is
/// no earlier than the others were.
struct Last {
    /// Its place among those that the job takes.
    place: usize,
    /// When all others had served the job, s.
    others: f64,
}

impl Last {
    /// When a job is complete on links that are busy so long with others, s.
    fn find(busy: &[f64], job: &Demand) -> (f64, Self) {
        let (mut complete, mut last) = (0.0, Self { place: 0, others: 0.0 });
        for (place, &(link, time)) in job.iter().enumerate() {
            let end = busy[link] + time;
            if end > complete {
                last = Self { place, others: complete };
                complete = end;
            } else {
                last.others = f64::max(last.others, end);
            }
        }
        (complete, last)
    }

    /// The same for links that are no busier than they were.
    fn finish(&mut self, busy: &[f64], job: &Demand) -> f64 {
        if let Some(&(link, time)) = job.get(self.place) {
            let end = busy[link] + time;
            if end >= self.others {
                return end;
            }
        }
        let (complete, last) = Self::find(busy, job);
        *self = last;
        complete
    }
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
