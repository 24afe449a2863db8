//! What links carry that is none of a policy's flows, from counters of ports.
//!
//! Source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", sections IV-A.2 and
//! V-B.2: a link has its capacity less the cross traffic that statistics of switches show. How that is told
//! from what streams carry themselves it doesn't say; the rule is ours
//! (`docs/decisions/others-by-their-rate.md`):
//!
//! Once a window, for each link, in bit/s of frames: `others = sent - own`, and never below zero. `sent` is
//! what the port's counter grew by over the time between its two readings; `own` the sum, over the policy's
//! flows on the link, of what each delivered over the time between *its* two samples, as frames of full
//! segments. Rates are compared and not amounts, because ports and senders are read at different moments: a
//! flow that keeps its rate is then counted exactly, however far these are apart. Of a flow that changes its
//! rate at most what it sent between the two moments is taken for others', and of a queue that fills its
//! length.
//!
//! Acknowledgements, what is sent again, and headers beyond 40 octets are traffic of others: the link carries
//! them.
//!
//! No link carries more than its capacity: `sent` counts up to it, for a reading that comes late makes the next rate
//! higher than it is. More than [`IMPOSSIBLE`] times as much says nothing: the counter is wrong
//! (`docs/decisions/impossible-counters.md`).
//!
//! A link's figure stands while there is no new one, for [`STANDS`] windows: where a counter fell, was impossible or wasn't
//! read again, where a flow wasn't sampled twice or has ended, and where paths have changed.

use alloc::vec::Vec;

use model::{Link, LinkId};
use units::{Bytes, Rate, Span, Time};

use crate::{HEADER, Kind, Parameter, Value};

/// Whether a policy looks. The text always does; against others that take whatever is left, as TCP does,
/// streams that yield get less and less.
pub(crate) const CROSS: Parameter = Parameter::new(
    "cross",
    Kind::Flag,
    Value::Flag(false),
    "links have their capacity less what counters of ports show of others' traffic",
);

/// The shortest window. Agents sample once a second: what a flow gains in a second counts by half at most, so
/// that a policy that yields to its own flows' mistaken traffic does so less each time.
const WINDOW: Span = Span::from_secs(2);
/// Ports are read so often in a window.
const READINGS: u64 = 4;
/// Readings that are closer to each other than this part of a window, as a divisor, say nothing.
const CLOSE: u64 = 2;
/// A figure stands for so many windows.
const STANDS: u64 = 3;
/// A counter that grows by more than so many times the link's capacity is wrong.
const IMPOSSIBLE: u64 = 2;

/// A count that only grows, as it was read: at the start of the window, and last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    first: Option<(Time, Bytes)>,
    last: Option<(Time, Bytes)>,
}

impl Counter {
    pub(crate) fn read(&mut self, now: Time, count: Bytes) {
        let falls = self.last.is_some_and(|(_, before)| count < before);
        self.last = Some((now, count));
        if falls || self.first.is_none() {
            self.first = self.last;
        }
    }

    /// How fast it grew in this window, which the next one follows; `None`: it can't be said, and the window
    /// goes on.
    fn turn(&mut self, least: Span) -> Option<Rate> {
        let ((from, before), (to, after)) = (self.first?, self.last?);
        let passed = to.since(from);
        if passed < least {
            return None;
        }
        self.first = self.last;
        Some(Rate::of(after - before, passed))
    }
}

/// What is known of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    sent: Counter,
    /// What others carry, and when that was found.
    others: Rate,
    found: Time,
}

/// What links carry besides a policy's flows.
#[derive(Debug)]
pub(crate) struct Cross {
    window: Span,
    /// Octets of a full segment, and those of its payload.
    frame: (u64, u64),
    /// By [`LinkId`].
    ports: Vec<Port>,
    due: Option<Time>,
    /// What own flows carry, by link, payload; `None` where that isn't known.
    own: Vec<Option<Rate>>,
}

