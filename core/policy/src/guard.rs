//! The clock of Phurti's starvation guard (section 4.3): when to check, and for how long flows that
//! waited too long may transmit. They do so beside the flows that block them and preempt nobody: the
//! text only says that they transmit, and a long job is to progress, not to stop the short ones.

use units::{Span, Time};

use crate::PolicyError;

/// When the guard steps in. [`Default`] gives the published values (section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Only jobs submitted longer ago than this are helped; published: 100 s.
    pub threshold: Span,
    /// T: time between two checks; published: 20 s.
    pub period: Span,
    /// τ: how long the SLOW flows found by a check transmit; published: 10 s.
    pub duration: Span,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            threshold: Span::from_secs(100),
            period: Span::from_secs(20),
            duration: Span::from_secs(10),
        }
    }
}

impl Guard {
    /// Shortest period: checks cost time, and a world without end must not drown in them.
    pub const SHORTEST: Span = Span::from_millis(1);

    pub(crate) fn validate(&self) -> Result<(), PolicyError> {
        if self.period < Self::SHORTEST {
            return Err(PolicyError::OutOfRange {
                parameter: "period (T)",
                range: "at least 1 ms",
            });
        }
        if self.duration == Span::ZERO || self.duration > self.period {
            return Err(PolicyError::OutOfRange {
                parameter: "duration (tau)",
                range: "above zero and at most the period (T)",
            });
        }
        Ok(())
    }
}

/// The guard's alarm clock. Checks fall on whole multiples of the period.
#[derive(Debug)]
pub(crate) struct Alarm {
    period: Span,
    check: Option<Time>,
    relief: Option<Time>,
}

impl Alarm {
    pub(crate) const fn new(guard: &Guard) -> Self {
        Self { period: guard.period, check: None, relief: None }
    }

    /// When the clock rings next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.check.into_iter().chain(self.relief).min()
    }

    /// Sees to it that a check is ahead exactly while flows wait. One that is due already stays
    /// due, however many observations come first.
    pub(crate) fn arm(&mut self, now: Time, waiting: bool) {
        if !waiting {
            self.check = None;
        } else if self.check.is_none() {
            let period = self.period.as_nanos().max(1);
            let next = (now.as_nanos() / period + 1).checked_mul(period);
            self.check = next.map(Time::from_nanos);
        }
    }

    /// Whether a check is due; it is taken as made.
    pub(crate) fn check_due(&mut self, now: Time) -> bool {
        self.check.take_if(|check| *check <= now).is_some()
    }

    /// Whether the time of the flows that were let go is over.
    pub(crate) fn relief_over(&mut self, now: Time) -> bool {
        self.relief.take_if(|end| *end <= now).is_some()
    }

    /// Flows were let go until `end`.
    pub(crate) const fn relieve(&mut self, end: Time) {
        self.relief = Some(end);
    }
}
