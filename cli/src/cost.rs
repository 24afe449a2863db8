//! What runs cost: counts, processor time, memory.

use std::fmt;

use experiment::RunResult;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use units::Bytes;

use crate::failure::Failure;
use experiment::run::Repeat;

/// What runs cost. It differs from run to run, so no file of results holds it.
#[derive(Serialize)]
pub(crate) struct Cost {
    /// Packets moved over a link.
    hops: u64,
    /// Events that worlds handled.
    events: u64,
    /// Processor time of all threads, user and system, s.
    cpu_s: f64,
    hops_per_cpu_s: f64,
    events_per_cpu_s: f64,
    /// Most memory that the process held.
    peak_rss_bytes: u64,
}

impl Cost {
    /// Of what was `done` since the process had used `start_s` of processor time.
    pub(crate) fn since(start_s: f64, done: &[Repeat]) -> Result<Self, Failure> {
        let outcomes = || done.iter().flat_map(|repeat| &repeat.runs).map(|run| &run.outcome);
        let hops = outcomes().map(|outcome| outcome.hops).sum();
        let events = outcomes().map(|outcome| outcome.events).sum();
        let cpu_s = cpu_s() - start_s;
        Ok(Self {
            hops,
            events,
            cpu_s,
            hops_per_cpu_s: hops as f64 / cpu_s,
            events_per_cpu_s: events as f64 / cpu_s,
            peak_rss_bytes: peak_rss_bytes()?,
        })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Cost: {} hops, {} events, {:.2} s of processor time ({:.1} M hops/s, {:.1} M events/s), {:.1} MiB",
            self.hops,
            self.events,
            self.cpu_s,
            self.hops_per_cpu_s / 1e6,
            self.events_per_cpu_s / 1e6,
            self.peak_rss_bytes as f64 / f64::from(1 << 20),
        )
    }
}

/// A result and what it cost, as one JSON object.
#[derive(Serialize)]
pub(crate) struct Costed<'a> {
    #[serde(flatten)]
    pub(crate) result: &'a RunResult,
    pub(crate) cost: &'a Cost,
}

/// Processor time of this process so far, s.
pub(crate) fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Most memory that this process has held, as the kernel accounts for it.
pub(crate) fn peak_rss_bytes() -> Result<u64, Failure> {
    peak_of("/proc/self/status")
}

/// Peak memory in a process's status.
pub(crate) fn peak_of(file: &str) -> Result<u64, Failure> {
    let missing = || Failure::failed(format_args!("{file} has no VmHWM: peak memory is unknown"));
    experiment::memory::kilobytes(file, "VmHWM:").map(Bytes::get).ok_or_else(missing)
}
