//! The daemons and Open vSwitch are hurt while real connections run in a lab; what the traffic
//! suffers is measured, and checked.
//!
//! `make faults` runs all and prints a table (`docs/faults.md`). Each needs root; elsewhere, and
//! where Open vSwitch or another program is missing, it says so and does nothing. They run one at a
//! time, because they measure in real time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod application;
mod clock;
mod cluster;
mod cuts;
mod deaths;
mod disk;
mod epochs;
mod halves;
mod meter;
mod relay;
mod report;
mod switches;
mod tables;
