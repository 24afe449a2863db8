//! Links, paths and events: what forwarding needs.

use engine::{EventQueue, Slot};
use model::{Buffer, LinkId, LinkSpec, Network, NodeId};
use units::{Span, Time};

use crate::frame::{self, Packet};
use crate::link::{self, Links, Taken};
use crate::scheduler::{Discipline, Scheduler};
use crate::{RunError, Transport};

/// Most links on a path.
const LONGEST: usize = 15;
/// In a path: the packet has arrived.
pub(crate) const DELIVER: u32 = u32::MAX;
/// In a path, with a link: a meter, a scheduler or a capture stands before the link.
pub(crate) const SPECIAL: u32 = 1 << 31;

/// The links of a path in order, perhaps with [`SPECIAL`], then [`DELIVER`].
pub(crate) type Path = [u32; LONGEST + 1];

/// A path in a cache line of its own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Way(pub(crate) Path);

impl Way {
    /// The element after so many links.
    #[inline]
    pub(crate) const fn after(&self, hops: u8) -> u32 {
        self.0[hops as usize & LONGEST]
    }
}

pub(crate) struct Wires {
    pub(crate) links: Links,
    /// Two per flow, there and back.
    pub(crate) ways: Vec<Way>,
    /// Paths that packets take by row instead of by flow.
    pub(crate) detours: Vec<Path>,
    /// Slots: a link's next arrival; a scheduled port that becomes free; spare ones; timers.
    pub(crate) events: EventQueue,
    pub(crate) schedulers: Vec<Option<Box<Scheduler>>>,
    /// Slots between those of ports and those of timers, for the world's use.
    pub(crate) spare: usize,
}

impl Wires {
    /// Idle links. `ports` tells how each link's queue is served, `buffer` its room where that isn't the
    /// network's.
    pub(crate) fn new(
        network: &Network,
        transport: &Transport,
        ports: impl Fn(LinkId) -> Discipline,
        buffer: Option<Buffer>,
        spare: usize,
    ) -> Result<Self, RunError> {
        let spec = |link: &model::Link| LinkSpec {
            buffer: buffer.unwrap_or(link.spec.buffer),
            ..link.spec
        };
        let specs = network.topology().links().iter().map(spec);
        let links = Links::new(specs.clone()).ok_or(RunError::Kinds)?;
        let schedulers = (0u32..).zip(specs.clone()).map(|(number, spec)| {
            let discipline = ports(LinkId(number));
            let is_fifo = discipline == Discipline::Fifo;
            (!is_fifo).then(|| Box::new(Scheduler::new(discipline, spec.buffer)))
        });
        // At full load each link has an arrival every full packet's time.
        let frame = u64::from(transport.mss) + u64::from(transport.header);
        let times = specs.map(|s| (link::span(frame, link::cost(s.capacity.as_bps())), s.delay));
        let per_second: f64 = times.clone().map(|(span, _)| 1e9 / span.max(1) as f64).sum();
        let reach = times.map(|(span, delay)| span + delay.as_nanos()).max().unwrap_or(0);
        let gap = Span::from_secs_f64(1.0 / per_second.max(1.0));
        Ok(Self {
            events: EventQueue::new(2 * links.len() + spare, gap, Span::from_nanos(reach)),
            schedulers: schedulers.collect(),
            links,
            ways: Vec::new(),
            detours: Vec::new(),
            spare,
        })
    }

    /// The path that the network gives a flow of this number; `special` tells which links have
    /// something before them.
    pub(crate) fn path(
        network: &Network,
        src: NodeId,
        dst: NodeId,
        number: u32,
        special: impl Fn(usize) -> bool,
    ) -> Result<Path, RunError> {
        let failed = |reason| RunError::NoPath { src, dst, reason };
        let mut links = Vec::with_capacity(LONGEST);
        if src == dst {
            return Err(failed("a flow needs two different hosts"));
        }
        if !network.path(src, dst, u64::from(number), &mut links) {
            return Err(failed("the topology does not connect them"));
        }
        Self::elements(&links, special).ok_or(failed("it has more than 15 links"))
    }

    /// These links as a path; `None` when they are too many.
    pub(crate) fn elements(links: &[LinkId], special: impl Fn(usize) -> bool) -> Option<Path> {
        let mut path = [DELIVER; LONGEST + 1];
        for (element, link) in path[..LONGEST].iter_mut().zip(links) {
            *element = if special(link.index()) { link.0 | SPECIAL } else { link.0 };
        }
        (links.len() <= LONGEST).then_some(path)
    }

    /// Time for a packet of `size` octets to cross the idle links of a path, ns.
    pub(crate) fn transit(&self, path: &Path, size: u64) -> u64 {
        let links = path.iter().filter(|element| **element != DELIVER);
        links.map(|element| self.links.transit((element & !SPECIAL) as usize, size)).sum()
    }

    /// The next element of the packet's path.
    #[inline]
    pub(crate) fn element(&self, packet: &Packet) -> u32 {
        if packet.flags & frame::DETOUR != 0 {
            return self.detours[packet.block.0 as usize][packet.hop as usize & LONGEST];
        }
        self.ways[packet.way() as usize].after(packet.hop)
    }

    /// Puts a packet on a link; `false` when there is no room.
    #[inline(always)] // one call a hop
    pub(crate) fn offer(&mut self, link: usize, now: u64, packet: &mut Packet) -> bool {
        packet.hop += 1;
        match self.links.offer(link, now, packet) {
            Taken::Queued => true,
            Taken::First(at) => {
                self.events.insert(arrival_slot(link), Time::from_nanos(at));
                true
            }
            Taken::Dropped => false,
        }
    }

    /// Schedules the link's scheduler for when the link is free.
    pub(crate) fn await_port(&mut self, link: usize) {
        let ready = Time::from_nanos(self.links.free_at(link));
        let slot = Slot(slot_number(self.links.len() + link));
        self.events.schedule(slot, ready);
    }

    /// The slot of a sender's (side 0) or receiver's (side 1) timer.
    pub(crate) const fn timer_slot(&self, place: u32, side: usize) -> Slot {
        Slot(slot_number(2 * self.links.len() + self.spare + 2 * place as usize + side))
    }
}

/// The slot of a link's next arrival.
pub(crate) const fn arrival_slot(link: usize) -> Slot {
    Slot(slot_number(link))
}

/// Tables of links and flows are bounded well below 2³².
#[allow(clippy::cast_possible_truncation)]
pub(crate) const fn slot_number(index: usize) -> u32 {
    index as u32
}
