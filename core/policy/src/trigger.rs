//! The congestion trigger of a switch port (SDTCP, section 3.2): a machine of four states on the
//! length of the port's queue. Simulated and real switches run this code.
//!
//! The else-branches of the text's algorithm 1 are tangled; the rule is its prose. The state rises
//! with the queue through three thresholds, one message a rise, and falls to 0, with one message,
//! once the queue has stayed below the lowest for the recovery time.

use model::Congestion;
use units::{Span, Time};

use crate::PolicyError;

/// When a port counts as congested. [`Default`] gives the published values (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// L, packets in the queue; published: 30 of 100.
    pub low: u32,
    /// M; published: 60.
    pub medium: u32,
    /// H; published: 85.
    pub high: u32,
    /// How long the queue must stay below L; published: 1 s.
    pub recovery: Span,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) }
    }
}

impl Thresholds {
    /// Checks that the thresholds can work.
    ///
    /// # Errors
    /// [`PolicyError::OutOfRange`]: thresholds that don't rise, or no time to recover.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let out = |parameter, range| Err(PolicyError::OutOfRange { parameter, range });
        if self.low == 0 || self.low >= self.medium || self.medium >= self.high {
            return out("low", "above 0, below medium, and medium below high");
        }
        if self.recovery == Span::ZERO {
            return out("recovery", "above 0 s");
        }
        Ok(())
    }

    /// The congestion of a queue of so many packets; `None` below L.
    const fn level(&self, packets: u32) -> Option<Congestion> {
        if packets >= self.high {
            Some(Congestion::High)
        } else if packets >= self.medium {
            Some(Congestion::Medium)
        } else if packets >= self.low {
            Some(Congestion::Low)
        } else {
            None
        }
    }
}

/// The trigger of one port.
#[derive(Clone, Debug)]
pub struct Trigger {
    thresholds: Thresholds,
    /// [`Congestion::Recovered`] is the state 0.
    state: Congestion,
    /// When the queue was last seen, and since when it has been below L.
    seen: Time,
    below: Option<Time>,
}

impl Trigger {
    /// The trigger of a port that is not congested.
    pub const fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, state: Congestion::Recovered, seen: Time::ZERO, below: None }
    }

    /// Takes in the length of the queue at `now`, in packets; returns the message to send, if one
    /// is due. To be called with every packet that enters the queue, and at the deadline.
    pub fn observe(&mut self, now: Time, packets: u32) -> Option<Congestion> {
        self.seen = now;
        let Some(level) = self.thresholds.level(packets) else {
            if self.state == Congestion::Recovered {
                return None;
            }
            let below = *self.below.get_or_insert(now);
            if now.since(below) < self.thresholds.recovery {
                return None;
            }
            self.state = Congestion::Recovered;
            self.below = None;
            return Some(Congestion::Recovered);
        };
        self.below = None;
        if level <= self.state {
            return None;
        }
        self.state = level;
        Some(level)
    }

    /// When [`Trigger::observe`] is wanted though nothing enters the queue; `None` while the port
    /// is not congested.
    pub fn deadline(&self) -> Option<Time> {
        let since = self.below.unwrap_or(self.seen);
        (self.state != Congestion::Recovered).then(|| since + self.thresholds.recovery)
    }
}
