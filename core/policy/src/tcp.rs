//! `tcp`: nothing is decided, the transport shares the network as it does. The baseline of every
//! comparison.

use alloc::boxed::Box;

use model::{Directives, Network, Observation};
use units::Time;

use crate::{Descriptor, Policy};

/// What `tcp` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "tcp",
    summary: "nothing is decided: the transport shares the network as it does",
    source: "the baseline of every comparison",
    parameters: &[],
    needs: &[],
    directives: &[],
    is_max_min: false,
    build: |_| Ok(Box::new(Tcp)),
};

/// The policy that leaves everything to the transport.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Policy for Tcp {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}
}
