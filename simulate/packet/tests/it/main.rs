//! The tests of the packet world, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod capture;
mod closed_forms;
mod host_queues;
mod ictcp;
mod laws;
mod rates;
mod recovery;
mod runs;
mod service;
mod streams;
mod switches;
mod tags;
