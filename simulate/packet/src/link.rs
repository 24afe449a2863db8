//! A directed link with its output queue: drop-tail FIFO, constant delay, ONE event a hop.
//!
//! The moment a packet leaves a FIFO is known when it enters, so the ring holds queued and
//! propagating packets alike, each with its arrival time at the far end, and only the first is an
//! event. What is still queued is found by a cursor that follows the departures.

use model::{Buffer, LinkSpec};

use crate::frame::{self, Packet};

/// Units of a nanosecond in which time on a link is kept: decimal, so that the usual rates come out
/// exactly (an octet at 100 Gbit/s takes 0.08 ns).
const UNITS: u64 = 1_000_000;

/// What became of a packet offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Behind others: no new event.
    Queued,
    /// First in the ring: its arrival at this time must become an event.
    First(u64),
    /// No room.
    Dropped,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Link {
    ring: Box<[Packet]>,
    /// Positions counted from the start of the run, taken modulo the ring's length.
    head: u32,
    tail: u32,
    /// First packet that has not left the queue.
    queued: u32,
    /// Remainder of the last departure below 1 ns, in [`UNITS`].
    remainder: u32,
    /// When the last packet accepted will have left, ns.
    free_at: u64,
    /// Time per octet in [`UNITS`], see [`cost`].
    cost: u64,
    delay: u64,
    room_packets: u32,
    mark_at: u32,
    // Below: one cache line further, for byte buffers and statistics.
    room_bytes: u64,
    backlog: u64,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) metered: u64,
    pub(crate) peak: u32,
}

impl Link {
    pub(crate) fn new(spec: &LinkSpec) -> Self {
        let (room_packets, room_bytes) = match spec.buffer {
            Buffer::Packets(packets) => (packets, u64::MAX),
            Buffer::Bytes(bytes) => (u32::MAX, bytes.get()),
            Buffer::Unlimited => (u32::MAX, u64::MAX),
        };
        Self {
            ring: vec![Packet::default(); 8].into_boxed_slice(),
            head: 0,
            tail: 0,
            queued: 0,
            remainder: 0,
            free_at: 0,
            cost: cost(spec.capacity.as_bps()),
            delay: spec.delay.as_nanos(),
            room_packets,
            mark_at: spec.mark.unwrap_or(u32::MAX),
            room_bytes,
            backlog: 0,
            bytes: 0,
            packets: 0,
            dropped: 0,
            marked: 0,
            metered: 0,
            peak: 0,
        }
    }

    /// Offers a packet to the queue at `now`, which sets the packet's time and marks.
    #[inline]
    pub(crate) fn offer(&mut self, now: u64, packet: &mut Packet) -> Taken {
        let size = u64::from(packet.size);
        let waiting = self.queue_length(now);
        if waiting >= self.room_packets || self.backlog + size > self.room_bytes {
            self.dropped += 1;
            return Taken::Dropped;
        }
        self.mark(packet, waiting);
        if waiting >= self.peak {
            self.peak = waiting + 1;
        }
        self.backlog += size;
        self.bytes += size;
        self.packets += 1;
        if self.free_at < now {
            self.free_at = now;
            self.remainder = 0;
        }
        let taken = size * self.cost + u64::from(self.remainder);
        self.free_at += taken / UNITS;
        #[allow(clippy::cast_possible_truncation)] // below a million
        {
            self.remainder = (taken % UNITS) as u32;
        }
        // A fraction of a nanosecond counts as a whole one.
        packet.time = self.free_at() + self.delay;
        let is_first = self.head == self.tail;
        self.push(packet);
        if is_first { Taken::First(packet.time) } else { Taken::Queued }
    }

    /// Marks a packet that finds `waiting` others in the queue, if that reaches the threshold.
    #[inline]
    pub(crate) const fn mark(&mut self, packet: &mut Packet, waiting: u32) {
        if waiting >= self.mark_at && packet.flags & frame::ECT != 0 {
            packet.flags |= frame::CE;
            self.marked += 1;
        }
    }

    /// Packets queued at `now`, the one in transmission included.
    #[inline]
    pub(crate) fn queue_length(&mut self, now: u64) -> u32 {
        while self.queued != self.tail {
            let packet = &self.ring[self.at(self.queued)];
            if packet.time > now + self.delay {
                break;
            }
            self.backlog -= u64::from(packet.size);
            self.queued = self.queued.wrapping_add(1);
        }
        self.tail.wrapping_sub(self.queued)
    }

