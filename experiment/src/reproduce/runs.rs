//! Running the units of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{Outcome, Progress};
use model::Topology;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::plan::{PlannedRun, Unit};
use crate::metrics::{self, Metrics, Sample};
use crate::run::Prepared;
use crate::scenario::Scenario;
use crate::stage::Stage;

/// The results of a unit, by policy in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured(pub Vec<PolicyMeasured>);

/// The results of a unit under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyMeasured {
    /// Its label. A kept result that several have in common has that of whoever ran it.
    pub policy: String,
    /// What was measured.
    pub metrics: Metrics,
    /// Distributions by name: the values at evenly spaced ranks, ascending.
    pub samples: BTreeMap<String, Vec<f64>>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Its position.
    pub run: usize,
    /// The part that is done, from 0 to 1.
    pub done: f64,
}

/// The runs that units take and that aren't cached, each once.
#[derive(Debug)]
pub struct Work<'a> {
    units: &'a [Unit],
    cache: &'a Cache,
    /// What was cached, by key.
    cached: BTreeMap<&'a str, Result<PolicyMeasured, String>>,
    parts: Vec<Part<'a>>,
    runs: usize,
}

/// The runs of a unit that no unit before it has.
#[derive(Debug)]
struct Part<'a> {
    unit: &'a Unit,
    missing: Vec<Missing<'a>>,
    /// Positions of its runs: of those that are missing, and of the baseline's, where others are
    /// compared with it.
    runs: Range<usize>,
}

/// A run that isn't cached.
#[derive(Debug)]
struct Missing<'a> {
    run: &'a PlannedRun,
    /// The distributions that figures plot of it, in whichever unit.
    distributions: BTreeSet<&'a str>,
}

/// The distributions that figures plot of each run, by key.
fn plotted(units: &[Unit]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut plotted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for unit in units {
        for run in &unit.runs {
            let of = plotted.entry(&run.key).or_default();
            of.extend(unit.distributions.iter().map(String::as_str));
        }
    }
    plotted
}

impl<'a> Work<'a> {
    /// Looks up in `cache` what `units` need.
    pub fn new(units: &'a [Unit], cache: &'a Cache) -> Self {
        let mut work = Self { units, cache, cached: BTreeMap::new(), parts: Vec::new(), runs: 0 };
        // Each run is taken out by the first unit that has it.
        let mut plotted = plotted(units);
        for unit in units {
            let mut missing: Vec<Missing<'_>> = Vec::new();
            for run in &unit.runs {
                let Some(distributions) = plotted.remove(run.key.as_str()) else { continue };
                let kept: Option<PolicyMeasured> = cache.get(&run.key);
                // It may have been kept for figures that plot less.
                let has_all = |kept: &PolicyMeasured| {
                    distributions.iter().all(|d| kept.samples.contains_key(*d))
                };
                match kept.filter(has_all) {
                    Some(kept) => drop(work.cached.insert(&run.key, Ok(kept))),
                    None => missing.push(Missing { run, distributions }),
                }
            }
            if missing.is_empty() {
                continue;
            }
            let is_there =
                |baseline: &String| missing.iter().any(|one| one.run.policy == *baseline);
            let again = unit.baseline.as_ref().is_some_and(|baseline| !is_there(baseline));
            let end = work.runs + missing.len() + usize::from(again);
            work.parts.push(Part { unit, missing, runs: work.runs..end });
            work.runs = end;
        }
        work
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Runs them on at most `threads` threads and returns the results of all units, in their order.
    /// Each result is stored in the cache at once. A unit that fails gives an error and affects no
    /// others but those that share its runs.
    pub fn run(
        mut self,
        threads: usize,
        progress: &(dyn Fn(Tick) + Sync),
    ) -> Vec<Result<Measured, String>> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(std::mem::take(&mut self.cached));
        let work = || {
            while let Some(part) = self.parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let ran = part.run(self.cache, progress);
                part.runs.clone().for_each(|run| progress(Tick { run, done: 1.0 }));
                let mut results = results.lock().expect("no thread panics while it holds the lock");
                for Missing { run, .. } in &part.missing {
                    let all = ran.as_ref().map_err(Clone::clone);
                    results.insert(&run.key, all.map(|all| all[run.policy.as_str()].clone()));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(self.parts.len()) {
                scope.spawn(work);
            }
            work();
        });
        let results = results.into_inner().expect("no thread panics while it holds the lock");
        let own = |run: &PlannedRun| -> Result<PolicyMeasured, String> {
            let measured = results[run.key.as_str()].clone()?;
            Ok(PolicyMeasured { policy: run.policy.clone(), ..measured })
        };
        let of = |unit: &Unit| unit.runs.iter().map(own).collect::<Result<_, _>>().map(Measured);
        self.units.iter().map(of).collect()
    }
}

impl Part<'_> {
    /// What was measured of what is missing, by policy.
    fn run(
        &self,
        cache: &Cache,
        progress: &dyn Fn(Tick),
    ) -> Result<BTreeMap<&str, PolicyMeasured>, String> {
        let Unit { path, overrides, .. } = self.unit;
        let scenario = Scenario::load(path, overrides).map_err(|error| error.to_string())?;
        let prepared = Prepared::new(scenario).map_err(|error| error.to_string())?;
        // The baseline, if any, runs first: only its outcome is kept while the others run.
        let baseline: Vec<String> = self.unit.baseline.iter().cloned().collect();
        let others = self.missing.iter().map(|missing| missing.run.policy.clone());
        let others: Vec<String> = others.filter(|policy| !baseline.contains(policy)).collect();
        let tasks = prepared.tasks(&baseline, None).chain(prepared.tasks(&others, None));
        let mut before: Option<Outcome> = None;
        let mut measured = BTreeMap::new();
        for (position, task) in self.runs.clone().zip(tasks) {
            let tick = |now: &Progress| progress(Tick { run: position, done: prepared.done(now) });
            let run = task.run(&mut Stage::default(), &mut |now| tick(&now));
            let run = run.map_err(|error| error.to_string())?;
            if let Some(missing) = self.missing.iter().find(|one| one.run.policy == run.policy) {
                let topology = &prepared.scenario.topology;
                let own = missing.measure(topology, &run.outcome, before.as_ref());
                let own = cache.put(&missing.run.key, &own).map_err(|error| error.to_string())?;
                measured.insert(missing.run.policy.as_str(), own);
            }
            if !baseline.is_empty() {
                before.get_or_insert(run.outcome);
            }
            progress(Tick { run: position, done: 1.0 });
        }
        Ok(measured)
    }
}

impl Missing<'_> {
    fn measure(
        &self,
        topology: &Topology,
        run: &Outcome,
        baseline: Option<&Outcome>,
    ) -> PolicyMeasured {
        let samples = self.distributions.iter().filter_map(|name| {
            let sample = metrics::distribution(name, topology, run, baseline)?;
            Some(((*name).to_owned(), thinned(&sample)))
        });
        PolicyMeasured {
            policy: self.run.policy.clone(),
            metrics: metrics::measure(topology, run, baseline),
            samples: samples.collect(),
        }
    }
}

/// The values at evenly spaced ranks, ends included.
fn thinned(sample: &Sample) -> Vec<f64> {
    const MOST: usize = 500;
    let values = sample.values();
    let count = values.len();
    if count <= MOST {
        return values.to_vec();
    }
    (0..MOST).map(|i| values[i * (count - 1) / (MOST - 1)]).collect()
}
