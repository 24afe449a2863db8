//! What an agent obeys, for how long, and what it reports, on a kernel in memory.
#![allow(clippy::unwrap_used)] // a test may panic

mod host;
mod obedience;
mod reports;
