//! What the tests, examples and fuzz targets of two or more crates share. What only one crate's tests
//! use stands beside them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "serves tests, which may panic and print"
)]

pub mod allocation;
pub mod lateness;
pub mod needs;
pub mod network;
#[cfg(feature = "openflow")]
pub mod openflow;
#[cfg(feature = "packet")]
pub mod packet;
pub mod wait;
