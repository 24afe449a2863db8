//! `watermaster sweep`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use experiment::scenario::Override;
use experiment::{RunResult, table};
use serde::Serialize;

use crate::failure::{Failure, print};
use crate::grid::Grid;
use crate::input::{Input, MOST_RUNS};
use crate::progress::Count;
use crate::staging::clean_up_on_interrupt;

/// Run a scenario for every combination of some of its values
///
/// Prints a comparison for each combination of the values to --vary, with the mean and the 95 %
/// interval over the values to average --over. With one --policy the combinations stand side by
/// side. All runs are made together, one a core; what several combinations have in common, such as the baseline where
/// another policy's parameter is varied, is run once. Writes no files without --out.
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

    /// Keep the results in this directory as they come, and don't run again what it has of the same scenario and
    /// files, by a program of the same sources
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
    set: BTreeMap<String, String>,
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
        let mut grid = Grid::new(&self.input);
        let mut combined = Vec::new();
        for set in &combinations {
            let mut first = None;
            for over in &repetitions {
                let both: Vec<Override> = set.iter().chain(over).cloned().collect();
                let scenario = self.input.load(&both)?;
                let shown = self.input.shown(&scenario)?;
                first.get_or_insert_with(|| Combination::new(set, &scenario.measures, &shown));
                grid.add(both, scenario, shown)?;
            }
            combined.extend(first);
        }
        if let Some(out) = &self.out {
            grid.keep_in(out)?;
        }
        let count = Count::new(grid.runs());
        if grid.in_words {
            count.hide();
        }
        let as_they_come = !self.input.json && self.side_by_side().is_none();
        let mut points = Vec::new();
        let mut done: Vec<Option<RunResult>> = vec![None; grid.repetitions()];
        grid.run(&|run, part| count.update(run, part), &mut |at, result| {
            done[at] = Some(result);
            // In the order of the combinations.
            let each = done.chunks_mut(repetitions.len()).zip(&combined);
            for (own, combination) in each.skip(points.len()) {
                if !own.iter().all(Option::is_some) {
                    break;
                }
                let results: Vec<RunResult> = own.iter_mut().filter_map(Option::take).collect();
                let Some(point) = combination.point(&results) else {
                    break;
                };
                if as_they_come {
                    let text = show(&point)?;
                    count.beside(|| print(&text))?;
                }
                points.push(point);
            }
            Ok(())
        })?;
        drop(count);
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

/// What is wanted of a combination.
struct Combination {
    set: BTreeMap<String, String>,
    measures: Vec<String>,
    /// The policies to show.
    shown: Vec<String>,
}

impl Combination {
    fn new(set: &[Override], measures: &[String], shown: &[String]) -> Self {
        let pairs = set.iter().map(|set| (set.path().to_owned(), set.value().to_owned()));
        Self { set: pairs.collect(), measures: measures.to_vec(), shown: shown.to_vec() }
    }

    /// The mean over its repetitions.
    fn point(&self, results: &[RunResult]) -> Option<Point> {
        let mut result = RunResult::mean_of(results)?;
        result.results.retain(|result| self.shown.contains(&result.policy));
        let (set, measures) = (self.set.clone(), self.measures.clone());
        Some(Point { set, runs: results.len(), measures, result })
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
