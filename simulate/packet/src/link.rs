//! A directed link with its output queue: drop-tail FIFO, constant delay, ONE event a hop.
//!
//! The moment a packet leaves a FIFO is known when it enters, so the ring holds queued and
//! propagating packets alike, each with its arrival time at the far end, and only the first is an
//! event. What is still queued is found by a cursor that follows the departures.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::{LinkRecord, prefetch};
use model::{Buffer, LinkId, LinkSpec};
use units::Bytes;
#[cfg(debug_assertions)]
use units::Rate;

#[cfg(debug_assertions)]
use crate::book::Books;
use crate::frame::{self, Packet};
use crate::tcp::low;

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

/// What every packet touches of a link: one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Link {
    ring: Box<[Packet]>,
    /// Positions counted from the start of the run, modulo 2³²; taken modulo the ring's length.
    head: u32,
    /// The first packet that is not known to have left the queue. It follows when somebody asks for
    /// the queue's length: until then the queue seems longer than it is.
    queued: u32,
    /// Position after the last, which is how many packets were accepted.
    tail: u64,
    /// When the last packet accepted will have left, ns, and the remainder below 1 ns, in [`UNITS`].
    free_at: u64,
    remainder: u32,
    /// Its row among the kinds of links.
    kind: u16,
    /// With fewer packets in the queue nothing is to be done for the next: it fits, is not marked, and
    /// makes no peak.
    calm: u16,
    /// Frame bytes accepted, and those of packets known to have left.
    bytes: u64,
    left: u64,
}

const _: () = assert!(size_of::<Link>() == 64, "one cache line");

/// What links of one kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    /// Time per octet in [`UNITS`], see [`cost`].
    cost: u64,
    delay: u64,
    room_packets: u32,
    mark_at: u32,
    room_bytes: u64,
}

impl Kind {
    fn new(spec: &LinkSpec) -> Self {
        let (room_packets, room_bytes) = match spec.buffer {
            Buffer::Packets(packets) => (packets, u64::MAX),
            Buffer::Bytes(bytes) => (u32::MAX, bytes.get()),
            Buffer::Unlimited => (u32::MAX, u64::MAX),
        };
        Self {
            cost: cost(spec.capacity.as_bps()),
            delay: spec.delay.as_nanos(),
            room_packets,
            mark_at: spec.mark.unwrap_or(u32::MAX),
            room_bytes,
        }
    }
}

/// What is counted of a link now and then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) metered: u64,
    pub(crate) peak: u32,
}

/// All links of a network, by number.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    kinds: Vec<Kind>,
    pub(crate) counts: Vec<Counts>,
    #[cfg(debug_assertions)]
    pub(crate) books: Books,
}

impl Links {
    /// Idle links; `None` when they are of more than 65,536 kinds.
    pub(crate) fn new(specs: impl Iterator<Item = LinkSpec>) -> Option<Self> {
        let mut kinds = Vec::new();
        let mut rows = HashMap::new();
        let mut links = Vec::with_capacity(specs.size_hint().0);
        #[cfg(debug_assertions)]
        let mut books = Books::default();
        for spec in specs {
            #[cfg(debug_assertions)]
            books.open(LinkSpec { capacity: spec.capacity.max(Rate::from_bps(SLOWEST)), ..spec });
            let kind = Kind::new(&spec);
            let row = match rows.entry(kind) {
                Entry::Occupied(row) => *row.get(),
                Entry::Vacant(free) => {
                    kinds.push(kind);
                    *free.insert(u16::try_from(kinds.len() - 1).ok()?)
                }
            };
            links.push(Link {
                ring: vec![Packet::default(); 8].into_boxed_slice(),
                head: 0,
                queued: 0,
                tail: 0,
                free_at: 0,
                remainder: 0,
                kind: row,
                calm: 0,
                bytes: 0,
                left: 0,
            });
        }
        let counts = vec![Counts::default(); links.len()];
        Some(Self {
            links,
            kinds,
            counts,
            #[cfg(debug_assertions)]
            books,
        })
    }

    pub(crate) const fn len(&self) -> usize {
        self.links.len()
    }

    fn kind(&self, link: usize) -> &Kind {
        &self.kinds[usize::from(self.links[link].kind)]
    }

    /// Offers a packet to the queue at `now`, which sets the packet's time and marks.
    #[inline(always)] // one call a hop: the call would cost a tenth of the work
    pub(crate) fn offer(&mut self, number: usize, now: u64, packet: &mut Packet) -> Taken {
        let link = &mut self.links[number];
        let kind = &self.kinds[usize::from(link.kind)];
        if link.free_at < now {
            link.rest(now);
        }
        if link.most_waiting() >= u32::from(link.calm)
            && !look(link, kind, &mut self.counts[number], now, packet)
        {
            return Taken::Dropped;
        }
        let size = u64::from(packet.size);
        let taken = size * kind.cost + u64::from(link.remainder);
        link.free_at += taken / UNITS;
        #[allow(clippy::cast_possible_truncation)] // below a million
        {
            link.remainder = (taken % UNITS) as u32;
        }
        link.bytes += size;
        // A fraction of a nanosecond counts as a whole one.
        packet.time = link.free_at() + kind.delay;
        #[cfg(debug_assertions)]
        self.books.take(number, now, packet.time - kind.delay, size);
        if link.push(packet) { Taken::First(packet.time) } else { Taken::Queued }
    }

