//! How fast something is carried, by samples.

use units::{Bytes, Rate, Span, Time};

/// A rate between samples, by the clock that took them: reports that were held up arrive together.
#[derive(Default)]
pub(crate) struct Gauge {
    /// The sample that the next rate begins with: when it was taken, and what had been carried.
    from: Option<(Time, Bytes)>,
    /// The last rate.
    pub(crate) rate: Option<Rate>,
}

impl Gauge {
    /// Takes in what had been carried in all when a sample was taken. Over less than `least` there is no
    /// new rate; a clock that goes backwards is another one.
    pub(crate) fn note(&mut self, sampled: Time, carried: Bytes, least: Span) {
        if let Some((from, before)) = self.from {
            if sampled >= from && sampled.since(from) < least {
                return;
            }
            let time = sampled.since(from);
            self.rate = (time > Span::ZERO).then(|| Rate::of(carried - before, time));
        }
        self.from = Some((sampled, carried));
    }

    /// So much is carried from now on that had been carried before: it is no part of a rate.
    pub(crate) fn add(&mut self, before: Bytes) {
        if let Some((_, carried)) = &mut self.from {
            *carried += before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_time_of_one_clock() {
        let (mut gauge, least) = (Gauge::default(), Span::from_millis(500));
        let mut rate = |ms: u64, bytes: u64| {
            gauge.note(Time::ZERO + Span::from_millis(ms), Bytes::new(bytes), least);
            gauge.rate.map(Rate::as_bps)
        };
        assert_eq!(rate(9_000, 5_000), None);
        assert_eq!(rate(10_000, 6_000), Some(8_000));
        assert_eq!(rate(10_000, 7_000), Some(8_000), "the same moment");
        assert_eq!(rate(10_001, 7_000), Some(8_000), "too short");
        assert_eq!(rate(11_000, 9_000), Some(24_000), "of all since the last rate");
        assert_eq!(rate(4_000, 9_500), None, "another clock");
        assert_eq!(rate(5_000, 10_000), Some(4_000));
        gauge.add(Bytes::new(90_000));
        gauge.note(Time::ZERO + Span::from_secs(6), Bytes::new(100_500), least);
        assert_eq!(gauge.rate.map(Rate::as_bps), Some(4_000), "what was before is no part of it");
    }
}
