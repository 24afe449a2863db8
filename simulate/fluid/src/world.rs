//! The world itself: flows that are served at equal rates, completion by completion.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use engine::{FlowState, LinkRecord, Living, Notice, Outcome};
use model::{FlowId, LinkId, Network, NodeId};
use units::{Bytes, Rate, Time};

use crate::clocks::{Clocks, due};
use crate::ends::Ends;
#[cfg(debug_assertions)]
use crate::ledger::Ledger;
use crate::shares::{Shares, UNLIMITED, fixed, work};
use crate::{Room, RunError};

/// Recomputations between two [`Notice::Pause`].
const PAUSE: u64 = 1 << 10;
/// A recomputation is settled in so many rounds: flows leave their side once in the first, and the second
/// finds all as it was.
const ROUNDS: u32 = 2;
/// The class of a flow that has ended.
const GONE: u32 = u32::MAX;
/// The class of a flow that has its limit for a rate.
const ALONE: u32 = u32::MAX - 1;
/// The class of a flow that has just started and is to share.
const NEW: u32 = u32::MAX - 2;
/// A class without a bottleneck link yet.
const NOWHERE: u32 = u32::MAX;

/// Fills a cache line: limits come for thousands of flows at once.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Flow {
    /// In a class: what the class has served when the flow ends. New: what it is to send. Alone: what
    /// is left at `synced`.
    end: i128,
    /// Alone: its rate, and the time that the first of its entries in the queue is for.
    rate: u64,
    synced: u64,
    queued: u64,
    /// Alone: its position in the list of such flows.
    position: u32,
    class: u32,
    path: u32,
    /// Its links if there are two; the path knows them all.
    pair: Option<[u32; 2]>,
}

impl Flow {
    /// Its links.
    fn links<'a>(&'a self, paths: &'a [Vec<u32>]) -> &'a [u32] {
        match &self.pair {
            Some(pair) => pair,
            None => &paths[self.path as usize],
        }
    }
}

// A line holds it.
const _: () = assert!(size_of::<Flow>() == 64);

/// What flows of equal path and limit share besides their rate.
#[derive(Debug)]
struct Class {
    path: u32,
    limit: u64,
    /// Its bottleneck link, and what the class has served beyond the link's account.
    link: u32,
    offset: i128,
    /// Its entry with the link is stale unless it has this number.
    version: u32,
    is_fresh: bool,
    /// Flows by what they wait for; those that moved elsewhere are skipped.
    ends: BinaryHeap<Reverse<(i128, u32)>>,
}

/// A fast hash of a few small numbers (Fibonacci hashing), for the path of every flow.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(25) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// Links with the flows that share them.
pub struct World {
    now: u64,
    shares: Shares,
    clocks: Clocks,
    flows: Living<Flow>,
    /// What each is to move.
    sizes: Living<Bytes>,
    /// Flows that are alone.
    alone: Vec<u32>,
    /// When flows that are alone may end. Their entry is the one they have `queued`.
    singles: Ends,
    classes: Vec<Class>,
    free: Vec<u32>,
    /// Flows that have started since the last recomputation.
    started: Vec<u32>,
    /// Classes that a flow has joined since the last recomputation.
    fresh: Vec<u32>,
    /// Links whose level has changed, while they are told.
    changed: Vec<u32>,
    paths: Vec<Vec<u32>>,
    /// By path: the class without a limit.
    shared: Vec<u32>,
    path_numbers: HashMap<Vec<LinkId>, u32, BuildHasherDefault<Mixer>>,
    /// The numbers of those of two links.
    pair_numbers: HashMap<[LinkId; 2], u32, BuildHasherDefault<Mixer>>,
    /// By path and limit: the class with a limit.
    class_numbers: HashMap<(u32, u64), u32>,
    /// The path of the flow that starts.
    links: Vec<LinkId>,
    active: u64,
    /// Octets delivered over each link, and by how many flows.
    carried: Vec<(u128, u64)>,
    completions: u64,
    recomputations: u64,
    /// Rounds that a recomputation may take.
    rounds: u32,
    /// Why the world stands still.
    fault: Option<String>,
    room: Option<Room>,
    #[cfg(debug_assertions)]
    ledger: Ledger,
}

