//! `watermaster lab compare`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use experiment::RunResult;
use experiment::metrics::human;
use experiment::rates::{self, FlowRate};
use experiment::run::{Prepared, run_all};
use experiment::scenario::Override;
use serde::Serialize;

use super::load;
use crate::failure::{Failure, print};
use crate::input::threads;
use crate::policies::{chosen, listed};
use crate::progress::Bar;
use crate::staging::clean_up_on_interrupt;
use crate::sweep::{Values, product, values};

/// Largest accepted difference between the two worlds.
const TOLERANCE: f64 = 0.15;
/// The metrics compared if a scenario names none.
const MEASURES: &[&str] =
    &["jct_mean_s", "fct_mean_s", "makespan_s", "goodput_bps", "timeouts_count"];

/// Run scenarios in the simulator and in the lab, and compare metric by metric
///
/// Each in both worlds under its policies; what differs by more than 15 % is flagged. With --repeat
/// the means over seeds are compared, and minimum, median and maximum of the runs are shown beside
/// them: a mean of runs with and without a timeout says little.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    sudo watermaster lab compare scenarios/lab/incast.toml --policy cubic \\\n    \
    --vary workload.senders=10,20,40,60 --repeat 3")]
pub(crate) struct Compare {
    /// The scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,

    /// Only these policies, by label, or by name with default parameters where a scenario doesn't list them
    #[arg(long, value_delimiter = ',', value_name = "A,B", value_parser = crate::policies::Label,
          hide_possible_values = true)]
    policy: Vec<String>,

    /// Change a key of every scenario; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    changes: Vec<Override>,

    /// Values of a key, each compared; repeatable
    #[arg(long, value_name = "PATH=A,B,…", value_parser = values)]
    vary: Vec<Values>,

    /// Run each so many times, with seeds that count up, and compare means
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    repeat: u64,

    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// One metric in both worlds.
#[derive(Serialize)]
struct Row {
    scenario: String,
    set: BTreeMap<String, String>,
    policy: String,
    metric: String,
    simulator: f64,
    lab: f64,
    /// What each run gave, in the order of seeds.
    simulator_runs: Vec<f64>,
    lab_runs: Vec<f64>,
    /// Lab over simulator; `None` if not finite.
    ratio: Option<f64>,
    /// Within the tolerance.
    agrees: bool,
    /// The lab's notes on the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Achieved rates, with the first metric of a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Rates>,
}

/// Achieved rates in both worlds.
#[derive(Serialize)]
struct Rates {
    simulator: Vec<FlowRate>,
    lab: Vec<FlowRate>,
}

/// The results of one world.
struct Runs {
    mean: RunResult,
    each: Vec<RunResult>,
}

impl Runs {
    /// A metric under a policy, run by run.
    fn values(&self, policy: &str, metric: &str) -> Vec<f64> {
        let results = self.each.iter().flat_map(|run| &run.results);
        let own = results.filter(|result| result.policy == policy);
        own.filter_map(|result| result.metrics.get(metric)).copied().collect()
    }
}

impl Compare {
    pub(super) fn execute(self) -> Result<(), Failure> {
        clean_up_on_interrupt()?;
        let combinations = product(&self.vary)?;
        let mut rows = Vec::new();
        for path in &self.scenarios {
            for set in &combinations {
                let mut changes: Vec<Override> = listed(&self.policy).collect();
                changes.extend(self.changes.iter().chain(set).cloned());
                let in_world = |world: &str| {
                    let world = Override::text("world", "world", world);
                    let seed = load(path, &changes)?.scenario.seed;
                    let seeds = (0..self.repeat).map(|more| {
                        let seed = Override::seed(seed.saturating_add(more));
                        let all = changes.iter().cloned().chain([world.clone(), seed]);
                        let prepared = load(path, &all.collect::<Vec<_>>())?;
                        Ok(Prepared { rates: true, ..prepared })
                    });
                    self.run(&seeds.collect::<Result<Vec<_>, _>>()?)
                };
                let (simulator, lab) = (in_world("packet")?, in_world("lab")?);
                let measures = load(path, &changes)?.scenario.measures;
                let measures: Vec<&str> = match &measures[..] {
                    [] => MEASURES.to_vec(),
                    some => some.iter().map(String::as_str).collect(),
                };
                let set: BTreeMap<String, String> =
                    set.iter().map(|c| (c.path().to_owned(), c.value().to_owned())).collect();
                let fresh = beside(&simulator, &lab, &measures, &set);
                if !self.json {
                    print(&show(&fresh))?;
                }
                rows.extend(fresh);
            }
        }
        if self.json {
            let json = serde_json::to_string_pretty(&rows).map_err(Failure::failed)?;
            return print(&(json + "\n"));
        }
        let apart = rows.iter().filter(|row| !row.agrees).count();
        print(&format!("{} of {} figures agree within 15 %\n", rows.len() - apart, rows.len()))
    }

