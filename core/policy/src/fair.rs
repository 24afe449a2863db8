//! `fair`: ideal max-min fair rates over links for all active flows, solved anew once an instant in
//! which flows come, go or move.
//!
//! Source: the fair sharing that Phurti (section 2.1) and every coflow scheduler compare with, in
//! its exact form: progressive filling ([`waterfill`](crate::waterfill)). Rates count frame bytes
//! in the direction of the data; acknowledgements the other way are not accounted for.

use alloc::vec::Vec;

use model::LinkId;
use units::{Rate, Time};

use crate::Policy;
use crate::allocator::{Allocator, Discipline, Division};
use crate::waterfill::max_min;

/// The policy of exact fair sharing.
pub fn new() -> impl Policy + Send {
    Allocator::new(Fair)
}

#[derive(Debug)]
struct Fair;

impl Discipline for Fair {
    /// Nobody has nothing.
    const ASIDE: Rate = Rate::ZERO;

    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let paths: Vec<&[LinkId]> = division.jobs.iter().flat_map(|job| job.paths()).collect();
        let mut rates = max_min(&division.links.capacities(), &paths).into_iter();
        for job in division.jobs {
            job.grant_each(now, || rates.next().map_or(0, Rate::as_bps));
        }
    }
}
