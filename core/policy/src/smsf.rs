//! `smsf` (Phurti): the job whose largest traffic between two hosts is smallest goes first.
//!
//! Source: Phurti, chapter 4: Smallest Maximum Sequential-traffic First. The priority of a job is
//! max T_ij over host pairs (i, j), renewed with every message that changes the traffic matrix;
//! ties by arrival of the job. T_ij is what was declared, whether it is under way, done or to come.

use model::{Declared, Network};
use units::Bytes;

pub use crate::guard::Guard;

use crate::admission::Rank;
use crate::roster::exists;
use crate::scheduler::{Scheduler, Standing};
use crate::traffic::Traffic;
use crate::{Messages, Policy, PolicyError, Share};

/// Phurti's parameters. [`Default`] gives the published values (section 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// β: the share of its access link that a host's SLOW flows divide; published: 1 %.
    pub slow_share: Share,
    /// The starvation guard.
    pub guard: Guard,
}

/// The policy.
///
/// # Errors
/// [`PolicyError::OutOfRange`]: a period below [`Guard::SHORTEST`], a duration of zero or above the
/// period.
pub fn new(parameters: Parameters, messages: Messages) -> Result<impl Policy + Send, PolicyError> {
    parameters.guard.validate()?;
    let Parameters { slow_share, guard } = parameters;
    Ok(Scheduler::<SequentialTraffic>::new(slow_share, messages, Some(guard)))
}

/// A job's traffic matrix and the rank that follows from it.
#[derive(Debug)]
struct SequentialTraffic {
    traffic: Traffic,
    rank: Rank,
}

impl Standing for SequentialTraffic {
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
