//! A speed that is kept by whoever sends.

use units::{Bytes, Rate, Span, Time};

use crate::LEAST_RATE;

/// When a hub may send again, and how fast it is to.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    speed: Rate,
    ready: Time,
}

impl Pace {
    /// This speed, frame bytes, and ready.
    pub fn new(speed: Rate) -> Self {
        Self { speed: speed.max(LEAST_RATE), ready: Time::ZERO }
    }

    /// The speed, never below [`LEAST_RATE`].
    pub const fn speed(&self) -> Rate {
        self.speed
    }

    /// When the next packet may be sent.
    pub const fn ready(&self) -> Time {
        self.ready
    }

    /// Another speed, to which the rest of the wait is scaled; whether it is another.
    pub fn set(&mut self, now: Time, speed: Rate) -> bool {
        let speed = speed.max(LEAST_RATE);
        let before = core::mem::replace(&mut self.speed, speed);
        if speed != before && self.ready > now {
            self.ready = now + speed.time_for(before.bytes_in(self.ready.since(now)));
        }
        speed != before
    }

    /// A packet of so many frame bytes is sent. Timers may be so `late` without speed being lost for
    /// it: what was not sent meanwhile is sent at once.
    pub fn sent(&mut self, now: Time, frames: Bytes, late: Span) {
        self.ready = self.ready.max(now - late) + self.speed.time_for(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Span = Span::from_millis(4);
    const PACKET: Bytes = Bytes::new(1500);

    /// What is sent in a second when each wait lasts `late` longer than asked for.
    fn sent(speed: Rate, late: Span) -> Bytes {
        let began = Time::ZERO + Span::from_secs(5);
        let (mut now, mut pace, mut all) = (began, Pace::new(speed), Bytes::ZERO);
        while now < began + Span::from_secs(1) {
            if pace.ready() > now {
                now = pace.ready() + late;
            }
            pace.sent(now, PACKET, LATE);
            all += PACKET;
        }
        all
    }

    #[test]
    fn late_timers_cost_no_speed() {
        for mbps in [1, 33, 100, 1000] {
            let speed = Rate::from_mbps(mbps);
            let whole = speed.bytes_in(Span::from_secs(1)).get();
            for late in [0, 1, 3] {
                let sent = sent(speed, Span::from_millis(late)).get();
                let most = whole + 3000 + speed.bytes_in(LATE).get();
                assert!(
                    (whole * 99 / 100..=most).contains(&sent),
                    "{mbps} Mbit/s, {late} ms: {sent}"
                );
            }
        }
    }

    #[test]
    fn a_wait_is_scaled_to_the_new_speed() {
        let now = Time::ZERO;
        let mut pace = Pace::new(Rate::from_mbps(1));
        pace.sent(now, PACKET, Span::ZERO);
        assert_eq!(pace.ready(), now + Span::from_millis(12));
        assert!(pace.set(now, Rate::from_mbps(12)));
        assert_eq!(pace.ready(), now + Span::from_millis(1));
    }
}
