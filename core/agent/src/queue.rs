//! A virtual queue: what would wait if a port sent at a rate, the packet in transmission included. The
//! BPF programs keep the same beside each watched port.

use alloc::collections::VecDeque;

use model::{Buffer, Thresholds};
use units::{Bytes, Rate, Span, Time};

/// A FIFO that sends at a constant rate.
#[derive(Clone, Debug)]
pub struct VirtualQueue {
    /// Frame octets per second.
    rate: u64,
    /// How long what fits into a buffer of octets takes to leave.
    limit: Span,
    /// How many packets fit into a buffer of packets.
    room: u32,
    /// What is queued: when its last bit leaves, and how many packets it is.
    queued: VecDeque<(Time, u32)>,
    packets: u32,
}

impl VirtualQueue {
    /// An empty queue.
    pub fn new(rate: Rate, buffer: Buffer) -> Self {
        let (limit, room) = match buffer {
            Buffer::Bytes(bytes) => (rate.time_for(bytes), u32::MAX),
            Buffer::Packets(packets) => (Span::MAX, packets),
            Buffer::Unlimited => (Span::MAX, u32::MAX),
        };
        let rate = rate.bytes_in(Span::from_secs(1)).get().max(1);
        Self { rate, limit, room, queued: VecDeque::new(), packets: 0 }
    }

    /// Offers so many packets of `octets` together; whether they found room.
    pub fn offer(&mut self, now: Time, octets: u32, packets: u32) -> bool {
        let length = self.length(now);
        let wait = self.wait(now);
        let cost = Span::from_nanos(u64::from(octets) * 1_000_000_000 / self.rate);
        let is_full = self.queued.len() >= Thresholds::MOST_LIVE as usize;
        if wait + cost > self.limit || length >= self.room || is_full {
            return false;
        }
        self.queued.push_back((now + wait + cost, packets));
        self.packets += packets;
        true
    }

    /// Packets queued at `now`.
    pub fn length(&mut self, now: Time) -> u32 {
        while let Some((_, packets)) = self.queued.pop_front_if(|(leaves, _)| *leaves <= now) {
            self.packets -= packets;
        }
        self.packets
    }

    /// Frame bytes queued at `now`.
    pub fn bytes(&self, now: Time) -> Bytes {
        let octets = u128::from(self.wait(now).as_nanos()) * u128::from(self.rate) / 1_000_000_000;
        Bytes::new(u64::try_from(octets).unwrap_or(u64::MAX))
    }

    /// When fewer than `packets` will be queued if no others come, where at least so many are queued:
    /// the time at which the packet leaves that takes the length below. [`Time::ZERO`]: none does.
    pub fn below(&self, packets: u32) -> Time {
        let mut left = self.packets;
        for (leaves, leaving) in &self.queued {
            left -= leaving;
            if left < packets {
                return *leaves;
            }
        }
        Time::ZERO
    }

    fn wait(&self, now: Time) -> Span {
        self.queued.back().map_or(Span::ZERO, |(leaves, _)| leaves.since(now))
    }
}
