//! Queueing disciplines of a port or host other than FIFO: strict priorities, round robin by flow or
//! destination, and those of policies that tag packets.
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
    /// The lowest tag first, in order of arrival within a tag: strict priorities of packets (PIAS, Homa).
    ByTag,
    /// The first packet of the flow that has the packet with the lowest tag; the highest tag makes room
    /// (pFabric, SIGCOMM 2013, section 4.1).
    LeastLeft,
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
    pub(crate) fn queue_of(&self, packet: &Packet, priority: u8, destination: NodeId) -> u32 {
        match self.discipline {
            // Of what waits it is found out who is next.
            Discipline::Fifo | Discipline::LeastLeft => 0,
            Discipline::StrictPriority => priority as u32,
            Discipline::PerFlow => packet.flow,
            Discipline::PerDestination => destination.0,
            // Eight priorities; datagrams have the last.
            Discipline::ByTag => packet.level(),
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

    /// Makes room for a packet of the queue `own`: where the least left goes first, the last of those with
    /// the highest tag leaves, unless the packet's own is as high; where queues take turns, the last packet of the
    /// longest queue leaves, so that no flow fills the others' room. `None` when the packet's own
    /// queue is the longest, or the discipline gives nobody a share.
    pub(crate) fn evict(&mut self, arriving: &Packet, own: u32) -> Option<Packet> {
        if self.discipline == Discipline::LeastLeft {
            let (at, last) =
                self.queues.get(&own)?.iter().enumerate().max_by_key(|(_, one)| one.urgency())?;
            return if last.urgency() > arriving.urgency() { self.take(own, at) } else { None };
        }
        if !matches!(self.discipline, Discipline::PerFlow | Discipline::PerDestination) {
            return None;
        }
        let length = self.queues.get(&own).map_or(0, VecDeque::len);
        let (&longest, queue) = self.queues.iter().max_by_key(|(_, queue)| queue.len())?;
        if queue.len() <= length {
            return None;
        }
        let last = queue.len() - 1;
        self.take(longest, last)
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

    /// Takes the packet at a place of a queue.
    fn take(&mut self, key: u32, at: usize) -> Option<Packet> {
        let queue = self.queues.get_mut(&key)?;
        let packet = queue.remove(at)?;
        if queue.is_empty() {
            self.queues.remove(&key);
            self.turns.retain(|turn| *turn != key);
        }
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// The packet whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        if self.discipline == Discipline::LeastLeft {
            let waiting = self.queues.get(&0)?;
            let next = waiting.iter().min_by_key(|one| one.urgency())?.way();
            // An earlier packet of the flow says more left: it would wait for ever.
            let first = waiting.iter().position(|one| one.way() == next)?;
            return self.take(0, first);
        }
        let strict = matches!(self.discipline, Discipline::StrictPriority | Discipline::ByTag);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    /// The first packet that a flow sent, or one of its later ones, with what it had left.
    fn packet(flow: u32, number: u32, left: u32) -> Packet {
        Packet { flow, seq: number, size: 1_500, block: (0, left), ..Packet::default() }
    }

    fn least_left(packets: &[Packet]) -> Scheduler {
        let mut port = Scheduler::new(Discipline::LeastLeft, Buffer::Unlimited);
        for packet in packets {
            let queue = port.queue_of(packet, 0, NodeId(0));
            port.push(*packet, queue);
        }
        port
    }

    fn order(mut port: Scheduler) -> Vec<(u32, u32)> {
        let order = std::iter::from_fn(|| port.pop()).map(|one| (one.flow, one.seq)).collect();
        assert_eq!((port.packets(), port.bytes()), (0, 0));
        order
    }

    #[test]
    fn an_early_packet_of_the_flow_with_the_least_left_doesnt_starve() {
        // By its own tag the first would be served last.
        let port = least_left(&[packet(0, 1, 9), packet(1, 1, 5), packet(0, 2, 4)]);
        assert_eq!(order(port), [(0, 1), (0, 2), (1, 1)]);
        // Of flows with as much left the one that came first.
        let port = least_left(&[packet(7, 1, 5), packet(3, 1, 5), packet(3, 2, 5)]);
        assert_eq!(order(port), [(7, 1), (3, 1), (3, 2)]);
    }

    #[test]
    fn acknowledgements_precede_data_and_datagrams_follow_it() {
        let acknowledgement = Packet { flags: frame::ACK, ..packet(1, 1, 9) };
        let datagram = Packet { flags: frame::DATAGRAM, ..packet(2, 1, 0) };
        let port = least_left(&[datagram, packet(0, 1, 5), acknowledgement]);
        assert_eq!(order(port), [(1, 1), (0, 1), (2, 1)]);
    }

    #[test]
    fn the_last_of_those_with_the_most_left_makes_room() {
        let mut port = least_left(&[packet(0, 1, 9), packet(1, 1, 5), packet(0, 2, 9)]);
        let mut room_for = |left| port.evict(&packet(2, 1, left), 0).map(|one| (one.flow, one.seq));
        assert_eq!(room_for(9), None);
        assert_eq!(room_for(10), None);
        assert_eq!(room_for(8), Some((0, 2)));
        assert_eq!(room_for(8), Some((0, 1)));
        assert_eq!(room_for(5), None);
        assert_eq!(order(port), [(1, 1)]);
    }

    #[test]
    fn tags_are_priorities() {
        let mut port = Scheduler::new(Discipline::ByTag, Buffer::Packets(4));
        for one in [packet(0, 1, 1), packet(1, 1, 0), packet(2, 1, 1), packet(1, 2, 0)] {
            let queue = port.queue_of(&one, 7, NodeId(0));
            port.push(one, queue);
        }
        // Nobody makes room for what is more urgent: all share it, and marks keep it free.
        assert!(!port.fits(1_500) && port.evict(&packet(3, 1, 0), 0).is_none());
        assert_eq!(order(port), [(1, 1), (1, 2), (0, 1), (2, 1)]);
    }
}
