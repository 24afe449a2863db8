//! The result of a scenario: metrics of every policy beside the published values.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use engine::Outcome;
use model::Topology;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::metrics::{self, Metrics, is_change};
use crate::published::{Ours, Published, Verdict, judge};
use crate::rates::{self, FlowRate};

/// What a world reported of the scenario under one policy.
#[derive(Clone, Debug)]
pub struct Run {
    /// The policy's name.
    pub policy: String,
    /// What happened.
    pub outcome: Outcome,
    /// What applications measured themselves, by name.
    pub counters: Metrics,
}

/// What is measured of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// The metrics.
    pub metrics: Metrics,
    /// The world's notes to readers of them.
    pub notes: Vec<String>,
    /// Achieved rates, if recorded.
    pub rates: Vec<FlowRate>,
}

impl Measurements {
    /// Measures `run` and compares it with the run of the baseline, if that is another.
    pub fn of(topology: &Topology, run: &Run, baseline: Option<&Run>) -> Self {
        let other = baseline.filter(|other| other.policy != run.policy);
        let other = other.map(|other| &other.outcome);
        let mut metrics = metrics::measure(topology, &run.outcome, other);
        let mut notes = run.outcome.notes.clone();
        for (name, value) in &run.counters {
            match metrics.entry(name.clone()) {
                Entry::Vacant(free) => _ = free.insert(*value),
                Entry::Occupied(_) => notes.push(not_taken(name)),
            }
        }
        Self { metrics, notes, rates: rates::of(topology, &run.outcome) }
    }
}

/// Where a result comes from: enough to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Name of the scenario.
    pub scenario: String,
    /// The world that it ran in, such as `packet`.
    pub world: String,
    /// Seed of all its randomness.
    pub seed: u64,
    /// Version of Watermaster.
    pub version: String,
    /// Algorithm and version of the random numbers; told by reports and Parquet files, not by the
    /// JSON, whose keys are fixed.
    #[serde(skip)]
    pub random: String,
}

/// The result of a scenario. As JSON it has the keys `scenario`, `world`, `seed`, `version` and
/// `results`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The policy that the others are compared with.
    #[serde(skip)]
    pub baseline: Option<String>,
    /// One entry per policy, in the order of the runs.
    pub results: Vec<PolicyResult>,
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyResult {
    /// The policy's name.
    pub policy: String,
    /// The measured metrics.
    pub metrics: Metrics,
    /// Of repeated runs, whose means `metrics` then holds: half the width of each mean's 95 %
    /// confidence interval. Empty of a single run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interval95: Metrics,
    /// The world's notes to readers of the figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Achieved rates, if recorded; of all repeated runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<FlowRate>,
    /// What is published; as JSON the values under `published`, under `bounds` the side of those
    /// that have one, and under `directions` what is published without a size.
    #[serde(flatten, serialize_with = "values_and_bounds")]
    pub published: BTreeMap<String, Published>,
    /// The published figures that compare runs which are equal in all that is measured.
    #[serde(skip)]
    pub equal_runs: BTreeSet<String>,
    /// The worst of [`PolicyResult::verdicts`].
    pub verdict: Verdict,
    /// The verdict on each published figure.
    #[serde(skip)]
    pub verdicts: BTreeMap<String, Verdict>,
}

fn values_and_bounds<S: Serializer>(
    published: &BTreeMap<String, Published>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let values = published.iter().filter_map(|(name, p)| Some((name, p.claim.size()?)));
    let values: BTreeMap<_, _> = values.collect();
    let bounds = published.iter().filter_map(|(name, p)| Some((name, p.bound.name()?)));
    let directions = published.iter().filter_map(|(name, p)| Some((name, p.claim.direction()?)));
    let words: [(_, BTreeMap<_, _>); 2] =
        [("bounds", bounds.collect()), ("directions", directions.collect())];
    let mut keys = to.serialize_map(None)?;
    keys.serialize_entry("published", &values)?;
    for (key, words) in words.iter().filter(|(_, words)| !words.is_empty()) {
        keys.serialize_entry(key, words)?;
    }
    keys.end()
}

impl PolicyResult {
    /// Our value beside the published figure `name`.
    pub(crate) fn ours(&self, name: &str) -> Ours {
        Ours {
            mean: self.metrics.get(name).copied(),
            half: self.interval95.get(name).copied().unwrap_or_default(),
            equal_runs: self.equal_runs.contains(name),
        }
    }

    /// Judges the metrics against the published figures.
    pub(crate) fn judge(&mut self) {
        let judged = self
            .published
            .iter()
            .map(|(name, figure)| (name.clone(), judge(figure, self.ours(name))));
        self.verdicts = judged.collect();
        let worst = self.verdicts.values().max();
        self.verdict = worst.copied().unwrap_or(Verdict::None);
    }
}

