//! Repeated runs of one scenario, summed up as one result.

use std::collections::BTreeMap;

use crate::metrics::{Metrics, Summary};
use crate::result::{PolicyResult, RunResult};

impl RunResult {
    /// The mean of each metric over `runs`, which are of one scenario with equal policies, with its
    /// confidence interval; the means are judged anew. A metric that some run lacks is summed up
    /// over the others. Origin and published figures are those of the first run; `None` without
    /// runs.
    pub fn mean_of(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?;
        if runs.len() == 1 {
            return Some(first.clone());
        }
        let mut results: Vec<PolicyResult> = first
            .results
            .iter()
            .map(|result| {
                let repeats = runs.iter().flat_map(|run| &run.results);
                let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
                for repeat in repeats.filter(|repeat| repeat.policy == result.policy) {
                    for (name, value) in &repeat.metrics {
                        values.entry(name).or_default().push(*value);
                    }
                }
                let all = runs.iter().flat_map(|run| &run.results);
                let own: Vec<_> = all.filter(|repeat| repeat.policy == result.policy).collect();
                let (mut notes, mut rates) = (Vec::new(), Vec::new());
                for repeat in &own {
                    notes.extend_from_slice(&repeat.notes);
                    rates.extend_from_slice(&repeat.rates);
                }
                let equal = own.iter().fold(result.equal_runs.clone(), |equal, repeat| {
                    equal.intersection(&repeat.equal_runs).cloned().collect()
                });
                let metrics = Metrics::new();
                let mut sums =
                    PolicyResult { metrics, notes, rates, equal_runs: equal, ..result.clone() };
                for (name, values) in values {
                    if let Some(summary) = Summary::of(&values) {
                        sums.metrics.insert(name.clone(), summary.mean);
                        let width = summary.half_width.filter(|width| width.is_finite());
                        sums.interval95.extend(width.map(|width| (name.clone(), width)));
                    }
                }
                sums
            })
            .collect();
        for result in &mut results {
            result.judge();
        }
        Some(Self { results, ..first.clone() })
    }

    /// Widens the intervals of means over so many `runs` to those in which the mean of so many `draws` more is
    /// expected, and judges anew: Student's t times the deviation times √(1/n + 1/m), where that of the mean has
    /// √(1/n).
    pub(crate) fn expect_more(&mut self, draws: u32, runs: usize) {
        let wider = (1.0 + runs as f64 / f64::from(draws)).sqrt();
        for result in &mut self.results {
            result.interval95.values_mut().for_each(|half| *half *= wider);
            result.judge();
        }
    }
}
