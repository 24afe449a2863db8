//! Queueing disciplines of a port or host other than FIFO: strict priorities, and round robin by
//! flow or destination.
//!
//! Such a port takes two events a packet: when it is chosen and when it arrives at the far end.

use std::collections::{BTreeMap, VecDeque};

use model::{Buffer, NodeId};

use crate::frame::Packet;

/// In which order an output queue is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// In order of arrival.
    #[default]
    Fifo,
    /// Higher priority first, in order of arrival within a priority.
    StrictPriority,
    /// A packet of each flow in turn.
    PerFlow,
    /// A packet for each destination in turn.
    PerDestination,
}

/// The waiting packets of one port.
#[derive(Debug)]
pub(crate) struct Scheduler {
    discipline: Discipline,
    room: Buffer,
    queues: BTreeMap<u32, VecDeque<Packet>>,
    /// Non-empty queues in the order of their turns.
    turns: VecDeque<u32>,
    packets: u32,
    bytes: u64,
}

impl Scheduler {
    pub(crate) const fn new(discipline: Discipline, room: Buffer) -> Self {
        Self {
            discipline,
            room,
            queues: BTreeMap::new(),
            turns: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// The queue of a packet whose flow has this `priority` (0 is served first) and `destination`.
    pub(crate) const fn queue_of(&self, packet: &Packet, priority: u8, destination: NodeId) -> u32 {
        match self.discipline {
            Discipline::Fifo => 0,
            Discipline::StrictPriority => priority as u32,
            Discipline::PerFlow => packet.flow,
            Discipline::PerDestination => destination.0,
        }
    }

    /// Whether there is room for `size` octets more, one packet being in transmission.
    pub(crate) fn fits(&self, size: u16) -> bool {
        match self.room {
            Buffer::Packets(most) => self.packets + 1 < most,
            Buffer::Bytes(most) => self.bytes + u64::from(size) <= most.get(),
            Buffer::Unlimited => true,
        }
    }

    /// Makes room for a packet of this queue: where queues take turns, the last packet of the
    /// longest queue leaves, so that no flow fills the others' room. `None` when the packet's own
    /// queue is the longest, or the discipline gives nobody a share.
    pub(crate) fn evict(&mut self, own: u32) -> Option<Packet> {
        if !matches!(self.discipline, Discipline::PerFlow | Discipline::PerDestination) {
            return None;
        }
        let length = self.queues.get(&own).map_or(0, VecDeque::len);
        let (&longest, queue) = self.queues.iter_mut().max_by_key(|(_, queue)| queue.len())?;
        if queue.len() <= length {
            return None;
        }
        let packet = queue.pop_back()?;
        if queue.is_empty() {
            self.queues.remove(&longest);
            self.turns.retain(|turn| *turn != longest);
        }
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// Adds a packet, for which there must be room, to its queue.
    pub(crate) fn push(&mut self, packet: Packet, queue: u32) {
        let waiting = self.queues.entry(queue).or_default();
        if waiting.is_empty() {
            self.turns.push_back(queue);
        }
        waiting.push_back(packet);
        self.packets += 1;
        self.bytes += u64::from(packet.size);
    }

    /// The packet whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let strict = self.discipline == Discipline::StrictPriority;
        let turn = if strict {
            let (turn, _) = self.turns.iter().enumerate().min_by_key(|(_, key)| **key)?;
            self.turns.remove(turn)?
        } else {
            self.turns.pop_front()?
        };
        let queue = self.queues.get_mut(&turn)?;
        let packet = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&turn);
        } else if strict {
            self.turns.push_front(turn);
        } else {
            self.turns.push_back(turn);
        }
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
