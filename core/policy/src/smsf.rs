//! `smsf` (Phurti): the job whose largest traffic between two hosts is smallest goes first.
//!
//! Source: Phurti, chapter 4: Smallest Maximum Sequential-traffic First. The priority of a job is
//! max T_ij over host pairs (i, j), renewed with every message that changes the traffic matrix;
//! ties by arrival of the job. T_ij is what was declared, whether it is under way, done or to come.

use alloc::boxed::Box;

use model::{Declared, Network};
use units::Bytes;

use crate::groups::Rank;
use crate::guard::{self, Guard};
use crate::roster::exists;
use crate::scheduler::{BETA, Ranking, Scheduler};
use crate::traffic::Traffic;
use crate::{Descriptor, DirectiveKind};

/// What `smsf` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "smsf",
    summary: "the job whose largest traffic between two hosts is smallest goes first (Phurti)",
    source: "Phurti, chapter 4",
    parameters: &[BETA.published("section 6.1"), guard::THRESHOLD, guard::PERIOD, guard::DURATION],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let guard = Guard::from_parameters(given)?;
        let slow_share = given.get(BETA.name);
        Ok(Box::new(Scheduler::<SequentialTraffic>::new(slow_share, given.messages(), Some(guard))))
    },
};

/// A job's traffic matrix and the rank that follows from it.
#[derive(Debug)]
struct SequentialTraffic {
    traffic: Traffic,
    rank: Rank,
}

impl Ranking for SequentialTraffic {
    fn new(arrival: u64) -> Self {
        Self { traffic: Traffic::default(), rank: Rank { amount: Bytes::ZERO, arrival } }
    }

    fn learn(&mut self, network: &Network, declared: &Declared) -> Option<Rank> {
        match declared {
            Declared::TaskHost { task, host, .. } if exists(network, *host) => {
                self.traffic.place(*task, *host);
            }
            Declared::Size { map, reduces, .. } => {
                for (reduce, size) in reduces {
                    self.traffic.announce(*map, *reduce, *size);
                }
            }
            Declared::FlowRequest { src, dst, size, .. } => {
                self.traffic.request(*src, *dst, *size);
            }
            _ => return None,
        }
        let before = self.rank.amount;
        self.rank.amount = self.traffic.largest();
        (self.rank.amount != before).then_some(self.rank)
    }

    fn rank(&mut self, _: u64, _: Bytes) -> Rank {
        self.rank
    }
}
