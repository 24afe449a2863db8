//! What every simulated world stands on: the driver that lets applications and a policy act on it,
//! the event queue, named random streams, and the shape of results.
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
