//! Decisions: what each policy wants, given what it has observed.
//!
//! A policy is a machine without clock, I/O or randomness of its own: time and network are
//! arguments, intentions go into the caller's buffer, and equal inputs give equal outputs. The same
//! code decides in every world.
//!
//! One file per policy (that of `static` is `fixed.rs`); a variant of ours may stand in that of the policy that it
//! varies. A [`Descriptor`] says all that others need to know of a policy: name, source, parameters, needs, how to
//! build it. [`POLICIES`] lists them, [`by_name`] builds one.
//!
//! What several share:
//! - `fifo`, `sff`, `smsf` order flows by rank and differ in the rank only: `scheduler` hears the
//!   applications, `admission` decides who transmits, `groups` keeps ranks, `guard` keeps long jobs from starving.
//! - `fair`, `sebf`, `bssf`, `srb`, `dclas`, `fifo-lm`, `srpt` give every flow a rate: `coflow_rates` hears and
//!   tells, `coflow` keeps account of a job's flows, `standing` of what they were granted, `links` of what
//!   is left of links, `filling` divides it, [`order`] says which job goes first.
//! - `app_aware` divides links among streams: `forecast` says what each needs, `stream_rates` goes
//!   link by link, [`split`] divides one.
//! - `cross`: what links carry that is none of a policy's flows, by counters of ports; of `app_aware` and
//!   `arbiter`.
//! - [`syn`] puts packets into timeslots: [`matching`] says who sends, [`colouring`] over which of the
//!   `spines`. `fastpass` does it in another order. `asy` gives rates to pairs of hosts: [`renormalise`] finds them.
//! - `sdtcp`, `sdtcp_hold`, `sab` set windows at switches: `connections` is the table of what is open.
//! - `pfabric`, `pias`, `homa` decide nothing: hosts write [`Tags`] into packets, and ports serve by these.
//! - `arbiter` divides links among objectives, each of which has one of these for itself.
//! - `sw`, `sw_ictcp` keep a window of queries: `sliding`. [`sicc`] gathers requests through hubs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod acknowledgements;
mod admission;
mod app_aware;
mod arbiter;
mod asy;
mod bssf;
mod catalogue;
mod coflow;
mod coflow_rates;
pub mod colouring;
mod connections;
mod cross;
mod dclas;
mod descriptor;
mod fair;
mod fastpass;
mod fifo;
mod fifo_lm;
mod filling;
mod fixed;
mod flow_map;
mod forecast;
mod groups;
mod guard;
mod homa;
mod links;
mod lists;
pub mod matching;
mod objective;
mod one_all;
pub mod order;
mod ordered;
mod parameter;
mod pfabric;
mod pias;
pub mod renormalise;
mod roster;
mod sab;
mod scheduler;
mod sdtcp;
mod sdtcp_hold;
mod sebf;
mod sff;
mod share;
pub mod sicc;
mod sliding;
mod smsf;
mod spines;
pub mod split;
mod srb;
mod srpt;
mod standing;
mod stream_rates;
mod sw;
mod sw_ictcp;
pub mod syn;
mod tags;
mod tcp;
mod traffic;
mod watch;
pub mod waterfill;

pub use account::{Account, Holding, Part};
pub use acknowledgements::Acknowledgements;
pub use catalogue::{ARBITER, NAMES, PLAIN, POLICIES, by_name, find, saying};
pub use descriptor::{Descriptor, DirectiveKind, Need};
pub use objective::{Aim, Objective};
pub use parameter::{Given, Kind, Messages, Parameter, Parameters, PolicyError, Typed, Value};
pub use share::Share;
pub use tags::{Granting, LineRate, Tags};
pub use watch::Watch;

use model::{Directive, Directives, FlowId, HEADER, Network, Observation};
use units::{Rate, Span, Time};

/// A policy. It never panics, whatever it is told: what contradicts earlier observations or names
/// unknown jobs, flows or nodes is ignored.
///
/// Numbers of jobs and flows are given again: under a controller that of a job may be another's in the next
/// observation after its end, that of a flow after the next decision. So nothing is kept by a number beyond
/// `JobComplete`, `FlowComplete` or `Closed`, and who came first is known by when it came, not by its number.
pub trait Policy {
    /// Takes in one thing that happened at `now`.
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation);

    /// Appends to `out` what should change after all that was observed since the last decision: one
    /// observation or several, at `now` or before.
    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives);

    /// What switches are to report to this policy; `None` where it decides from what applications
    /// say.
    fn watch(&self) -> Option<Watch> {
        None
    }

    /// What hosts write into packets by themselves; `None` where they write nothing and ports serve as
    /// the network's do.
    fn tags(&self) -> Option<Tags> {
        None
    }

    /// Time between two readings of the counters of ports ([`model::Measured::Ports`]); `None` where it
    /// decides without. Ports count whether anybody reads or not: unlike what [`Policy::watch`] asks for,
    /// this changes nothing at switches.
    fn ports(&self) -> Option<Span> {
        None
    }

    /// When the policy wants to observe an [`Observation::Tick`] and decide although nothing happened.
    /// It may be the time of the last observation: then the policy decides once about all that happens
    /// at that time.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// Whether every flow that is announced gets a rate at once, so that its host can wait for that with
    /// the first packet.
    fn paces_all(&self) -> bool {
        false
    }

    /// Under which objective a flow is, and what that has of its links; `None` where there are none.
    fn account(&self, flow: FlowId) -> Option<Account> {
        let _ = flow;
        None
    }
}

/// A rate, bit/s below 2⁶³, as a real number: a signed one is what processors convert at once.
const fn real(rate: u64) -> f64 {
    rate.cast_signed() as f64
}

/// Holds `flow` to `limit`, frame bytes, or lets it go.
const fn pace(flow: FlowId, limit: Option<Rate>) -> Directive {
    Directive::Pace { flow, limit }
}
