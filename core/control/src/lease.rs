//! A lease: how long what an actuator was told stands, unless it is told again.

use units::{Span, Time};

use crate::context::Context;

/// The lease of what was sent at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    pub(crate) since: Time,
    pub(crate) span: Span,
}

impl Lease {
    /// That of what is sent now.
    pub(crate) const fn now(cx: &Context) -> Self {
        Self { since: cx.now, span: cx.lease }
    }

    /// When it ends.
    pub(crate) fn until(self) -> Time {
        self.since + self.span
    }

    /// Of the last lease that an actuator has confirmed: for how long it has confirmed nothing at `now`, where what it
    /// holds may have ended since.
    pub(crate) fn silence(self, cx: &Context, now: Time) -> Option<Span> {
        let silent = now.since(self.since);
        // A shorter one may have reached it since.
        (silent > self.span.min(cx.lease)).then_some(silent)
    }
}
