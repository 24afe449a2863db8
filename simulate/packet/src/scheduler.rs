//! Queues of a port or host that are served in another order than arrival: strict priorities, and
//! a turn for each flow or each destination.
//!
//! Such a port takes two events a packet: its arrival at the far end and the moment it is chosen.

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

    /// Queues a packet of the flow that has this `priority` (0 is served first) and `destination`;
    /// `false` when there is no room, one packet being in transmission.
    pub(crate) fn push(&mut self, packet: Packet, priority: u8, destination: NodeId) -> bool {
        let size = u64::from(packet.size);
        let fits = match self.room {
            Buffer::Packets(most) => self.packets + 1 < most,
            Buffer::Bytes(most) => self.bytes + size <= most.get(),
            Buffer::Unlimited => true,
        };
        if fits {
            let key = match self.discipline {
                Discipline::Fifo => 0,
                Discipline::StrictPriority => u32::from(priority),
                Discipline::PerFlow => packet.flow,
                Discipline::PerDestination => destination.0,
            };
            let queue = self.queues.entry(key).or_default();
            if queue.is_empty() {
                self.turns.push_back(key);
            }
            queue.push_back(packet);
            self.packets += 1;
            self.bytes += size;
        }
        fits
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
