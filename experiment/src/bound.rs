//! Lower bounds on the mean completion time of jobs, whatever the policy and whatever it knows.
//!
//! Every link is a machine that serves one octet after the other; that flows need several links at
//! once is left out. Both bounds give each job weights w ≥ 0 that add up to 1 over the constraints
//! that its completion time obeys. Any such weights make a valid bound; the best ones give the
//! value of the linear program with these constraints (by duality). They are found by raising
//! weights where a job ends late, again and again, which converges from below.
//!
//! [`Search`], with release dates. On a single machine, of all preemptive schedules the least Σ w·M
//! of mean busy times M (the mean time at which a job is served) is had by always serving the
//! released job with the most weight by work (Goemans, Queyranne, Schulz, Skutella and Wang, "Single
//! machine scheduling with release dates", SIAM Journal on Discrete Mathematics 2002). A job is
//! complete on a link no sooner than half its work there after its mean busy time; nor sooner than
//! its release and its work on its busiest link.
//!
//! [`OrderSearch`], when all come at once. Then there is an optimal schedule in which all links serve
//! the jobs in one order (the concurrent open shop), so that of each two jobs one goes first
//! everywhere. Without the demand that this be an order, each pair is decided for itself: the linear
//! program over ordering variables.

/// A job: when it comes, s, and what it takes on each of its links, s; each link once.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Release.
    pub release: f64,
    /// Links by number, and the time on each, above zero.
    pub loads: Vec<(usize, f64)>,
}

/// A job on a link.
#[derive(Clone, Copy, Debug)]
struct Task {
    job: usize,
    time: f64,
    /// Its weight.
    weight: f64,
    /// When it is complete there at the earliest, by the schedule of the last round.
    end: f64,
}

/// The search for the best weights.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    jobs: &'a [Work],
    /// By link, each in order of release.
    links: Vec<Vec<Task>>,
    /// Weight of the job's own constraint, and when it is complete by that.
    own: Vec<(f64, f64)>,
    round: u32,
    best: f64,
}

/// How far the weights move in the first round; later as [`step`] says. Chosen by experiment.
const STEP: f64 = 10.0;

/// How far the weights move in a round, counted from 1.
fn step(round: u32) -> f64 {
    STEP / f64::from(round).powf(0.75)
}

impl<'a> Search<'a> {
    /// Begins with weights in proportion to the work.
    pub fn new(jobs: &'a [Work]) -> Self {
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by(|a, b| jobs[*a].release.total_cmp(&jobs[*b].release));
        let most = jobs.iter().flat_map(|job| &job.loads).map(|(link, _)| link + 1).max();
        let mut links = vec![Vec::new(); most.unwrap_or(0)];
        for job in order {
            let sum: f64 = jobs[job].loads.iter().map(|(_, time)| time).sum();
            for &(link, time) in &jobs[job].loads {
                links[link].push(Task { job, time, weight: 0.5 * time / sum, end: 0.0 });
            }
        }
        let own = jobs.iter().map(|job| {
            let longest = job.loads.iter().fold(0.0, |most: f64, (_, time)| most.max(*time));
            (if job.loads.is_empty() { 1.0 } else { 0.5 }, job.release + longest)
        });
        Self { jobs, links, own: own.collect(), round: 0, best: 0.0 }
    }

    /// The best bound so far on the mean completion time, counted from each job's release, s; zero
    /// without jobs.
    pub fn bound(&self) -> f64 {
        self.best
    }

    /// Computes the bound of the present weights and moves them.
    pub fn round(&mut self) {
        let mut total: f64 = self.own.iter().map(|(weight, end)| weight * end).sum();
        for tasks in &mut self.links {
            schedule(tasks, |job| self.jobs[job].release);
            total += tasks.iter().map(|task| task.weight * task.end).sum::<f64>();
        }
        let released: f64 = self.jobs.iter().map(|job| job.release).sum();
        if !self.jobs.is_empty() {
            self.best = self.best.max((total - released) / self.jobs.len() as f64);
        }
        self.move_weights();
    }

    /// Weights grow where a job ends later than elsewhere and shrink where sooner, all in
    /// proportion, and add up to 1 again.
    fn move_weights(&mut self) {
        self.round += 1;
        let step = step(self.round);
        let mut means = vec![0.0; self.jobs.len()];
        for (mean, (weight, end)) in means.iter_mut().zip(&self.own) {
            *mean += weight * end;
        }
        for task in self.links.iter().flatten() {
            means[task.job] += task.weight * task.end;
        }
        let flow = |job: usize, end: f64| {
            let release = self.jobs[job].release;
            ((end - means[job]) / (means[job] - release).max(f64::MIN_POSITIVE)).clamp(-1.0, 1.0)
        };
        let mut sums = vec![0.0; self.jobs.len()];
        for (job, (weight, end)) in self.own.iter_mut().enumerate() {
            *weight *= (step * flow(job, *end)).exp();
            sums[job] += *weight;
        }
        for task in self.links.iter_mut().flatten() {
            task.weight *= (step * flow(task.job, task.end)).exp();
            sums[task.job] += task.weight;
        }
        for (job, (weight, _)) in self.own.iter_mut().enumerate() {
            *weight /= sums[job];
        }
        for task in self.links.iter_mut().flatten() {
            task.weight /= sums[task.job];
        }
    }
}

