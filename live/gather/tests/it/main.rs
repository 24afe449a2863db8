//! The front end as its clients see it, in front of real memcached.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may panic, and says why it is skipped

mod cluster;
mod commands;
mod failures;
mod gathering;
mod hubs;
mod lines;
mod parsers;
mod settings;
