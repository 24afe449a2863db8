//! `syn`: who sends to whom in each timeslot, and over which spine.
//!
//! Source: sync-vs-async, sections II-A and III-A, after Fastpass. Each timeslot lets one packet of a
//! host go, and one packet to a host: a greedy maximal matching of the pairs that have packets, by the
//! priority of the packet at the head of each pair's queue (`matching`), and then a colouring of
//! the matching's edges between leaves, whose colours are unit links through the spines
//! (`colouring`, `spines`). With as many unit links as hosts under each leaf, no link is used twice in a slot; with
//! fewer, the packets that get none leave their path to the network.
//!
//! The text's controller knows at no cost what waits; here each report adds to a backlog
//! from which granted packets are taken, as Fastpass does. A slot is the time of a packet of
//! `packet` frame bytes on the hosts' links.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use model::{Directive, Directives, Measured, Network, NodeId, NodeKind, Observation};
use units::{Bytes, Rate, Span, Time};

use crate::colouring::Colouring;
use crate::matching::{Claim, MOST_SLOTS, Matcher, Served};
use crate::spines::Spines;
use crate::{Descriptor, DirectiveKind, Kind, Need, Parameter, Policy, Value};

/// Which of two waiting packets goes first (section III-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Oldest cell first: the packet that was queued earlier.
    Ocf,
    /// Shortest remaining job first: the packet with less left of its burst, itself included.
    Srjf,
    /// Max-min fair: the packet that has been at the head of its queue for longer.
    Mmf,
    /// Least recently allocated (Fastpass, section 3): the packet of the pair whose last timeslot was
    /// earlier, whether or not anything waited in the meantime; a pair that had none comes before.
    Lra,
}

impl Order {
    /// The names of the text's orders in scenarios.
    const NAMES: [&str; 3] = ["ocf", "srjf", "mmf"];
    const ALL: [Self; 3] = [Self::Ocf, Self::Srjf, Self::Mmf];
}

const ORDER: Parameter = Parameter::new(
    "order",
    Kind::Choice(&Order::NAMES),
    Value::Choice("mmf"),
    "who goes first: ocf, the oldest packet; srjf, the flow with least left; mmf, the packet that has \
     been first of its queue for longest",
);

pub(crate) const PACKET: Parameter = Parameter::new(
    "packet",
    Kind::Bytes(Bytes::new(64), Bytes::new(65_535)),
    Value::Bytes(Bytes::new(1_500)),
    "frame octets of the packet that fills a timeslot",
);

pub(crate) const BATCH: Parameter = Parameter::new(
    "batch",
    Kind::Integer(1, MOST_SLOTS as u64),
    Value::Integer(1),
    "timeslots decided at once: quicker to decide, and what is queued meanwhile waits",
);

/// What `syn` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "syn",
    summary: "who sends to whom in each timeslot, and over which spine",
    source: "To sync or not to sync, sections II-A and III-A",
    parameters: &[ORDER, PACKET.published("section III-C"), BATCH.published("section II-A")],
    needs: &[Need::WaitingPackets],
    directives: &[DirectiveKind::Grant],
    is_max_min: false,
    build: |given| {
        let order = given.get::<&str>(ORDER.name);
        let named = Order::NAMES.iter().zip(Order::ALL).find(|(name, _)| **name == order);
        let (_, order) = named.expect("a choice has one of its names");
        let (packet, batch) = (given.get(PACKET.name), given.get(BATCH.name));
        Ok(Box::new(Syn::new(order, packet, batch)))
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    order: Order,
    packet: Bytes,
    batch: u32,
}

/// No queue.
const NOWHERE: u32 = u32::MAX;

/// What waits for whom, and who goes in which timeslot: the part of `syn` that knows no network.
#[derive(Debug)]
pub struct Arbiter {
    order: Order,
    matcher: Matcher,
    queues: Vec<Queue>,
    /// Positions of queues that are free.
    free: Vec<u32>,
    /// The queue of each pair with packets, by source and destination; a row begins empty.
    places: Vec<Vec<u32>>,
    /// Under [`Order::Lra`] when the last timeslot ended of each pair whose queue ran empty, by source and
    /// destination; a row begins empty.
    lasts: Vec<Vec<u64>>,
}

/// The packets from one host to another.
#[derive(Debug, Default)]
struct Queue {
    /// Packets of the first burst that wait.
    left: u32,
    /// The burst at the head, then those behind it.
    first: Burst,
    rest: VecDeque<Burst>,
}

/// Packets that were queued together.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    queued: u64,
    packets: u32,
    bytes: u64,
}

impl Queue {
    /// More bursts than this in one queue are counted as one with the last.
    const MOST_BURSTS: usize = 1 << 12;

