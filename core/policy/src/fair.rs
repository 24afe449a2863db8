//! `fair`: ideal max-min fair rates over links for all active flows, solved anew once an instant in
//! which flows come, go or move.
//!
//! Source: the fair sharing that Phurti (section 2.1) and every coflow scheduler compare with, in
//! its exact form: progressive filling ([`waterfill`](crate::waterfill)).

use alloc::boxed::Box;
use units::{Rate, Time};

use crate::coflow_rates::{CoflowRates, Discipline, Division};
use crate::filling::Paths;
use crate::waterfill::{max_min_left, paths};
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
    build: |given| Ok(Box::new(CoflowRates::new(Fair { paths: Paths::NONE }, given))),
};

#[derive(Debug)]
struct Fair {
    paths: Paths,
}

impl Discipline for Fair {
    /// Max-min leaves no flow at zero; reserve nothing.
    const ASIDE: Rate = Rate::ZERO;

    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let Division { jobs, links, is_again, .. } = division;
        let lefts = links.lefts();
        if !is_again {
            self.paths = paths(lefts.len(), jobs.iter().flat_map(|job| job.paths()));
        }
        let (rates, lefts) = max_min_left(lefts, &self.paths, &[]);
        links.set_lefts(lefts.into_iter());
        let mut rates = rates.into_iter();
        for job in jobs {
            job.grant_each(now, || rates.next().map_or(0, Rate::as_bps));
        }
    }
}