impl World {
    pub(crate) fn new(network: &Network, room: Option<Room>) -> Self {
        let links = network.topology().links();
        #[cfg(debug_assertions)]
        let ledger = Ledger::new(links.iter().map(|link| fixed(link.spec.capacity)));
        Self {
            now: 0,
            shares: Shares::new(links.iter().map(|link| link.spec.capacity)),
            clocks: Clocks::new(links.len()),
            flows: Living::default(),
            sizes: Living::default(),
            alone: Vec::new(),
            singles: Ends::default(),
            classes: Vec::new(),
            free: Vec::new(),
            started: Vec::new(),
            fresh: Vec::new(),
            changed: Vec::new(),
            paths: Vec::new(),
            shared: Vec::new(),
            path_numbers: HashMap::default(),
            pair_numbers: HashMap::default(),
            class_numbers: HashMap::new(),
            links: Vec::new(),
            active: 0,
            carried: vec![(0, 0); links.len()],
            completions: 0,
            recomputations: 0,
            rounds: ROUNDS,
            fault: None,
            room,
            #[cfg(debug_assertions)]
            ledger,
        }
    }

    /// Every recomputation begins anew.
    #[cfg(test)]
    pub(crate) fn without_patience(mut self) -> Self {
        self.shares.patience = 0;
        self
    }

    #[cfg(test)]
    pub(crate) fn levels(&self) -> Vec<u64> {
        (0..).take(self.carried.len()).map(|link| self.shares.level(link)).collect()
    }

    /// With another bound on the rounds of a recomputation.
    #[cfg(test)]
    pub(crate) fn with_rounds(self, rounds: u32) -> Self {
        Self { rounds, ..self }
    }

    /// The class of this path and limit.
    fn class(&mut self, path: u32, limit: u64) -> u32 {
        let known = match limit {
            UNLIMITED => self.shared.get(path as usize).filter(|class| **class != GONE),
            _ => self.class_numbers.get(&(path, limit)),
        };
        if let Some(&class) = known {
            return class;
        }
        let (ends, is_fresh) = (BinaryHeap::new(), false);
        let class = Class { path, limit, link: NOWHERE, offset: 0, version: 0, is_fresh, ends };
        let number = match self.free.pop() {
            Some(place) => {
                let old = &self.classes[place as usize];
                let (version, is_fresh) = (old.version.wrapping_add(1), old.is_fresh);
                self.classes[place as usize] = Class { version, is_fresh, ..class };
                place
            }
            None => {
                self.classes.push(class);
                // There are fewer classes than flows, which a u32 counts.
                u32::try_from(self.classes.len() - 1).unwrap_or(GONE)
            }
        };
        let links = self.paths[path as usize].iter().copied();
        self.shares.set(number as usize, links, limit);
        if limit == UNLIMITED {
            self.shared[path as usize] = number;
        } else {
            self.class_numbers.insert((path, limit), number);
        }
        number
    }

    /// What each flow that was always in the class would have been served.
    fn service(&self, class: &Class) -> i128 {
        match class.link {
            NOWHERE => class.offset,
            link => class.offset + self.clocks.service(link, self.now),
        }
    }

    /// Enters the next end of a class with the link that holds it.
    fn enter(&mut self, number: u32) {
        let class = &mut self.classes[number as usize];
        class.version = class.version.wrapping_add(1);
        while let Some(&Reverse((end, flow))) = class.ends.peek() {
            if is_waiting(&self.flows, flow, number, end) {
                if class.link != NOWHERE {
                    let end = end - class.offset;
                    self.clocks.enter(class.link, end, number, class.version);
                }
                return;
            }
            class.ends.pop();
        }
        if class.link != NOWHERE {
            self.clocks.stir(class.link);
        }
    }

    /// Puts a flow with `left` to send into a class.
    fn join(&mut self, flow: u32, number: u32, left: i128) {
        let class = &self.classes[number as usize];
        let end = self.service(class) + left;
        let state = &mut self.flows[flow as usize];
        (state.class, state.end) = (number, end);
        self.shares.join(number);
        let class = &mut self.classes[number as usize];
        class.ends.push(Reverse((end, flow)));
        if !std::mem::replace(&mut class.is_fresh, true) {
            self.fresh.push(number);
        }
    }

