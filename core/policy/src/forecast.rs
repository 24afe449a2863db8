//! What a stream will need, from what it did: as the text has it, or by smoothed trends.
//!
//! Source of [`Last`]: "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics",
//! section IV-B. Source of [`Trend`]: Holt's linear method (Holt 1957, double exponential smoothing).
//! All rates are payload bits per second.

use model::StreamSample;
use units::{Bytes, Rate, Span, Time};

use crate::split::MOST;
use crate::stream_rates::FlowNeed;

/// What a stream did between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    length: Span,
    /// V: payload delivered.
    delivered: u64,
    /// L^s at both ends.
    sender: (u64, u64),
    /// L^r at both ends.
    receiver: (u64, u64),
}

impl Interval {
    /// From one sample to another that was heard at least so much later.
    pub(crate) fn between(
        (from, old): (Time, StreamSample),
        (to, new): (Time, StreamSample),
        least: Span,
    ) -> Option<Self> {
        let length = to.since(from);
        (length >= least).then(|| Self {
            length,
            delivered: (new.delivered - old.delivered).get(),
            sender: (old.sender_queue.get(), new.sender_queue.get()),
            receiver: (old.receiver_queue.get(), new.receiver_queue.get()),
        })
    }

    /// `bytes` over the interval, bit/s.
    fn rate(&self, bytes: u64) -> u64 {
        over(bytes, self.length)
    }

    /// What the sender generated: V + L^s(t+Δt) − L^s(t).
    const fn generated(&self) -> u64 {
        let (before, after) = self.sender;
        self.delivered.saturating_add(after).saturating_sub(before)
    }

    /// What the receiver consumed: V − L^r(t+Δt) + L^r(t).
    const fn consumed(&self) -> u64 {
        let (before, after) = self.receiver;
        self.delivered.saturating_add(before).saturating_sub(after)
    }
}

/// `bytes` in `time`, bit/s, as solvers take it.
fn over(bytes: u64, time: Span) -> u64 {
    Rate::of(Bytes::new(bytes), time).as_bps().min(MOST)
}

/// How the needs of a stream follow from its past.
pub(crate) trait Forecast: Default {
    /// What it needs so that its queues drain within `horizon`, the last interval having been this.
    fn need(&mut self, interval: &Interval, horizon: Span) -> FlowNeed;
}

/// The next interval will be like the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last;

impl Forecast for Last {
    /// D = V + 2·L^s(t+Δt) − L^s(t): what was generated, and what waits.
    fn need(&mut self, interval: &Interval, horizon: Span) -> FlowNeed {
        let waiting = over(interval.sender.1, horizon);
        FlowNeed {
            demand: interval.rate(interval.generated()).saturating_add(waiting).min(MOST),
            consumption: interval.rate(interval.consumed()),
            waiting: over(interval.receiver.1, horizon),
        }
    }
}

/// What is generated goes on along its trend, what is consumed as it did of late; a receiver at which
/// nothing waits would consume all that the sender has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trend {
    generated: Holt,
    consumed: Holt,
    seen: bool,
}

impl Forecast for Trend {
    #[inline]
    fn need(&mut self, interval: &Interval, horizon: Span) -> FlowNeed {
        let (generated, consumed) =
            (interval.rate(interval.generated()), interval.rate(interval.consumed()));
        if !self.seen {
            (self.generated, self.consumed) = (Holt::at(generated), Holt::at(consumed));
            self.seen = true;
        }
        let waiting = over(interval.sender.1, horizon);
        let demand = self.generated.next(generated).saturating_add(waiting).min(MOST);
        let consumption = self.consumed.next(consumed);
        // Where nothing waits, the receiver took all that came, and says no more than what we let
        // through: by that a division would prove itself right, whatever it is.
        let is_starved = interval.receiver == (0, 0);
        FlowNeed {
            demand,
            consumption: if is_starved { consumption.max(demand) } else { consumption },
            waiting: over(interval.receiver.1, horizon),
        }
    }
}

/// Holt's linear method with gains of a quarter: a single odd value moves the level by a quarter, a
/// step is followed within a second at five values a second.
#[derive(Clone, Copy, Debug, Default)]
struct Holt {
    level: i64,
    trend: i64,
}

impl Holt {
    fn at(value: u64) -> Self {
        Self { level: value.min(MOST).cast_signed(), trend: 0 }
    }

