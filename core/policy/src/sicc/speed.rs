//! How fast hubs send (SICC, section 3.2). Rates count frame bytes.

use alloc::vec;
use alloc::vec::Vec;

use model::LEAST_RATE;
use units::{Bytes, Rate};

use crate::Share;

/// Divides `planned` among hubs of which each wants at most its `demand` ([`Rate::MAX`]: all it can
/// get) and otherwise a part in proportion to its `weight`: equations 2 to 4, with equal weights,
/// repeated until nothing changes, which is the max-min fair division. Rounded down, and never
/// below [`LEAST_RATE`].
pub fn shares(planned: Rate, hubs: &[(Rate, u64)]) -> Vec<Rate> {
    let mut order: Vec<usize> = (0..hubs.len()).collect();
    order.sort_by(|a, b| {
        let ((demand, weight), (other, against)) = (hubs[*a], hubs[*b]);
        let scaled = |rate: Rate, weight: u64| u128::from(rate.as_bps()) * u128::from(weight);
        scaled(demand, against).cmp(&scaled(other, weight))
    });
    let mut shares = vec![LEAST_RATE; hubs.len()];
    let mut left = planned;
    let mut weights = hubs.iter().fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight));
    for hub in order {
        let (demand, weight) = hubs[hub];
        let share = left.fraction(weight, weights).min(left).min(demand);
        shares[hub] = share.max(LEAST_RATE);
        left = left - share;
        weights = weights.saturating_sub(weight);
    }
    shares
}

/// What a hub wants that was to send at `assigned` and did at `real`, where `even` would be its
/// part if all were alike.
///
/// One that used seven eighths or more may want anything. Another wants twice what it sent, and at
/// least a sixteenth of the even part: it can show within a few periods that it has recovered,
/// where the text holds it at its past speed for good.
pub fn demand(assigned: Rate, real: Rate, even: Rate) -> Rate {
    if real >= assigned.fraction(7, 8) {
        return Rate::MAX;
    }
    real.fraction(2, 1).max(even.fraction(1, 16))
}

/// How a front end gives way at its aggregation router (section 3.2.2; the values are in 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yielding {
    /// α: most growth in a period, as a part of what was received.
    pub growth: Share,
    /// β: most cut in a period, where the queue is full.
    pub cut: Share,
    /// T: the part of the buffer from which a queue cuts.
    pub threshold: Share,
}

impl Yielding {
    /// Equations 5 and 6: what a front end with a link of `capacity` plans to receive next, after
    /// it received at the rate `received` and found `queued` octets at the aggregation router's
    /// port, which has room for `buffer`.
    pub fn planned(
        &self,
        planned: Rate,
        received: Rate,
        capacity: Rate,
        queued: Bytes,
        buffer: Bytes,
    ) -> Rate {
        let queued = queued.min(buffer);
        if queued > Bytes::ZERO && queued >= self.threshold.of(buffer) {
            // β · q / S, from the octets that β takes of the queue: no rounding but the last.
            let cut = self.cut.of(queued);
            return planned.fraction((buffer - cut).get(), buffer.get()).max(LEAST_RATE);
        }
        capacity.min(planned + self.growth.divided(received, 1)).max(LEAST_RATE)
    }
}
