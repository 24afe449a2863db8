//! What the policy wants of flows, windows and acknowledgements.
//!
//! The policy speaks of flows, actuators of connections. A connection that carries several flows gets
//! the sum of their rates, and no limit while one of them has none.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use model::{Caps, FlowId, LEAST_RATE, LinkId};
use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

/// What the policy wants for a flow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Intention {
    /// `None`: no limit.
    limit: Option<Rate>,
    /// Since when.
    pub(crate) since: Time,
    pub(crate) priority: u8,
    /// Operators keep the limit from being in force.
    withheld: bool,
    /// What it was let send before, and when that was added up.
    earlier: LetGo,
    counted: Time,
}

impl Intention {
    pub(crate) const fn limit(&self) -> Option<Rate> {
        self.limit
    }

    /// Another limit is wanted from now on.
    pub(crate) fn set_limit(&mut self, now: Time, limit: Option<Rate>) {
        (self.earlier, self.counted) = (self.let_go(now), now);
        self.limit = limit;
    }

    /// What it was let send until now.
    pub(crate) fn let_go(&self, now: Time) -> LetGo {
        let (LetGo { held, free }, span) = (self.earlier, now.since(self.counted));
        match self.limit.filter(|_| !self.withheld) {
            Some(rate) => LetGo { held: held + rate.bytes_in(span), free },
            None => LetGo { held, free: free + span },
        }
    }
}

/// What limits let a flow send, and how long it had none.
#[derive(Clone, Copy, Default)]
pub(crate) struct LetGo {
    held: Bytes,
    free: Span,
}

impl LetGo {
    /// What it was let send since it had been let go so much, where without a limit it can send at `capacity`.
    pub(crate) fn since(self, before: Self, capacity: Rate) -> Bytes {
        let free = self.free.saturating_sub(before.free);
        (self.held - before.held) + capacity.bytes_in(free)
    }
}

/// What a connection is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) rate: Option<Rate>,
    pub(crate) priority: u8,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Desired {
    /// By [`FlowId`].
    intentions: Vec<Intention>,
    /// Caps of windows at links: of one flow, or of all.
    windows: BTreeMap<(LinkId, Option<FlowId>), Caps>,
    /// The links where a flow has a cap of its own.
    capping: BTreeSet<(FlowId, LinkId)>,
    /// Least times between acknowledgements at links.
    gaps: BTreeMap<LinkId, Span>,
    /// Connections whose grant may have changed, some of them more than once.
    changed: Vec<Connection>,
}

impl Desired {
    /// A flow has this number from now on.
    pub(crate) fn begin(&mut self, now: Time, flow: FlowId) {
        if self.intentions.len() <= flow.index() {
            self.intentions.resize(flow.index() + 1, Intention::default());
        }
        self.intentions[flow.index()] =
            Intention { since: now, counted: now, ..Intention::default() };
    }

    pub(crate) fn intention(&self, flow: FlowId) -> Intention {
        self.intentions.get(flow.index()).copied().unwrap_or_default()
    }

    /// Operators keep a flow's limit from being in force from now on, or no longer.
    pub(crate) fn withhold(&mut self, now: Time, flow: FlowId, withheld: bool) {
        if let Some(of) = self.intentions.get_mut(flow.index()) {
            (of.earlier, of.counted) = (of.let_go(now), now);
            of.withheld = withheld;
        }
    }

    /// Changes what is wanted for a flow.
    pub(crate) fn intend(&mut self, flow: FlowId, change: impl FnOnce(&mut Intention)) {
        if let Some(intention) = self.intentions.get_mut(flow.index()) {
            change(intention);
        }
    }

    /// The grant of a connection may have changed.
    pub(crate) fn touch(&mut self, connection: Connection) {
        self.changed.push(connection);
    }

