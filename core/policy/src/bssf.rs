//! `bssf` (Sincronia): coflows in an order that is at most four times as bad as the best, and rates
//! by any rule that keeps to it.
//!
//! Source: Agarwal, Rajakrishnan, Narayan, Agarwal, Shmoys and Vahdat, "Sincronia: near-optimal
//! network design for coflows", SIGCOMM 2018: the order [`order::bssf`](crate::order::bssf), made anew of
//! what remains at each arrival and end of a coflow, without its epochs. Published for priorities
//! in the switches; here rates do what these would: each coflow has everything that those before it
//! leave, in proportion to what remains of its flows. All coflows weigh the same.

use alloc::vec::Vec;

use crate::Policy;
use crate::allocator::Allocator;
use crate::coflow::Rule;
use crate::order::{Demand, bssf};
use crate::ordered::{Order, Ordered, Pause};

/// The policy.
pub fn new(pause: Pause) -> impl Policy + Send {
    Allocator::new(Ordered::<BottleneckSelect>::new(pause, None))
}

#[derive(Debug)]
struct BottleneckSelect;

impl Order for BottleneckSelect {
    const RULES: &'static [Rule] = &[Rule::ByRemaining];

    fn order(jobs: &[Demand]) -> Vec<usize> {
        bssf(jobs)
    }
}