    /// Has a flow with `left` to send go at `rate`, alone.
    fn isolate(&mut self, flow: u32, left: i128, rate: u64) {
        let state = &mut self.flows[flow as usize];
        // There are fewer than 2³² flows.
        state.position = u32::try_from(self.alone.len()).unwrap_or(GONE);
        (state.class, state.end, state.rate, state.synced) = (ALONE, left, 0, self.now);
        self.alone.push(flow);
        self.set_rate(flow, rate);
    }

    /// Changes the rate of a flow that is alone.
    fn set_rate(&mut self, number: u32, rate: u64) {
        self.singles.doubt(number);
        let flow = &mut self.flows[number as usize];
        let before = std::mem::replace(&mut flow.rate, rate);
        flow.end -= signed(u128::from(before) * u128::from(self.now - flow.synced));
        flow.synced = self.now;
        for &link in flow.links(&self.paths) {
            self.shares.take(link, before, rate);
        }
        let left = u128::try_from(flow.end).unwrap_or(0);
        // Cheaper than a division: does it end before the queued time?
        let wait = flow.queued.saturating_sub(self.now);
        if wait > 0
            && left <= u128::from(rate) * u128::from(wait - 1)
            && let Some(due) = due(self.now, left, rate)
        {
            flow.queued = due;
            self.singles.enter(due, number);
        }
    }

    /// Removes a flow and returns what it still had to send.
    fn leave(&mut self, number: u32) -> i128 {
        let Flow { class, end, .. } = self.flows[number as usize];
        if class == ALONE {
            self.set_rate(number, 0);
            let Flow { position, end, .. } = self.flows[number as usize];
            self.alone.swap_remove(position as usize);
            if let Some(&moved) = self.alone.get(position as usize) {
                self.flows[moved as usize].position = position;
            }
            self.flows[number as usize].class = GONE;
            self.flows[number as usize].queued = u64::MAX;
            return end.max(0);
        }
        if class == NEW {
            self.flows[number as usize].class = GONE;
            return end;
        }
        let left = end - self.service(&self.classes[class as usize]);
        self.flows[number as usize].class = GONE;
        self.shares.leave(class);
        let flows = self.shares.flows(class);
        let of = &mut self.classes[class as usize];
        if flows == 0 && of.limit != UNLIMITED {
            of.ends.clear();
            self.class_numbers.remove(&(of.path, of.limit));
            self.free.push(class);
        } else if of.ends.len() as u64 > 2 * flows + 16 {
            let here = &self.flows;
            of.ends.retain(|Reverse((end, flow))| is_waiting(here, *flow, class, *end));
        }
        self.enter(class);
        left.max(0)
    }

    /// Whether something has changed since the last recomputation.
    fn is_dirty(&self) -> bool {
        self.shares.is_dirty() || !self.fresh.is_empty() || !self.started.is_empty()
    }

    /// Brings all rates up to date.
    fn recompute(&mut self) {
        self.recomputations += 1;
        for flow in std::mem::take(&mut self.started) {
            if let Some(&Flow { class: NEW, path, end, .. }) = self.flows.get(flow as usize) {
                let class = self.class(path, UNLIMITED);
                self.join(flow, class, end);
            }
        }
        let mut rounds = 0..self.rounds;
        while self.shares.is_dirty() || !self.fresh.is_empty() {
            if rounds.next().is_none() {
                let (now, rounds) = (Time::from_nanos(self.now), self.rounds);
                let case = self.shares.case();
                self.fault =
                    Some(format!("rates at {now} aren't settled after {rounds} rounds: {case}"));
                return;
            }
            while let Some(link) = self.shares.recompute() {
                self.gather(link);
            }
            let mut changed = std::mem::take(&mut self.changed);
            self.shares.take_changed(&mut changed);
            for link in changed.drain(..) {
                let level = self.shares.level(link);
                self.clocks.set_rate(link, self.now, if level == UNLIMITED { 0 } else { level });
            }
            self.changed = changed;
            let mut limited = Vec::new();
            for class in std::mem::take(&mut self.fresh) {
                self.classes[class as usize].is_fresh = false;
                if self.shares.flows(class) > 0 {
                    self.settle(class, true, &mut limited);
                }
            }
            let mut moved = Vec::new();
            self.shares.take_moved(&mut moved);
            for class in moved {
                if self.shares.flows(class) > 0 {
                    self.settle(class, false, &mut limited);
                }
            }
            for class in limited {
                self.scatter(class);
            }
        }
    }

