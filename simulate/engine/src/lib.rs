//! What every simulated world stands on: the event queue, named random streams, and the shape of
//! results.
#![forbid(unsafe_code)]

mod outcome;
mod queue;
pub mod random;

pub use outcome::{FlowRecord, JobRecord, LinkRecord, Outcome, QueueRecord};
pub use queue::{EventQueue, Slot};
