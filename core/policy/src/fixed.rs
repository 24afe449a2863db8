//! `static`: rates that were given beforehand, to the flows in order of their requests. What a search
//! over all allocations tries ("On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream
//! Analytics", section II-D).

use alloc::vec::Vec;

use model::{Declared, Directives, Network, Observation};
use units::{Rate, Time};

use crate::{FLOOR, Policy, pace};

/// The policy: the n-th flow is held to the n-th rate, flows beyond the last are left alone.
#[derive(Clone, Debug, Default)]
pub struct Static {
    rates: Vec<Rate>,
    requests: usize,
}

impl Static {
    /// With these rates, frame bytes; a rate below [`FLOOR`] is that.
    pub const fn new(rates: Vec<Rate>) -> Self {
        Self { rates, requests: 0 }
    }
}

impl Policy for Static {
    fn observe(&mut self, _: Time, _: &Network, told: &Observation, out: &mut Directives) {
        if let Observation::Declared(Declared::FlowRequest { flow, .. }) = told
            && let Some(rate) = self.rates.get(self.requests)
        {
            self.requests += 1;
            out.push(pace(*flow, Some((*rate).max(FLOOR))));
        }
    }
}
