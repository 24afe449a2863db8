//! Achieved rates: what limited flows get of their limits while they have enough to send.
//!
//! Flows are sampled at regular times. The interval between two samples counts if the limit was the
//! same at both and if at the first enough data waited to fill the interval; otherwise the
//! application, not the limit, may have set the pace.

use model::FlowId;
use units::{Bytes, Rate, Span, Time};

use crate::Records;
use crate::outcome::RateRecord;
use crate::records::FlowRecord;
use crate::world::{LimitedFlow, World};

/// Accounts of all live flows, and records of ended ones that had a limit.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// Flows with higher numbers have not been sampled.
    known: usize,
    live: Vec<(FlowId, Account)>,
    ended: Vec<RateRecord>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    last: Option<(Time, LimitedFlow)>,
    limited: Span,
    counted: Span,
    /// Bits of frames and of payload, times 10⁹.
    rate: u128,
    expected: u128,
    delivered: Bytes,
}

impl Account {
    fn look(&mut self, now: Time, seen: Option<LimitedFlow>) {
        let before = self.last;
        self.last = seen.map(|seen| (now, seen));
        let (Some((then, first)), Some(seen)) = (before, seen) else { return };
        let passed = now.since(then);
        self.limited += passed;
        if first.rate != seen.rate || first.unsent < first.payload.bytes_in(passed) {
            return;
        }
        self.counted += passed;
        let over = |rate: Rate| u128::from(rate.as_bps()) * u128::from(passed.as_nanos());
        self.rate += over(seen.rate);
        self.expected += over(seen.payload);
        self.delivered += seen.delivered - first.delivered;
    }

    fn record(&self, flow: FlowId) -> Option<RateRecord> {
        let mean = |sum: u128| {
            let mean = sum.checked_div(self.counted.as_nanos().into()).unwrap_or(0);
            Rate::from_bps(u64::try_from(mean).unwrap_or(u64::MAX))
        };
        (self.limited > Span::ZERO).then(|| RateRecord {
            flow,
            limited: self.limited,
            counted: self.counted,
            rate: mean(self.rate),
            expected: mean(self.expected),
            delivered: self.delivered,
        })
    }
}

impl Rates {
    /// Samples all flows of `world` that have not ended.
    pub(crate) fn look<W: World>(&mut self, world: &W, flows: &Records<FlowRecord>) {
        // There are fewer than 2³² flows.
        let fresh = (self.known..flows.len()).filter_map(|number| u32::try_from(number).ok());
        self.live.extend(fresh.map(|number| (FlowId(number), Account::default())));
        self.known = flows.len();
        let now = world.now();
        let ended = &mut self.ended;
        self.live.retain_mut(|(flow, account)| {
            let lives = !flows.is_final(flow.index());
            if lives {
                account.look(now, world.limited_flow(*flow));
            } else {
                ended.extend(account.record(*flow));
            }
            lives
        });
    }

    /// A record of each flow that had a rate, by number.
    pub(crate) fn into_records(mut self) -> Vec<RateRecord> {
        self.ended.extend(self.live.iter().filter_map(|(flow, account)| account.record(*flow)));
        self.ended.sort_unstable_by_key(|record| record.flow);
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(mbps: u64, unsent: u64, delivered: u64) -> Option<LimitedFlow> {
        let rate = Rate::from_mbps(mbps);
        let payload = rate.fraction(1460, 1500);
        Some(LimitedFlow {
            rate,
            payload,
            unsent: Bytes::new(unsent),
            delivered: Bytes::new(delivered),
        })
    }

    #[test]
    fn only_time_at_a_standing_rate_with_enough_to_send_counts() {
        let mut account = Account::default();
        // 12 Mbit/s let 1.5 kB of frames and 1460 octets of payload go in a millisecond.
        for (at, seen) in [
            (0, None),
            (10, seen(12, 100_000, 0)),
            (20, seen(12, 100_000, 14_000)),
            // Less than it could have sent.
            (30, seen(12, 14_599, 28_000)),
            (40, seen(12, 100_000, 30_000)),
            // Another rate.
            (50, seen(6, 100_000, 40_000)),
            (70, seen(6, 100_000, 54_600)),
            (80, None),
            (90, seen(12, 100_000, 70_000)),
        ] {
            account.look(Time::from_nanos(at * MS), seen);
        }
        let record = account.record(FlowId(3)).unwrap();
        assert_eq!(record.limited, Span::from_millis(60));
        assert_eq!(record.counted, Span::from_millis(40), "from 10 to 30 and from 50 to 70");
        assert_eq!(record.rate, Rate::from_mbps(9));
        assert_eq!(record.expected, Rate::from_bps(8_760_000));
        assert_eq!(record.delivered, Bytes::new(28_000 + 14_600));
        assert_eq!(record.goodput(), Some(Rate::from_bps(8_520_000)));
    }

    #[test]
    fn a_flow_without_a_rate_is_none_of_ours_and_one_without_data_has_no_goodput() {
        let mut account = Account::default();
        account.look(Time::ZERO, None);
        account.look(Time::from_nanos(MS), None);
        assert_eq!(account.record(FlowId(0)), None);
        account.look(Time::from_nanos(2 * MS), seen(12, 0, 0));
        account.look(Time::from_nanos(3 * MS), seen(12, 0, 0));
        let record = account.record(FlowId(0)).unwrap();
        assert_eq!((record.limited, record.goodput()), (Span::from_millis(1), None));
    }
}
