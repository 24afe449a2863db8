//! What every simulated world stands on: the driver that lets jobs and a policy act on it, the event
//! queue, named random streams, and the shape of results.
#![forbid(unsafe_code)]

mod drive;
mod outcome;
mod queue;
pub mod random;

pub use drive::{FlowState, Monitor, Notice, Plan, Progress, World, drive};
pub use outcome::{FlowRecord, JobRecord, LinkRecord, Outcome, QueueRecord};
pub use queue::{EventQueue, Slot};
