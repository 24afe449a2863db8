//! One request as `sicc` gathers it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use model::{
    Buffer, Gathering, HEADER, Hub, HubOrder, LinkSpec, MSS, Network, NodeId, Request, Sample, Way,
};
use units::{Bytes, Rate, Span};

use super::redirect::{Load, mean, redirect};
use super::speed::{demand, shares};
use super::tree::{self, Swarm, Target};
use super::{Choice, Racks, Settings, joint};

/// A full packet on Ethernet, octets.
const PACKET: Bytes = Bytes::new(MSS.get() + HEADER.get());
/// What tells a speed: eight full packets.
const ENOUGH: Bytes = Bytes::new(8 * PACKET.get());

/// What is known of a front end as a request begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// The switch port towards it, and the rate of its own.
    down: LinkSpec,
    up: Rate,
    /// What it receives already.
    received: Rate,
    /// Requests under way, the new one included.
    requests: usize,
}

impl Front {
    pub(super) fn new(network: &Network, front: NodeId, received: Rate, requests: usize) -> Self {
        let topology = network.topology();
        let up = topology.out(front).first().map(|link| topology.link(*link));
        let down = up.and_then(|up| topology.link_between(up.to, up.from));
        let down = down.map(|link| topology.link(link).spec);
        let nothing = LinkSpec {
            capacity: Rate::ZERO,
            delay: Span::ZERO,
            buffer: Buffer::Unlimited,
            mark: None,
        };
        let up = up.map_or(Rate::ZERO, |link| link.spec.capacity);
        Self { down: down.unwrap_or(nothing), up, received, requests }
    }
}

/// Who belongs to which hub.
#[derive(Debug)]
enum Swarms {
    /// By rack and part of so many; `None` where none of the request's servers is.
    Racks(u32, Vec<Option<u32>>),
    /// By server, dealt out (-NPS).
    Dealt(BTreeMap<NodeId, u32>),
}

impl Swarms {
    fn hub(&self, racks: &Racks, server: NodeId) -> Option<u32> {
        match self {
            Self::Racks(parts, hubs) => {
                let place = racks.of(server)? * parts + tree::part(server, *parts);
                *hubs.get(place as usize)?
            }
            Self::Dealt(hubs) => hubs.get(&server).copied(),
        }
    }
}

/// What a hub sent in some time, and might have.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: Bytes,
    assigned: Bytes,
    span: Span,
}

/// How fast a hub is, and what it was assigned in that time.
#[derive(Clone, Copy, Debug)]
struct Real {
    speed: Rate,
    assigned: Rate,
}

#[derive(Debug)]
pub(super) struct State {
    request: Arc<Request>,
    swarms: Swarms,
    hubs: Vec<Hub>,
    backups: Vec<Option<NodeId>>,
    dead: Vec<NodeId>,
    /// The hub above each hub, or itself, that sends to the front end.
    roots: Vec<u32>,
    ways: Vec<Way>,
    /// Objects that have not reached the front end.
    pending: Vec<bool>,
    speeds: Vec<Rate>,
    /// What each hub sent since its real speed was last known; and that speed.
    seen: Vec<Seen>,
    real: Vec<Option<Real>>,
    /// N.
    most: u32,
    /// B_p, what it was when speeds were last divided, B_d, and what came in last (B_a).
    planned: Rate,
    divided: Rate,
    capacity: Rate,
    received: Rate,
}

