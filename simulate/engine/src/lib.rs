//! What every simulated world stands on: the event queue, named random streams, and the shape of
//! results.
#![forbid(unsafe_code)]

mod outcome;

pub use outcome::{FlowRecord, JobRecord, LinkRecord, Outcome};
