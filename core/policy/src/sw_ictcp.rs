//! `sw-ictcp`: a sliding window of queries that ICTCP's rule moves. It grows while answers come as
//! fast as it lets them, for as much as the front end's link has left, and needs no loss to stop.
//!
//! Source: SICC, sections 2 and 4, which counts ICTCP among the sliding windows over data servers:
//! a server has one or two objects, so that the window of a connection, at least two segments,
//! would never hold anything back.
//! The rule is that of Wu, Feng, Guo, Zhang (CoNEXT 2010), section 4, a query for a segment: in
//! the first half of a slot of two round trips traffic is measured, in the second the window may
//! grow, by α of the link less that traffic.

use alloc::boxed::Box;

use model::{Network, NodeId, Request};
use units::{Bytes, Rate, Span, Time};

use crate::sliding::{self, Sliding};
use crate::{Descriptor, DirectiveKind, HEADER, Need};

/// α: the part of the link that may be promised, percent.
const PROMISED: u64 = 90;
/// γ₁ and γ₂: how far below the window's rate answers may come for it to grow, and must for it to
/// shrink, percent.
const NEAR: u64 = 10;
const FAR: u64 = 50;
/// Slots that far below which shrink it.
const PATIENCE: u32 = 3;
/// Least window and the first one.
const LEAST: u32 = 2;

/// What `sw-ictcp` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sw-ictcp",
    summary: "a sliding window of queries that grows by what the front end's link has left",
    source: "SICC, sections 2 and 4, after ICTCP, CoNEXT 2010",
    parameters: &[],
    needs: &[Need::Requests],
    directives: &[DirectiveKind::Gather],
    is_max_min: false,
    build: |_| Ok(Box::new(Sliding::<Window>::new())),
};

#[derive(Clone, Copy, Debug)]
struct Window {
    queries: u32,
    capacity: Rate,
    /// Mean octets of an answer.
    answer: Bytes,
    /// A round trip: the mean of the slot before.
    trip: Option<Span>,
    /// The slot: its beginning, its answers, how long they took together, and by how many queries
    /// the window may grow in its second half.
    start: Time,
    answers: u32,
    took: Span,
    quota: Option<u32>,
    below: u32,
    /// The window doubles until the first time that it must not.
    starts: bool,
}

impl sliding::Window for Window {
    fn new(network: &Network, front: NodeId) -> Self {
        Self {
            queries: LEAST,
            capacity: downlink(network, front),
            answer: Bytes::ZERO,
            trip: None,
            start: Time::ZERO,
            answers: 0,
            took: Span::ZERO,
            quota: None,
            below: 0,
            starts: true,
        }
    }

    fn begin(&mut self, now: Time, request: &Request) {
        // And a slot with it: the end of the one before had no queries left to ask.
        let octets: u64 = request.sizes.iter().map(|size| u64::from(*size)).sum();
        let mean = octets.checked_div(request.sizes.len() as u64).unwrap_or_default();
        self.answer = Bytes::new(mean) + HEADER;
        self.slot(now);
    }

    fn answered(&mut self, now: Time, took: Span, _: bool) {
        let trip = *self.trip.get_or_insert(took.max(Span::from_nanos(1)));
        self.answers = self.answers.saturating_add(1);
        self.took += took;
        let passed = now.since(self.start);
        let rate = Rate::of(self.answer * u64::from(self.answers), passed);
        if passed < trip {
            return;
        }
        let Some(quota) = self.quota else {
            let left = self.capacity.fraction(PROMISED, 100) - rate;
            let queries = left.bytes_in(trip).get() / self.answer.get().max(1);
            self.quota = Some(u32::try_from(queries).unwrap_or(u32::MAX));
            return;
        };
        if passed.as_nanos() / 2 < trip.as_nanos() {
            return;
        }
        let trip = (self.took / u64::from(self.answers)).max(Span::from_nanos(1));
        self.trip = Some(trip);
        self.decide(rate, Rate::of(self.answer * u64::from(self.queries), trip), quota);
        self.slot(now);
    }

    fn queries(&self) -> u32 {
        self.queries
    }
}

impl Window {
    const fn slot(&mut self, now: Time) {
        (self.start, self.answers, self.took, self.quota) = (now, 0, Span::ZERO, None);
    }

    /// Moves the window after a slot with answers at the rate `real` where it allows `expected`.
    fn decide(&mut self, real: Rate, expected: Rate, quota: u32) {
        let gap = expected - real;
        let is_far = gap > expected.fraction(FAR, 100);
        self.below = if is_far { self.below + 1 } else { 0 };
        let one = expected.fraction(1, u64::from(self.queries));
        if gap <= expected.fraction(NEAR, 100).max(one) {
            let step = if self.starts { self.queries } else { 1 };
            if quota >= step {
                self.queries = self.queries.saturating_add(step);
            } else {
                self.starts = false;
            }
        } else if self.below >= PATIENCE {
            (self.below, self.starts) = (0, false);
            self.queries = (self.queries - 1).max(LEAST);
        }
    }
}

/// The rate of the switch port towards a host.
fn downlink(network: &Network, host: NodeId) -> Rate {
    let topology = network.topology();
    let up = topology.out(host).first().map(|link| topology.link(*link));
    let down = up.and_then(|up| topology.link_between(up.to, up.from));
    down.map_or(Rate::ZERO, |link| topology.link(link).spec.capacity)
}