    /// Marks a packet that finds `waiting` others in the queue, if that reaches the threshold.
    pub(crate) fn mark(&mut self, link: usize, packet: &mut Packet, waiting: u32) {
        let kind = self.kinds[usize::from(self.links[link].kind)];
        kind.mark(&mut self.counts[link], packet, waiting);
    }

    /// Packets queued at `now`, the one in transmission included.
    pub(crate) fn queue_length(&mut self, link: usize, now: u64) -> u32 {
        let delay = self.kind(link).delay;
        self.links[link].queue_length(now, delay)
    }

    /// When fewer than `packets` are queued, of the at least as many that are queued at `now`, if no
    /// others come.
    pub(crate) fn below(&mut self, link: usize, now: u64, packets: u32) -> u64 {
        let last = self.queue_length(link, now).saturating_sub(packets);
        let delay = self.kind(link).delay;
        let link = &self.links[link];
        link.ring[link.at(link.queued.wrapping_add(last))].time - delay
    }

    /// Octets queued at `now`, the packet in transmission included.
    pub(crate) fn queued(&mut self, link: usize, now: u64) -> u64 {
        self.queue_length(link, now);
        self.links[link].backlog()
    }

    /// Takes the packet that arrives now; returns the time when the one behind it will.
    #[inline(always)] // one call a hop
    pub(crate) fn arrive(&mut self, link: usize, packet: &mut Packet) -> Option<u64> {
        self.links[link].arrive(packet)
    }

    /// Whether there is a link of this number.
    #[inline]
    pub(crate) fn has(&self, link: u32) -> bool {
        (link as usize) < self.links.len()
    }

    /// Has a link fetched from memory.
    #[inline]
    pub(crate) fn prefetch(&self, link: u32) {
        if let Some(link) = self.links.get(link as usize) {
            prefetch(link);
        }
    }

    /// Has the packet fetched that arrives next.
    #[inline]
    pub(crate) fn prefetch_head(&self, link: u32) {
        if let Some(packet) = self.head(link) {
            prefetch(packet);
        }
    }

    /// Has the room fetched that the next packet takes.
    #[inline]
    pub(crate) fn prefetch_tail(&self, link: u32) {
        if let Some(link) = self.links.get(link as usize)
            && let Some(room) = link.ring.get(link.at(low(link.tail)))
        {
            prefetch(room);
        }
    }

    /// The packet that arrives next, or any other if none does.
    #[inline]
    pub(crate) fn head(&self, link: u32) -> Option<&Packet> {
        let link = self.links.get(link as usize)?;
        link.ring.get(link.at(link.head))
    }

    /// Time for a packet of `size` octets to cross the idle link, ns.
    pub(crate) fn transit(&self, link: usize, size: u64) -> u64 {
        let (sent, delay) = self.times(link, size);
        sent + delay
    }

    /// How long the idle link sends a packet of `size` octets, and how long that travels, ns.
    pub(crate) fn times(&self, link: usize, size: u64) -> (u64, u64) {
        let kind = self.kind(link);
        (span(size, kind.cost), kind.delay)
    }

    /// When the link has sent everything it accepted, ns.
    pub(crate) fn free_at(&self, link: usize) -> u64 {
        self.links[link].free_at()
    }

    /// Whether a scheduler may hand it a packet now.
    pub(crate) fn is_idle(&self, link: usize, now: u64) -> bool {
        self.free_at(link) <= now
    }

    /// Packets accepted.
    pub(crate) fn packets(&self, link: usize) -> u64 {
        self.links[link].tail
    }

    /// Frame bytes accepted.
    pub(crate) fn bytes(&self, link: usize) -> u64 {
        self.links[link].bytes
    }

    /// Whether the last packets that it took (what its ring still has, at least eight) leave as far apart as its
    /// rate asks. Departures are rounded up to the nanosecond.
    pub(crate) fn kept_its_rate(&self, number: usize) -> bool {
        let (link, cost) = (&self.links[number], self.kind(number).cost);
        let first = low(link.tail).wrapping_sub(low(link.ring.len() as u64));
        let packet = |place: usize| &link.ring[link.at(first.wrapping_add(low(place as u64)))];
        (1..link.ring.len()).map(|place| (packet(place - 1), packet(place))).all(
            |(before, packet)| packet.time >= before.time + u64::from(packet.size) * cost / UNITS,
        )
    }

    /// Whether no more packets than its room were ever counted in the queue, and no more octets wait now.
    pub(crate) fn kept_its_room(&self, link: usize) -> bool {
        let kind = self.kind(link);
        self.counts[link].peak <= kind.room_packets && self.links[link].backlog() <= kind.room_bytes
    }

