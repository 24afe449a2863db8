//! `tcp`: nothing is decided, the transport shares the network as it does. The baseline of every
//! comparison.

use model::{Directives, Network, Observation};
use units::Time;

use crate::Policy;

/// The policy that leaves everything to the transport.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Policy for Tcp {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}
}
