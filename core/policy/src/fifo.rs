//! `fifo` (JobFIFO): links go to jobs in the order in which their flows first request the network.
//!
//! Source: Phurti, section 6.2. The text doesn't say what waiting flows get; here they are SLOW as
//! under `smsf`, so that the two differ in the order only.

use units::Bytes;

use crate::admission::Rank;
use crate::scheduler::{Scheduler, Standing};
use crate::{Messages, Policy, Share};

/// The policy; a host's SLOW flows divide `slow_share` of its access link.
pub fn new(slow_share: Share, messages: Messages) -> impl Policy + Send {
    Scheduler::<FirstRequest>::new(slow_share, messages, None)
}

/// When the job's first flow came.
#[derive(Debug)]
struct FirstRequest(Option<u64>);

impl Standing for FirstRequest {
    fn new(_: u64) -> Self {
        Self(None)
    }

    fn rank(&mut self, arrival: u64, _: Bytes) -> Rank {
        Rank { amount: Bytes::ZERO, arrival: *self.0.get_or_insert(arrival) }
    }
}
