//! Time that never jumps.

use std::time::{Duration, Instant};

use units::{Span, Time};

/// The time since the clock was made, by the kernel's monotonic clock: setting the wall clock
/// changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time now.
    pub fn now(self) -> Time {
        self.time(Instant::now())
    }

    /// The time at `instant`; zero before the clock was made.
    pub fn time(self, instant: Instant) -> Time {
        Time::ZERO + span(instant.saturating_duration_since(self.0))
    }

    /// When `time` will be, or now where it is over.
    pub fn instant(self, time: Time) -> Instant {
        let since = Duration::from_nanos(time.since(Time::ZERO).as_nanos());
        self.0.checked_add(since).unwrap_or(self.0)
    }
}

/// A span of the library as the standard library has it.
pub const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// A duration as a span; what is too long saturates.
pub fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
