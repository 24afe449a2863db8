//! `sebf` (Varys): the coflow with the smallest effective bottleneck goes first, and its flows are
//! paced so that all end with the one that takes longest.
//!
//! Source: Chowdhury, Zhong and Stoica, "Efficient coflow scheduling with Varys", SIGCOMM 2014:
//! Smallest-Effective-Bottleneck-First, Minimum-Allocation-for-Desired-Duration (MADD), and
//! backfilling. Published for a fabric without bottlenecks inside; here a bottleneck may be any
//! link. The effective bottleneck is that of what remains, at each arrival and end of a coflow.
//! What MADD leaves goes to the coflows in the same order, in proportion to what remains of their
//! flows. Admission of coflows with deadlines, and Varys's own guard against starvation, are left
//! out.

use alloc::vec::Vec;

use crate::Policy;
use crate::allocator::Allocator;
use crate::coflow::Rule;
use crate::order::{Demand, by_bottleneck};
use crate::ordered::{Order, Ordered, Pause};

/// The policy.
pub fn new(pause: Pause) -> impl Policy + Send {
    Allocator::new(Ordered::<SmallestBottleneck>::new(pause, None))
}

#[derive(Debug)]
struct SmallestBottleneck;

impl Order for SmallestBottleneck {
    const RULES: &'static [Rule] = &[Rule::Together, Rule::ByRemaining];

    fn order(jobs: &[Demand]) -> Vec<usize> {
        by_bottleneck(jobs)
    }
}
