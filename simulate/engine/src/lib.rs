//! What all worlds share: the driver of applications and policy, the event queue, named random
//! streams, and the records of results.
#![deny(unsafe_code)]

mod agenda;
mod application;
mod completions;
mod drive;
mod jobs;
mod limits;
mod living;
mod outcome;
mod prefetch;
mod queue;
pub mod random;
mod rates;
mod records;
mod several;
mod world;

pub use application::{Actions, Application, Progress, UNNAMED};
pub use completions::Completions;
pub use drive::{Monitor, Plan, drive};
pub use jobs::Jobs;
pub use living::Living;
pub use outcome::{HostQueueRecord, LinkRecord, Outcome, QueueRecord, RateRecord};
pub use prefetch::prefetch;
pub use queue::{EventQueue, FORESEEN, Slot};
pub use records::{FlowRecord, JobRecord, Record, Records};
pub use several::Several;
pub use world::{FlowState, LimitedFlow, Notice, Streams, World};
