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

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::coflow::Rule;
use crate::coflow_rates::CoflowRates;
use crate::order::by_bottleneck;
use crate::ordered::{Jobs, Order, Ordered, PAUSE};
use crate::{Descriptor, DirectiveKind};

/// What `sebf` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sebf",
    summary: "the coflow with the smallest bottleneck goes first, its flows ending together (Varys)",
    source: "Varys, SIGCOMM 2014",
    parameters: &[PAUSE],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let pause = given.get(PAUSE.name);
        Ok(Box::new(CoflowRates::new(Ordered::<SmallestBottleneck>::new(pause, None), given)))
    },
};

#[derive(Debug)]
pub(crate) struct SmallestBottleneck;

impl Order for SmallestBottleneck {
    const RULES: &'static [Rule] = &[Rule::Together, Rule::ByRemaining];

    fn order(jobs: &mut Jobs<'_, '_>) -> Vec<usize> {
        by_bottleneck(&jobs.bottlenecks())
    }
}
