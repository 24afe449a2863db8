//! Between what a policy is told and says in Rust and in Python (`watermaster/events.py`, `watermaster/directives.py`).

use model::{
    Cap, Declared, Directive, FlowId, LEAST_RATE, LinkId, Measured, NodeId, Observation,
    StreamSample,
};
use policy::DirectiveKind;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use units::{Bytes, Rate, Time};

/// What a policy in Python can say.
pub const SAID: &[DirectiveKind] = &[
    DirectiveKind::Pace,
    DirectiveKind::Prioritize,
    DirectiveKind::Window,
    DirectiveKind::PacePair,
];

/// The classes of both sides.
pub struct Words {
    events: Py<PyModule>,
    pace: Py<PyAny>,
    pace_pair: Py<PyAny>,
    prioritize: Py<PyAny>,
    window: Py<PyAny>,
}

impl Words {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let said = py.import("watermaster.directives")?;
        let class = |name: &str| -> PyResult<Py<PyAny>> { Ok(said.getattr(name)?.unbind()) };
        Ok(Self {
            events: py.import("watermaster.events")?.unbind(),
            pace: class("Pace")?,
            pace_pair: class("PacePair")?,
            prioritize: class("Prioritize")?,
            window: class("Window")?,
        })
    }

    /// The event of an observation; `None` where Python has no word for it, as only policies of other
    /// workloads are told such.
    pub fn event<'py>(
        &self,
        py: Python<'py>,
        observation: &Observation,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let events = self.events.bind(py);
        macro_rules! event {
            ($name:literal $(, $value:expr)*) => {
                events.getattr($name)?.call1(($($value,)*))?
            };
        }
        Ok(Some(match observation {
            Observation::Tick => events.getattr("Tick")?.call0()?,
            Observation::Declared(declared) => match declared {
                Declared::JobStart { job, application } => {
                    event!("JobStart", job.0, &**application)
                }
                Declared::JobTerms { job, terms } => event!(
                    "JobTerms",
                    job.0,
                    terms.objective.as_deref(),
                    terms.deadline.map(units::Span::as_secs_f64),
                    terms.weight
                ),
                Declared::JobComplete { job } => event!("JobComplete", job.0),
                Declared::TaskHost { job, task, host } => {
                    event!("TaskHost", job.0, task.0, host.0)
                }
                Declared::Size { job, map, reduces } => {
                    let reduces: Vec<_> =
                        reduces.iter().map(|(task, bytes)| (task.0, bytes.get())).collect();
                    event!("Size", job.0, map.0, reduces)
                }
                Declared::FlowRequest { job, flow, src, dst, size } => {
                    let size = (*size != Bytes::MAX).then_some(size.get());
                    event!("FlowRequest", job.0, flow.0, src.0, dst.0, size)
                }
                Declared::FlowComplete { job, flow } => event!("FlowComplete", job.0, flow.0),
                Declared::Streams(samples) => event!("Streams", streams(events, samples)?, true),
                Declared::Gather(_) => return Ok(None),
            },
            Observation::Measured(measured) => match measured {
                Measured::LinkState { link, up } => event!("LinkState", link.0, *up),
                Measured::Capacity(links) => {
                    let links: Vec<u32> = links.iter().map(|link| link.0).collect();
                    event!("Capacity", links)
                }
                Measured::Opened { flow, src, dst } => event!("Opened", flow.0, src.0, dst.0),
                Measured::Closed { flow } => event!("Closed", flow.0),
                Measured::Carried { flows } => event!("Carried", counted(flows)),
                Measured::Delivered(flows) => event!("Delivered", counted(flows)),
                Measured::RoundTrips(flows) => {
                    let flows: Vec<_> =
                        flows.iter().map(|(flow, span)| (flow.0, span.as_secs_f64())).collect();
                    event!("RoundTrips", flows)
                }
                Measured::Congested { link, severity, queue } => {
                    event!("Congested", link.0, severity.to_string(), queue.get())
                }
                Measured::QueueLength { link, queue, sent } => {
                    event!("QueueLength", link.0, queue.get(), sent.get())
                }
                Measured::Streams(samples) => event!("Streams", streams(events, samples)?, false),
                Measured::Ports(ports) => {
                    let ports: Vec<_> =
                        ports.iter().map(|(link, bytes)| (link.0, bytes.get())).collect();
                    event!("Ports", ports)
                }
                Measured::Queued { .. }
                | Measured::Drained { .. }
                | Measured::Offered { .. }
                | Measured::Gathering { .. }
                | Measured::Answered { .. }
                | Measured::HubLost { .. } => return Ok(None),
            },
        }))
    }

    /// The directive that `said` is, about nodes and links of a network with so many.
    ///
    /// # Errors
    /// It is none, or one that nothing could carry out.
    pub fn directive(
        &self,
        said: &Bound<'_, PyAny>,
        nodes: usize,
        links: usize,
    ) -> PyResult<Directive> {
        let py = said.py();
        let is = |class: &Py<PyAny>| said.is_instance(class.bind(py));
        let node =
            |field: &str| -> PyResult<NodeId> { below(said, field, nodes, "node").map(NodeId) };
        if is(&self.pace)? {
            let limit = optional(said, "limit")?.map(|limit| rate(said, "limit", &limit));
            return Ok(Directive::Pace { flow: flow(said)?, limit: limit.transpose()? });
        }
        if is(&self.pace_pair)? {
            let rate = rate(said, "rate", &said.getattr("rate")?)?;
            return Ok(Directive::PacePair { src: node("src")?, dst: node("dst")?, rate });
        }
        if is(&self.prioritize)? {
            let priority = said.getattr("priority")?;
            let priority = priority.extract().map_err(|_| {
                wrong(said, "priority", &priority, "give a whole number from 0, the first, to 255")
            })?;
            return Ok(Directive::Prioritize { flow: flow(said)?, priority });
        }
        if is(&self.window)? {
            let link = LinkId(below(said, "link", links, "link")?);
            let of = optional(said, "flow")?.map(|_| flow(said)).transpose()?;
            let cap = optional(said, "bytes")?.map(|bytes| -> PyResult<Cap> {
                let floor_segments = said.getattr("floor_segments")?.extract()?;
                let bytes = bytes.extract().map_err(|_| {
                    wrong(said, "bytes", &bytes, "give a whole number of octets, or None")
                })?;
                Ok(Cap { bytes: Bytes::new(bytes), floor_segments })
            });
            return Ok(Directive::Window { link, flow: of, cap: cap.transpose()? });
        }
        Err(PyTypeError::new_err(format!(
            "decide() gave {}, which is no directive; give Pace, PacePair, Prioritize or Window",
            said.repr()?
        )))
    }
}