    /// The connections whose grant may have changed since this was asked, and `others`; each once.
    pub(crate) fn take_changed<'a>(
        &mut self,
        others: impl Iterator<Item = &'a Connection>,
    ) -> Vec<Connection> {
        let mut changed = core::mem::take(&mut self.changed);
        changed.extend(others);
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// What a connection should be held to. `flows` are those that it and others share, `among` so many in all; its
    /// `share` is that of the rate of its hosts.
    pub(crate) fn grant(&self, flows: &[FlowId], among: u64, share: Option<Rate>) -> Grant {
        let mut intentions = flows.iter().map(|flow| self.intention(*flow));
        let Some(first) = intentions.next() else {
            return Grant { rate: share, priority: 0 };
        };
        let (mut rate, mut priority) = (first.limit, first.priority);
        for intention in intentions {
            rate = rate.zip(intention.limit).map(|(sum, more)| sum + more);
            priority = priority.min(intention.priority);
        }
        if among > 1 {
            rate = rate.map(|rate| rate.fraction(1, among).max(LEAST_RATE));
        }
        Grant { rate: [rate, share].into_iter().flatten().min(), priority }
    }

    pub(crate) fn set_window(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        match caps {
            Some(caps) => self.windows.insert((link, flow), caps),
            None => self.windows.remove(&(link, flow)),
        };
        if let Some(flow) = flow {
            match caps {
                Some(_) => self.capping.insert((flow, link)),
                None => self.capping.remove(&(flow, link)),
            };
        }
    }

    /// The caps at a link: that of all flows first.
    pub(crate) fn windows_at(
        &self,
        link: LinkId,
    ) -> impl Iterator<Item = (Option<FlowId>, Caps)> + '_ {
        let all = (link, None)..=(link, Some(FlowId(u32::MAX)));
        self.windows.range(all).map(|((_, flow), caps)| (*flow, *caps))
    }

    /// The caps of a flow's window at a link, and whether they are its own or those of all.
    pub(crate) fn window(&self, link: LinkId, flow: FlowId) -> Option<(Caps, bool)> {
        let of = |flow| self.windows.get(&(link, flow)).copied();
        of(Some(flow)).map(|caps| (caps, true)).or_else(|| Some((of(None)?, false)))
    }

    /// The links where a flow has a cap of its own.
    pub(crate) fn links_capping(&self, of: FlowId) -> impl Iterator<Item = LinkId> + '_ {
        let own = self.capping.range((of, LinkId(0))..=(of, LinkId(u32::MAX)));
        own.map(|(_, link)| *link)
    }

    /// Takes out the caps of a flow: the links where it had one.
    pub(crate) fn take_windows(&mut self, of: FlowId) -> Vec<LinkId> {
        let links: Vec<LinkId> = self.links_capping(of).collect();
        for link in &links {
            self.set_window(*link, Some(of), None);
        }
        links
    }

    /// All caps.
    pub(crate) fn all_windows(&self) -> Vec<(LinkId, Option<FlowId>, Caps)> {
        self.windows.iter().map(|((link, flow), caps)| (*link, *flow, *caps)).collect()
    }

    pub(crate) fn set_gap(&mut self, link: LinkId, gap: Option<Span>) {
        match gap {
            Some(gap) => self.gaps.insert(link, gap),
            None => self.gaps.remove(&link),
        };
    }

    /// Whether there is one at any link.
    pub(crate) fn spaces(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// The least time between acknowledgements at a link.
    pub(crate) fn gap(&self, link: LinkId) -> Option<Span> {
        self.gaps.get(&link).copied()
    }

    /// All of them.
    pub(crate) fn all_gaps(&self) -> Vec<(LinkId, Span)> {
        self.gaps.iter().map(|(link, gap)| (*link, *gap)).collect()
    }

    /// Another policy decides: takes out all caps and gaps; tells where these were. Flows are freed one by one.
    pub(crate) fn take_all(&mut self) -> (Vec<(LinkId, Option<FlowId>)>, Vec<LinkId>) {
        // All of it is here, so that nothing is left of what the old policy wanted.
        let Self { windows, capping, gaps, intentions: _, changed: _ } = self;
        capping.clear();
        let windows = core::mem::take(windows).into_keys().collect();
        (windows, core::mem::take(gaps).into_keys().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_connection_gets_the_sum_and_no_limit_while_one_flow_has_none() {
        let (mut desired, flows) = (Desired::default(), [FlowId(0), FlowId(3)]);
        for (flow, mbps) in flows.into_iter().zip([10, 20]) {
            desired.begin(Time::ZERO, flow);
            desired.intend(flow, |wanted| {
                wanted.set_limit(Time::ZERO, Some(Rate::from_mbps(mbps)));
                wanted.priority = if flow.0 == 0 { 5 } else { 2 };
            });
        }
        let grant = desired.grant(&flows, 1, None);
        assert_eq!(grant, Grant { rate: Some(Rate::from_mbps(30)), priority: 2 });
        let divided = desired.grant(&flows, 3, None);
        assert_eq!(divided, Grant { rate: Some(Rate::from_mbps(10)), priority: 2 });
        desired.intend(flows[1], |wanted| wanted.set_limit(Time::ZERO, None));
        assert_eq!(desired.grant(&flows, 1, None).rate, None);
        // Another flow with the same number starts without what the last one had.
        desired.begin(Time::ZERO, flows[0]);
        assert_eq!(desired.grant(&flows[..1], 1, None), Grant::default());
    }

    #[test]
    fn windows_of_a_flow_go_with_it() {
        let cap = Caps::from(model::Cap { bytes: Bytes::new(1460), floor_segments: 1 });
        let mut desired = Desired::default();
        for (link, flow) in [(1, Some(FlowId(7))), (2, Some(FlowId(7))), (2, None)] {
            desired.set_window(LinkId(link), flow, Some(cap));
        }
        assert_eq!(desired.take_windows(FlowId(7)), [LinkId(1), LinkId(2)]);
        assert_eq!(desired.windows_at(LinkId(2)).collect::<Vec<_>>(), [(None, cap)]);
    }

    #[test]
    fn links_where_a_flow_is_capped_are_those_where_it_has_a_cap() {
        let cap = Some(Caps::from(model::Cap { bytes: Bytes::new(1), floor_segments: 1 }));
        let (flow, other) = (FlowId(1), FlowId(2));
        let mut desired = Desired::default();
        let links = |desired: &Desired, of| desired.links_capping(of).collect::<Vec<_>>();
        for link in [3, 4, 5] {
            desired.set_window(LinkId(link), Some(flow), cap);
            desired.set_window(LinkId(link), Some(other), cap);
            desired.set_window(LinkId(link), None, cap);
        }
        desired.set_window(LinkId(4), Some(flow), None);
        desired.set_window(LinkId(5), None, None);
        assert_eq!(links(&desired, flow), [LinkId(3), LinkId(5)]);
        assert_eq!(desired.take_windows(flow), [LinkId(3), LinkId(5)]);
        assert_eq!(links(&desired, flow), []);
        assert_eq!(links(&desired, other), [LinkId(3), LinkId(4), LinkId(5)]);
        assert_eq!(desired.take_all().0.len(), 5);
        assert_eq!(links(&desired, other), []);
    }
}