    /// Hands a class to the link that holds it now, and notes it in `limited` if its limit does.
    fn settle(&mut self, number: u32, is_fresh: bool, limited: &mut Vec<u32>) {
        let before = self.classes[number as usize].link;
        match self.shares.bottleneck(number, before) {
            None => limited.push(number),
            Some(link) if link == before && !is_fresh => {}
            Some(link) => {
                let service = self.service(&self.classes[number as usize]);
                let class = &mut self.classes[number as usize];
                class.offset = service - self.clocks.service(link, self.now);
                class.link = link;
                if before != NOWHERE {
                    self.clocks.stir(before);
                }
                self.enter(number);
            }
        }
    }

    /// Gives flows a class that are faster alone than this link allows.
    fn gather(&mut self, link: u32) {
        let through = |flow: &&u32| {
            let flow = &self.flows[**flow as usize];
            flow.rate > 0 && flow.links(&self.paths).contains(&link)
        };
        let here: Vec<u32> = self.alone.iter().filter(through).copied().collect();
        let rates: Vec<u64> = here.iter().map(|flow| self.flows[*flow as usize].rate).collect();
        let Some(level) = self.shares.fill_with(link, &rates) else { return };
        for (flow, rate) in here.into_iter().zip(rates) {
            if rate > level {
                let path = self.flows[flow as usize].path;
                let left = self.leave(flow);
                let class = self.class(path, rate);
                self.join(flow, class, left);
            }
        }
    }

    /// Has all flows of a class go alone, at its limit.
    fn scatter(&mut self, number: u32) {
        let Class { limit, .. } = self.classes[number as usize];
        let ends = std::mem::take(&mut self.classes[number as usize].ends);
        for Reverse((end, flow)) in ends {
            if is_waiting(&self.flows, flow, number, end) {
                let left = self.leave(flow);
                self.isolate(flow, left, limit);
            }
        }
    }

    /// The next end, perhaps none if it is later than `limit`: when, and the flow.
    fn next(&mut self, limit: u64) -> Option<(u64, Next)> {
        let classes = &self.classes;
        let shared = self.clocks.next(self.now, |class| classes[class as usize].version);
        let flows = &mut self.flows;
        let single = self.singles.first(limit, |queued, number| {
            let flow = flows.get_mut(number as usize)?;
            if flow.class != ALONE || flow.queued != queued {
                return None;
            }
            let left = u128::try_from(flow.end).unwrap_or(0);
            let due = due(flow.synced, left, flow.rate).map(|due| due.max(queued));
            flow.queued = due.unwrap_or(u64::MAX);
            due
        });
        let single = single.map(|(due, flow)| (due, Next::Single(flow)));
        let shared = shared.map(|(due, class)| (due, Next::Shared(class)));
        shared.into_iter().chain(single).min()
    }

    /// Ends a flow that is due.
    fn complete(&mut self, next: Next) -> Option<Notice> {
        let flow = match next {
            Next::Single(flow) => flow,
            // `enter` left the flow that the event is about on top.
            Next::Shared(class) => self.classes[class as usize].ends.pop()?.0.1,
        };
        let size = self.sizes[flow as usize];
        self.account(flow, size.get());
        self.leave(flow);
        self.forget(flow);
        self.completions += 1;
        let state = FlowState { sent: size, delivered: size, ..FlowState::default() };
        Some(Notice::Ended(FlowId(flow), state))
    }

    /// Notes that a flow has ended, which its class has let go.
    fn forget(&mut self, flow: u32) {
        self.flows.end(flow as usize);
        self.sizes.end(flow as usize);
        self.active -= 1;
    }

    /// Notes what a flow delivered over its path.
    fn account(&mut self, flow: u32, octets: u64) {
        for &link in self.flows[flow as usize].links(&self.paths) {
            let (sum, flows) = &mut self.carried[link as usize];
            *sum += u128::from(octets);
            *flows += 1;
        }
    }

    /// Lets time pass at the rates that flows have.
    fn pass(&mut self, until: u64) {
        #[cfg(debug_assertions)]
        self.ledger.pass(until - self.now, &self.rates());
        self.now = until;
    }

