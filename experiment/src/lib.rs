//! A scenario file to a world to a result table beside the published one.
#![forbid(unsafe_code)]

pub mod metrics;
mod published;
mod result;

pub use published::{Published, Verdict, judge};
pub use result::{Origin, PolicyResult, PublishedFigures, Run, RunResult};
