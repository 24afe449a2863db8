//! Decisions: what each policy wants, given what it has observed.
//!
//! A policy is a machine without clock, I/O or randomness of its own: time and network are
//! arguments, intentions go into the caller's buffer, and equal inputs give equal outputs. The same
//! code decides in every world.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use model::{Directives, Network, Observation};
use units::Time;

/// A policy. It never panics, whatever it is told: what contradicts earlier observations or names
/// unknown jobs, flows or nodes is ignored.
pub trait Policy {
    /// Takes in one observation at `now` and appends to `out` what should change.
    fn observe(
        &mut self,
        now: Time,
        network: &Network,
        observation: &Observation,
        out: &mut Directives,
    );

    /// When the policy wants [`Policy::tick`] although nothing happened.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// Called at or after the [`Policy::deadline`].
    fn tick(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let _ = (now, network, out);
    }
}
