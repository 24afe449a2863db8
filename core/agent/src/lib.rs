//! The agent as a machine: what it obeys, for how long, and what it reports. No clock, no I/O: time is
//! an argument, and the kernel is an [`Actuator`].
//!
//! - [`Agent`]: takes in commands, events and time; has an actuator execute [`Operation`]s; reports.
//! - [`Leases`]: until when what was granted holds, by epoch.
//! - [`Trigger`]: when a watched queue tells that it is congested, or has recovered (SDTCP, section
//!   3.2). Simulated switches run it; the BPF programs are tested against it.
//! - [`Kernel`]: what stands in a host's kernel, as an actuator in memory: simulated hosts have it, and
//!   the BPF programs are tested against it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod kernel;
mod lease;
mod machine;
mod operation;
mod queue;
mod trigger;

pub use kernel::{Capacity, Failing, Kernel};
pub use lease::{Leases, Renewal, Stale};
pub use machine::{Agent, Lapse, Port};
pub use operation::{Actuator, Ended, Failure, Happening, Operation, PortNumber};
pub use queue::VirtualQueue;
pub use trigger::Trigger;