impl Cross {
    /// For a policy that decides so often, where full segments have such a payload.
    pub(crate) fn new(interval: Span, segment: Bytes) -> Self {
        let frame = ((segment + HEADER).get(), segment.get().max(1));
        let window = interval.max(WINDOW);
        Self { window, frame, ports: Vec::new(), due: None, own: Vec::new() }
    }

    /// Time between two readings.
    pub(crate) fn every(&self) -> Span {
        self.window / READINGS
    }

    /// What others carry over a link.
    pub(crate) fn rate(&self, link: usize) -> Rate {
        self.ports.get(link).map_or(Rate::ZERO, |port| port.others)
    }

    /// Ports were read. `flows` are the policy's own, their paths and what they have delivered. Whether a link
    /// has another figure now.
    pub(crate) fn hear<'a>(
        &mut self,
        now: Time,
        links: &[Link],
        counters: &[(LinkId, Bytes)],
        flows: impl Iterator<Item = (&'a [LinkId], &'a mut Counter)>,
    ) -> bool {
        self.ports.resize(links.len(), Port::default());
        for (link, sent) in counters {
            if let Some(port) = self.ports.get_mut(link.index()) {
                port.sent.read(now, *sent);
            }
        }
        if now < *self.due.get_or_insert(now + self.window) {
            return false;
        }
        self.due = Some(now + self.window);
        let least = self.window / CLOSE;
        self.own.clear();
        self.own.resize(links.len(), Some(Rate::ZERO));
        for (path, carried) in flows {
            let rate = carried.turn(least);
            for link in path {
                if let Some(own) = self.own.get_mut(link.index()) {
                    *own = own.zip(rate).map(|(sum, rate)| sum + rate);
                }
            }
        }
        let mut changed = false;
        for ((port, own), link) in self.ports.iter_mut().zip(&self.own).zip(links) {
            let (before, capacity) = (port.others, link.spec.capacity);
            let sent = port.sent.turn(least);
            let sent = sent.filter(|sent| sent.as_bps() / IMPOSSIBLE <= capacity.as_bps());
            if let (Some(sent), Some(own)) = (sent, own) {
                port.others = sent.min(capacity) - own.fraction(self.frame.0, self.frame.1);
                port.found = now;
            } else if now.since(port.found) > self.window * STANDS {
                port.others = Rate::ZERO;
            }
            changed |= port.others != before;
        }
        changed
    }

    /// A flow has left these links, or has come to them from others: the window begins anew there, for what it
    /// carried can't be told from what others did.
    pub(crate) fn begin_anew(&mut self, path: &[LinkId]) {
        for link in path {
            if let Some(port) = self.ports.get_mut(link.index()) {
                port.sent = Counter::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Buffer, LinkSpec, NodeId};

    use super::*;

    /// When a link that carries 8 Mbit/s has its figure, where it is read once a second.
    fn found(interval: Span) -> Option<u64> {
        let mut cross = Cross::new(interval, model::MSS);
        let (capacity, delay) = (Rate::from_mbps(10), Span::ZERO);
        let spec = LinkSpec { capacity, delay, buffer: Buffer::Unlimited, mark: None };
        let links = [Link { from: NodeId(0), to: NodeId(1), spec }];
        (0..=10).find(|second| {
            let now = Time::ZERO + Span::from_secs(*second);
            let counters = [(LinkId(0), Bytes::new(1_000_000 * second))];
            let changed = cross.hear(now, &links, &counters, core::iter::empty());
            assert_eq!(changed, cross.rate(0) == Rate::from_mbps(8));
            changed
        })
    }

    #[test]
    fn a_window_is_as_long_as_the_policy_s_interval_and_two_seconds_at_least() {
        let every = |interval| Cross::new(interval, model::MSS).every();
        for (seconds, window) in [(1, 2), (2, 2), (5, 5)] {
            let interval = Span::from_secs(seconds);
            assert_eq!(found(interval), Some(window));
            assert_eq!(every(interval), Span::from_millis(250 * window));
        }
    }
}
