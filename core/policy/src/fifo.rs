//! `fifo` (JobFIFO): links go to jobs in the order in which their flows first request the network.
//!
//! Source: Phurti, section 6.2. The text doesn't say what waiting flows get; here they are SLOW as
//! under `smsf`, so that the two differ in the order only.

use alloc::boxed::Box;

use units::Bytes;

use crate::groups::Rank;
use crate::scheduler::{BETA, Ranking, Scheduler};
use crate::{Descriptor, DirectiveKind};

/// What `fifo` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fifo",
    summary: "links go to jobs in the order of their first flows (JobFIFO)",
    source: "Phurti, section 6.2",
    parameters: &[BETA],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let slow_share = given.get(BETA.name);
        Ok(Box::new(Scheduler::<FirstRequest>::new(slow_share, given.messages(), None)))
    },
};

/// When the job's first flow came.
#[derive(Debug)]
struct FirstRequest(Option<u64>);

impl Ranking for FirstRequest {
    fn new(_: u64) -> Self {
        Self(None)
    }

    fn rank(&mut self, arrival: u64, _: Bytes) -> Rank {
        Rank { amount: Bytes::ZERO, arrival: *self.0.get_or_insert(arrival) }
    }
}