impl State {
    /// The beginning of a request of which `holders` are asked.
    pub(super) fn new(
        settings: &Settings,
        choice: Choice,
        racks: &Racks,
        request: Arc<Request>,
        holders: &[NodeId],
        front: &Front,
    ) -> (Self, Gathering) {
        let mut counts = vec![0u32; racks.nodes()];
        for holder in holders {
            if let Some(count) = counts.get_mut(holder.index()) {
                *count += 1;
            }
        }
        let spare = |server: NodeId| {
            let known = request.spare.binary_search_by_key(&server, |(node, _)| *node);
            let known = known.map_or(Rate::MAX, |place| request.spare[place].1);
            racks.link(server).min(known)
        };
        let asked = || {
            let servers = (0u32..).map(NodeId).zip(&counts).filter(|(_, count)| **count > 0);
            servers.map(|(server, count)| Target { server, objects: *count, spare: spare(server) })
        };
        let sent = || if settings.pack { PACKET } else { mean_size(&request.sizes) + HEADER };
        let packet = settings.packet.unwrap_or_else(sent);
        let most = match (settings.tree, settings.hubs) {
            (false, _) => u32::MAX,
            (true, Some(hubs)) => hubs,
            (true, None) => tree::most_hubs(&front.down, front.up, packet, front.requests),
        };
        let parts = match choice {
            Choice::First => 1,
            Choice::Joint => joint::parts(racks, asked().map(|target| target.server), most),
        };
        let swarms = tree::swarms(racks, parts, asked());
        let places: Vec<_> = swarms.iter().map(|s| (racks.router(s.rack), s.objects)).collect();
        let parents = tree::merge(&places, most);
        let hub = |(s, parent): (&Swarm, _)| Hub { node: s.hub, parent, speed: model::LEAST_RATE };
        let hubs: Vec<Hub> = swarms.iter().zip(parents).map(hub).collect();
        let backups = swarms.iter().map(|swarm| swarm.backup).collect();
        let swarms = if settings.proximity {
            let mut places = vec![None; racks.count() * parts as usize];
            for (hub, swarm) in (0u32..).zip(&swarms) {
                places[(swarm.rack * parts + swarm.part) as usize] = Some(hub);
            }
            Swarms::Racks(parts, places)
        } else {
            Swarms::Dealt(deal(&swarms, asked().map(|target| target.server)))
        };
        let way = |holder: &NodeId| Way { holder: *holder, hub: swarms.hub(racks, *holder) };
        let ways: Vec<Way> = holders.iter().map(way).collect();
        let capacity = front.down.capacity;
        let mut state = Self {
            pending: vec![true; ways.len()],
            speeds: vec![model::LEAST_RATE; hubs.len()],
            seen: vec![Seen::default(); hubs.len()],
            real: vec![None; hubs.len()],
            roots: roots(&hubs),
            most,
            planned: (capacity - front.received).max(model::LEAST_RATE),
            divided: Rate::ZERO,
            capacity,
            received: Rate::ZERO,
            dead: Vec::new(),
            request,
            swarms,
            hubs,
            backups,
            ways,
        };
        let left = state.left();
        state.divide(choice, &left, |_, _| Rate::MAX);
        if !settings.shares {
            for (speed, hub) in state.speeds.iter_mut().zip(&state.hubs) {
                *speed = racks.link(hub.node).max(model::LEAST_RATE);
            }
        }
        for (hub, speed) in state.hubs.iter_mut().zip(&state.speeds) {
            hub.speed = *speed;
        }
        let (hubs, ways) = (state.hubs.clone(), state.ways.clone());
        (state, Gathering { hubs, ways, packed: settings.pack })
    }

    pub(super) fn front(&self) -> NodeId {
        self.request.front
    }

    /// What came in lately.
    pub(super) const fn received(&self) -> Rate {
        self.received
    }

    /// Octets that each hub and those below it have not sent; zero for hubs below another.
    fn left(&self) -> Vec<Bytes> {
        let mut left = vec![Bytes::ZERO; self.hubs.len()];
        for (object, way) in self.ways.iter().enumerate().filter(|(i, _)| self.pending[*i]) {
            if let Some(hub) = way.hub {
                left[self.roots[hub as usize] as usize] += self.request.size(object);
            }
        }
        left
    }

    /// Divides what is planned among the hubs that send to the front end and have something `left`,
    /// given what each wants, by its place and its part if all were as now. Hubs below another
    /// send at the speed of the one above that sends to the front end, as far as their parent's
    /// link, taken to be like the front end's, carries all its children.
    fn divide(&mut self, choice: Choice, left: &[Bytes], wants: impl Fn(usize, Rate) -> Rate) {
        self.divided = self.planned;
        let active: Vec<usize> = (0..left.len()).filter(|hub| left[*hub] > Bytes::ZERO).collect();
        let weight = |hub: usize| match choice {
            Choice::First => 1,
            Choice::Joint => left[hub].get(),
        };
        let weights = active.iter().map(|hub| weight(*hub)).sum::<u64>();
        let wanted = |hub: &usize| {
            let part = self.planned.fraction(weight(*hub), weights);
            (wants(*hub, part), weight(*hub))
        };
        let hubs: Vec<(Rate, u64)> = active.iter().map(wanted).collect();
        for (hub, share) in active.iter().zip(shares(self.planned, &hubs)) {
            self.speeds[*hub] = share;
        }
        let mut siblings = vec![0u64; self.hubs.len()];
        for parent in self.hubs.iter().filter_map(|hub| hub.parent) {
            siblings[parent as usize] += 1;
        }
        for (hub, place) in self.hubs.iter().zip(0..) {
            if let Some(parent) = hub.parent {
                let root = self.speeds[self.roots[place] as usize];
                let part = self.capacity.fraction(1, siblings[parent as usize]);
                self.speeds[place] = root.min(part).max(model::LEAST_RATE);
            }
        }
    }