    fn add(&mut self, burst: Burst) {
        if self.rest.len() < Self::MOST_BURSTS {
            self.rest.push_back(burst);
        } else if let Some(last) = self.rest.back_mut() {
            last.packets = last.packets.saturating_add(burst.packets);
            last.bytes = last.bytes.saturating_add(burst.bytes);
        }
    }

    /// Takes `packets` of the first burst, at most all of it; whether any packet is left.
    fn take(&mut self, packets: u32) -> bool {
        self.left -= packets;
        if self.left == 0 {
            let Some(next) = self.rest.pop_front() else { return false };
            (self.left, self.first) = (next.packets, next);
        }
        true
    }

    /// The claim's key when its packet is at the head, or its pair without a timeslot, since `since`.
    fn key(&self, order: Order, since: u64) -> u64 {
        match order {
            Order::Ocf => self.first.queued,
            Order::Mmf | Order::Lra => since,
            Order::Srjf => {
                let part = u128::from(self.first.bytes) * u128::from(self.left);
                u64::try_from(part / u128::from(self.first.packets.max(1))).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Arbiter {
    /// Nothing waits between `ports` ports.
    pub fn new(order: Order, ports: u16) -> Self {
        Self {
            order,
            matcher: Matcher::new(ports),
            queues: Vec::new(),
            free: Vec::new(),
            places: vec![Vec::new(); usize::from(ports)],
            lasts: vec![Vec::new(); usize::from(ports)],
        }
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.matcher.is_empty()
    }

    /// Packets of `bytes` together join a queue at `now` (any unit of time that slots share). Ports
    /// that don't exist have no queue.
    pub fn queue(&mut self, now: u64, src: u16, dst: u16, packets: u32, bytes: u64) {
        if packets == 0 {
            return;
        }
        let ports = self.places.len();
        let Some(row) = self.places.get_mut(usize::from(src)).filter(|_| usize::from(dst) < ports)
        else {
            return;
        };
        row.resize(ports, NOWHERE);
        let burst = Burst { queued: now, packets, bytes };
        let known = &mut row[usize::from(dst)];
        if *known != NOWHERE {
            self.queues[*known as usize].add(burst);
            return;
        }
        let queue = Queue { left: packets, first: burst, rest: VecDeque::new() };
        let since = match self.order {
            Order::Lra => {
                let row = &self.lasts[usize::from(src)];
                row.get(usize::from(dst)).copied().unwrap_or(0)
            }
            _ => now,
        };
        let key = queue.key(self.order, since);
        let place = self.free.pop().unwrap_or_else(|| {
            self.queues.push(Queue::default());
            // There are fewer pairs of 16-bit ports than 32 bits count.
            u32::try_from(self.queues.len() - 1).unwrap_or(u32::MAX)
        });
        self.queues[place as usize] = queue;
        *known = place;
        self.matcher.enter(Claim { key, src, dst, queue: place });
    }

    /// Decides `slots` timeslots, the first of which begins at `now` and which last `slot` each:
    /// calls `grant` with the number of the slot in the batch and the two ports, in no order of
    /// slots.
    pub fn fill(&mut self, now: u64, slot: u64, slots: u32, mut grant: impl FnMut(u32, u16, u16)) {
        let Self { order, matcher, queues, free, places, lasts } = self;
        // Under max-min fairness a head packet goes, then it is the others' turn; in long batches a
        // few, for speed.
        let turn = match order {
            Order::Mmf | Order::Lra => (slots / 8).max(1),
            Order::Ocf | Order::Srjf => u32::MAX,
        };
        matcher.fill(slots, |claim, offered| {
            let queue = &mut queues[claim.queue as usize];
            let most = turn.min(queue.left);
            let (mut taken, mut count, mut last) = (0, 0, 0);
            while count < most && offered != taken {
                last = (offered & !taken).trailing_zeros();
                taken |= 1 << last;
                count += 1;
                grant(last, claim.src, claim.dst);
            }
            let more = queue.take(count);
            let since = now + u64::from(last + 1) * slot;
            if !more {
                let ports = places.len();
                places[usize::from(claim.src)][usize::from(claim.dst)] = NOWHERE;
                free.push(claim.queue);
                if *order == Order::Lra {
                    let row = &mut lasts[usize::from(claim.src)];
                    row.resize(ports, 0);
                    row[usize::from(claim.dst)] = since;
                }
            }
            Served { slots: taken, key: more.then(|| queue.key(*order, since)) }
        });
    }
}

/// The synchronous policy, and `fastpass`.
#[derive(Debug)]
pub(crate) struct Syn {
    settings: Settings,
    arbiter: Arbiter,
    /// Number of the next timeslot to decide, counted from time 0.
    next: u64,
    /// How long a timeslot lasts; `None` until the network has been seen.
    slot: Option<Span>,
    spines: Spines,
    colouring: Colouring,
    /// The pairs of each slot of a batch.
    pairs: Vec<Vec<(u16, u16)>>,
    edges: Vec<(usize, usize)>,
    colours: Vec<Option<usize>>,
    ticked: bool,
}

impl Syn {
    /// Nothing is known yet; slots are those of `packet` octets and decided `batch` at once.
    pub(crate) fn new(order: Order, packet: Bytes, batch: u32) -> Self {
        let settings = Settings { order, packet, batch };
        Self {
            settings,
            arbiter: Arbiter::new(order, 0),
            next: 0,
            slot: None,
            spines: Spines::default(),
            colouring: Colouring::new(0, 0),
            pairs: vec![Vec::new(); settings.batch as usize],
            edges: Vec::new(),
            colours: Vec::new(),
            ticked: false,
        }
    }

    /// Learns what the network is like; the first time also how long a slot is.
    fn look(&mut self, network: &Network) {
        let topology = network.topology();
        if self.slot.is_none() {
            let uplinks = topology.hosts().flat_map(|host| topology.out(host));
            let rate = uplinks.map(|&link| topology.link(link).spec.capacity).max();
            let slot = rate.unwrap_or(Rate::ZERO).time_for(self.settings.packet);
            self.slot = Some(slot.max(Span::from_nanos(1)));
            let ports = u16::try_from(topology.nodes().len()).unwrap_or(u16::MAX);
            self.arbiter = Arbiter::new(self.settings.order, ports);
        }
        self.spines = Spines::of(network);
        self.colouring = Colouring::new(self.spines.leaves, self.spines.units.len());
    }

    /// Turns the pairs of a slot into directives.
    fn grant(&mut self, slot: Time, place: usize, out: &mut Directives) {
        let pairs = &self.pairs[place];
        let between = |&(src, dst): &(u16, u16)| self.spines.between(src.into(), dst.into());
        self.edges.clear();
        self.edges.extend(pairs.iter().filter_map(between));
        self.colouring.colour(&self.edges, &mut self.colours);
        let mut colours = self.colours.iter();
        for pair in pairs {
            let colour = between(pair).and_then(|_| colours.next().copied().flatten());
            let via = colour.map(|colour| self.spines.units[colour]);
            let (src, dst) = (NodeId(pair.0.into()), NodeId(pair.1.into()));
            out.push(Directive::Grant { src, dst, slot, via });
        }
    }
}

impl Policy for Syn {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match *observation {
            Observation::Measured(Measured::Queued { src, dst, packets, bytes }) => {
                if self.slot.is_none() {
                    self.look(network);
                }
                let port = |node: NodeId| {
                    let node_is = network.topology().nodes().get(node.index())?;
                    u16::try_from(node.0).ok().filter(|_| node_is.kind == NodeKind::Host)
                };
                let (Some(from), Some(to), Some(slot)) = (port(src), port(dst), self.slot) else {
                    return;
                };
                if src == dst {
                    return;
                }
                if self.arbiter.is_empty() {
                    let begun = now.as_nanos().div_ceil(slot.as_nanos());
                    self.next = self.next.max(begun);
                }
                self.arbiter.queue(now.as_nanos(), from, to, packets, bytes.get());
            }
            Observation::Measured(Measured::LinkState { .. }) => self.look(network),
            Observation::Tick => self.ticked = true,
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Time> {
        let slot = self.slot.filter(|_| !self.arbiter.is_empty())?;
        Some(Time::ZERO + slot * self.next)
    }

    fn decide(&mut self, now: Time, _: &Network, out: &mut Directives) {
        let ticked = core::mem::take(&mut self.ticked);
        let (Some(slot), Some(due)) = (self.slot, self.deadline()) else { return };
        if !ticked || now < due {
            return;
        }
        // A controller that was late begins with the slot in progress.
        self.next = self.next.max(now.as_nanos() / slot.as_nanos());
        let batch = self.settings.batch;
        let start = Time::ZERO + slot * self.next;
        for pairs in &mut self.pairs {
            pairs.clear();
        }
        let pairs = &mut self.pairs;
        self.arbiter.fill(start.as_nanos(), slot.as_nanos(), batch, |place, src, dst| {
            pairs[place as usize].push((src, dst));
        });
        for place in 0..batch {
            self.grant(start + slot * u64::from(place), place as usize, out);
        }
        self.next += u64::from(batch);
    }
}
