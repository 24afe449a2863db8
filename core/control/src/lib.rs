//! The controller as a machine: messages in, messages out, time as an argument.
//!
//! [`Controller`] has no socket, no clock and no randomness: its owner hands in what arrives
//! ([`Controller::observe`]), has it decide ([`Controller::decide`]), sends what comes out
//! ([`Output`]) and comes again at the [`Controller::deadline`]. Equal inputs give equal outputs, byte for
//! byte, so that what happened can be recorded and replayed. The daemon, the simulator and the tests run
//! this same code.
//!
//! Everything granted carries the controller's epoch, which grows with every start, and a lease: a
//! controller that is no more leaves no limit behind. How it works: `docs/control.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod agents;
mod applications;
mod behind;
mod budget;
mod carrier;
mod config;
mod context;
mod contradictions;
mod controller;
mod decider;
mod desired;
mod fabric;
mod failures;
#[cfg(test)]
mod fixture;
mod gauge;
mod judged;
mod lease;
mod message;
mod orders;
mod pairs;
pub mod record;
mod replay;
mod standing;
mod status;
mod thing;
mod traffic;
mod view;
mod waste;

pub use config::{
    Config, ConfigError, Enforcement, GRACE, HostConfig, LEASE, LEASES, Limits, PERIODS,
    PortConfig, SAMPLE, SwitchConfig, Tenant, harmless, is_control, wrong_cgroup, wrong_sample,
};
pub use controller::{Answers, Change, Controller, question};
pub use judged::Judged;
pub use message::{ChannelId, Closing, Input, Output, OwnedInput, Refusal, note};
pub use record::Digest;
pub use replay::{Configure, Replay, replay};
pub use status::{
    AgentStatus, ApplicationFlows, ApplicationStatus, Asked, Bottleneck, CongestionStatus,
    Counters, FlowExplanation, FlowStatus, FormerAgentStatus, JobExplanation, JobStatus,
    LinkStatus, ObjectivePart, ObjectiveStatus, RefusalStatus, Rival, SharedLink, Status,
    SwitchStatus,
};
