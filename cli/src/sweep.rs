//! `watermaster sweep`.

use std::fmt::Write as _;

use clap::Args;
use experiment::scenario::Override;
use experiment::{RunResult, table};
use serde::Serialize;

use crate::failure::{Failure, print};
use crate::input::{Input, MOST_RUNS, prepare};
use crate::staging::clean_up_on_interrupt;

/// Run a scenario for every combination of some of its values
///
/// Prints a comparison for each combination of the values to --vary, with the mean and the 95 %
/// interval over the values to average --over. With one --policy the combinations stand side by
/// side. Writes no files.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    watermaster sweep scenarios/phurti/facebook-100-jobs.toml --trace FB-2009.tsv \\\n    \
    --vary workload.load=0.5,0.7,0.9 --over workload.trace.sample=0,1,2,3,4,5")]
pub(crate) struct Sweep {
    #[command(flatten)]
    input: Input,

    /// Values of a key to compare; repeatable
    #[arg(long, value_name = "PATH=A,B,…", value_parser = values)]
    vary: Vec<Values>,

    /// Values of a key to average over; repeatable
    #[arg(long, value_name = "PATH=A,B,…", value_parser = values)]
    over: Vec<Values>,
}

/// The overrides of one key, one for each value.
pub(crate) type Values = Vec<Override>;

pub(crate) fn values(text: &str) -> Result<Values, String> {
    let (path, values) = text.split_once('=').ok_or("has no =; write PATH=A,B,C")?;
    let each = values.split(',').map(|value| Override::new(path, value));
    each.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// What the JSON object holds.
#[derive(Serialize)]
struct Object {
    scenario: String,
    world: String,
    version: String,
    sweep: Vec<Point>,
}

/// One combination.
#[derive(Serialize)]
struct Point {
    /// The values that are varied, by key.
    set: std::collections::BTreeMap<String, String>,
    /// Runs of each policy that its means are over.
    runs: usize,
    /// The metrics that the scenario asks to show.
    #[serde(skip)]
    measures: Vec<String>,
    #[serde(flatten)]
    result: RunResult,
}

impl Sweep {
    /// The policy for which the combinations are the columns of one table.
    fn side_by_side(&self) -> Option<&str> {
        self.input.only_policy().filter(|_| !self.vary.is_empty())
    }

    pub(crate) fn execute(self) -> Result<(), Failure> {
        clean_up_on_interrupt()?;
        let combinations = product(&self.vary)?;
        let repetitions = product(&self.over)?;
        if combinations.len().saturating_mul(repetitions.len()) > MOST_RUNS {
            return Err(Failure::misused(format_args!(
                "--vary and --over make more than {MOST_RUNS} combinations; give fewer values"
            )));
        }
        // Everything is read before anything runs, so that mistakes show at once.
        let read = |set: &Values| {
            let scenarios = repetitions.iter().map(|over| {
                let both: Vec<Override> = set.iter().chain(over).cloned().collect();
                self.input.load(&both)
            });
            scenarios.collect::<Result<Vec<_>, _>>()
        };
        for set in &combinations {
            for scenario in read(set)? {
                prepare(scenario)?;
            }
        }
        let mut points = Vec::new();
        for set in &combinations {
            let scenarios = read(set)?;
            let Some(first) = scenarios.first() else {
                continue;
            };
            let shown = self.input.shown(first)?;
            let measures = first.measures.clone();
            let repeats = scenarios.into_iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
            let done = self.input.run_all(&repeats, &shown, None)?;
            let results: Vec<RunResult> = done.into_iter().map(|repeat| repeat.result).collect();
            let Some(mut result) = RunResult::mean_of(&results) else {
                continue;
            };
            result.results.retain(|result| shown.contains(&result.policy));
            let pairs = set.iter().map(|set| (set.path().to_owned(), set.value().to_owned()));
            let point = Point { set: pairs.collect(), runs: results.len(), measures, result };
            if !self.input.json && self.side_by_side().is_none() {
                print(&show(&point)?)?;
            }
            points.push(point);
        }
        if !self.input.json {
            return match self.side_by_side() {
                Some(policy) => print(&compare(&points, policy)?),
                None => Ok(()),
            };
        }
        let Some(origin) = points.first().map(|point| point.result.origin.clone()) else {
            return Ok(());
        };
        let (scenario, world, version) = (origin.scenario, origin.world, origin.version);
        let object = Object { scenario, world, version, sweep: points };
        let json = serde_json::to_string_pretty(&object).map_err(Failure::failed)?;
        print(&(json + "\n"))
    }
}

impl Point {
    /// The metrics to show.
    fn shown(&self) -> Vec<&str> {
        if self.measures.is_empty() {
            return table::DEFAULT_METRICS.to_vec();
        }
        self.measures.iter().map(String::as_str).collect()
    }

    /// Its numbers, under `title`.
    fn heading(&self, title: &str) -> Result<String, Failure> {
        let mut text = String::new();
        let runs = self.runs;
        writeln!(text, "{title} (mean ± half of the 95 % interval over {runs} runs)\n")
            .map_err(Failure::failed)?;
        Ok(text)
    }
}

/// One combination, its policies side by side.
fn show(point: &Point) -> Result<String, Failure> {
    let set: Vec<String> =
        point.set.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    let set = if set.is_empty() { point.result.origin.scenario.clone() } else { set.join(", ") };
    let table = table::render(&point.result, &point.shown(), None);
    Ok(point.heading(&set)? + &table + "\n")
}

/// One policy, the combinations side by side.
fn compare(points: &[Point], policy: &str) -> Result<String, Failure> {
    let Some(first) = points.first() else {
        return Ok(String::new());
    };
    let keys: Vec<&str> = first.set.keys().map(String::as_str).collect();
    let columns = points.iter().map(|point| {
        let values: Vec<&str> = point.set.values().map(String::as_str).collect();
        (values.join(", "), &point.result)
    });
    let columns: Vec<_> = columns.collect();
    let title = format!("{} by {}", first.result.origin.scenario, keys.join(", "));
    Ok(first.heading(&title)? + &table::across(&columns, policy, &first.shown()) + "\n")
}

/// Every combination of values; without keys one empty combination.
pub(crate) fn product(keys: &[Values]) -> Result<Vec<Values>, Failure> {
    let mut all = vec![Vec::new()];
    for values in keys {
        if all.len().saturating_mul(values.len()) > MOST_RUNS {
            return Err(Failure::misused(format_args!(
                "--vary and --over make more than {MOST_RUNS} combinations; give fewer values"
            )));
        }
        all = all
            .iter()
            .flat_map(|chosen: &Values| {
                values.iter().map(move |value| {
                    let mut longer = chosen.clone();
                    longer.push(value.clone());
                    longer
                })
            })
            .collect();
    }
    Ok(all)
}
