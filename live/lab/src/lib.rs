//! The lab: a virtual cluster on one machine. A topology becomes network namespaces, veth pairs,
//! bridges or Open vSwitch, and shaped links with packet-limited buffers; flows are connections of
//! the kernel's own TCP; time is real time.
//!
//! - [`Lab`]: builds, attaches to and removes a cluster; touches only what it made.
//! - [`Daemons`]: a controller and an agent that govern a lab.
//! - [`Engine`]: an engine of the real world in a lab; [`Lab::run_applications`] runs applications on such.
//! - [`Northbound`]: passes declarations of applications on to a controller.
//! - [`World`]: a lab in which [`engine::drive`](::engine::drive) runs the applications of the simulator.
//!
//! Rates and link counts are those of frames as scenarios count them: IP packets, without Ethernet.
#![deny(unsafe_code)]

mod applications;
mod blueprint;
mod cgroup;
mod cluster;
mod configuration;
mod daemons;
mod datagrams;
mod directory;
mod engine;
mod error;
mod flink;
mod flow;
mod hadoop;
mod health;
mod journal;
#[allow(clippy::module_inception)]
mod lab;
mod line;
mod marking;
mod namespace;
mod northbound;
mod ovs;
mod parts;
mod place;
mod probe;
mod ready;
mod socket;
mod spark;
mod speakers;
mod storm;
mod transport;
mod world;

pub use ::kernel::Dctcp;
pub use applications::{Application, Beside, Ran, Results, Session};
pub use blueprint::{Blueprint, MOST_NODES, Switches};
pub use configuration::Governance;
pub use control::Enforcement;
pub use daemons::{Daemon, Daemons, Fault, Faults};
pub use directory::Directory;
pub use error::Error;
pub use health::Verdict;
pub use journal::{Engine, Journal, Phase, Process};
pub use lab::{LEVELS, Lab, Order, Orphan, Removed, abandon, down, down_orphans, enter};
pub use northbound::{Account, Northbound};
pub use parts::Parts;
pub use place::at;
pub use speakers::Speakers;
pub use transport::Transport;
pub use world::{Control, World};
