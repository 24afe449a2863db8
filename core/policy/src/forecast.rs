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
