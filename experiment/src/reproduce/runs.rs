//! Running the units of a plan.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::Outcome;
use model::Topology;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::plan::Unit;
use crate::metrics::{self, Metrics, Sample};
use crate::run::{Prepared, Task};
use crate::scenario::Scenario;
use crate::stage::Stage;

/// The results of a unit, by policy in the order of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured(pub Vec<PolicyMeasured>);

/// The results of a unit under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyMeasured {
    /// Its label.
    pub policy: String,
    /// What was measured.
    pub metrics: Metrics,
    /// Distributions by name: the values at evenly spaced ranks, ascending.
    pub samples: BTreeMap<String, Vec<f64>>,
}

/// How far a unit has come.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Its position.
    pub unit: usize,
    /// The part that is done, from 0 to 1.
    pub done: f64,
}

/// Returns the results of all `units`, in their order, from `cache` or by running them on at most
/// `threads` threads. Each result is stored in `cache` at once. A unit that fails gives an error
/// and doesn't affect the others.
pub fn run(
    units: &[Unit],
    cache: &Cache,
    threads: usize,
    progress: &(dyn Fn(Tick) + Sync),
) -> Vec<Result<Measured, String>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![Err("wasn't run".to_owned()); units.len()]);
    let work = || {
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = units.get(position) else {
                break;
            };
            let tick = |done| progress(Tick { unit: position, done });
            let result = match cache.get(&unit.key) {
                Some(measured) => Ok(measured),
                None => unit.run(&tick).and_then(|measured| {
                    cache.put(&unit.key, &measured).map_err(|error| error.to_string())
                }),
            };
            tick(1.0);
            let mut results = results.lock().expect("no thread panics while it holds the lock");
            results[position] = result;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(units.len()) {
            scope.spawn(work);
        }
        work();
    });
    results.into_inner().expect("no thread panics while it holds the lock")
}

impl Unit {
    fn run(&self, progress: &dyn Fn(f64)) -> Result<Measured, String> {
        let scenario = Scenario::load(&self.path, &self.overrides).map_err(|e| e.to_string())?;
        let prepared = Prepared::new(scenario).map_err(|error| error.to_string())?;
        let runs =
            |label: &&str| self.policies.is_empty() || self.policies.iter().any(|p| p == label);
        let labels = prepared.scenario.labels().filter(runs);
        let labels: Vec<String> = labels.map(str::to_owned).collect();
        let tasks: Vec<Task<'_>> = prepared.tasks(&labels, None).collect();
        // The baseline runs first: only its outcome is kept while the others run.
        let first = labels.iter().position(|label| *label == prepared.scenario.baseline);
        let others = (0..tasks.len()).filter(|&task| Some(task) != first);
        let order = first.into_iter().chain(others);
        let mut baseline: Option<Outcome> = None;
        let mut measured: Vec<Option<PolicyMeasured>> = vec![None; tasks.len()];
        for (count, position) in order.enumerate() {
            let share = |done: f64| progress((count as f64 + done) / tasks.len() as f64);
            let run =
                tasks[position].run(&mut Stage::default(), &mut |now| share(prepared.done(&now)));
            let run = run.map_err(|error| error.to_string())?;
            let topology = &prepared.scenario.topology;
            let policy = self.measure(run.policy, topology, &run.outcome, baseline.as_ref());
            measured[position] = Some(policy);
            if Some(position) == first {
                baseline = Some(run.outcome);
            }
        }
        Ok(Measured(measured.into_iter().flatten().collect()))
    }

    fn measure(
        &self,
        policy: String,
        topology: &Topology,
        run: &Outcome,
        baseline: Option<&Outcome>,
    ) -> PolicyMeasured {
        let samples = self.distributions.iter().filter_map(|name| {
            let sample = metrics::distribution(name, topology, run, baseline)?;
            Some((name.clone(), thinned(&sample)))
        });
        PolicyMeasured {
            policy,
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