    /// Takes in what has arrived, and says what changes.
    pub(super) fn advance(
        &mut self,
        settings: &Settings,
        choice: Choice,
        racks: &Racks,
        sample: &Sample,
    ) -> Vec<HubOrder> {
        for object in &sample.arrived {
            if let Some(pending) = self.pending.get_mut(*object as usize) {
                *pending = false;
            }
        }
        self.received = Rate::of(sample.received.iter().copied().sum(), sample.span);
        let mut orders = Vec::new();
        let left = self.left();
        self.measure(sample, &left);
        if settings.speed {
            self.planned = settings.yielding.planned(
                self.planned,
                self.received,
                self.capacity,
                sample.queued,
                sample.buffer,
            );
        }
        let (mut loads, target) = match choice {
            Choice::First => {
                let loads = self.loads(&left);
                let mean = mean(&loads);
                (loads, mean)
            }
            Choice::Joint => {
                let (loads, whole) = self.able(&left);
                // Of a tree more hubs are told than may send at once: what comes back overflows the
                // front end's port.
                let is_tree = self.hubs.len() > self.most as usize;
                if is_tree || !self.is_worth_orders(sample.span, &loads, whole) {
                    return orders;
                }
                (loads, whole)
            }
        };
        if settings.redirect {
            let mut moves = self.redirect(choice, racks, target, &mut loads);
            if choice == Choice::Joint {
                moves.append(&mut self.ask_directly(target, &mut loads));
            }
            if !moves.is_empty() {
                orders.push(HubOrder::Redirect(moves));
            }
        }
        if settings.speed {
            let before = self.speeds.clone();
            let left = self.left();
            let real = self.real.clone();
            let wants = |hub: usize, part| {
                real[hub].map_or(Rate::MAX, |real| demand(real.assigned, real.speed, part))
            };
            self.divide(choice, &left, wants);
            if self.speeds != before {
                orders.push(HubOrder::Speeds(self.speeds.clone()));
            }
        }
        orders
    }

