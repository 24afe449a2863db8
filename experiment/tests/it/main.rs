//! The tests of scenarios, runs and reports, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod app_aware;
mod bound;
mod by_hand;
mod choices;
mod gather;
mod metrics;
mod objectives;
mod phurti;
mod report;
mod reproduce;
mod result;
mod scenario;
mod store;
mod verdicts;
