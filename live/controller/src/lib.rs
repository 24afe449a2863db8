//! The controller's daemon: sockets, certificates, records and measures around the machine in
//! `control`.
//!
//! - [`settings`] is the configuration file; [`run`] is the whole daemon.
//! - [`owner`] is the one task that holds the machine; everybody else puts what happened into its
//!   channel and waits while that is full.
//! - [`switches`] speaks OpenFlow's bytes over TCP and TLS, [`http`] JSON with applications, agents
//!   and people; [`listen`] and [`hub`] are what they share: who comes in, who is connected.
//! - [`journal`] keeps the latest of what is logged, for operators who ask.
//! - [`election`] says which of several controllers leads.
//! - [`epoch`] and [`ledger`] are what the daemon must not forget, [`recorder`] what it may, in files of
//!   [`recordings`]; [`replay`] puts a recording into the machine again, [`metrics`] is what is measured.
#![forbid(unsafe_code)]

pub mod election;
pub mod epoch;
pub mod http;
pub mod hub;
pub mod journal;
pub mod ledger;
pub mod listen;
pub mod metrics;
pub mod outlet;
pub mod owner;
mod queue;
pub mod recorder;
pub mod recordings;
pub mod replay;
mod seldom;
pub mod settings;
mod strangers;
pub mod switches;
mod tenant;

mod daemon;

pub use daemon::{StartError, check, run};

/// Where commands on the same machine find the controller.
pub const SOCKET: &str = "/run/watermaster-controller/controller.sock";
