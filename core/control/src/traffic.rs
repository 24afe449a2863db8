//! What goes over links, as far as agents tell.

use alloc::vec::Vec;

use model::LinkId;
use units::{Bytes, Rate, Time};

use crate::context::Context;

/// A link is used where flows send so much of what it carries: one in so many.
const USED: u64 = 4;

/// The least that uses a link of this capacity.
pub(crate) fn used(capacity: Rate) -> Rate {
    capacity.fraction(1, USED)
}

/// What goes over a link, of all flows and of those that give way.
#[derive(Clone, Copy, Default)]
struct Link {
    /// Since when it is added up, and what went before that in about a sample.
    since: Time,
    now: [Bytes; 2],
    before: [Rate; 2],
    /// When a flow over it was reported last that waits for its turn.
    waited: Option<Time>,
}

impl Link {
    fn is_fresh(&self, cx: &Context) -> bool {
        cx.awake.since(self.since) <= cx.lately()
    }
}

/// What goes over each link.
#[derive(Default)]
pub(crate) struct Traffic(Vec<Link>);

impl Traffic {
    /// A connection has carried so much over a link; `waits`: for its turn, with something to send.
    pub(crate) fn note(
        &mut self,
        cx: &Context,
        at: LinkId,
        carried: Bytes,
        gives_way: bool,
        waits: bool,
    ) {
        if self.0.len() <= at.index() {
            self.0.resize(at.index() + 1, Link { since: cx.awake, ..Link::default() });
        }
        let link = &mut self.0[at.index()];
        let span = cx.awake.since(link.since);
        if span >= cx.nearly_a_sample() {
            link.before = link.now.map(|bytes| Rate::of(bytes, span));
            (link.since, link.now) = (cx.awake, [Bytes::ZERO; 2]);
        }
        link.now[0] += carried;
        if gives_way {
            link.now[1] += carried;
        }
        if waits {
            link.waited = Some(cx.awake);
        }
    }

    /// Whether flows use a link of this capacity, of which one sent at its `own` rate in the sample before.
    pub(crate) fn is_used(&self, cx: &Context, (at, capacity): (LinkId, Rate), own: Rate) -> bool {
        let used = used(capacity);
        self.0.get(at.index()).is_some_and(|link| {
            link.now[0] >= used.bytes_in(cx.sample)
                || link.is_fresh(cx) && link.before[0] >= used + own
        })
    }

    /// Whether flows that give way use it.
    pub(crate) fn is_used_slowly(&self, cx: &Context, (at, capacity): (LinkId, Rate)) -> bool {
        let used = used(capacity);
        self.0.get(at.index()).is_some_and(|link| {
            link.now[1] >= used.bytes_in(cx.sample) || link.is_fresh(cx) && link.before[1] >= used
        })
    }

    /// Whether a flow over it was reported of late that waits for its turn.
    pub(crate) fn is_waited_for(&self, cx: &Context, at: LinkId) -> bool {
        let waited = self.0.get(at.index()).and_then(|link| link.waited);
        waited.is_some_and(|waited| cx.awake.since(waited) <= cx.lately())
    }
}
