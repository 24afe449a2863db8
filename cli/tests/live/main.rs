//! The daemon as a process: real sockets on loopback, real signals.

#![allow(clippy::unwrap_used)] // in what the tests share, too

mod decisions;
mod faults;
mod hostile;
mod integration;
mod northbound;
mod recording;
mod rig;
mod switch;
mod trust;