    /// The hubs that send to the front end.
    fn senders(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.hubs.len()).filter(|hub| self.roots[*hub] as usize == *hub)
    }

    /// What the hubs that send to the front end have `left`, and how fast they are.
    fn loads(&self, left: &[Bytes]) -> Vec<Load> {
        let speed = |hub: usize| self.real[hub].map_or(self.speeds[hub], |real| real.speed);
        self.senders().map(|hub| Load { bytes: left[hub], speed: speed(hub) }).collect()
    }

    /// How fast a hub is that doesn't keep up.
    fn slow(&self, hub: usize) -> Option<Rate> {
        let behind = |real: &Real| demand(real.assigned, real.speed, Rate::ZERO) < Rate::MAX;
        self.real[hub].filter(behind).map(|real| real.speed)
    }

    /// What the hubs that send to the front end have `left`, and how fast they can be: one that
    /// doesn't keep up as it is, the others as what is planned, divided among them, lets them; and
    /// the time that all of it needs if no hub is waited for.
    fn able(&self, left: &[Bytes]) -> (Vec<Load>, Span) {
        let quick = self.senders().filter(|hub| self.slow(*hub).is_none()).count();
        let part = self.planned.fraction(1, quick.max(1) as u64).max(model::LEAST_RATE);
        let load = |hub: usize| Load { bytes: left[hub], speed: self.slow(hub).unwrap_or(part) };
        let loads: Vec<Load> = self.senders().map(load).collect();
        let all = loads.iter().map(|load| load.bytes).sum();
        let whole = loads.iter().map(|load| load.speed).sum::<Rate>().time_for(all);
        (loads, whole)
    }

    /// Orders cost packets and act after their way: they are worth it where, as things are, a hub
    /// would end later than the `whole` needs, by a period and by a quarter of it, or where less is
    /// planned than was divided, or more by an eighth.
    fn is_worth_orders(&self, period: Span, loads: &[Load], whole: Span) -> bool {
        let now = self.senders().zip(loads).map(|(hub, load)| {
            let speed = self.slow(hub).unwrap_or(self.speeds[hub]);
            Load { speed, ..*load }.remaining()
        });
        let late = now.max().unwrap_or_default();
        let grown = self.planned > self.divided + self.divided.fraction(1, 8);
        late > whole + period.max(whole / 4) || self.planned < self.divided || grown
    }

    /// Learns how fast hubs are: each over as many samples as [`ENOUGH`] takes at its speed, for
    /// over less time the packets that happen to fall into it decide. One that sent nothing may
    /// have been about to send a packet; one that has nothing `left` tells nothing.
    fn measure(&mut self, sample: &Sample, left: &[Bytes]) {
        for (hub, seen) in self.seen.iter_mut().enumerate() {
            if left[hub] == Bytes::ZERO {
                *seen = Seen::default();
                continue;
            }
            seen.sent += sample.received.get(hub).copied().unwrap_or(Bytes::ZERO);
            seen.assigned += self.speeds[hub].bytes_in(sample.span);
            seen.span += sample.span;
            if seen.assigned >= ENOUGH {
                let speed = Rate::of(seen.sent.max(PACKET), seen.span).max(model::LEAST_RATE);
                let assigned = Rate::of(seen.assigned, seen.span);
                self.real[hub] = Some(Real { speed, assigned });
                *seen = Seen::default();
            }
        }
    }

    fn redirect(
        &mut self,
        choice: Choice,
        racks: &Racks,
        target: Span,
        loads: &mut [Load],
    ) -> Vec<(u32, Way)> {
        let roots: Vec<usize> = self.senders().collect();
        let place = |hub: u32| roots.binary_search(&(self.roots[hub as usize] as usize)).ok();
        let objects: Vec<(u32, Bytes, usize)> = (0u32..)
            .zip(&self.ways)
            .filter(|(object, _)| self.pending[*object as usize])
            .filter_map(|(object, way)| {
                Some((object, self.request.size(object as usize), place(way.hub?)?))
            })
            .collect();
        let replicas = |object: u32| {
            let holders = self.request.holders(object as usize).iter();
            let alive = holders.filter(|holder| !self.dead.contains(holder));
            let able =
                alive.filter(|holder| choice == Choice::First || !self.is_known_slow(**holder));
            able.filter_map(|&holder| {
                let hub = self.swarms.hub(racks, holder)?;
                Some((Way { holder, hub: Some(hub) }, place(hub)?))
            })
        };
        let elsewhere = |object| replicas(object).map(|(_, hub)| hub);
        let moves = redirect(target, loads, &objects, elsewhere);
        let ways: Vec<(u32, Way)> = moves
            .into_iter()
            .filter_map(|(object, to)| {
                let (way, _) = replicas(object).find(|(_, hub)| *hub == to)?;
                Some((object, way))
            })
            .collect();
        for (object, way) in &ways {
            self.ways[*object as usize] = *way;
        }
        ways
    }

    /// Whether the front end knows that a server is slower than its link.
    fn is_known_slow(&self, server: NodeId) -> bool {
        self.request.spare.binary_search_by_key(&server, |(node, _)| *node).is_ok()
    }

    /// What hubs that don't keep up can't send in time and no other hub can get, the front end asks
    /// for itself, of servers that are no such hubs where there are some: so much at a time that N
    /// packets are on their way.
    fn ask_directly(&mut self, target: Span, loads: &mut [Load]) -> Vec<(u32, Way)> {
        let pending = |object: &usize| self.pending[*object];
        let direct = (0..self.ways.len()).filter(pending).filter(|o| self.ways[*o].hub.is_none());
        let mut room = (self.most as usize).saturating_sub(direct.count());
        let senders: Vec<usize> = self.senders().collect();
        let slow: Vec<NodeId> = (senders.iter().filter(|hub| self.slow(**hub).is_some()))
            .map(|hub| self.hubs[*hub].node)
            .collect();
        let mut moves = Vec::new();
        for object in 0..self.ways.len() {
            let Some(hub) = self.ways[object].hub.filter(|_| self.pending[object]) else {
                continue;
            };
            let root = self.roots[hub as usize] as usize;
            let Ok(place) = senders.binary_search(&root) else { continue };
            if room == 0 || self.slow(root).is_none() || loads[place].remaining() <= target {
                continue;
            }
            let holders = self.request.holders(object).iter().copied();
            let alive = holders.filter(|holder| !self.dead.contains(holder));
            let cost = |holder: &NodeId| (slow.contains(holder), self.is_known_slow(*holder));
            let Some(holder) = alive.min_by_key(cost) else { continue };
            loads[place].bytes = loads[place].bytes - self.request.size(object);
            self.ways[object] = Way { holder, hub: None };
            moves.push((u32::try_from(object).unwrap_or(u32::MAX), self.ways[object]));
            room -= 1;
        }
        moves
    }

    /// A hub died: its backup takes over, and what it alone was asked for comes from replicas. What
    /// no other server has the front end asks for itself where no backup does: hubs die alone too.
    pub(super) fn replace(&mut self, racks: &Racks, hub: u32) -> Vec<HubOrder> {
        let Some(lost) = self.hubs.get(hub as usize).copied() else { return Vec::new() };
        self.dead.push(lost.node);
        let backup = self.backups[hub as usize].take();
        let node = backup.filter(|node| !self.dead.contains(node));
        if let Some(node) = node {
            self.hubs[hub as usize].node = node;
        } else {
            self.swarms.remove(hub);
            for child in self.hubs.iter_mut().filter(|child| child.parent == Some(hub)) {
                child.parent = lost.parent;
            }
            self.roots = roots(&self.hubs);
        }
        let mut moves = Vec::new();
        for (object, way) in (0u32..).zip(&mut self.ways) {
            let asked = self.dead.contains(&way.holder) || (node.is_none() && way.hub == Some(hub));
            if !asked || !self.pending[object as usize] {
                continue;
            }
            let mut holders = self.request.holders(object as usize).iter();
            *way = match holders.find(|holder| !self.dead.contains(holder)) {
                Some(&holder) => Way { holder, hub: self.swarms.hub(racks, holder) },
                None if node.is_none() => Way { hub: None, ..*way },
                None => continue,
            };
            moves.push((object, *way));
        }
        let mut orders = vec![HubOrder::Replace { hub, node }];
        if !moves.is_empty() {
            orders.push(HubOrder::Redirect(moves));
        }
        orders
    }
}

