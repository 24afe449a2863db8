//! `sff` (shortest flow first): each flow on its own, ordered by declared size; ties by arrival.
//!
//! Source: Phurti, section 2.1 and figure 2.2c, for pFabric and PDQ. The order goes by the size
//! declared at the request, not by what remains; waiting flows are SLOW as under `smsf`.

use alloc::boxed::Box;

use units::Bytes;

use crate::groups::Rank;
use crate::scheduler::{BETA, Ranking, Scheduler};
use crate::{Descriptor, DirectiveKind};

/// What `sff` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sff",
    summary: "shortest flow first, by declared size",
    source: "Phurti, section 2.1, for pFabric and PDQ",
    parameters: &[BETA],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let slow_share = given.get(BETA.name);
        Ok(Box::new(Scheduler::<EachFlow>::new(slow_share, given.messages(), None)))
    },
};

/// A job means nothing here.
#[derive(Debug)]
struct EachFlow;

impl Ranking for EachFlow {
    fn new(_: u64) -> Self {
        Self
    }

    fn rank(&mut self, arrival: u64, size: Bytes) -> Rank {
        Rank { amount: size, arrival }
    }
}
