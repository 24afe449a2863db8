//! `watermaster bench`: the speed of the simulator on workloads that other simulators were measured
//! with, and the cost of decisions. The workloads are ordinary scenarios, built in so that any
//! binary can be measured.

mod daemon;
mod decide;
mod flood;

use std::path::Path;
use std::process::{Command, Stdio};

use clap::{Args, Subcommand, ValueEnum};
use experiment::Stage;
use experiment::run::{Prepared, Task};
use experiment::scenario::Scenario;
use serde::{Deserialize, Serialize};

use crate::cost::{cpu_s, peak_rss_bytes};
use crate::failure::{Failure, print};

/// Without `--runs`, runs are repeated until they took so much processor time, s.
const LEAST_CPU_S: f64 = 1.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Incast of 40 × 512 kB over two switches
    W1,
    /// The same with 50 MiB each
    W1Long,
    /// 120 servers on a leaf-spine, Poisson datagram flows, load 0.8
    W2,
    /// TCP permutation on a fat-tree of 128 hosts
    #[value(name = "permutation-128")]
    Permutation128,
    /// TCP permutation on a fat-tree of 1024 hosts
    #[value(name = "permutation-1024")]
    Permutation1024,
    /// TCP permutation on a fat-tree of 8192 hosts
    #[value(name = "permutation-8192")]
    Permutation8192,
    /// 10,000 flows at once on a switch of 1000 hosts, at flow level
    #[value(name = "fluid-10000")]
    Fluid10000,
}

impl Workload {
    const fn scenario(self) -> (&'static str, &'static str) {
        match self {
            Self::W1 => ("w1", include_str!("../../../scenarios/bench/w1.toml")),
            Self::W1Long => ("w1-long", include_str!("../../../scenarios/bench/w1-long.toml")),
            Self::W2 => ("w2", include_str!("../../../scenarios/bench/w2.toml")),
            Self::Permutation128 => {
                ("permutation-128", include_str!("../../../scenarios/bench/permutation-128.toml"))
            }
            Self::Permutation1024 => {
                ("permutation-1024", include_str!("../../../scenarios/bench/permutation-1024.toml"))
            }
            Self::Permutation8192 => {
                ("permutation-8192", include_str!("../../../scenarios/bench/permutation-8192.toml"))
            }
            Self::Fluid10000 => {
                ("fluid-10000", include_str!("../../../scenarios/bench/fluid-10000.toml"))
            }
        }
    }
}

/// Measure the simulator, decisions and the controller
///
/// Prints for each workload the packets moved over links (hops), the events, processor time of a run,
/// hops per second of processor time, the most memory of a process that runs nothing else, and the
/// goodput of the simulated network.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  watermaster bench w1-long --json\n\n\
                        Instructions per hop: make bench"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    other: Option<Other>,

    /// One workload [default: each in a process of its own]
    #[arg(value_enum)]
    workload: Option<Workload>,

    /// Runs to average over [default: as many as take a second of processor time]
    #[arg(long, value_name = "N")]
    runs: Option<u32>,

    /// Print a JSON object for each workload, one on a line
    #[arg(long)]
    json: bool,
}

/// Other benchmarks.
#[derive(Subcommand)]
enum Other {
    #[command(name = "control")]
    Daemon(daemon::DaemonBench),
    Decide(decide::Decide),
    Flood(flood::FloodBench),
}

/// What was measured of one workload.
#[derive(Serialize, Deserialize)]
struct Measured {
    name: String,
    /// Packets moved over a link in one run.
    hops: u64,
    /// Events handled in one run.
    events: u64,
    /// Processor time of one run, user and system, s.
    cpu_s: f64,
    hops_per_cpu_s: f64,
    /// Starts and ends of flows in one run, over its processor time.
    flow_events_per_cpu_s: f64,
    /// Most memory that the process held.
    peak_rss_bytes: u64,
    /// Payload delivered over the time to the end of the last flow.
    goodput_bps: f64,
}

