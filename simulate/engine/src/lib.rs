//! What all worlds share: the driver of applications and policy, the event queue, named random
//! streams, and the records of results.
#![forbid(unsafe_code)]

mod agenda;
mod application;
mod completions;
mod drive;
mod jobs;
mod limits;
mod outcome;
mod queue;
pub mod random;
mod rates;

pub use application::{Actions, Application};
pub use completions::Completions;
pub use drive::{FlowState, Monitor, Notice, Plan, Progress, Streams, World, drive};
pub use jobs::Jobs;
pub use outcome::{FlowRecord, HostQueueRecord, JobRecord, LinkRecord, Outcome, QueueRecord};
pub use queue::{EventQueue, Slot};
pub use rates::{LimitedFlow, RateRecord};
