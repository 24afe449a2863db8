//! What a run gave.

use std::collections::BTreeMap;
use std::path::PathBuf;

use experiment::report::{self, Report};
use experiment::run::{Prepared, Repeat};
use experiment::store::{self, Column, Table};
use experiment::{RunResult, table};
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::table::PyTable;

#[pyclass(name = "Result", module = "watermaster", frozen)]
pub struct PyOutcome {
    prepared: Vec<Prepared>,
    repeats: Vec<Repeat>,
    /// Of those policies that were asked for.
    shown: RunResult,
    mean: RunResult,
    command: String,
}

impl PyOutcome {
    /// Of `repeats`, one for each of `prepared`, of which the policies `labels` are shown; `None` of none.
    pub fn new(
        prepared: Vec<Prepared>,
        repeats: Vec<Repeat>,
        labels: &[String],
        command: String,
    ) -> Option<Self> {
        let results: Vec<RunResult> = repeats.iter().map(|repeat| repeat.result.clone()).collect();
        let mean = RunResult::mean_of(&results)?;
        let mut shown = mean.clone();
        shown.results.retain(|result| labels.contains(&result.policy));
        Some(Self { prepared, repeats, shown, mean, command })
    }

    fn tables(&self, of: impl Fn(&Prepared, &Repeat) -> Table) -> PyResult<PyTable> {
        PyTable::new(self.prepared.iter().zip(&self.repeats).map(|(own, repeat)| of(own, repeat)))
    }
}

#[pymethods]
impl PyOutcome {
    #[getter]
    fn scenario(&self) -> &str {
        &self.mean.origin.scenario
    }

    #[getter]
    fn policies(&self) -> Vec<&str> {
        self.shown.results.iter().map(|result| &*result.policy).collect()
    }

    /// The metrics of a policy by name: of repeated runs their means.
    fn __getitem__(&self, policy: &str) -> PyResult<BTreeMap<String, f64>> {
        let found = self.shown.results.iter().find(|result| result.policy == policy);
        let missing = || {
            let labels = self.policies().join(", ");
            PyKeyError::new_err(format!("there is no policy {policy}; there are {labels}"))
        };
        Ok(found.ok_or_else(missing)?.metrics.clone())
    }

    #[getter]
    fn metrics(&self) -> PyResult<PyTable> {
        let (mut policies, mut names) = (Vec::new(), Vec::new());
        let (mut values, mut halves) = (Vec::new(), Vec::new());
        for own in &self.shown.results {
            for (name, value) in &own.metrics {
                policies.push(Some(own.policy.as_str().into()));
                names.push(Some(name.as_str().into()));
                values.push(Some(*value));
                halves.push(own.interval95.get(name).copied());
            }
        }
        let columns = [
            ("policy", Column::Text(policies)),
            ("metric", Column::Text(names)),
            ("value", Column::Real(values)),
            ("interval95", Column::Real(halves)),
        ];
        let columns = columns.map(|(name, column)| (name.to_owned(), column)).into();
        PyTable::new([Table { columns }])
    }

    #[getter]
    fn flows(&self) -> PyResult<PyTable> {
        self.tables(|own, repeat| store::flows(&own.origin(), &own.scenario.topology, &repeat.runs))
    }

    #[getter]
    fn jobs(&self) -> PyResult<PyTable> {
        self.tables(|own, repeat| store::jobs(&own.origin(), &repeat.runs))
    }

    fn to_json(&self) -> PyResult<String> {
        self.shown.to_json().map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    fn write_report(&self, path: PathBuf) -> PyResult<()> {
        let (Some(prepared), Some(first)) = (self.prepared.first(), self.repeats.first()) else {
            return Ok(());
        };
        let scenario = &prepared.scenario;
        let report = Report {
            title: &scenario.title,
            source: &scenario.source,
            command: &self.command,
            topology: &scenario.topology,
            runs: &first.runs,
            result: &self.mean,
        };
        report::write(&path, &report).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    fn __repr__(&self) -> String {
        let measures = self.prepared.first().map(|own| &own.scenario.measures);
        let measures: Vec<&str> = measures.into_iter().flatten().map(String::as_str).collect();
        let measures = if measures.is_empty() { table::DEFAULT_METRICS } else { &measures };
        table::render(&self.shown, measures, Some(100))
    }
}
