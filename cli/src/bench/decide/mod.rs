//! `watermaster bench decide`: what the decisions of policies cost, each at a size that its goal in
//! `docs/performance.md` names.

mod app_aware;
mod control;
mod hubs;
mod matrix;
mod orders;
mod slots;
mod windows;

use std::hint::black_box;
use std::time::Instant;

use clap::Args;
use model::{Declared, Directives, FlowId, JobId, Network, NodeId, Observation};
use policy::{Parameters, Policy};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use units::{Bytes, Rate, Span, Time};

use crate::failure::{Failure, print};

/// Without `--runs` a case is repeated until it took so long, s, and at least so many times.
const LEAST_S: f64 = 1.0;
const LEAST_RUNS: usize = 200;

/// Measure what decisions cost
///
/// Prints for each case the median and the 99th percentile of the processor time that a decision takes;
/// of decisions below 1 µs some tenths are the clock's. Caches are shared with whatever else runs.
#[derive(Args)]
#[command(after_help = "Examples:\n  watermaster bench decide\n  \
                        watermaster bench decide app-aware-10000-flows --json\n\n\
                        Instructions per decision: make bench")]
pub(super) struct Decide {
    /// One case [default: all]
    #[arg(value_parser = CASES.map(|case| case.name))]
    case: Option<String>,

    /// Decisions to measure [default: as many as take a second]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,

    /// Print a JSON object for each case, one on a line
    #[arg(long)]
    json: bool,
}

/// A decision at a size.
struct Case {
    name: &'static str,
    /// Goal, µs; `None` without one.
    goal_us: Option<f64>,
    /// Makes the state; each call of the returned closure decides once.
    make: fn() -> Result<Decision, Failure>,
}

/// Decides once; returns the time that it took, µs.
type Decision = Box<dyn FnMut() -> f64>;

const CASES: [Case; 20] = [
    Case { name: "app-aware-10000-flows", goal_us: Some(1000.0), make: app_aware::published },
    Case { name: "app-aware-fast-10000-flows", goal_us: Some(1000.0), make: app_aware::fast },
    Case { name: "sdtcp-1500-flows", goal_us: Some(5.0), make: windows::sdtcp },
    Case { name: "sicc-10000-servers", goal_us: None, make: || hubs::tree(10_000) },
    Case { name: "sicc-20000-servers", goal_us: None, make: || hubs::tree(20_000) },
    Case { name: "sicc-30000-servers", goal_us: None, make: || hubs::tree(30_000) },
    Case { name: "sicc-40000-servers", goal_us: None, make: || hubs::tree(40_000) },
    Case { name: "sicc-50000-servers", goal_us: Some(1000.0), make: || hubs::tree(50_000) },
    Case { name: "syn-256-hosts-load-50", goal_us: Some(1.0), make: slots::half },
    Case { name: "syn-256-hosts-load-95", goal_us: None, make: slots::full },
    Case { name: "asy-4096-hosts", goal_us: Some(5000.0), make: matrix::asy },
    Case { name: "smsf-10000-flows", goal_us: None, make: orders::smsf },
    Case { name: "smsf-100000-flows", goal_us: None, make: orders::many_smsf },
    Case { name: "srb-100000-flows", goal_us: None, make: orders::many_srb },
    Case { name: "fair-10000-flows", goal_us: None, make: orders::fair },
    Case { name: "fair-10000-flows-acknowledged", goal_us: None, make: orders::fair_acknowledged },
    Case { name: "arbiter-10000-flows", goal_us: None, make: orders::arbiter },
    Case { name: "control-smsf-10000-flows", goal_us: Some(5000.0), make: control::smsf },
    Case { name: "control-app-aware-10000-flows", goal_us: Some(5000.0), make: control::app_aware },
    Case { name: "control-1000-packets-in", goal_us: None, make: control::packets },
];

/// What was measured of a case.
#[derive(Serialize)]
struct Measured {
    name: &'static str,
    us_median: f64,
    us_p99: f64,
}

