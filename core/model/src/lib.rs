//! The one domain model that every world, policy and report shares.
//!
//! * [`Topology`]: hosts, switches and directed links; [`build`] makes the usual shapes.
//! * [`Network`]: a topology with its shortest paths, ECMP and link failures.
//! * [`Job`] and [`Flow`]: what applications want to move.
//! * [`Request`], [`Gathering`]: fan-out requests and how they are gathered; [`gather`]: what front
//!   ends and hubs make of it.
//! * [`Observation`]: what a policy is told; [`Directive`]: what it wants to change.
//!
//! Rates here count frame bytes: all octets of the IP packet, as a link carries them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod build;
mod congestion;
mod directive;
pub mod gather;
mod job;
mod name;
mod network;
mod observation;
mod pace;
mod topology;
mod window;

pub use congestion::{PortWatch, Severity, Thresholds};
pub use directive::{Directive, Directives, LEAST_RATE, MOST_RATE};
pub use gather::{Gathering, HEADER, Hub, HubOrder, Request, Sample, Way};
pub use job::{Flow, Job, JobClass};
pub use name::{NO_NAME, is_name};
pub use network::{Network, interfere};
pub use observation::{Declared, Measured, Observation, StreamSample, Terms};
pub use pace::Pace;
pub use topology::{Buffer, Link, LinkSpec, Node, NodeKind, Topology, TopologyError};
pub use window::{Cap, Caps, MAX_SCALE, MSS, offered_scale};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl $name {
            /// Position in the table that the identifier numbers.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A host or switch of a [`Topology`], numbered from 0 in order of creation.
    NodeId(u32)
}
id! {
    /// A directed link of a [`Topology`], numbered from 0 in order of creation.
    LinkId(u32)
}
id! {
    /// A flow. No other has its number while it lasts; a controller then gives it to another.
    FlowId(u32)
}
id! {
    /// A job (coflow). No other has its number while it lasts; a controller then gives it to another.
    JobId(u32)
}
id! {
    /// A task of a job, such as a map or a reduce, unique within its job.
    TaskId(u32)
}
