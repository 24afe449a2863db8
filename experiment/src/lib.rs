//! From a scenario file through runs to results beside the published values.
#![forbid(unsafe_code)]

pub mod bound;
mod choice;
mod figure;
mod files;
pub mod memory;
pub mod metrics;
mod published;
pub mod rates;
mod repeat;
pub mod report;
pub mod reproduce;
mod result;
pub mod run;
pub mod scenario;
mod stage;
pub mod store;
pub mod table;

pub use choice::{Choice, Rule, Tried};
pub use document::Setting;
pub use figure::Figure;
pub use files::WriteError;
pub use published::{Bound, Claim, Ours, Published, ReadFrom, Reading, Standing, Verdict, judge};
pub use result::{Measurements, Origin, PolicyResult, Run, RunResult};
pub use run::Prepared;
pub use stage::Stage;

/// A hash of all sources that what is measured depends on: equal ones measure the same.
pub const SOURCES: &str = env!("WATERMASTER_SOURCES");
