//! `bssf` (Sincronia): coflows in an order that is at most four times as bad as the best, and rates
//! by any rule that keeps to it.
//!
//! Source: Agarwal, Rajakrishnan, Narayan, Agarwal, Shmoys and Vahdat, "Sincronia: near-optimal
//! network design for coflows", SIGCOMM 2018: the order [`order::bssf`](crate::order::bssf), made anew of
//! what remains at each arrival and end of a coflow, without its epochs. Published for priorities
//! in the switches; here rates do what these would: each coflow has everything that those before it
//! leave, in proportion to what remains of its flows. A coflow weighs what its job asks for, 1 if nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::coflow::Rule;
use crate::coflow_rates::CoflowRates;
use crate::order::bssf;
use crate::ordered::{Jobs, Order, Ordered, PAUSE};
use crate::{Descriptor, DirectiveKind};

/// What `bssf` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "bssf",
    summary: "coflows in an order at most four times as bad as the best (Sincronia)",
    source: "Sincronia, SIGCOMM 2018",
    parameters: &[PAUSE],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let pause = given.get(PAUSE.name);
        Ok(Box::new(CoflowRates::new(Ordered::<BottleneckSelect>::new(pause, None), given)))
    },
};

#[derive(Debug)]
struct BottleneckSelect;

impl Order for BottleneckSelect {
    const RULES: &'static [Rule] = &[Rule::ByRemaining];

    fn order(jobs: &mut Jobs<'_, '_>) -> Vec<usize> {
        let weights = jobs.weights();
        bssf(jobs.demands(0..weights.len()), &weights)
    }
}
