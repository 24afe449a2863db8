//! The congestion trigger of a port (SDTCP, section 3.2): a machine of four states on the length of the
//! port's queue.
//!
//! The else-branches of the text's algorithm 1 are tangled; the rule is its prose. The state rises with
//! the queue through three thresholds, one message a rise, and falls to 0, with one message, once the
//! queue has stayed below the lowest for the recovery time. That time counts from when the queue drained
//! below the lowest, which a FIFO knows when it takes a packet.

use alloc::format;

use model::{Severity, Thresholds};
use units::{Span, Time};

use crate::Failure;

/// Checks that thresholds can be watched.
///
/// # Errors
/// They don't rise, lie above [`Thresholds::MOST_LIVE`], or leave no time to recover.
pub(crate) fn check(thresholds: &Thresholds) -> Result<(), Failure> {
    const MOST: u32 = Thresholds::MOST_LIVE;
    if !thresholds.rise() || thresholds.high > MOST || thresholds.recovery == Span::ZERO {
        return Err(format!(
            "thresholds must rise from above zero to at most {MOST} packets, with a recovery time \
             above zero"
        ));
    }
    Ok(())
}

/// The trigger of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    thresholds: Thresholds,
    /// [`Severity::Recovered`] is the state 0.
    severity: Severity,
    /// Until when the queue has L or more.
    above: Time,
}

impl Trigger {
    /// The trigger of a port that is not congested.
    pub const fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, severity: Severity::Recovered, above: Time::ZERO }
    }

    /// When a queue counts as congested.
    pub const fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// The state.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Takes in the length of the queue, in packets; returns the message to send, if one is due. To be
    /// called with every packet that is offered to the queue.
    ///
    /// `above` is called where the queue has L packets or more. It says when fewer than L will be left
    /// if no others come: from then on the recovery time counts. With L = 30, 40 packets in the queue
    /// and 12 µs a packet that is when eleven have left, 132 µs from now.
    pub fn observe(&mut self, packets: u32, above: impl FnOnce() -> Time) -> Option<Severity> {
        let severity = self.thresholds.severity(packets);
        if severity > Severity::Recovered {
            self.above = above();
        }
        (severity > self.severity).then(|| {
            self.severity = severity;
            severity
        })
    }

    /// When [`Trigger::recover`] is due; `None` while the port is not congested.
    pub fn deadline(&self) -> Option<Time> {
        (self.severity != Severity::Recovered).then(|| self.above + self.thresholds.recovery)
    }

    /// Recovers if it is due at `now`; whether it did, which is a message to send.
    pub fn recover(&mut self, now: Time) -> bool {
        let is_due = self.deadline().is_some_and(|deadline| deadline <= now);
        if is_due {
            self.severity = Severity::Recovered;
        }
        is_due
    }
}
