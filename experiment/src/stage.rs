//! Runs on real engines in the lab. An engine takes half a minute to start, so it stays for the runs that
//! follow on the same network.

use engine::{JobRecord, Outcome};
use lab::{Lab, Ran};
use model::{JobId, Topology};
use units::{Bytes, Span, Time};

use crate::metrics::Metrics;
use crate::result::not_taken;
use crate::scenario::{EngineSettings, LabSettings};

/// The completion time of a job among what an application says, seconds.
const COMPLETION: &str = "jct_s";
/// The time that all processes took of the processors, seconds.
const PROCESSORS: &str = "processors_s";

/// What stands between runs.
#[derive(Debug, Default)]
pub struct Stage {
    set: Option<Set>,
}

/// A lab with its engines.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) lab: Lab,
    /// While it lives, connections of the lab speak their transport.
    _dctcp: Option<lab::Dctcp>,
    topology: Topology,
    transport: lab::Transport,
    settings: LabSettings,
    engine: EngineSettings,
}

impl Stage {
    /// The lab that stands, if it is `wanted`; another one is removed.
    pub(crate) fn take(&mut self, wanted: &Wanted<'_>) -> Option<Set> {
        let Wanted { topology, transport, settings, engine } = *wanted;
        self.set.take().filter(|set| {
            set.topology == *topology
                && set.transport == *transport
                && set.settings == *settings
                && set.engine == *engine
        })
    }

    /// Keeps a lab for the next run.
    pub(crate) fn keep(&mut self, set: Set) {
        self.set = Some(set);
    }
}

impl Set {
    /// A lab that speaks its transport.
    pub(crate) fn new(lab: Lab, speaks: Option<lab::Dctcp>, wanted: &Wanted<'_>) -> Self {
        Self {
            lab,
            _dctcp: speaks,
            topology: wanted.topology.clone(),
            transport: wanted.transport.clone(),
            settings: wanted.settings.clone(),
            engine: wanted.engine.clone(),
        }
    }
}

/// What a run needs of a lab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) transport: &'a lab::Transport,
    pub(crate) settings: &'a LabSettings,
    pub(crate) engine: &'a EngineSettings,
}

/// The outcome of a run, and the counters of its applications.
pub(crate) fn told(engine: &EngineSettings, ran: Ran) -> (Outcome, Metrics) {
    let mut counters = Metrics::new();
    let mut jobs = Vec::new();
    let several = engine.applications.len() > 1;
    for (number, ((own, class), results)) in
        (0u32..).zip(engine.applications.iter().zip(ran.results))
    {
        for (name, value) in results {
            let Some(value) = value.as_f64() else { continue };
            if name == COMPLETION {
                let arrival = Time::ZERO + own.start;
                jobs.push(JobRecord {
                    id: JobId(number),
                    application: number,
                    class: *class,
                    arrival,
                    size: Bytes::ZERO,
                    end: Some(arrival + Span::from_secs_f64(value)),
                });
            } else {
                let name = if several { format!("{}/{name}", own.name) } else { name };
                counters.insert(name, value);
            }
        }
    }
    let mut notes = ran.notes;
    if counters.insert(PROCESSORS.into(), ran.processors.as_secs_f64()).is_some() {
        notes.push(not_taken(PROCESSORS));
    }
    let outcome = Outcome {
        applications: engine.names().map(str::to_owned).collect(),
        jobs: jobs.into(),
        links: ran.links,
        end: ran.end,
        notes,
        ..Outcome::default()
    };
    (outcome, counters)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use lab::{Application, Engine};
    use model::JobClass;
    use serde_json::json;

    use super::*;

    fn application(name: &str, start: Span) -> Application {
        Application { name: name.into(), start, on: None, run: "true".into(), results: None }
    }

    fn said(results: serde_json::Value) -> serde_json::Map<String, serde_json::Value> {
        results.as_object().unwrap().clone()
    }

    #[test]
    fn jobs_have_their_times_and_counters_their_names() {
        let applications = vec![
            (application("sort", Span::from_secs(1)), Some(JobClass::Small)),
            (application("trucking", Span::ZERO), None),
        ];
        let mut engine = EngineSettings {
            kinds: vec![Engine::Spark],
            prepare: vec![],
            until: Span::ZERO,
            applications,
            folder: PathBuf::new(),
        };
        let sort = said(json!({ "jct_s": 2.5, "digest": "a0", "tasks": 5 }));
        let trucking = said(json!({ "throughput_tps": 38.0 }));
        let ran = Ran { results: vec![sort, trucking.clone()], ..Ran::default() };
        let (outcome, counters) = told(&engine, ran);
        assert_eq!(outcome.applications, ["sort", "trucking"]);
        assert_eq!(outcome.jobs.len(), 1);
        let job = outcome.jobs.at(0);
        assert_eq!((job.class, job.application), (Some(JobClass::Small), 0));
        assert_eq!(job.completion(), Some(Span::from_millis(2500)));
        let names: Vec<&str> = counters.keys().map(String::as_str).collect();
        assert_eq!(names, ["processors_s", "sort/tasks", "trucking/throughput_tps"]);
        // The only one needs no name.
        engine.applications.remove(0);
        let (outcome, counters) = told(&engine, Ran { results: vec![trucking], ..Ran::default() });
        assert!(outcome.applications.is_empty() && outcome.jobs.is_empty());
        assert_eq!(counters["throughput_tps"], 38.0);
        assert_eq!(outcome.notes, [""; 0]);
        // The machine's time is not what an application calls so.
        let ours = said(json!({ "processors_s": 1e9 }));
        let ran = Ran { results: vec![ours], processors: Span::from_secs(3), ..Ran::default() };
        let (outcome, counters) = told(&engine, ran);
        assert_eq!(counters["processors_s"], 3.0);
        assert_eq!(outcome.notes, [not_taken("processors_s")]);
    }
}
