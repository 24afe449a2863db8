//! The fluid world, for long traces: flows are streams of octets that share their links max-min
//! fairly (Bertsekas and Gallager, Data Networks, section 6.5.2), each up to the limit that a
//! directive sets.
//!
//! There are no packets: sizes, capacities and limits count the same octets, without headers; rates
//! change at once and there is no propagation delay. Priorities have no effect.
//!
//! Rounding: rates are whole multiples of 2⁻¹⁶ bit/s, rounded down; what a flow still has to send
//! is exact; its end is rounded up to the nanosecond.
#![forbid(unsafe_code)]

mod clocks;
mod ends;
#[cfg(debug_assertions)]
mod ledger;
mod ranks;
#[cfg(all(test, debug_assertions))]
#[allow(clippy::unwrap_used)] // a test may panic
mod refusals;
#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod settling;
mod shares;
mod world;

use engine::{Outcome, Plan, Progress};
use model::NodeId;
use units::{Bytes, Time};

pub use world::World;

/// Why a run can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A flow between hosts with no path.
    #[error("no path from host {src} to host {dst}", src = .src.0, dst = .dst.0)]
    NoPath {
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
    },
    /// More flows than a run can number.
    #[error("a run has at most 2^32 - 1 flows")]
    TooManyFlows,
    /// The process has grown beyond what it may take.
    #[error(
        "after {flows} flows, at {now} of the run, memory has grown to {used}, above {most}; give more \
         (--memory), run fewer policies at a time (--policy, --jobs 1), or shorten the workload"
    )]
    Memory {
        /// Flows that had begun.
        flows: usize,
        /// Time in the run.
        now: Time,
        /// What the process takes.
        used: Bytes,
        /// What it may take.
        most: Bytes,
    },
    /// The simulator broke one of its own laws: a defect of Watermaster, not of the scenario.
    #[error("the simulation is inconsistent, which is a defect to report: {0}")]
    Invariant(String),
}

/// How much memory a run may take. It is looked at now and then.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// A run that finds more than this in use stops.
    pub most: Bytes,
    /// What is in use; `None` if that can't be told.
    pub used: fn() -> Option<Bytes>,
}

/// Runs `plan` to its end and reports. `progress` is called now and then. The world has no queues:
/// those watched are empty.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    plan: Plan<'_, World>,
    room: Option<Room>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, RunError> {
    let world = World::new(&plan.network, room);
    engine::drive(world, plan, progress)
}