    /// Takes in a value and returns the forecast of the next; both at most [`MOST`].
    fn next(&mut self, value: u64) -> u64 {
        let expected = self.level + self.trend;
        let level = expected + (value.min(MOST).cast_signed() - expected) / 4;
        self.trend += (level - self.level - self.trend) / 4;
        self.level = level;
        (self.level + self.trend).max(0).unsigned_abs().min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 MB delivered in a second; `sender` waits at the end, `receiver` at both ends.
    fn interval(sender: u64, receiver: (u64, u64)) -> Interval {
        Interval { length: Span::from_secs(1), delivered: 1_000_000, sender: (0, sender), receiver }
    }

    fn trend(interval: &Interval) -> FlowNeed {
        Trend::default().need(interval, Span::from_secs(1))
    }

    /// V is 8 Mbit/s and 0.5 MB wait: 12 Mbit/s were generated, and 4 are to drain.
    #[test]
    fn what_waits_at_the_sender_is_demand() {
        let interval = interval(500_000, (0, 0));
        let need = Last.need(&interval, Span::from_secs(1));
        assert_eq!((need.demand, need.consumption), (16_000_000, 8_000_000));
        assert_eq!(
            Last.need(&interval, Span::from_secs(2)).demand,
            14_000_000,
            "in twice the time"
        );
        assert_eq!(trend(&interval).demand, 16_000_000);
    }

    /// Only where nothing waits at either end of the interval may a receiver consume more than it did.
    #[test]
    fn a_receiver_is_starved_where_nothing_waits_at_both_ends() {
        let consumption = |receiver| trend(&interval(500_000, receiver)).consumption;
        assert_eq!(consumption((0, 0)), 16_000_000, "all that its sender has");
        assert_eq!(consumption((0, 250_000)), 6_000_000, "of 8 Mbit/s, 2 wait");
        assert_eq!(consumption((250_000, 0)), 10_000_000, "8 Mbit/s and what waited");
        assert_eq!(consumption((250_000, 250_000)), 8_000_000);
    }

    #[test]
    fn a_starved_receiver_consumes_no_less_than_it_did() {
        let mut trend = Trend::default();
        trend.need(&interval(0, (0, 0)), Span::from_secs(1));
        // Half as much came: demand falls at once by a quarter of the step, consumption too.
        let half = Interval { delivered: 500_000, ..interval(0, (0, 0)) };
        let need = trend.need(&half, Span::from_secs(1));
        assert_eq!(need.consumption, need.demand);
        // The backlog that went with the last interval makes demand small, not what is consumed.
        let drained = Interval { sender: (1_000_000, 0), ..interval(0, (0, 0)) };
        let need = trend.need(&drained, Span::from_secs(1));
        assert!(need.consumption > need.demand, "{need:?}");
    }

    /// By hand: of a step from 0 to 16 the level takes a quarter, 4, and the trend a quarter of that, 1.
    /// The next value of 16 finds 5 expected: the level rises by 2 to 7, the trend by (3 − 1)/4 to 1.
    #[test]
    fn holt_takes_a_quarter_of_what_is_new() {
        let mut holt = Holt::at(0);
        assert_eq!(holt.next(16), 5);
        assert_eq!((holt.level, holt.trend), (4, 1));
        assert_eq!(holt.next(16), 8);
        assert_eq!((holt.level, holt.trend), (7, 1));
        // A steady value is its own forecast.
        let mut steady = Holt::at(100);
        assert_eq!([100, 100, 100].map(|value| steady.next(value)), [100; 3]);
    }

    /// 8 Mbit/s, then 24 of both: of a step of 16 the level takes 4, the trend 1. What waits isn't smoothed.
    #[test]
    fn a_trend_smooths_rates_and_not_what_waits() {
        let mut trend = Trend::default();
        trend.need(&interval(0, (500_000, 500_000)), Span::from_secs(1));
        let (sender, receiver) = ((250_000, 250_000), (500_000, 500_000));
        let next = Interval { delivered: 3_000_000, sender, receiver, ..interval(0, (0, 0)) };
        let [demand, consumption, waiting] = [13_000_000 + 1_000_000, 13_000_000, 2_000_000];
        let need = FlowNeed { demand, consumption, waiting };
        assert_eq!(trend.need(&next, Span::from_secs(2)), need);
    }

    /// Five values a second: a step, up or down, is forecast in full by the fifth and not before the
    /// fourth; what is forecast is neither negative nor above the most.
    #[test]
    fn a_step_is_followed_within_five_values() {
        for (from, to) in [(0, MOST), (MOST, 0), (0, u64::MAX)] {
            let mut holt = Holt::at(from);
            let missing = [to; 5].map(|value| holt.next(value).abs_diff(to.min(MOST)));
            assert!(missing[2] > MOST / 8 && missing[4] == 0, "{from} {to}: {missing:?}");
        }
    }

    /// What grows by as much every time is forecast without a lag.
    #[test]
    fn a_steady_growth_is_forecast() {
        let mut holt = Holt::at(0);
        let last = (0..=60).map(|n| holt.next(n * 1_000_000)).last();
        assert!(last.is_some_and(|last| last.abs_diff(61_000_000) < 10_000), "{last:?}");
    }
}
