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

    /// Of the last one that an actuator has confirmed: until when what it confirmed counts as enforced. That reckons with
    /// the shortest lease that it may have.
    pub(crate) fn sure_until(self, cx: &Context) -> Time {
        // A shorter one may have reached it since.
        self.since + self.span.min(cx.lease)
    }

    /// The same: for how long it has confirmed nothing at `now`, where what it holds may have ended since.
    pub(crate) fn silence(self, cx: &Context, now: Time) -> Option<Span> {
        (now > self.sure_until(cx)).then(|| now.since(self.since))
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
