//! From a scenario to what the packet world reports of it under each policy.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::Outcome;
use model::Network;
use packet::{Capture, Progress, RunError, Setup};

use crate::scenario::{PolicySpec, Scenario, Traffic};

/// Why a run stops before its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The world refuses it or stopped.
    #[error("{policy}: {source}")]
    World {
        /// Label of the policy.
        policy: String,
        /// What the world said.
        source: RunError,
    },
    /// A policy refuses its parameters.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
}

/// One run: a scenario under one of its policies.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its jobs.
    pub traffic: &'a Traffic,
    /// The policy.
    pub policy: &'a PolicySpec,
    /// Where captures go, as `POLICY-FROM-TO.pcapng`; `None` makes none.
    pub captures: Option<&'a Path>,
}

impl Task<'_> {
    /// Runs to the end. `progress` is called now and then.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Failure> {
        let scenario = self.scenario;
        let capture = |directory: &Path| -> Vec<Capture> {
            let ports = scenario.captures.iter();
            let named = ports.map(|port| Capture {
                link: port.link,
                path: directory.join(format!("{}-{}.pcapng", self.policy.label, port.name)),
            });
            named.collect()
        };
        let setup = Setup {
            network: Network::new(scenario.topology.clone()),
            transport: self.policy.transport,
            jobs: self.traffic.jobs(),
            policy: Some(self.policy.build()?),
            enforcement: scenario.control.enforcement,
            host_queue: scenario.queues.host,
            switch_queue: scenario.queues.switch,
            control_delay: scenario.control.delay,
            until: scenario.until,
            captures: self.captures.map(capture).unwrap_or_default(),
            monitors: Vec::new(),
        };
        packet::run(setup, progress).map_err(|source| Failure::World {
            policy: self.policy.label.clone(),
            source,
        })
    }
}

/// Runs all `tasks` on at most `threads` threads. The outcomes are in the order of the tasks and
/// the same whatever the number of threads. `progress` hears which task has come how far.
///
/// # Errors
/// That of the first task that failed, by order; tasks not begun by then are left out.
pub fn run_all(
    tasks: &[Task<'_>],
    threads: usize,
    progress: &(dyn Fn(usize, Progress) + Sync),
) -> Result<Vec<Outcome>, Failure> {
    let next = AtomicUsize::new(0);
    let finished = Mutex::new(Vec::with_capacity(tasks.len()));
    let work = || {
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(position) else {
                break;
            };
            let result = task.run(&mut |now| progress(position, now));
            if result.is_err() {
                next.store(tasks.len(), Ordering::Relaxed);
            }
            let mut finished = finished
                .lock()
                .expect("no thread panics while it holds the lock");
            finished.push((position, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut finished = finished
        .into_inner()
        .expect("no thread panics while it holds the lock");
    finished.sort_by_key(|(position, _)| *position);
    finished.into_iter().map(|(_, result)| result).collect()
}
