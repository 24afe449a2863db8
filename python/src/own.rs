//! A policy that is written in Python, as the worlds know policies.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Directives, Measured, Network, Observation};
use policy::{Descriptor, Policy, Watch};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use units::{Span, Time};

use crate::network::PyNetwork;
use crate::words::{SAID, Words, time};

/// What the worlds are told of it.
pub static DESCRIPTOR: Descriptor = Descriptor {
    name: "python",
    summary: "a policy written in Python",
    source: "its author",
    parameters: &[],
    needs: &[],
    directives: SAID,
    is_max_min: false,
    build: |_| unreachable!("a maker makes it"),
};

/// What stops the runs: an exception of a policy, or of who listens to their progress. The first counts.
#[derive(Clone, Default)]
pub struct Stop(Arc<Mutex<Option<PyErr>>>);

/// The payload with which a run is unwound that was stopped.
struct Stopped;

impl Stop {
    /// Unwinds this run, and has [`Stop::take`] give `error`.
    pub fn with(&self, error: PyErr) -> ! {
        self.lock().get_or_insert(error);
        resume_unwind(Box::new(Stopped));
    }

    /// Unwinds this run if another was stopped.
    pub fn heed(&self) {
        if self.lock().is_some() {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// What was caught of the runs.
    ///
    /// # Errors
    /// What stopped them.
    pub fn heard<T>(&self, caught: std::thread::Result<T>) -> PyResult<T> {
        if let Some(error) = self.lock().take() {
            return Err(error);
        }
        caught.map_or_else(|payload| resume_unwind(payload), Ok)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A policy in Python at work.
pub struct Own {
    object: Py<PyAny>,
    words: Arc<Words>,
    stop: Stop,
    /// As it is now, once the policy was told of it.
    network: Option<Py<PyNetwork>>,
    watch: Option<Watch>,
    ports: Option<Span>,
}

impl Own {
    /// One that `make` makes, a class or a function without arguments.
    pub fn new(make: &Py<PyAny>, words: Arc<Words>, stop: Stop) -> Self {
        let made = Python::attach(|py| -> PyResult<_> {
            let object = make.bind(py).call0()?;
            let period = |name: &str| -> PyResult<Option<Span>> {
                let value = match object.getattr(name) {
                    Ok(value) => value,
                    // It has the attribute, and that raised.
                    Err(error) if object.get_type().hasattr(name)? => return Err(error),
                    Err(error) if !error.is_instance_of::<PyAttributeError>(py) => {
                        return Err(error);
                    }
                    Err(_) => return Ok(None),
                };
                let period: Option<f64> = value.extract()?;
                let period = period.map(|seconds| time(seconds, name)).transpose()?;
                Ok(period.map(|period| Span::from_nanos(period.as_nanos().max(1))))
            };
            let watch = Watch {
                statistics: period("statistics")?,
                queues: period("queues")?,
                ..Watch::default()
            };
            let asks = watch != Watch::default();
            Ok((period("ports")?, asks.then_some(watch), object.unbind()))
        });
        match made {
            Ok((ports, watch, object)) => Self { object, words, stop, network: None, watch, ports },
            Err(error) => stop.with(error),
        }
    }

    /// The network for Python.
    fn network(&mut self, py: Python<'_>, network: &Network) -> PyResult<Py<PyNetwork>> {
        if let Some(known) = &self.network {
            return Ok(known.clone_ref(py));
        }
        let known = Py::new(py, PyNetwork::new(network.clone()))?;
        self.network = Some(known.clone_ref(py));
        Ok(known)
    }

    /// Calls into Python; what is thrown there ends the run.
    fn call<T>(&mut self, act: impl FnOnce(&mut Self, Python<'_>) -> PyResult<T>) -> T {
        self.stop.heed();
        match Python::attach(|py| act(self, py)) {
            Ok(value) => value,
            Err(error) => self.stop.with(error),
        }
    }
}

impl Policy for Own {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        if let Observation::Measured(Measured::LinkState { .. } | Measured::Capacity(_)) =
            observation
        {
            self.network = None;
        }
        self.call(|own, py| {
            let Some(event) = own.words.event(py, observation)? else { return Ok(()) };
            let network = own.network(py, network)?;
            own.object.bind(py).call_method1("observe", (now.as_secs_f64(), network, event))?;
            Ok(())
        });
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        self.call(|own, py| {
            let topology = network.topology();
            let (nodes, links) = (topology.nodes().len(), topology.links().len());
            let network = own.network(py, network)?;
            let said = own.object.bind(py).call_method1("decide", (now.as_secs_f64(), network))?;
            if said.is_none() {
                return Ok(());
            }
            for directive in said.try_iter()? {
                out.push(own.words.directive(&directive?, nodes, links)?);
            }
            Ok(())
        });
    }

    fn watch(&self) -> Option<Watch> {
        self.watch
    }

    fn ports(&self) -> Option<Span> {
        self.ports
    }

    fn deadline(&self) -> Option<Time> {
        self.stop.heed();
        let asked = Python::attach(|py| -> PyResult<Option<Time>> {
            let object = self.object.bind(py);
            let deadline: Option<f64> = object.call_method0("deadline")?.extract()?;
            deadline.map(|seconds| time(seconds, "deadline()")).transpose()
        });
        asked.unwrap_or_else(|error| self.stop.with(error))
    }
}
