//! The world itself: classes of flows that are served at equal rates, completion by completion.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use engine::{FlowState, LinkRecord, Notice, Outcome};
use model::{FlowId, LinkId, Network, NodeId};
use units::{Bytes, Rate, Time};

use crate::RunError;
use crate::shares::{Shares, UNLIMITED, fixed, work};

/// Recomputations between two [`Notice::Pause`].
const PAUSE: u64 = 1 << 10;
/// The class of a flow that has ended.
const GONE: u32 = u32::MAX;

/// A flow. It has ended when its class has served `finish`.
#[derive(Clone, Copy, Debug)]
struct Flow {
    class: u32,
    finish: u128,
    size: Bytes,
}

/// What flows of equal path and limit share besides their rate.
#[derive(Debug)]
struct Class {
    path: u32,
    limit: u64,
    /// What each flow that was always in the class would have been served up to `synced`.
    service: u128,
    synced: u64,
    /// The class's event is stale unless it has this number.
    version: u32,
    /// Flows by what they wait for; those that moved elsewhere are skipped.
    ends: BinaryHeap<Reverse<(u128, u32)>>,
}

/// Links with the flows that share them.
pub struct World {
    now: u64,
    shares: Shares,
    flows: Vec<Flow>,
    classes: Vec<Class>,
    free: Vec<u32>,
    paths: Vec<Vec<LinkId>>,
    path_numbers: HashMap<Vec<LinkId>, u32>,
    class_numbers: HashMap<(u32, u64), u32>,
    /// When a class has its next completion: time, class, version.
    events: BinaryHeap<Reverse<(u64, u32, u32)>>,
    active: u64,
    links: Vec<Carried>,
    completions: u64,
    recomputations: u64,
    broken: Option<String>,
}

/// What a link carried.
#[derive(Clone, Debug, Default)]
struct Carried {
    /// By the rates of its flows over time.
    work: u128,
    /// By the flows' own account.
    octets: u128,
    flows: u64,
    capacity: u64,
}

impl World {
    pub(crate) fn new(network: &Network) -> Self {
        let links = network.topology().links();
        let carried = |rate| Carried { capacity: fixed(rate), ..Carried::default() };
        Self {
            now: 0,
            shares: Shares::new(links.iter().map(|link| link.spec.capacity)),
            flows: Vec::new(),
            classes: Vec::new(),
            free: Vec::new(),
            paths: Vec::new(),
            path_numbers: HashMap::new(),
            class_numbers: HashMap::new(),
            events: BinaryHeap::new(),
            active: 0,
            links: links.iter().map(|link| carried(link.spec.capacity)).collect(),
            completions: 0,
            recomputations: 0,
            broken: None,
        }
    }

    /// The class of this path and limit.
    fn class(&mut self, path: u32, limit: u64) -> u32 {
        if let Some(&class) = self.class_numbers.get(&(path, limit)) {
            return class;
        }
        let class = Class {
            path,
            limit,
            service: 0,
            synced: self.now,
            version: 0,
            ends: BinaryHeap::new(),
        };
        let number = match self.free.pop() {
            Some(place) => {
                let version = self.classes[place as usize].version + 1;
                self.classes[place as usize] = Class { version, ..class };
                place
            }
            None => {
                self.classes.push(class);
                // There are fewer classes than flows, which a u32 counts.
                u32::try_from(self.classes.len() - 1).unwrap_or(GONE)
            }
        };
        let links = self.paths[path as usize].iter().map(|link| link.0);
        self.shares.set(number as usize, links, limit);
        self.class_numbers.insert((path, limit), number);
        number
    }

    /// Accounts for what a class was served, at `rate`, up to now.
    fn sync(&mut self, number: u32, rate: u64) {
        let class = &mut self.classes[number as usize];
        let served = u128::from(rate) * u128::from(self.now - class.synced);
        class.synced = self.now;
        class.service += served;
        let all = served * u128::from(self.shares.flows(number));
        if all > 0 {
            for link in self.shares.path(number) {
                self.links[link as usize].work += all;
            }
        }
    }

