//! Who goes before others and leaves the links idle meanwhile: samples tell.

use alloc::vec::Vec;
use core::mem;

use model::LinkId;
use units::{Bytes, Rate, Time};

use crate::context::{Context, PATIENCE};
use crate::traffic::{Traffic, used};

/// Who is held to at most one in so many of what its narrowest link carries waits for its turn; with more it shares.
const STARVED: u64 = 10;
/// Who comes back and wastes yet another waits twice as often, this often at most.
const DOUBLED: u32 = 6;

/// What the narrowest link of a path carries.
pub(crate) fn narrowest(path: &[(LinkId, Rate)]) -> Option<Rate> {
    path.iter().map(|(_, capacity)| *capacity).min()
}

/// Who is held to no more of a link of this capacity waits for another's turn. Those that `smsf` has wait divide β of a
/// link: they count so where β is no more than that.
pub(crate) fn starved(capacity: Rate) -> Rate {
    capacity.fraction(1, STARVED)
}

/// What a flow made of being let send. Times are those of [`Context::awake`].
#[derive(Default)]
pub(crate) struct Waste {
    /// When it was judged last, and what its connections have carried since.
    judged: Option<Time>,
    carried: Bytes,
    /// Whether something waited unsent meanwhile.
    waits: bool,
    /// How fast it sent before that.
    before: Rate,
    /// Samples in which its links idled while others waited for it, less those in which it used them: with as many as
    /// one may be silent it gives way.
    wasted: u32,
    /// Where it gives way: in how many samples more it must have something to send.
    rest: Option<u32>,
    /// It gave way a sample ago, and what went before that is no matter; not all may be told of what went since.
    is_back: bool,
}

impl Waste {
    /// A connection of it has carried so much since it was reported last.
    pub(crate) fn note(&mut self, carried: Bytes, waits: bool) {
        self.carried += carried;
        self.waits |= waits;
    }

    /// Whether it gives way to others.
    pub(crate) const fn gives_way(&self) -> bool {
        self.rest.is_some()
    }

    /// Nobody tells any more what it makes of its turn: it has that again.
    pub(crate) fn release(&mut self) {
        self.is_back |= self.rest.take().is_some();
    }

    /// Judges a sample, unless this is a part of the last one: whether the flow gives way from now on, or no longer.
    /// `leads`: whether it may use its links.
    pub(crate) fn judge(
        &mut self,
        cx: &Context,
        leads: bool,
        path: impl FnOnce() -> Vec<(LinkId, Rate)>,
        links: &Traffic,
    ) -> bool {
        let span = self.judged.map(|at| cx.awake.since(at));
        if span.is_some_and(|span| span < cx.least()) {
            return false;
        }
        self.judged = Some(cx.awake);
        let (carried, waits) = (mem::take(&mut self.carried), mem::take(&mut self.waits));
        let Some(span) = span else {
            return false;
        };
        let (path, rate) = (path(), Rate::of(carried, span));
        let own = mem::replace(&mut self.before, rate);
        let is_back = mem::take(&mut self.is_back);
        let uses = narrowest(&path).is_none_or(|of| rate >= used(of));
        if uses && (leads || self.gives_way()) {
            self.wasted = self.wasted.saturating_sub(1);
        }
        if let Some(rest) = self.rest {
            let rest = rest.saturating_sub(u32::from(waits));
            self.is_back = uses || rest == 0 || path.iter().any(|at| links.is_used_slowly(cx, *at));
            self.rest = (!self.is_back).then_some(rest);
            return self.is_back;
        }
        let idles = || !path.iter().any(|at| links.is_used(cx, *at, own));
        if is_back
            || uses
            || !leads
            || !path.iter().any(|(at, _)| links.is_waited_for(cx, *at))
            || !idles()
        {
            return false;
        }
        self.wasted = (self.wasted + 1).min(PATIENCE + DOUBLED);
        self.rest = self.wasted.checked_sub(PATIENCE).map(|doubled| 1 << doubled);
        self.gives_way()
    }
}
