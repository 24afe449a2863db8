//! `watermaster bound`.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use experiment::bound::{OrderSearch, Search, Work};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use units::{Rate, Span};
use workload::coflow::Reader;

use crate::failure::{Failure, print};

/// Rounds of the search with release dates for each of the other, which costs more.
const RATIO: u32 = 20;

/// Compute lower bounds on the mean completion time of a coflow trace under any policy
///
/// Two numbers, from linear programs over a fabric in which only ports are bottlenecks: one for
/// coflows at their arrivals, one for all of them at once. What `run` reports as cct_mean_s can't be
/// below the first.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    watermaster bound FB2010-1Hr-150-0.txt --json\n\n\
    The search converges from below; every round's value is a valid bound.")]
pub(crate) struct Bound {
    /// A trace in the format of coflow-benchmark
    trace: PathBuf,

    /// What a port carries each way; by default a megabyte of the trace takes 8 ms
    #[arg(long, default_value = "1048576 kbit/s")]
    rate: Rate,

    /// Rounds of the search
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Found {
    trace: String,
    rate_bps: u64,
    coflows: usize,
    rounds: u32,
    /// At their arrivals.
    cct_mean_s: f64,
    /// All at once.
    cct_mean_at_once_s: f64,
}

impl Bound {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        if self.rate == Rate::ZERO {
            return Err(Failure::misused("--rate is zero; give what a port carries"));
        }
        let jobs = read(&self.trace, self.rate)?;
        let others = self.rounds.div_ceil(RATIO);
        let bar = ProgressBar::new(u64::from(self.rounds) + u64::from(others * RATIO));
        if !io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let mut search = Search::new(&jobs);
        for _ in 0..self.rounds {
            search.round();
            bar.inc(1);
        }
        let mut at_once = OrderSearch::new(&jobs);
        for _ in 0..others {
            at_once.round();
            bar.inc(u64::from(RATIO));
        }
        bar.finish_and_clear();
        let found = Found {
            trace: self.trace.display().to_string(),
            rate_bps: self.rate.as_bps(),
            coflows: jobs.len(),
            rounds: self.rounds,
            cct_mean_s: search.bound(),
            cct_mean_at_once_s: at_once.bound(),
        };
        if self.json {
            let text = serde_json::to_string_pretty(&found).map_err(Failure::failed)?;
            return print(&(text + "\n"));
        }
        print(&format!(
            "{} coflows, ports of {}\n\
             at their arrivals  mean completion time at least {:.2} s\n\
             all at once        mean completion time at least {:.2} s\n",
            found.coflows, self.rate, found.cct_mean_s, found.cct_mean_at_once_s,
        ))
    }
}

/// The load of each coflow on each port, sending ports first.
fn read(trace: &Path, rate: Rate) -> Result<Vec<Work>, Failure> {
    let reader = Reader::open(trace).map_err(Failure::misused)?;
    let ports = reader.ports() as usize;
    let mut jobs = Vec::new();
    for coflow in reader {
        let coflow = coflow.map_err(Failure::misused)?;
        let mut loads: BTreeMap<usize, f64> = BTreeMap::new();
        for (mapper, reducer, size) in coflow.transfers() {
            let time = rate.time_for(size);
            if time > Span::ZERO {
                let ends = [coflow.mappers[mapper], coflow.reducers[reducer].0];
                *loads.entry(ends[0] as usize).or_default() += time.as_secs_f64();
                *loads.entry(ports + ends[1] as usize).or_default() += time.as_secs_f64();
            }
        }
        let release = coflow.arrival.as_secs_f64();
        // As in a run, empty coflows are left out.
        if !loads.is_empty() {
            jobs.push(Work { release, loads: loads.into_iter().collect() });
        }
    }
    Ok(jobs)
}
