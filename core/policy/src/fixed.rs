//! `static`: rates and priorities that were given beforehand, to the flows in order of their requests.
//! Of rates it is what a search over all allocations tries ("On SDN-Enabled Online and Dynamic
//! Bandwidth Allocation for Stream Analytics", section II-D); priorities are ours.

use alloc::vec::Vec;

use model::{Declared, Directive, Directives, Network, Observation};
use units::{Rate, Time};

use crate::{FLOOR, LEASE, Policy, pace};

/// What was given beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The rate of the n-th flow, frame bytes; one below [`FLOOR`] is that.
    pub rates: Vec<Rate>,
    /// The level of the n-th flow; 0 goes first.
    pub levels: Vec<u8>,
}

/// The policy. The n-th flow is held to the n-th rate and has the n-th level; flows beyond the last
/// are left alone.
#[derive(Clone, Debug, Default)]
pub struct Static {
    parameters: Parameters,
    requests: usize,
    decided: Directives,
}

impl Static {
    /// With these rates and levels.
    pub const fn new(parameters: Parameters) -> Self {
        Self { parameters, requests: 0, decided: Directives::new() }
    }
}

impl Policy for Static {
    fn observe(&mut self, _: Time, _: &Network, told: &Observation) {
        let Observation::Declared(Declared::FlowRequest { flow, .. }) = *told else { return };
        let Parameters { rates, levels } = &self.parameters;
        if let Some(rate) = rates.get(self.requests) {
            self.decided.push(pace(flow, Some((*rate).max(FLOOR))));
        }
        if let Some(&level) = levels.get(self.requests) {
            self.decided.push(Directive::Prioritize { flow, level, lease: LEASE });
        }
        self.requests = self.requests.saturating_add(1);
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.decided);
    }
}