fn counted(flows: &[(FlowId, Bytes)]) -> Vec<(u32, u64)> {
    flows.iter().map(|(flow, bytes)| (flow.0, bytes.get())).collect()
}

fn streams<'py>(
    events: &Bound<'py, PyModule>,
    samples: &[StreamSample],
) -> PyResult<Bound<'py, PyList>> {
    let class = events.getattr("StreamSample")?;
    let list = PyList::empty(events.py());
    for sample in samples {
        let StreamSample { flow, delivered, sender_queue, receiver_queue } = sample;
        list.append(class.call1((
            flow.0,
            delivered.get(),
            sender_queue.get(),
            receiver_queue.get(),
        ))?)?;
    }
    Ok(list)
}

fn wrong(said: &Bound<'_, PyAny>, field: &str, value: &Bound<'_, PyAny>, remedy: &str) -> PyErr {
    let name = said.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
    PyValueError::new_err(format!("{name}.{field} is {value}; {remedy}"))
}

/// A field whose value isn't None.
fn optional<'py>(said: &Bound<'py, PyAny>, field: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let value = said.getattr(field)?;
    Ok((!value.is_none()).then_some(value))
}

fn flow(said: &Bound<'_, PyAny>) -> PyResult<FlowId> {
    let value = said.getattr("flow")?;
    let remedy = "give the number of a flow that was announced";
    value.extract().map(FlowId).map_err(|_| wrong(said, "flow", &value, remedy))
}

fn below(said: &Bound<'_, PyAny>, field: &str, count: usize, what: &str) -> PyResult<u32> {
    let value = said.getattr(field)?;
    let number: Option<u32> = value.extract().ok();
    number.filter(|number| (*number as usize) < count).ok_or_else(|| {
        wrong(said, field, &value, &format!("give the number of a {what} of the network"))
    })
}

/// A rate of bit/s.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked before
fn rate(said: &Bound<'_, PyAny>, field: &str, value: &Bound<'_, PyAny>) -> PyResult<Rate> {
    const MOST: f64 = (1_u64 << 62) as f64;
    let least = LEAST_RATE.as_bps();
    let number: Option<f64> = value.extract().ok();
    let number = number.filter(|rate| (least as f64..=MOST).contains(rate)).ok_or_else(|| {
        let remedy = format!("give {least} bit/s or more, the least at which a flow is alive");
        wrong(said, field, value, &remedy)
    })?;
    Ok(Rate::from_bps(number as u64))
}

/// The time at so many seconds.
///
/// # Errors
/// It is no time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked before
pub fn time(seconds: f64, what: &str) -> PyResult<Time> {
    const NS_PER_S: f64 = 1e9;
    if (0.0..1e9).contains(&seconds) {
        return Ok(Time::from_nanos((seconds * NS_PER_S).round() as u64));
    }
    Err(PyValueError::new_err(format!("{what} is {seconds}; give seconds from 0 to 1e9")))
}
