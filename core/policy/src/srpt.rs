//! `srpt`, as pFabric: each flow on its own, the one with least left to send first, at the rate of
//! its slowest link.
//!
//! Source: Alizadeh et al., "pFabric: minimal near-optimal datacenter transport", SIGCOMM 2013: its
//! priorities by remaining size, and the greedy assignment of which it is an approximation. Here
//! the rates are that assignment, made anew in every instant in which a flow comes or ends, for all
//! flows: meant for small numbers of them; ties go by arrival. `sff` is the same by declared size.

use alloc::boxed::Box;
use alloc::vec::Vec;

use units::Time;

use crate::coflow::Arrival;
use crate::coflow_rates::{CoflowRates, Discipline, Division};
use crate::{Descriptor, DirectiveKind};

/// What `srpt` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "srpt",
    summary: "the flow with least left to send goes first (pFabric)",
    source: "pFabric, SIGCOMM 2013",
    parameters: &[],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| Ok(Box::new(CoflowRates::new(LeastLeft, given))),
};

#[derive(Debug)]
struct LeastLeft;

impl Discipline for LeastLeft {
    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let Division { jobs, links, .. } = division;
        let mut flows: Vec<(f64, Arrival, usize)> = Vec::new();
        for (position, job) in jobs.iter_mut().enumerate() {
            flows.extend(job.remaining(now).map(|(came, left)| (left, came, position)));
        }
        flows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, came, position) in flows {
            jobs[position].grant_left(now, came, links);
        }
    }
}
