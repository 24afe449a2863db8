//! When a hub may send again.

use std::time::Duration;

use tokio::time::Instant;
use units::{Bytes, Rate};

/// How late a timer may be without speed being lost for it: tokio's have ticks of 1 ms, rounded up, and a busy machine
/// adds some. What was not sent meanwhile is then sent at once.
const LATENESS: Duration = Duration::from_millis(4);

/// A speed, and since when there is nothing to wait for.
#[derive(Debug)]
pub(super) struct Pace {
    speed: Rate,
    ready: Instant,
}

impl Pace {
    /// Least speed, and ready.
    pub(super) fn new(now: Instant) -> Self {
        Self { speed: model::LEAST_RATE, ready: now }
    }

    /// When the next packet may be sent.
    pub(super) const fn ready(&self) -> Instant {
        self.ready
    }

    /// Another speed; the rest of the wait is scaled to it.
    pub(super) fn set(&mut self, now: Instant, speed: Rate) {
        let before = std::mem::replace(&mut self.speed, speed.max(model::LEAST_RATE));
        let rest = self.ready.saturating_duration_since(now);
        let rest = u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX);
        if rest > 0 {
            let owed = before.bytes_in(units::Span::from_nanos(rest));
            self.ready = now + self.time_for(owed);
        }
    }

    /// A packet of so many frame bytes was sent.
    pub(super) fn sent(&mut self, now: Instant, frame: Bytes) {
        let earliest = now.checked_sub(LATENESS).unwrap_or(now);
        self.ready = self.ready.max(earliest) + self.time_for(frame);
    }

    fn time_for(&self, frame: Bytes) -> Duration {
        Duration::from_nanos(self.speed.time_for(frame).as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent in a second when each wait lasts `late` longer than asked for.
    fn sent(speed: Rate, late: Duration) -> Bytes {
        let began = Instant::now();
        let (mut now, mut pace, mut all) = (began, Pace::new(began), Bytes::ZERO);
        pace.set(now, speed);
        while now < began + Duration::from_secs(1) {
            if pace.ready() > now {
                now = pace.ready() + late;
            }
            pace.sent(now, Bytes::new(1500));
            all += Bytes::new(1500);
        }
        all
    }

    #[test]
    fn late_timers_cost_no_speed() {
        for mbps in [1, 33, 100, 1000] {
            let speed = Rate::from_mbps(mbps);
            let whole = speed.bytes_in(units::Span::from_secs(1)).get();
            for late in [0, 1, 3] {
                let sent = sent(speed, Duration::from_millis(late)).get();
                let most = whole + 3000 + speed.bytes_in(units::Span::from_millis(4)).get();
                assert!(
                    (whole * 99 / 100..=most).contains(&sent),
                    "{mbps} Mbit/s, {late} ms: {sent}"
                );
            }
        }
    }

    #[test]
    fn a_wait_is_scaled_to_the_new_speed() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.set(now, Rate::from_mbps(1));
        pace.sent(now + LATENESS, Bytes::new(1500));
        assert_eq!(pace.ready(), now + Duration::from_millis(12));
        pace.set(now, Rate::from_mbps(12));
        assert_eq!(pace.ready(), now + Duration::from_millis(1));
    }
}