/// The search for the best weights when all jobs come at once; releases aren't looked at.
#[derive(Clone, Debug)]
pub struct OrderSearch {
    links: usize,
    /// By job and link: the time that it takes, its weight, and when it is complete there.
    times: Vec<f64>,
    weights: Vec<f64>,
    ends: Vec<f64>,
    round: u32,
    best: f64,
}

impl OrderSearch {
    /// Begins with weights in proportion to the work.
    pub fn new(jobs: &[Work]) -> Self {
        let most = jobs.iter().flat_map(|job| &job.loads).map(|(link, _)| link + 1).max();
        let links = most.unwrap_or(1);
        let mut times = vec![0.0; jobs.len() * links];
        for (job, row) in jobs.iter().zip(times.chunks_mut(links)) {
            job.loads.iter().for_each(|&(link, time)| row[link] = time);
        }
        let mut weights = times.clone();
        weights.chunks_mut(links).for_each(scale);
        let ends = vec![0.0; times.len()];
        Self { links, times, weights, ends, round: 0, best: 0.0 }
    }

    /// The best bound so far on the mean completion time, s; zero without jobs.
    pub fn bound(&self) -> f64 {
        self.best
    }

    /// Computes the bound of the present weights and moves them.
    pub fn round(&mut self) {
        let Self { links, times, weights, ends, .. } = self;
        let row = |job: usize| job * *links..(job + 1) * *links;
        let jobs = times.len() / *links;
        ends.copy_from_slice(times);
        let mut total = dot(weights, times);
        for one in 0..jobs {
            for other in 0..one {
                // What each would wait if the other went first.
                let waits = dot(&weights[row(one)], &times[row(other)]);
                let other_waits = dot(&weights[row(other)], &times[row(one)]);
                total += waits.min(other_waits);
                let (last, first) = if waits < other_waits { (one, other) } else { (other, one) };
                for (end, time) in ends[row(last)].iter_mut().zip(&times[row(first)]) {
                    *end += time;
                }
            }
        }
        if jobs > 0 {
            self.best = self.best.max(total / jobs as f64);
        }
        self.round += 1;
        for job in 0..jobs {
            let (ends, weights) = (&self.ends[row(job)], &mut self.weights[row(job)]);
            let mean = dot(weights, ends).max(f64::MIN_POSITIVE);
            for (weight, end) in weights.iter_mut().zip(ends) {
                *weight *= (step(self.round) * ((end - mean) / mean).clamp(-1.0, 1.0)).exp();
            }
            scale(weights);
        }
    }
}

/// The dot product, in eight parts that vectorize.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut parts = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for (part, (a, b)) in parts.iter_mut().zip(a.iter().zip(b)) {
            *part += a * b;
        }
    }
    parts.iter().sum::<f64>() + rest
}

/// Makes weights add up to 1, unless all are zero.
fn scale(weights: &mut [f64]) {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
}

/// Serves the released task with the most weight by work, always, and sets each one's mean busy time
/// plus half its work. Tasks are in order of release.
fn schedule(tasks: &mut [Task], release: impl Fn(usize) -> f64) {
    /// A task that waits, by weight by work.
    #[derive(PartialEq)]
    struct Waiting(f64, usize);
    impl Eq for Waiting {}
    impl Ord for Waiting {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
        }
    }
    impl PartialOrd for Waiting {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }

    let mut left: Vec<f64> = tasks.iter().map(|task| task.time).collect();
    let mut waiting = std::collections::BinaryHeap::new();
    let (mut now, mut next) = (0.0_f64, 0);
    for task in tasks.iter_mut() {
        task.end = task.time / 2.0;
    }
    loop {
        if waiting.is_empty() {
            match tasks.get(next) {
                Some(task) => now = now.max(release(task.job)),
                None => return,
            }
        }
        while let Some(task) = tasks.get(next).filter(|task| release(task.job) <= now) {
            waiting.push(Waiting(task.weight / task.time, next));
            next += 1;
        }
        let until = tasks.get(next).map_or(f64::INFINITY, |task| release(task.job));
        let Some(Waiting(_, first)) = waiting.peek() else {
            continue;
        };
        let first = *first;
        let served = left[first].min(until - now);
        let task = &mut tasks[first];
        task.end += served / task.time * (now + served / 2.0);
        now += served;
        left[first] -= served;
        if left[first] <= 0.0 {
            waiting.pop();
        } else {
            now = until;
        }
    }
}