    /// What the rates of flows add up to, by link.
    #[cfg(debug_assertions)]
    fn rates(&self) -> Vec<u128> {
        let mut rates = vec![0; self.carried.len()];
        let alone = self.alone.iter().map(|flow| &self.flows[*flow as usize]);
        let alone = alone.map(|flow| (flow.path, u128::from(flow.rate)));
        let classes = (0u32..).zip(&self.classes).filter(|(_, class)| class.link != NOWHERE);
        let classes = classes.map(|(number, class)| {
            let each = u128::from(self.clocks.rate(class.link));
            (class.path, each * u128::from(self.shares.flows(number)))
        });
        for (path, rate) in alone.chain(classes) {
            self.paths[path as usize].iter().for_each(|link| rates[*link as usize] += rate);
        }
        rates
    }

    /// Checks that each link carried no more than it could in the whole run; an octet of each flow may be rounded
    /// up. Builds with debug assertions have held all rates against the [`crate::ledger`], too.
    fn audit(&self) -> Result<(), String> {
        #[cfg(debug_assertions)]
        self.ledger.verdict(&self.carried)?;
        for (link, (octets, flows)) in (0u32..).zip(&self.carried) {
            let could = u128::from(self.shares.capacity(link)) * u128::from(self.now);
            if (octets - u128::from(*flows).min(*octets)) * work(1) > could {
                return Err(format!("link {link} carried {octets} octets, which is over capacity"));
            }
        }
        Ok(())
    }
}

/// Defects that tests of the audit put in.
#[cfg(all(test, debug_assertions))]
impl World {
    /// Flows that the flow's bottleneck holds are served at this rate.
    pub(crate) fn serve_at(&mut self, flow: u32, bps: u64) {
        let link = self.classes[self.flows[flow as usize].class as usize].link;
        self.clocks.set_rate(link, self.now, fixed(Rate::from_bps(bps)));
    }

    /// A link is said to have carried so much more.
    pub(crate) fn claim(&mut self, octets: u128) {
        self.carried[0].0 += octets;
    }

    /// The flow is taken for complete.
    pub(crate) fn end_early(&mut self, flow: u32) {
        self.account(flow, self.sizes[flow as usize].get());
        self.leave(flow);
        self.forget(flow);
    }
}

/// What ends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The first flow of a class.
    Shared(u32),
    /// A flow that is alone.
    Single(u32),
}

impl engine::World for World {
    type Error = RunError;

    fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn run(&mut self, limit: Time) -> Notice {
        let limit = limit.as_nanos();
        loop {
            if self.fault.is_some() {
                return Notice::Pause;
            }
            let next = self.next(limit);
            if let Some((due, next)) = next
                && due <= self.now
                && let Some(ended) = self.complete(next)
            {
                return ended;
            }
            if self.now >= limit {
                return Notice::Limit;
            }
            if self.is_dirty() {
                self.recompute();
                if self.recomputations.is_multiple_of(PAUSE) {
                    return Notice::Pause;
                }
                continue;
            }
            match next {
                Some((due, _)) if due <= limit => self.pass(due),
                _ => {
                    if self.active > 0 && limit != Time::NEVER.as_nanos() {
                        self.pass(limit);
                    }
                    return Notice::Limit;
                }
            }
        }
    }

    fn advance(&mut self, time: Time) {
        self.now = self.now.max(time.as_nanos());
    }

