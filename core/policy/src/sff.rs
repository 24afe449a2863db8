//! `sff` (shortest flow first): each flow on its own, ordered by declared size; ties by arrival.
//!
//! Source: Phurti, section 2.1 and figure 2.2c, for pFabric and PDQ. The order goes by the size
//! declared at the request, not by what remains; waiting flows are SLOW as under `smsf`.

use units::Bytes;

use crate::admission::Rank;
use crate::scheduler::{Scheduler, Standing};
use crate::{Messages, Policy, Share};

/// The policy; a host's SLOW flows divide `slow_share` of its access link.
pub fn new(slow_share: Share, messages: Messages) -> impl Policy + Send {
    Scheduler::<EachFlow>::new(slow_share, messages, None)
}

/// A job means nothing here.
#[derive(Debug)]
struct EachFlow;

impl Standing for EachFlow {
    fn new(_: u64) -> Self {
        Self
    }

    fn rank(&mut self, arrival: u64, size: Bytes) -> Rank {
        Rank { amount: size, arrival }
    }
}