    /// When fewer than `packets` are queued, of the at least as many that are queued at `now`, if no
    /// others come.
    pub(crate) fn below(&mut self, now: u64, packets: u32) -> u64 {
        let last = self.queue_length(now).saturating_sub(packets);
        self.ring[self.at(self.queued.wrapping_add(last))].time - self.delay
    }

    /// Octets queued at `now`, the packet in transmission included.
    pub(crate) fn queued(&mut self, now: u64) -> u64 {
        self.queue_length(now);
        self.backlog
    }

    /// The packet that arrives now, and the time when the one behind it will.
    #[inline]
    pub(crate) fn arrive(&mut self) -> (Packet, Option<u64>) {
        debug_assert_ne!(self.head, self.tail);
        let packet = self.ring[self.at(self.head)];
        if self.queued == self.head {
            self.backlog -= u64::from(packet.size);
            self.queued = self.queued.wrapping_add(1);
        }
        self.head = self.head.wrapping_add(1);
        let next = (self.head != self.tail).then(|| self.ring[self.at(self.head)].time);
        (packet, next)
    }

    /// Time for a packet of `size` octets to cross the idle link, ns.
    pub(crate) const fn transit(&self, size: u64) -> u64 {
        span(size, self.cost) + self.delay
    }

    /// How long the idle link sends a packet of `size` octets, and how long that travels, ns.
    pub(crate) const fn times(&self, size: u64) -> (u64, u64) {
        (span(size, self.cost), self.delay)
    }

    /// When the link has sent everything it accepted, ns.
    pub(crate) const fn free_at(&self) -> u64 {
        self.free_at + (self.remainder != 0) as u64
    }

    /// Whether a scheduler may hand it a packet now.
    pub(crate) const fn is_idle(&self, now: u64) -> bool {
        self.free_at() <= now
    }

    /// Octets on the link, as a check: what it has sent took at least the time its rate asks.
    pub(crate) const fn kept_its_rate(&self) -> bool {
        let sent = self.bytes as u128 * self.cost as u128;
        sent <= self.free_at as u128 * UNITS as u128 + self.remainder as u128
    }

    /// Whether the queue never held more than its room.
    pub(crate) const fn kept_its_room(&self) -> bool {
        self.peak <= self.room_packets && self.backlog <= self.room_bytes
    }

    /// Frame bytes accepted that have not arrived yet.
    pub(crate) fn carried(&self) -> u64 {
        (0..self.tail.wrapping_sub(self.head))
            .map(|i| u64::from(self.ring[self.at(self.head.wrapping_add(i))].size))
            .sum()
    }

    #[inline]
    const fn at(&self, position: u32) -> usize {
        position as usize & (self.ring.len() - 1)
    }

    #[inline]
    fn push(&mut self, packet: &Packet) {
        if self.tail.wrapping_sub(self.head) as usize == self.ring.len() {
            self.grow();
        }
        let at = self.at(self.tail);
        self.ring[at] = *packet;
        self.tail = self.tail.wrapping_add(1);
    }

    #[cold]
    fn grow(&mut self) {
        let mut wider = vec![Packet::default(); 2 * self.ring.len()].into_boxed_slice();
        for i in 0..self.tail.wrapping_sub(self.head) {
            let position = self.head.wrapping_add(i);
            wider[position as usize & (wider.len() - 1)] = self.ring[self.at(position)];
        }
        self.ring = wider;
    }
}

/// Slowest rate, bit/s: at less, the cost of a packet would leave 64 bits.
pub(crate) const SLOWEST: u64 = 1_000;

/// Bits of an octet, nanoseconds of a second.
const NS_BITS_PER_BYTE: u64 = 8_000_000_000;

/// Time per octet at a rate, in [`UNITS`], rounded up so that no link carries more than its capacity.
/// Rates below [`SLOWEST`] count as that.
pub(crate) fn cost(bps: u64) -> u64 {
    (NS_BITS_PER_BYTE * UNITS).div_ceil(bps.max(SLOWEST))
}

/// The rate of a [`cost`], bit/s; `None` of no cost.
pub(crate) const fn rate(cost: u64) -> Option<u64> {
    (NS_BITS_PER_BYTE * UNITS).checked_div(cost)
}

/// Time that `size` octets take at a [`cost`], ns, rounded up.
pub(crate) const fn span(size: u64, cost: u64) -> u64 {
    (size * cost).div_ceil(UNITS)
}
