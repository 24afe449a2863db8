//! The daemon as a process: real sockets on loopback, real signals.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what the tests share, too; why one is skipped"
)]

mod daemon;
mod decisions;
mod draw;
mod events;
mod faults;
mod grammar;
mod hostile;
mod integration;
mod leases;
mod northbound;
mod orders;
mod recording;
mod switch;
mod trust;
mod viewer;