impl RunResult {
    /// What applications measured under names that are no metric's.
    pub(crate) fn counters(&self) -> BTreeSet<&str> {
        let known: BTreeSet<&str> = metrics::names().collect();
        let own = self.results.iter().flat_map(|result| {
            let names = result.metrics.keys().map(String::as_str);
            names.filter(|name| !result.published.contains_key(*name))
        });
        // Those of one of several applications have its name before theirs.
        own.filter(|name| !known.contains(name.rsplit('/').next().unwrap_or(name))).collect()
    }

    /// Measures `runs`, compares them with the run of the policy `baseline`, and judges them
    /// against what is `published`. Figures of policies that didn't run are left out. A baseline
    /// that didn't run is ignored.
    pub fn new(
        origin: Origin,
        topology: &Topology,
        runs: &[Run],
        baseline: Option<&str>,
        published: &[Published],
    ) -> Self {
        let base = runs.iter().find(|run| Some(run.policy.as_str()) == baseline);
        let measure = |run: &Run| (run.policy.clone(), Measurements::of(topology, run, base));
        Self::of(origin, runs.iter().map(measure).collect(), baseline, published)
    }

    /// The result of the measurements under each policy, as [`RunResult::new`] makes it.
    pub fn of(
        origin: Origin,
        all: Vec<(String, Measurements)>,
        baseline: Option<&str>,
        published: &[Published],
    ) -> Self {
        let measured = all.iter().map(|(policy, own)| (policy.clone(), own.metrics.clone()));
        let mut result = Self::judged(origin, measured.collect(), baseline, published);
        for (result, (_, own)) in result.results.iter_mut().zip(all) {
            result.notes = own.notes;
            result.rates = own.rates;
        }
        result
    }

    /// The result of what was `measured` under each policy, judged as [`RunResult::new`] does.
    pub fn judged(
        origin: Origin,
        measured: Vec<(String, Metrics)>,
        baseline: Option<&str>,
        published: &[Published],
    ) -> Self {
        let of = |policy: &str| measured.iter().find(|(other, _)| other == policy);
        let base = baseline.and_then(of);
        let results = measured.iter().map(|(policy, metrics)| {
            let mut metrics = metrics.clone();
            let mut figures = BTreeMap::new();
            let mut equal_runs = BTreeSet::new();
            for figure in published.iter().filter(|figure| figure.policy == *policy) {
                if let Some(against) = &figure.against {
                    let Some((_, theirs)) = of(against) else {
                        continue;
                    };
                    let change = change(metrics.get(&figure.metric), theirs.get(&figure.metric));
                    metrics.extend(change.map(|change| (figure.key(), change)));
                }
                let other = figure.against.as_deref().or(baseline);
                let compared = figure.no_effect().and(other).filter(|other| other != policy);
                if compared.and_then(of).is_some_and(|(_, theirs)| equal(&metrics, theirs)) {
                    equal_runs.insert(figure.key());
                }
                figures.insert(figure.key(), figure.clone());
            }
            let mut result = PolicyResult {
                policy: policy.clone(),
                metrics,
                interval95: Metrics::new(),
                notes: Vec::new(),
                rates: Vec::new(),
                published: figures,
                equal_runs,
                verdict: Verdict::None,
                verdicts: BTreeMap::new(),
            };
            result.judge();
            result
        });
        let results = results.collect();
        Self { results, origin, baseline: base.map(|(policy, _)| policy.clone()) }
    }

    /// The JSON object, indented, with a line end.
    ///
    /// # Errors
    /// None with finite metrics, which [`RunResult::new`] makes sure of.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// Whether two runs are equal in all that is measured of both.
fn equal(ours: &Metrics, theirs: &Metrics) -> bool {
    let own = ours.iter().filter(|(name, _)| !is_change(name));
    let mut both = own.filter_map(|(name, value)| Some((value, theirs.get(name)?))).peekable();
    both.peek().is_some() && both.all(|(ours, theirs)| ours.to_bits() == theirs.to_bits())
}

/// The note on a number of an application that has the name of what is measured.
pub(crate) fn not_taken(name: &str) -> String {
    format!(
        "{name} is measured: the number that an application printed under that name isn't taken"
    )
}

/// The relative change from `theirs` to `ours`; `None` if not measured or not finite.
fn change(ours: Option<&f64>, theirs: Option<&f64>) -> Option<f64> {
    Some(ours? / theirs? - 1.0).filter(|change| change.is_finite())
}