impl Bench {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        match self.other {
            Some(Other::Daemon(daemon)) => return daemon.execute(),
            Some(Other::Decide(decide)) => return decide.execute(),
            Some(Other::Flood(flood)) => return flood.execute(),
            None => {}
        }
        if !self.json {
            print(&format!(
                "{:<17} {:>11} {:>11} {:>8} {:>11} {:>12} {:>10} {:>12}\n",
                "workload",
                "hops",
                "events",
                "cpu s",
                "Mhops/s",
                "kflowevts/s",
                "peak MiB",
                "goodput Mb/s"
            ))?;
        }
        match self.workload {
            Some(workload) => self.show(&measure(workload, self.runs)?),
            None => {
                for workload in Workload::value_variants() {
                    self.show(&apart(*workload, self.runs)?)?;
                }
                Ok(())
            }
        }
    }

    fn show(&self, measured: &Measured) -> Result<(), Failure> {
        if self.json {
            let line = serde_json::to_string(measured).map_err(Failure::failed)?;
            return print(&(line + "\n"));
        }
        print(&format!(
            "{:<17} {:>11} {:>11} {:>8.3} {:>11.2} {:>12.1} {:>10.1} {:>12.1}\n",
            measured.name,
            measured.hops,
            measured.events,
            measured.cpu_s,
            measured.hops_per_cpu_s / 1e6,
            measured.flow_events_per_cpu_s / 1e3,
            measured.peak_rss_bytes as f64 / f64::from(1 << 20),
            measured.goodput_bps / 1e6,
        ))
    }
}

/// Measures a workload in a process of its own, so that its memory is its own too.
fn apart(workload: Workload, runs: Option<u32>) -> Result<Measured, Failure> {
    let (name, _) = workload.scenario();
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let mut command = Command::new(program);
    command.args(["bench", name, "--json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    if let Some(runs) = runs {
        command.args(["--runs", &runs.to_string()]);
    }
    let output = command.output().map_err(Failure::failed)?;
    if !output.status.success() {
        return Err(Failure::failed(format_args!(
            "{name}: the measurement ended {}",
            output.status
        )));
    }
    serde_json::from_slice(&output.stdout).map_err(Failure::failed)
}

fn measure(workload: Workload, runs: Option<u32>) -> Result<Measured, Failure> {
    let (name, text) = workload.scenario();
    let scenario = Scenario::read(name, text, Path::new(""), &[]).map_err(Failure::failed)?;
    let prepared = Prepared::new(scenario).map_err(Failure::failed)?;
    let labels: Vec<String> = prepared.scenario.labels().map(str::to_owned).collect();
    let task: Task<'_> = prepared
        .tasks(&labels, None)
        .next()
        .ok_or_else(|| Failure::failed(format_args!("{name}: the scenario has no policy")))?;
    let start_s = cpu_s();
    let mut done = 0;
    let outcome = loop {
        let run = task.run(&mut Stage::default(), &mut |_| {}).map_err(Failure::failed)?;
        done += 1;
        if runs.map_or(cpu_s() - start_s >= LEAST_CPU_S, |runs| done >= runs) {
            break run.outcome;
        }
    };
    let cpu_s = (cpu_s() - start_s) / f64::from(done);
    let delivered: u64 = outcome.flows.iter().map(|flow| flow.delivered.get()).sum();
    let ended = || outcome.flows.iter().filter_map(|flow| flow.end);
    let flow_events = outcome.flows.len() + ended().count();
    let end = ended().max().unwrap_or_default();
    Ok(Measured {
        name: name.to_owned(),
        hops: outcome.hops,
        events: outcome.events,
        cpu_s,
        hops_per_cpu_s: outcome.hops as f64 / cpu_s,
        flow_events_per_cpu_s: flow_events as f64 / cpu_s,
        peak_rss_bytes: peak_rss_bytes()?,
        goodput_bps: delivered as f64 * 8.0 / end.as_secs_f64(),
    })
}
