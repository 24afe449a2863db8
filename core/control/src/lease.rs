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

    /// For how long an actuator whose last confirmed lease this is has confirmed nothing at `now`, where what it holds may
    /// have ended since: what counts as enforced reckons with the shortest lease that it may have.
    pub(crate) fn silence(self, cx: &Context, now: Time) -> Option<Span> {
        let silent = now.since(self.since);
        // A shorter one may have reached it since.
        (silent > self.span.min(cx.lease)).then_some(silent)
    }
}

/// When the longest lease ends that an actuator may have, of those that it has confirmed or may have had since: what it
/// was told may stand until then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest(Time);

impl Longest {
    /// Another lease is on its way, which may never arrive.
    pub(crate) fn send(&mut self, lease: Lease) {
        self.0 = self.0.max(lease.until());
    }

    /// The actuator has the last lease that was sent, and no other.
    pub(crate) fn confirm(&mut self, lease: Lease) {
        self.0 = lease.until();
    }

    pub(crate) const fn until(self) -> Time {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_lease_lasts_until_a_later_one_is_confirmed() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let lease = |since, span| Lease { since: at(since), span: Span::from_secs(span) };
        let mut longest = Longest::default();
        longest.send(lease(0, 60));
        longest.send(lease(5, 10));
        assert_eq!(longest.until(), at(60));
        longest.confirm(lease(5, 10));
        assert_eq!(longest.until(), at(15));
        longest.send(lease(6, 10));
        assert_eq!(longest.until(), at(16));
    }
}
