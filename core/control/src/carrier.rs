//! A connection as agents report it: what it has delivered, whether it sends, whether it is still there.

use protocol::agent::ConnectionReport;
use units::{Bytes, Time};

use crate::context::Context;

/// Times are those of [`Context::awake`].
pub(crate) struct Carrier {
    reported: Time,
    delivered: Bytes,
    /// When it last had something to send; never, where it only receives.
    sent: Option<Time>,
    /// What waited at its sender when it was reported last, and what of that it had not sent.
    queued: Bytes,
    unsent: Bytes,
    /// Whether that was lately, when it was last looked at.
    counts: bool,
}

impl Carrier {
    /// A connection that is new here, and had `delivered` so much before.
    pub(crate) const fn new(cx: &Context, delivered: Bytes) -> Self {
        Self {
            reported: cx.awake,
            delivered,
            sent: None,
            queued: Bytes::ZERO,
            unsent: Bytes::ZERO,
            counts: false,
        }
    }

    /// What it had delivered when it was reported last.
    pub(crate) const fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// What waited at its sender when it was reported last, sent or not.
    pub(crate) const fn queued(&self) -> Bytes {
        self.queued
    }

    /// Whether something waited that was not sent.
    pub(crate) fn waits(&self) -> bool {
        self.unsent > Bytes::ZERO
    }

    /// Nothing waits at one that its agent has not told of, though it has `looked` at all since.
    pub(crate) fn pass_over(&mut self, looked: Time) {
        if self.reported < looked {
            (self.queued, self.unsent) = (Bytes::ZERO, Bytes::ZERO);
        }
    }

    /// Whether it has ever had something to send.
    pub(crate) const fn has_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether it counts where a rate is divided among connections.
    pub(crate) const fn counts(&self) -> bool {
        self.counts
    }

    /// Takes in how it stands: what it has delivered since the last time.
    pub(crate) fn note(&mut self, cx: &Context, report: &ConnectionReport) -> Bytes {
        let grown = report.delivered_bytes - self.delivered.min(report.delivered_bytes);
        self.unsent = report.unsent_bytes;
        self.queued = report.unsent_bytes + report.in_flight_bytes;
        if self.queued > Bytes::ZERO || grown > Bytes::ZERO {
            self.sent = Some(cx.awake);
        }
        (self.reported, self.delivered) = (cx.awake, report.delivered_bytes);
        grown
    }

    /// Looks whether it has sent lately; whether that has changed.
    pub(crate) fn count(&mut self, cx: &Context) -> bool {
        let counts = self.sent.is_some_and(|at| cx.awake.since(at) <= cx.lately());
        core::mem::replace(&mut self.counts, counts) != counts
    }

    /// Whether no report has spoken of it for so long that it is gone; its agent has `looked` at all then.
    pub(crate) fn is_silent(&self, cx: &Context, looked: Time) -> bool {
        cx.is_gone(self.reported, cx.patience(), looked)
    }
}