impl Swarms {
    /// Has nobody belong to `hub` any more.
    fn remove(&mut self, hub: u32) {
        match self {
            Self::Racks(_, hubs) => {
                for one in hubs.iter_mut().filter(|one| **one == Some(hub)) {
                    *one = None;
                }
            }
            Self::Dealt(hubs) => hubs.retain(|_, one| *one != hub),
        }
    }
}

/// Swarms of as many servers each as `swarms` have, whatever the rack: hubs keep themselves, the
/// rest is dealt out in the order of a hash.
fn deal(swarms: &[Swarm], servers: impl Iterator<Item = NodeId>) -> BTreeMap<NodeId, u32> {
    let mut dealt: BTreeMap<NodeId, u32> =
        swarms.iter().zip(0u32..).map(|(swarm, hub)| (swarm.hub, hub)).collect();
    let mut rest: Vec<NodeId> = servers.filter(|server| !dealt.contains_key(server)).collect();
    rest.sort_by_key(|server| (u64::from(server.0).wrapping_mul(0x9e37_79b9_7f4a_7c15), *server));
    let room = (0u32..).zip(swarms);
    let seats = room.flat_map(|(hub, swarm)| (1..swarm.servers).map(move |_| hub));
    dealt.extend(rest.into_iter().zip(seats));
    dealt
}

/// The hub above each, or itself, that sends to the front end.
fn roots(hubs: &[Hub]) -> Vec<u32> {
    let root = |mut hub: u32| {
        while let Some(parent) = hubs[hub as usize].parent {
            hub = parent;
        }
        hub
    };
    (0u32..).zip(hubs).map(|(hub, _)| root(hub)).collect()
}

fn mean_size(sizes: &[u32]) -> Bytes {
    let sum = sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
    Bytes::new(sum.checked_div(sizes.len() as u64).unwrap_or_default())
}