    /// Enters the next completion of a class, synced, that is served at `rate`.
    fn schedule(&mut self, number: u32, rate: u64) {
        let class = &mut self.classes[number as usize];
        class.version = class.version.wrapping_add(1);
        while let Some(&Reverse((finish, flow))) = class.ends.peek() {
            let state = &self.flows[flow as usize];
            if state.class == number && state.finish == finish {
                break;
            }
            class.ends.pop();
        }
        let Some(&Reverse((finish, _))) = class.ends.peek() else {
            return;
        };
        let left = finish.saturating_sub(class.service);
        let wait = match (left, rate) {
            (0, _) => 0,
            (_, 0) => return,
            _ => left.div_ceil(u128::from(rate)),
        };
        if let Ok(due) = u64::try_from(u128::from(self.now) + wait) {
            self.events.push(Reverse((due, number, class.version)));
        }
    }

    /// Puts a flow with `left` to send into a class.
    fn join(&mut self, flow: u32, class: u32, left: u128) {
        self.sync(class, self.shares.rate(class));
        let finish = self.classes[class as usize].service + left;
        let state = &mut self.flows[flow as usize];
        state.class = class;
        state.finish = finish;
        self.classes[class as usize].ends.push(Reverse((finish, flow)));
        self.shares.join(class);
        self.schedule(class, self.shares.rate(class));
    }

    /// Takes a flow out of its class, and tells what it still had to send.
    fn leave(&mut self, flow: u32) -> u128 {
        let Flow { class: number, finish, .. } = self.flows[flow as usize];
        self.sync(number, self.shares.rate(number));
        self.flows[flow as usize].class = GONE;
        self.shares.leave(number);
        let class = &mut self.classes[number as usize];
        let left = finish.saturating_sub(class.service);
        let flows = self.shares.flows(number);
        if flows == 0 && class.limit != UNLIMITED {
            class.version = class.version.wrapping_add(1);
            class.ends.clear();
            self.class_numbers.remove(&(class.path, class.limit));
            self.free.push(number);
        } else {
            if class.ends.len() as u64 > 2 * flows + 16 {
                let here = &self.flows;
                class.ends.retain(|Reverse((finish, flow))| {
                    let state = &here[*flow as usize];
                    state.class == number && state.finish == *finish
                });
            }
            self.schedule(number, self.shares.rate(number));
        }
        left
    }

    fn recompute(&mut self) {
        self.recomputations += 1;
        if let Err(link) = self.shares.recompute() {
            self.broken = Some(format!("the shares of link {link} exceed its capacity"));
        }
        let changed = std::mem::take(&mut self.shares.changed);
        for &(class, before) in &changed {
            self.sync(class, before);
            self.schedule(class, self.shares.rate(class));
        }
        self.shares.changed = changed;
        if self.events.len() > 4 * self.classes.len() + 64 {
            let classes = &self.classes;
            self.events.retain(|Reverse((_, class, version))| {
                classes[*class as usize].version == *version
            });
        }
    }

    /// The next completion: when, and the flow's class.
    fn next(&mut self) -> Option<(u64, u32)> {
        while let Some(&Reverse((due, class, version))) = self.events.peek() {
            if self.classes[class as usize].version == version {
                return Some((due, class));
            }
            self.events.pop();
        }
        None
    }

    /// Ends the first flow of a class whose completion is due.
    fn complete(&mut self, class: u32) -> Option<Notice> {
        self.events.pop();
        // `schedule` left the flow that the event is about on top.
        let Reverse((_, flow)) = self.classes[class as usize].ends.pop()?;
        let Flow { size, .. } = self.flows[flow as usize];
        self.account(class, size.get());
        self.leave(flow);
        self.active -= 1;
        self.completions += 1;
        Some(Notice::Ended(
            FlowId(flow),
            FlowState { sent: size, delivered: size, ..FlowState::default() },
        ))
    }

    /// Notes what a flow of the class delivered over its path.
    fn account(&mut self, class: u32, octets: u64) {
        for link in self.shares.path(class) {
            let link = &mut self.links[link as usize];
            link.octets += u128::from(octets);
            link.flows += 1;
        }
    }

    /// Every link carried what its flows delivered, but for the rounding of their ends to the
    /// nanosecond and of their state to the octet.
    fn audit(&self) -> Result<(), String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        for (number, link) in self.links.iter().enumerate() {
            let delivered = link.octets * work(1);
            let slack = u128::from(link.flows) * (u128::from(link.capacity) + work(1));
            if link.work < delivered || link.work - delivered > slack {
                return Err(format!(
                    "link {number} carried {} octets and its flows delivered {}",
                    link.work / work(1),
                    link.octets
                ));
            }
        }
        Ok(())
    }
}

