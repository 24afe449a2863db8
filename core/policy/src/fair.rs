//! `fair`: ideal max-min fair rates over links for all active flows, solved anew once an instant in
//! which flows come, go or move.
//!
//! Source: the fair sharing that Phurti (section 2.1) and every coflow scheduler compare with, in
//! its exact form: progressive filling ([`waterfill`](crate::waterfill)). Rates count frame bytes
//! in the direction of the data; acknowledgements the other way are not accounted for.

use alloc::boxed::Box;
use alloc::vec::Vec;

use model::LinkId;
use units::{Rate, Time};

use crate::coflow_rates::{CoflowRates, Discipline, Division};
use crate::waterfill::max_min;
use crate::{Descriptor, DirectiveKind};

/// What `fair` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fair",
    summary: "ideal max-min fair rates for all flows",
    source: "progressive filling, the fair sharing of Phurti, section 2.1",
    parameters: &[],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: true,
    build: |_| Ok(Box::new(CoflowRates::new(Fair))),
};

#[derive(Debug)]
struct Fair;

impl Discipline for Fair {
    /// Max-min leaves no flow at zero; reserve nothing.
    const ASIDE: Rate = Rate::ZERO;

    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let paths: Vec<&[LinkId]> = division.jobs.iter().flat_map(|job| job.paths()).collect();
        let mut rates = max_min(&division.links.capacities(), &paths).into_iter();
        for job in division.jobs {
            job.grant_each(now, || rates.next().map_or(0, Rate::as_bps));
        }
    }
}
