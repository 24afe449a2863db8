//! The clock of Phurti's starvation guard (section 4.3): when to check, and for how long flows that
//! waited too long may transmit. They do so beside the flows that block them and preempt nobody: the
//! text only says that they transmit, and a long job is to progress, not to stop the short ones.

use units::{Span, Time};

use crate::parameter::{LONGEST, SHORTEST};
use crate::{Given, Kind, Parameter, PolicyError, Value};

pub(crate) const THRESHOLD: Parameter = Parameter::new(
    "threshold",
    Kind::Span(Span::ZERO, LONGEST),
    Value::Span(Span::from_secs(100)),
    "only jobs submitted longer ago are helped by the starvation guard",
)
.published("section 6.1");

/// Checks cost time, and a world without end must not drown in them.
pub(crate) const PERIOD: Parameter = Parameter::new(
    "period",
    Kind::Span(Span::from_millis(1), LONGEST),
    Value::Span(Span::from_secs(20)),
    "time between two checks of the guard (T)",
)
.published("section 6.1");

pub(crate) const DURATION: Parameter = Parameter::new(
    "duration",
    Kind::Span(SHORTEST, LONGEST),
    Value::Span(Span::from_secs(10)),
    "how long the flows found by a check transmit (tau); at most the period",
)
.published("section 6.1");

/// When the guard steps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    /// Only jobs submitted longer ago than this are helped.
    pub(crate) threshold: Span,
    /// T: time between two checks.
    pub(crate) period: Span,
    /// τ: how long the SLOW flows found by a check transmit.
    pub(crate) duration: Span,
}

impl Guard {
    pub(crate) fn from_parameters(given: &Given<'_>) -> Result<Self, PolicyError> {
        let guard = Self {
            threshold: given.get(THRESHOLD.name),
            period: given.get(PERIOD.name),
            duration: given.get(DURATION.name),
        };
        if guard.duration > guard.period {
            let range = "at most the period (T)";
            return Err(PolicyError::OutOfRange { parameter: DURATION.name, range });
        }
        Ok(guard)
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
