//! A hub: it queues the objects that it gets, its own first, and forwards them at its speed.

use std::collections::VecDeque;

use model::gather::{Queue, frames};
use model::{FlowId, NodeId, Pace, Request};
use units::{Bytes, Rate, Span, Time};

/// The connection from a hub to its parent, or to the front end.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) flow: FlowId,
    /// Where it ends.
    pub(super) to: NodeId,
    written: Bytes,
    /// Packets on their way: what has arrived when they have, and their objects.
    packets: VecDeque<(Bytes, Vec<u32>)>,
}

impl Line {
    pub(super) const fn new(flow: FlowId, to: NodeId) -> Self {
        Self { flow, to, written: Bytes::ZERO, packets: VecDeque::new() }
    }

    /// Takes a packet of `size`; the mark to set, when it is the only one on its way.
    pub(super) fn send(&mut self, objects: Vec<u32>, size: Bytes) -> Option<Bytes> {
        self.written += size;
        self.packets.push_back((self.written, objects));
        (self.packets.len() == 1).then_some(self.written)
    }

    /// The objects of the next packet that has arrived when `delivered` octets have.
    pub(super) fn arrived(&mut self, delivered: Bytes) -> Option<Vec<u32>> {
        let arrived = self.packets.front().is_some_and(|(end, _)| *end <= delivered);
        arrived.then(|| self.packets.pop_front())?.map(|(_, objects)| objects)
    }

    /// The next mark.
    pub(super) fn mark(&self) -> Option<Bytes> {
        self.packets.front().map(|(end, _)| *end)
    }
}

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) node: NodeId,
    pub(super) parent: Option<u32>,
    pub(super) is_dead: bool,
    /// Whether it knows that it is one: until then it sends nothing.
    is_told: bool,
    /// Its assigned speed, by which of the front end's changes.
    pace: Pace,
    change: u32,
    pub(super) queue: Queue,
    pub(super) line: Option<Line>,
    /// When its server lets it send again, and whether a timer is set for it.
    busy: Time,
    pub(super) is_waiting: bool,
}

impl Hub {
    /// As a front end wants it.
    pub(super) fn new(hub: &model::Hub) -> Self {
        Self {
            node: hub.node,
            parent: hub.parent,
            is_dead: false,
            is_told: false,
            pace: Pace::new(hub.speed),
            change: 0,
            queue: Queue::default(),
            line: None,
            busy: Time::ZERO,
            is_waiting: false,
        }
    }

    /// Learns that it is a hub, whose and at what speed.
    pub(super) const fn begin(&mut self) {
        self.is_told = true;
    }

    /// Learns of the front end's `change` of speeds, unless it knows a later one; the rest of the
    /// wait after the last packet is scaled to it. Returns whether its own changes.
    pub(super) fn accelerate(&mut self, now: Time, change: u32, speed: Rate) -> bool {
        if change <= self.change {
            return false;
        }
        self.change = change;
        let is_other = self.pace.set(now, speed);
        self.is_waiting &= !is_other;
        is_other
    }

    /// What it is to send at.
    pub(super) const fn speed(&self) -> Rate {
        self.pace.speed()
    }

    /// Its server is busy with what it sends for so long.
    pub(super) fn is_sending(&mut self, now: Time, wait: Span) {
        self.busy = now + wait;
    }

    /// Sends what it ever had and is still wanted again, to this parent; the connection that it had,
    /// to close.
    pub(super) fn start_over(&mut self, parent: Option<u32>, wanted: Vec<u32>) -> Option<FlowId> {
        self.parent = parent;
        self.queue.start_over(wanted);
        self.line.take().map(|line| line.flow)
    }

    /// Another node takes the place of this one, which died, as told after so many changes of
    /// speeds; the connection to close.
    pub(super) fn replace(&mut self, hub: &model::Hub, changes: u32) -> Option<FlowId> {
        let line = self.line.take().map(|line| line.flow);
        *self = Self { change: changes, ..Self::new(hub) };
        line
    }

    fn next(&self) -> Time {
        self.pace.ready().max(self.busy)
    }

    /// How long until it may send; `None` when it has nothing to.
    pub(super) fn wait(&self, now: Time) -> Option<Span> {
        (!self.queue.is_empty() && self.is_told && !self.is_dead).then(|| self.next().since(now))
    }

    /// The next packet, of several objects if `packed`: the objects and their payload. `None` when
    /// there is none, or it is too early, for a timer that was set at another speed.
    pub(super) fn packet(
        &mut self,
        now: Time,
        request: &Request,
        packed: bool,
    ) -> Option<(Vec<u32>, Bytes)> {
        if now < self.next() {
            return None;
        }
        self.is_waiting = false;
        let size = |object| request.size(object as usize);
        let (objects, size) = self.queue.packet(packed, Bytes::ZERO, size);
        if objects.is_empty() || self.is_dead {
            return None;
        }
        self.pace.sent(now, frames(size), Span::ZERO);
        Some((objects, size))
    }
}