impl engine::World for World {
    type Error = RunError;

    fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn run(&mut self, limit: Time) -> Notice {
        let limit = limit.as_nanos();
        loop {
            let next = self.next();
            if let Some((due, class)) = next
                && due <= self.now
                && let Some(ended) = self.complete(class)
            {
                return ended;
            }
            if self.now >= limit {
                return Notice::Limit;
            }
            if self.shares.is_dirty() {
                self.recompute();
                if self.recomputations.is_multiple_of(PAUSE) {
                    return Notice::Pause;
                }
                continue;
            }
            match next {
                Some((due, _)) if due <= limit => self.now = due,
                _ => {
                    if self.active > 0 && limit != Time::NEVER.as_nanos() {
                        self.now = limit;
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
        let number = u32::try_from(self.flows.len()).ok().filter(|number| *number < GONE);
        let flow = number.ok_or(RunError::TooManyFlows)?;
        let mut links = Vec::new();
        if !network.path(src, dst, u64::from(flow), &mut links) {
            return Err(RunError::NoPath { src, dst });
        }
        let path = match self.path_numbers.get(&links) {
            Some(&path) => path,
            None => {
                let path = u32::try_from(self.paths.len()).map_err(|_| RunError::TooManyFlows)?;
                self.paths.push(links.clone());
                self.path_numbers.insert(links, path);
                path
            }
        };
        self.flows.push(Flow { class: GONE, finish: 0, size });
        self.active += 1;
        let class = self.class(path, UNLIMITED);
        self.join(flow, class, work(size.get()));
        Ok(FlowId(flow))
    }

    fn limit(&mut self, flow: FlowId, limit: Option<Rate>) {
        let Some(&Flow { class, .. }) = self.flows.get(flow.index()) else { return };
        if class == GONE {
            return;
        }
        let Class { path, limit: before, .. } = self.classes[class as usize];
        let limit = limit.map_or(UNLIMITED, fixed);
        if limit != before {
            let left = self.leave(flow.0);
            let class = self.class(path, limit);
            self.join(flow.0, class, left);
        }
    }

    fn prioritize(&mut self, _: FlowId, _: u8) {}

    fn state(&self, flow: FlowId) -> Option<FlowState> {
        let Flow { class: number, finish, size } = *self.flows.get(flow.index())?;
        let class = self.classes.get(number as usize)?;
        let rate = u128::from(self.shares.rate(number));
        let service = class.service + rate * u128::from(self.now - class.synced);
        let left = finish.saturating_sub(service).div_ceil(work(1));
        let left = Bytes::new(u64::try_from(left).unwrap_or(u64::MAX));
        let served = size - left;
        Some(FlowState { sent: served, delivered: served, ..FlowState::default() })
    }

    fn queue_length(&mut self, _: LinkId) -> u32 {
        0
    }

    fn queued(&mut self, _: LinkId) -> Bytes {
        Bytes::ZERO
    }

    fn check(&mut self) -> Result<(), RunError> {
        match self.broken.take() {
            Some(broken) => Err(RunError::Invariant(broken)),
            None => Ok(()),
        }
    }

    fn finish(mut self, outcome: &mut Outcome) -> Result<(), RunError> {
        for number in 0..self.classes.len() {
            let class = u32::try_from(number).unwrap_or(GONE);
            self.sync(class, self.shares.rate(class));
        }
        for flow in 0..self.flows.len() {
            let Flow { class, .. } = self.flows[flow];
            if class != GONE
                && let Some(state) = self.state(FlowId(u32::try_from(flow).unwrap_or(GONE)))
            {
                self.account(class, state.delivered.get());
            }
        }
        self.audit().map_err(RunError::Invariant)?;
        let record = |(number, link): (u32, &Carried)| LinkRecord {
            link: LinkId(number),
            bytes: Bytes::new(u64::try_from(link.octets).unwrap_or(u64::MAX)),
            packets: 0,
            dropped: 0,
            marked: 0,
            metered: 0,
            peak: 0,
        };
        outcome.links = (0u32..).zip(&self.links).map(record).collect();
        outcome.events = self.completions + self.recomputations;
        Ok(())
    }
}
