//! Scenarios, and how they are run.

use std::hash::{DefaultHasher, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::Progress;
use experiment::run::{Prepared, Repeats, Task, run_all};
use experiment::scenario::{Content, Maker, Override, Scenario, World};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use units::Bytes;

use crate::own::{DESCRIPTOR, Own, Stop};
use crate::result::PyOutcome;
use crate::words::Words;

create_exception!(watermaster, ScenarioError, PyException, "A scenario that can't be read or run.");
create_exception!(watermaster, RunError, PyException, "A run that the world refused or stopped.");

/// Between two calls of who listens to the progress.
const PAUSE: Duration = Duration::from_millis(100);
/// Most repetitions: each is held in memory.
const MOST_REPEATS: u64 = 10_000;

/// The names of all policies.
#[pyfunction]
pub fn policies() -> Vec<&'static str> {
    policy::NAMES.to_vec()
}

#[pyclass(name = "Scenario", module = "watermaster", frozen)]
pub struct PyScenario {
    path: PathBuf,
    changes: Vec<Override>,
    scenario: Scenario,
}

#[pymethods]
impl PyScenario {
    #[new]
    #[pyo3(signature = (path, *, seed = None, world = None, trace = None, changes = None))]
    fn new(
        path: PathBuf,
        seed: Option<u64>,
        world: Option<&str>,
        trace: Option<PathBuf>,
        changes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut all = Vec::new();
        for (key, value) in changes.into_iter().flatten() {
            all.push(change(&key, &value)?);
        }
        all.extend(seed.map(Override::seed));
        all.extend(world.map(|name| Override::text("world", "world", name)));
        if let Some(trace) = trace {
            let trace = std::path::absolute(trace)?;
            let name = trace.to_str().ok_or_else(|| PyValueError::new_err("trace isn't UTF-8"))?;
            all.push(Override::text("trace", "workload.trace.file", name));
        }
        let scenario = load(&path, &all)?;
        Ok(Self { path, changes: all, scenario })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.scenario.title
    }

    #[getter]
    const fn seed(&self) -> u64 {
        self.scenario.seed
    }

    #[getter]
    const fn world(&self) -> &'static str {
        self.scenario.world.name()
    }

    #[getter]
    fn policies(&self) -> Vec<&str> {
        self.scenario.labels().collect()
    }

    fn __repr__(&self) -> String {
        let Self { path, scenario, .. } = self;
        format!("Scenario {} ({}): {}", scenario.name, path.display(), scenario.title)
    }

    #[allow(clippy::too_many_arguments)] // keywords in Python
    #[pyo3(signature = (policies = None, *, repeat = 1, jobs = None, memory = None, progress = None, program = None))]
    fn run(
        &self,
        py: Python<'_>,
        policies: Option<Vec<Bound<'_, PyAny>>>,
        repeat: u64,
        jobs: Option<usize>,
        memory: Option<u64>,
        progress: Option<Py<PyAny>>,
        program: Option<PathBuf>,
    ) -> PyResult<PyOutcome> {
        if repeat == 0 || repeat > MOST_REPEATS {
            return Err(PyValueError::new_err(format!("repeat is 1 to {MOST_REPEATS}")));
        }
        let stop = Stop::default();
        let Chosen { shown, added, own } = self.chosen(py, policies, &stop)?;
        if self.scenario.world == World::Lab
            && self.scenario.lab.daemons.is_some()
            && program.is_none()
        {
            return Err(PyValueError::new_err(
                "daemons of the lab are run by the command; give its path as program",
            ));
        }
        let mut prepared = Vec::new();
        for more in 0..repeat {
            let mut changes = self.changes_with(&added);
            if more > 0 {
                changes.push(Override::seed(self.scenario.seed.saturating_add(more)));
            }
            let mut scenario = load(&self.path, &changes)?;
            for (label, maker) in &own {
                // It makes one, to see what that asks for.
                let add = || scenario.add_policy(label, &DESCRIPTOR, maker.clone());
                let added = stop.heard(catch_unwind(AssertUnwindSafe(add)))?;
                added.map_err(ScenarioError::new_err)?;
            }
            let made = py.detach(|| Prepared::new(scenario));
            let made = made.map_err(|error| ScenarioError::new_err(error.to_string()))?;
            prepared.push(Prepared { program: program.clone(), ..made });
        }
        let repeats = Repeats::new(&prepared, &shown);
        let tasks = repeats.tasks(None, memory.map(Bytes::new));
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = jobs.unwrap_or_else(cores).max(1);
        let listener = Listener::new(&tasks, progress, stop.clone());
        let ran = py.detach(|| {
            let hear = |task, now| listener.hear(task, &now);
            catch_unwind(AssertUnwindSafe(|| run_all(&tasks, threads, &hear)))
        });
        let runs = stop.heard(ran)?.map_err(|error| RunError::new_err(error.to_string()))?;
        let done = repeats.done(runs);
        let command = format!("watermaster.Scenario({:?}).run()", self.path.display().to_string());
        PyOutcome::new(prepared, done, &shown, command)
            .ok_or_else(|| RunError::new_err("nothing was run"))
    }

    #[pyo3(signature = (policies = None, *, repeat = 1))]
    fn key(
        &self,
        py: Python<'_>,
        policies: Option<Vec<Bound<'_, PyAny>>>,
        repeat: u64,
    ) -> PyResult<String> {
        let scenario = &self.scenario;
        if scenario.world == World::Lab {
            return Err(ScenarioError::new_err(
                "what a lab gives depends on the machine, and isn't kept; leave out `out`",
            ));
        }
        let Chosen { shown, added, own } = self.chosen(py, policies, &Stop::default())?;
        let content = Content::load(&self.path, &self.changes_with(&added));
        let content = content.map_err(|error| ScenarioError::new_err(error.to_string()))?;
        let (baseline, compares) = (&scenario.baseline, scenario.compares());
        let in_python: Vec<&String> = own.iter().map(|(label, _)| label).collect();
        // The result is kept as it is shown and judged.
        let with = [
            format!("python {}, {in_python:?}, {repeat}, {compares}", crate::sources()),
            format!("{:?}, {:?}, {shown:?}, {baseline:?}", scenario.name, scenario.published),
        ];
        let labels: Vec<&str> = shown.iter().chain([baseline]).map(String::as_str).collect();
        let keys = content.keys(&labels, Some(baseline.as_str()), &with).map_err(|error| {
            PyOSError::new_err(format!("a file that the scenario names: {error}; let it be read"))
        })?;
        let mut hasher = DefaultHasher::new();
        hasher.write(keys.concat().as_bytes());
        Ok(format!("{:016x}", hasher.finish()))
    }
}