    /// Each of `repeats` under the policies asked for, and their mean.
    fn run(&self, repeats: &[Prepared]) -> Result<Runs, Failure> {
        let mut results = Vec::new();
        for prepared in repeats {
            let labels = chosen(&prepared.scenario, &self.policy)?;
            let tasks: Vec<_> = prepared.tasks(&labels, None).collect();
            let bar = Bar::new(&tasks);
            let runs = run_all(&tasks, threads(None), &|task, now| bar.update(task, &now));
            results.push(prepared.result(&runs.map_err(Failure::failed)?));
        }
        let mean =
            RunResult::mean_of(&results).ok_or_else(|| Failure::misused("nothing to run"))?;
        Ok(Runs { mean, each: results })
    }
}

/// The `measures` of both worlds, policy by policy.
fn beside(
    simulator: &Runs,
    lab: &Runs,
    measures: &[&str],
    set: &BTreeMap<String, String>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (ours, theirs) in simulator.mean.results.iter().zip(&lab.mean.results) {
        let mut notes = theirs.notes.clone();
        let mut rates = Some(Rates { simulator: ours.rates.clone(), lab: theirs.rates.clone() });
        for &metric in measures {
            let values = (ours.metrics.get(metric), theirs.metrics.get(metric));
            let (Some(&simulated), Some(&measured)) = values else { continue };
            let ratio = Some(measured / simulated).filter(|ratio| ratio.is_finite());
            let close = |ratio: f64| (1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio);
            rows.push(Row {
                scenario: lab.mean.origin.scenario.clone(),
                set: set.clone(),
                policy: ours.policy.clone(),
                metric: metric.to_owned(),
                simulator: simulated,
                lab: measured,
                simulator_runs: simulator.values(&ours.policy, metric),
                lab_runs: lab.values(&ours.policy, metric),
                ratio,
                // Zero in both is agreement.
                agrees: simulated == measured || ratio.is_some_and(close),
                notes: std::mem::take(&mut notes),
                rates: rates
                    .take()
                    .filter(|both| !(both.simulator.is_empty() && both.lab.is_empty())),
            });
        }
    }
    rows
}

fn show(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return "nothing that both worlds measure\n".to_owned();
    };
    let set: Vec<String> =
        first.set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let mut text = format!("{} {}\n", first.scenario, set.join(", "));
    let repeated = first.lab_runs.len() > 1;
    let spreads = if repeated { "         simulator: least, median, most; lab" } else { "" };
    text += &format!(
        " {:<14} {:<28} {:>14} {:>14} {:>7}{spreads}\n",
        "policy", "metric", "simulator", "lab", "ratio"
    );
    for row in rows {
        let ratio = row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let (simulator, lab) = (human(&row.metric, row.simulator), human(&row.metric, row.lab));
        let flag = if row.agrees { "" } else { "  apart" };
        let spread = |runs: &[f64]| spread(&row.metric, runs);
        let spreads = if repeated {
            format!("{flag:8} {}; {}", spread(&row.simulator_runs), spread(&row.lab_runs))
        } else {
            flag.to_owned()
        };
        text += &format!(
            " {:<14} {:<28} {simulator:>14} {lab:>14} {ratio:>7}{spreads}\n",
            row.policy, row.metric
        );
    }
    for row in rows {
        for note in &row.notes {
            text += &format!("{}: {note}\n", row.policy);
        }
        let Some(both) = &row.rates else { continue };
        for (world, flows) in [("simulator", &both.simulator), ("lab", &both.lab)] {
            if let Some(rates) = rates::show(flows) {
                text += &format!("{}, {world}: {rates}\n", row.policy);
            }
        }
    }
    text + "\n"
}

/// Minimum, median and maximum.
fn spread(metric: &str, runs: &[f64]) -> String {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
        return "–".to_owned();
    };
    let median = sorted[(sorted.len() - 1) / 2];
    [*least, median, *most].map(|value| human(metric, value)).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_runs_in_any_order() {
        let runs = [0.240, 0.084, 0.250, 0.085];
        assert_eq!(spread("makespan_s", &runs), "84.0 ms, 85.0 ms, 250 ms");
        assert_eq!(spread("timeouts_count", &[2.0]), "2, 2, 2");
    }
}