    /// Frame bytes accepted that have not arrived yet.
    pub(crate) fn carried(&self) -> u64 {
        self.links.iter().map(Link::carried).sum()
    }

    /// What each link did, by its number.
    pub(crate) fn records(&self) -> Vec<LinkRecord> {
        let record = |(link, counts): (LinkId, &Counts)| LinkRecord {
            link,
            bytes: Bytes::new(self.bytes(link.index())),
            packets: self.packets(link.index()),
            dropped: counts.dropped,
            marked: counts.marked,
            metered: counts.metered,
            peak: counts.peak,
        };
        (0..).map(LinkId).zip(&self.counts).map(record).collect()
    }
}

impl Kind {
    #[inline]
    const fn mark(&self, counts: &mut Counts, packet: &mut Packet, waiting: u32) {
        if waiting >= self.mark_at && packet.flags & frame::ECT != 0 {
            packet.flags |= frame::CE;
            counts.marked += 1;
        }
    }
}

/// The queue may not be calm for a packet: finds out; returns whether it has room.
#[inline(never)] // few packets need it, and the others should not pay for its registers
fn look(link: &mut Link, kind: &Kind, counts: &mut Counts, now: u64, packet: &mut Packet) -> bool {
    let waiting = link.queue_length(now, kind.delay);
    let fits = link.backlog() + u64::from(packet.size) <= kind.room_bytes;
    if waiting >= kind.room_packets || !fits {
        counts.dropped += 1;
        return false;
    }
    kind.mark(counts, packet, waiting);
    counts.peak = counts.peak.max(waiting + 1);
    if kind.room_bytes == u64::MAX {
        let calm = counts.peak.min(kind.room_packets).min(kind.mark_at);
        link.calm = u16::try_from(calm).unwrap_or(u16::MAX);
    }
    true
}

impl Link {
    /// Everything has left by `now`.
    #[inline]
    const fn rest(&mut self, now: u64) {
        self.free_at = now;
        self.remainder = 0;
        self.queued = low(self.tail);
        self.left = self.bytes;
    }

    /// Packets not known to have left the queue.
    #[inline]
    const fn most_waiting(&self) -> u32 {
        low(self.tail).wrapping_sub(self.queued)
    }

    /// Their octets.
    const fn backlog(&self) -> u64 {
        self.bytes - self.left
    }

    #[inline]
    fn queue_length(&mut self, now: u64, delay: u64) -> u32 {
        while self.queued != low(self.tail) {
            let packet = &self.ring[self.at(self.queued)];
            if packet.time > now + delay {
                break;
            }
            self.left += u64::from(packet.size);
            self.queued = self.queued.wrapping_add(1);
        }
        self.most_waiting()
    }

    #[inline]
    const fn free_at(&self) -> u64 {
        self.free_at + (self.remainder != 0) as u64
    }

    #[inline]
    fn arrive(&mut self, packet: &mut Packet) -> Option<u64> {
        debug_assert_ne!(self.head, low(self.tail));
        *packet = self.ring[self.at(self.head)];
        if self.queued == self.head {
            self.left += u64::from(packet.size);
            self.queued = self.queued.wrapping_add(1);
        }
        self.head = self.head.wrapping_add(1);
        (self.head != low(self.tail)).then(|| self.ring[self.at(self.head)].time)
    }

    fn carried(&self) -> u64 {
        (0..low(self.tail).wrapping_sub(self.head))
            .map(|i| u64::from(self.ring[self.at(self.head.wrapping_add(i))].size))
            .sum()
    }

    #[inline]
    const fn at(&self, position: u32) -> usize {
        position as usize & (self.ring.len() - 1)
    }

    /// Adds a packet; returns whether it is the only one.
    #[inline]
    fn push(&mut self, packet: &Packet) -> bool {
        let packets = low(self.tail).wrapping_sub(self.head);
        if packets as usize == self.ring.len() {
            self.grow();
        }
        let at = self.at(low(self.tail));
        self.ring[at] = *packet;
        self.tail += 1;
        packets == 0
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut wider = vec![Packet::default(); 2 * self.ring.len()].into_boxed_slice();
        for i in 0..low(self.tail).wrapping_sub(self.head) {
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

/// Defects that the tests of the audit put into a link.
#[cfg(all(test, debug_assertions))]
impl Links {
    /// The link will send its next packet earlier by so many nanoseconds.
    pub(crate) fn hurry(&mut self, link: usize, by: u64) {
        self.links[link].free_at -= by;
    }

    /// The link takes its queue for short, whatever waits.
    pub(crate) fn never_look(&mut self, link: usize) {
        self.links[link].calm = u16::MAX;
    }

    /// No link has a bound in octets any more.
    pub(crate) fn forget_room(&mut self) {
        self.kinds.iter_mut().for_each(|kind| kind.room_bytes = u64::MAX);
    }
}