    fn start(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, RunError> {
        let number = u32::try_from(self.flows.count()).ok().filter(|number| *number < NEW);
        let flow = number.ok_or(RunError::TooManyFlows)?;
        self.links.clear();
        if !network.path(src, dst, u64::from(flow), &mut self.links) {
            return Err(RunError::NoPath { src, dst });
        }
        let pair = <[LinkId; 2]>::try_from(&self.links[..]).ok();
        let known = match &pair {
            Some(pair) => self.pair_numbers.get(pair),
            None => self.path_numbers.get(&self.links),
        };
        let path = match known {
            Some(&path) => path,
            None => {
                let path = u32::try_from(self.paths.len()).map_err(|_| RunError::TooManyFlows)?;
                self.paths.push(self.links.iter().map(|link| link.0).collect());
                self.shared.push(GONE);
                match pair {
                    Some(pair) => self.pair_numbers.insert(pair, path),
                    None => self.path_numbers.insert(self.links.clone(), path),
                };
                path
            }
        };
        let pair = pair.map(|pair| pair.map(|link| link.0));
        let (end, synced) = (signed(work(size.get())), self.now);
        let (rate, queued, position) = (0, u64::MAX, 0);
        self.flows.push(Flow { class: NEW, path, pair, end, rate, synced, queued, position });
        self.sizes.push(size);
        self.active += 1;
        self.started.push(flow);
        Ok(FlowId(flow))
    }

    fn limit(&mut self, flow: FlowId, limit: Option<Rate>) {
        let Some(state) = self.flows.get(flow.index()) else { return };
        let Flow { class, path, rate, .. } = *state;
        let narrowest = state.links(&self.paths).iter().map(|link| self.shares.capacity(*link));
        let narrowest = narrowest.min().unwrap_or(UNLIMITED);
        // A limit not below any link's capacity limits nothing.
        let limit = limit.map(fixed).filter(|limit| *limit < narrowest).unwrap_or(UNLIMITED);
        match class {
            GONE => {}
            NEW if limit == UNLIMITED => {}
            ALONE if limit == rate => {}
            ALONE if limit != UNLIMITED => self.set_rate(flow.0, limit),
            _ if class < NEW && self.classes[class as usize].limit == limit => {}
            _ => {
                let left = self.leave(flow.0);
                if limit == UNLIMITED {
                    let class = self.class(path, UNLIMITED);
                    self.join(flow.0, class, left);
                } else {
                    // If a link allows less, the recomputation finds out.
                    self.isolate(flow.0, left, limit);
                }
            }
        }
    }

    fn prioritize(&mut self, _: FlowId, _: u8) {}

    fn state(&self, flow: FlowId) -> Option<FlowState> {
        let (flow, size) = (self.flows.get(flow.index())?, self.sizes.get(flow.index())?);
        let left = match flow.class {
            GONE => return None,
            NEW => flow.end,
            ALONE => flow.end - i128::from(flow.rate) * i128::from(self.now - flow.synced),
            class => flow.end - self.service(&self.classes[class as usize]),
        };
        let left = u128::try_from(left).unwrap_or(0).div_ceil(work(1));
        let served = *size - Bytes::new(u64::try_from(left).unwrap_or(u64::MAX));
        Some(FlowState { sent: served, delivered: served, ..FlowState::default() })
    }

    fn queue_length(&mut self, _: LinkId) -> u32 {
        0
    }

    fn queued(&mut self, _: LinkId) -> Bytes {
        Bytes::ZERO
    }

    fn check(&mut self) -> Result<(), RunError> {
        if let Some(fault) = self.fault.take() {
            return Err(RunError::Invariant(fault));
        }
        if let Some(Room { most, used }) = self.room
            && let Some(used) = used().filter(|used| *used > most)
        {
            let (flows, now) = (self.flows.count(), Time::from_nanos(self.now));
            return Err(RunError::Memory { flows, now, used, most });
        }
        Ok(())
    }

    fn finish(mut self, outcome: &mut Outcome) -> Result<(), RunError> {
        // There are fewer than 2³² flows.
        for number in 0..u32::try_from(self.flows.count()).unwrap_or(GONE) {
            if let Some(state) = self.state(FlowId(number)) {
                self.account(number, state.delivered.get());
            }
        }
        self.audit().map_err(RunError::Invariant)?;
        let record = |(number, (octets, _)): (u32, &(u128, u64))| LinkRecord {
            link: LinkId(number),
            bytes: Bytes::new(u64::try_from(*octets).unwrap_or(u64::MAX)),
            packets: 0,
            dropped: 0,
            marked: 0,
            metered: 0,
            peak: 0,
        };
        outcome.links = (0u32..).zip(&self.carried).map(record).collect();
        outcome.events = self.completions + self.recomputations;
        Ok(())
    }
}

/// Whether a flow is still in the class, and ends there when it has served so much.
fn is_waiting(flows: &Living<Flow>, flow: u32, class: u32, end: i128) -> bool {
    let state = flows.get(flow as usize);
    state.is_some_and(|state| state.class == class && state.end == end)
}

/// At most 2¹¹³ by [`work`].
fn signed(work: u128) -> i128 {
    i128::try_from(work).unwrap_or(i128::MAX)
}