impl PyScenario {
    /// What is changed, where the policies `added` are taken in, which the file doesn't list.
    fn changes_with(&self, added: &[String]) -> Vec<Override> {
        let added = added.iter().map(|name| Override::member("policies", "policy", name));
        added.chain(self.changes.iter().cloned()).collect()
    }

    fn chosen(
        &self,
        py: Python<'_>,
        policies: Option<Vec<Bound<'_, PyAny>>>,
        stop: &Stop,
    ) -> PyResult<Chosen> {
        let all: Vec<&str> = self.scenario.labels().collect();
        let Some(policies) = policies else {
            let shown = all.into_iter().map(str::to_owned).collect();
            return Ok(Chosen { shown, ..Chosen::default() });
        };
        let words = Arc::new(Words::new(py)?);
        let mut chosen = Chosen::default();
        for policy in policies {
            if let Ok(label) = policy.extract::<String>() {
                if !all.contains(&&*label) {
                    if policy::find(&label).is_err() {
                        return Err(ScenarioError::new_err(format!(
                            "{} has no policy {label}, and none is called so; use one of {}, or of \
                             watermaster.policies()",
                            self.path.display(),
                            all.join(", ")
                        )));
                    }
                    chosen.added.push(label.clone());
                }
                chosen.shown.push(label);
            } else if policy.is_callable() {
                let name = policy.getattr("name").or_else(|_| policy.getattr("__name__"))?;
                let label: String = name.extract()?;
                let (make, words, stop) = (policy.unbind(), Arc::clone(&words), stop.clone());
                let maker =
                    Maker::new(move || Box::new(Own::new(&make, Arc::clone(&words), stop.clone())));
                chosen.shown.push(label.clone());
                chosen.own.push((label, maker));
            } else {
                return Err(PyTypeError::new_err(format!(
                    "{} is no policy; give a label or a name, or a class: each run makes its own",
                    policy.repr()?
                )));
            }
        }
        Ok(chosen)
    }
}

/// The policies to run.
#[derive(Default)]
struct Chosen {
    /// The labels of all.
    shown: Vec<String>,
    /// Those that the scenario doesn't list.
    added: Vec<String>,
    /// Those that are written in Python, and their makers.
    own: Vec<(String, Maker)>,
}

/// Who hears how far the runs are.
struct Listener<'a> {
    prepared: Vec<&'a Prepared>,
    done: Mutex<(Vec<f64>, Option<Instant>)>,
    progress: Option<Py<PyAny>>,
    stop: Stop,
}

impl<'a> Listener<'a> {
    fn new(tasks: &[Task<'a>], progress: Option<Py<PyAny>>, stop: Stop) -> Self {
        let prepared: Vec<_> = tasks.iter().map(|task| task.prepared).collect();
        let done = Mutex::new((vec![0.0; prepared.len()], None));
        Self { prepared, done, progress, stop }
    }

    /// Tells the part that is done of all, from 0 to 1, and sees to interrupts of the keyboard.
    fn hear(&self, task: usize, now: &Progress) {
        self.stop.heed();
        let part = {
            let Ok(mut done) = self.done.lock() else { return };
            done.0[task] = self.prepared[task].done(now);
            if done.1.is_some_and(|last| last.elapsed() < PAUSE) {
                return;
            }
            done.1 = Some(Instant::now());
            done.0.iter().sum::<f64>() / done.0.len() as f64
        };
        let heard = Python::attach(|py| -> PyResult<()> {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.bind(py).call1((part,))?;
            }
            Ok(())
        });
        if let Err(error) = heard {
            self.stop.with(error);
        }
    }
}

fn load(path: &Path, changes: &[Override]) -> PyResult<Scenario> {
    Scenario::load(path, changes).map_err(|error| ScenarioError::new_err(error.to_string()))
}

/// A change to the scenario: keys with dots between, and a value as the file has it.
fn change(key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Override> {
    let key: String = key.extract()?;
    let value = if let Ok(text) = value.extract::<String>() {
        text
    } else if let Ok(truth) = value.cast::<PyBool>() {
        truth.is_true().to_string()
    } else {
        value.str()?.to_string()
    };
    Override::new(&key, &value).map_err(|error| ScenarioError::new_err(error.to_string()))
}
