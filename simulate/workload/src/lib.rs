//! Traffic: readers of published traces, and generators.
//!
//! * Readers, exact about bad lines: [`swim`] (Hadoop jobs), [`coflow`] (coflow-benchmark),
//!   [`cdf`] (flow size distributions).
//! * Jobs from a trace: [`Sample`] scales a SWIM trace to a small cluster, [`coflow::Coflows`] takes
//!   a coflow trace as it is.
//! * Generators: [`Shuffle`], [`Poisson`], [`Incast`], [`permutation`], [`all_to_all`].
//! * [`Gather`]: fan-out requests, an application of its own.
//! * [`Datagrams`] at a constant rate, which nobody declares, as an application.
//! * [`Cluster`] runs jobs with their maps and reduces in containers.
//! * [`Tasks`] turns the bytes of a shuffle into tasks on hosts and flows between them;
//!   [`load`] stretches arrivals until the busiest link carries a given load.
//! * [`stream`]: topologies of operators that pass tuples on, as an application.
//!
//! Sizes count payload. Chance comes from [`engine::random`] streams, whose names are listed with
//! each generator. Jobs come in order of arrival and are numbered from 0 in that order.
#![forbid(unsafe_code)]

pub mod cdf;
mod class;
mod cluster;
pub mod coflow;
mod datagrams;
mod error;
mod gather;
mod incast;
mod lines;
pub mod load;
mod pattern;
mod poisson;
mod sample;
mod shuffle;
mod size;
pub mod stream;
pub mod swim;
mod tasks;

pub use cdf::Cdf;
pub use class::by_rank;
pub use cluster::{Cluster, Running};
pub use datagrams::{DatagramRun, Datagrams};
pub use error::{Error, ParameterError, TraceError};
pub use gather::{Death, Gather, Overload};
pub use incast::Incast;
pub use pattern::{all_to_all, permutation};
pub use poisson::{Flows, Pattern, Poisson};
pub use sample::{Drafted, Floors, MOST_JOBS, Sample, Sampled};
pub use shuffle::Shuffle;
pub use size::SizeDistribution;
pub use tasks::{Draft, Plan, Reduces, Tasks, apportion};

/// Most flows that one workload has, which in memory take about a gigabyte. [`Poisson`] flows are drawn one
/// by one and not bound by it.
pub const MOST_FLOWS: u64 = 1 << 24;
