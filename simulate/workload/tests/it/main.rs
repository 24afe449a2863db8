//! The tests of workloads, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod cluster;
mod datagrams;
mod jobs;
mod stream;
mod trace_errors;
mod traces;
mod traffic;