impl Decide {
    pub(super) fn execute(&self) -> Result<(), Failure> {
        if !self.json {
            let columns = ["case", "median µs", "p99 µs", "goal µs"];
            let [case, median, p99, goal] = columns;
            print(&format!("{case:<32} {median:>10} {p99:>10} {goal:>10}\n"))?;
        }
        let chosen = |case: &&Case| self.case.as_deref().is_none_or(|only| only == case.name);
        for case in CASES.iter().filter(chosen) {
            let Measured { name, us_median, us_p99 } = case.measure(self.runs)?;
            if self.json {
                let measured = Measured { name, us_median, us_p99 };
                let line = serde_json::to_string(&measured).map_err(Failure::failed)?;
                print(&(line + "\n"))?;
            } else {
                let goal = case.goal_us.map_or_else(String::new, |goal| goal.to_string());
                print(&format!("{name:<32} {us_median:>10.2} {us_p99:>10.2} {goal:>10}\n"))?;
            }
        }
        Ok(())
    }
}

impl Case {
    fn measure(&self, runs: Option<usize>) -> Result<Measured, Failure> {
        let mut decide = (self.make)()?;
        if runs.is_none() {
            // Tables grow to their size in the first decisions.
            for _ in 0..LEAST_RUNS / 10 {
                decide();
            }
        }
        let begin = Instant::now();
        let mut all_us = Vec::new();
        while runs.map_or_else(
            || all_us.len() < LEAST_RUNS || begin.elapsed().as_secs_f64() < LEAST_S,
            |runs| all_us.len() < runs,
        ) {
            all_us.push(decide());
        }
        let all: experiment::metrics::Sample = all_us.into_iter().collect();
        let of = |percent| all.percentile(percent).unwrap_or_default();
        Ok(Measured { name: self.name, us_median: of(50), us_p99: of(99) })
    }
}

/// Processor time that `work` takes, µs, and the part of one that the clock itself takes.
fn timed_us<T>(work: impl FnOnce() -> T) -> f64 {
    let now_us = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let begin_us = now_us();
    black_box(work());
    now_us() - begin_us
}

/// A policy under measurement, with what it needs to decide.
struct Bench {
    network: Network,
    hosts: Vec<NodeId>,
    policy: Box<dyn Policy + Send>,
    now: Time,
    out: Directives,
}

impl Bench {
    /// The policy `name` on a star of `hosts` hosts at `capacity`.
    fn star(name: &str, hosts: u32, capacity: Rate) -> Result<Self, Failure> {
        let link = model::LinkSpec {
            capacity,
            delay: Span::from_micros(10),
            buffer: model::Buffer::Packets(100),
            mark: None,
        };
        let access = model::build::Access { link, nic: model::Buffer::Unlimited };
        let topology = model::build::star(hosts, &access).map_err(Failure::failed)?;
        Ok(Self {
            hosts: topology.hosts().collect(),
            network: Network::new(topology),
            policy: policy::by_name(name, &Parameters::default()).map_err(Failure::failed)?,
            now: Time::ZERO,
            out: Vec::new(),
        })
    }

    fn host(&self, number: u32) -> NodeId {
        self.hosts[number as usize % self.hosts.len()]
    }

    /// Passes an observation to the policy; directives go to `out`.
    fn tell(&mut self, observation: &Observation) {
        self.out.clear();
        self.policy.observe(self.now, &self.network, observation);
        self.policy.decide(self.now, &self.network, &mut self.out);
    }

    fn declare(&mut self, declared: Declared) {
        self.tell(&declared.into());
    }

    /// A flow between two hosts, by number.
    fn request(&self, job: u32, flow: u32, ends: (u32, u32), size: Bytes) -> Declared {
        let (src, dst) = (self.host(ends.0), self.host(ends.1));
        Declared::FlowRequest { job: JobId(job), flow: FlowId(flow), src, dst, size }
    }

    /// Advances time and runs the policy's deadlines.
    fn pass(&mut self, span: Span) {
        self.now += span;
        if self.policy.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.tell(&Observation::Tick);
        } else {
            self.out.clear();
        }
    }
}

/// Pseudo-random numbers, the same in every run (xorshift, Marsaglia 2003).
struct Dice(u64);

impl Dice {
    /// From 0 to `sides` − 1.
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 >> 32).unwrap_or_default() % sides
    }
}
