//! `arbiter`: several applications at once. Each objective has a policy of its own, which sees a network
//! whose links have the capacity that the objective is given; one division says how much that is.
//!
//! Links are divided per objective, never per flow: who floods divides its own part. `parts` divides
//! one link; here it is said what each objective wants of it. Where an objective has a link for
//! itself, its policy decides as if it were alone. Where it doesn't, its flows are held to its part in
//! sum: each to what its policy says, those of which it says nothing max-min fairly.
//!
//! Where ports serve strict priorities a latency's flows may go beyond its part, for others yield to
//! them packet by packet. Where they don't, its part has room for what must be delivered at once.
//!
//! Parts are given anew when an objective comes to a link where it had none, at once; and else once an
//! interval. They stand while none changes by more than the slack; a limit stands while what the flow
//! may have is within the slack of it.

mod flow;
mod parts;
mod room;
mod shares;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use model::{
    Declared, Directive, Directives, FlowId, JobId, LEAST_RATE, LinkId, Measured, Network,
    Observation, StreamSample, Terms,
};
use units::{Bytes, Rate, Span, Time};

use self::flow::{Due, Flow};
use self::room::Room;
use crate::cross::{CROSS, Cross};
use crate::flow_map::FlowMap;
use crate::lists::position;
use crate::parameter::LONGEST;
use crate::roster::Roster;
use crate::{
    Account, Aim, Descriptor, DirectiveKind, Given, Holding, Kind, Objective, Parameter,
    Parameters, Part, Policy, PolicyError, Share, Value, pace, tcp,
};

const INTERVAL: Parameter = Parameter::new(
    "interval",
    Kind::Span(Span::from_millis(1), LONGEST),
    Value::Span(Span::from_millis(200)),
    "time between two divisions of the links among objectives",
);

const SLACK: Parameter = Parameter::new(
    "slack",
    Kind::Share,
    Value::Share(Share::literal(100_000)),
    "parts and limits stand while they differ by less than this part of them; at most 0.5",
);

const PRIORITIES: Parameter = Parameter::new(
    "priorities",
    Kind::Flag,
    Value::Flag(false),
    "ports serve strict priorities: others have what a latency doesn't carry, not only what it doesn't need",
);

/// What `arbiter` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "arbiter",
    summary: "objectives of several applications: who yields, and a policy for each",
    source: "ours",
    parameters: &[INTERVAL, SLACK, PRIORITIES, CROSS],
    needs: &[],
    directives: &[DirectiveKind::Pace, DirectiveKind::Prioritize],
    is_max_min: false,
    build: |given| Ok(Box::new(Arbiter::new(given)?)),
};

/// The objective of applications that no other names.
const REST: &str = "other applications";
/// What objectives leave to each other depends on what they have of other links: so often it is looked
/// at again.
const PASSES: usize = 3;
/// Needs have head-room of this part of them, as a divisor.
const HEADROOM: u64 = 4;

struct Arbiter {
    interval: Span,
    slack: Share,
    priorities: bool,
    /// Octets of a full segment, and those of its payload.
    frame: (u64, u64),
    objectives: Vec<Objective>,
    /// By objective; the last is that of applications that no other names.
    rooms: Vec<Room>,
    roster: Roster<Member>,
    flows: FlowMap<Flow>,
    /// What links carry besides; `None` where it isn't measured.
    cross: Option<Cross>,
    /// Links that several objectives have a part in.
    contended: Vec<bool>,
    /// Links that an objective has come to, or that have another capacity.
    changed: Vec<bool>,
    /// Flows that have entered and need a priority.
    fresh: Vec<FlowId>,
    /// Flows that were limited when their job completed.
    released: Vec<FlowId>,
    /// When limits are to be looked at because something changed.
    due: Option<Time>,
    /// When links are to be divided.
    review: Option<Time>,
    /// When all were last.
    reviewed: Time,
    ticked: bool,
    scratch: Scratch,
}

/// A job.
#[derive(Debug)]
struct Member {
    application: Arc<str>,
    started: Time,
    room: usize,
    due: Due,
}

/// What a division needs and the next may use again.
#[derive(Default)]
struct Scratch {
    said: Directives,
    wants: Vec<parts::Want>,
    parts: Vec<u64>,
}

impl Arbiter {
    fn new(given: &Given<'_>) -> Result<Self, PolicyError> {
        let slack: Share = given.get(SLACK.name);
        if slack > Share::literal(500_000) {
            return Err(PolicyError::OutOfRange { parameter: SLACK.name, range: "at most 0.5" });
        }
        let objectives = given.objectives().to_vec();
        let rest = Objective {
            name: REST.to_string(),
            applications: vec![String::from("*")],
            policy: &tcp::DESCRIPTOR,
            parameters: Parameters::default(),
            aim: Aim::Weight(1),
        };
        // Classes only where they tell some apart.
        let is = |kind: fn(&Aim) -> bool| objectives.iter().any(|objective| kind(&objective.aim));
        let urgent = u8::from(is(|aim| matches!(aim, Aim::Latency { .. })));
        let class = |aim: &Aim| match aim {
            Aim::Latency { .. } => 0,
            Aim::Weight(_) | Aim::Deadline { .. } => urgent,
            Aim::Background => urgent + 1,
        };
        let mut rooms = Vec::new();
        for objective in objectives.iter().chain([&rest]) {
            objective.check()?;
            let parameters = objective.parameters.clone().at_cost(given.messages());
            let policy = objective.policy.build(&parameters)?;
            if policy.ports().is_some() {
                let range =
                    "without cross: write cross = true beside the objectives, for all of them";
                return Err(PolicyError::OutOfRange { parameter: "policy", range });
            }
            rooms.push(Room::new(objective, policy, class(&objective.aim)));
        }
        let (interval, segment) = (given.get(INTERVAL.name), given.segment());
        let cross = given.get::<bool>(CROSS.name).then(|| Cross::new(interval, segment));
        Ok(Self {
            interval,
            slack,
            priorities: given.get(PRIORITIES.name),
            frame: ((segment + crate::HEADER).get(), segment.get().max(1)),
            objectives,
            rooms,
            roster: Roster::default(),
            flows: FlowMap::default(),
            cross,
            contended: Vec::new(),
            changed: Vec::new(),
            fresh: Vec::new(),
            released: Vec::new(),
            due: None,
            review: None,
            reviewed: Time::ZERO,
            ticked: false,
            scratch: Scratch::default(),
        })
    }

    /// Frame bits of so much payload.
    fn bits(&self, payload: Bytes) -> u64 {
        let bits =
            u128::from(payload.get()) * 8 * u128::from(self.frame.0) / u128::from(self.frame.1);
        u64::try_from(bits).unwrap_or(u64::MAX)
    }

    /// Frame rate of a payload rate; the largest is the largest.
    fn framed(&self, payload: Rate) -> u64 {
        if payload == Rate::MAX {
            return u64::MAX;
        }
        payload.fraction(self.frame.0, self.frame.1).as_bps()
    }

    fn capacity(&self, network: &Network, link: usize) -> u64 {
        let capacity = network.topology().links()[link].spec.capacity.as_bps();
        let cross = self.cross.as_ref().map_or(Rate::ZERO, |cross| cross.rate(link));
        capacity.saturating_sub(cross.as_bps()).max(1)
    }

    /// Links are divided at `time`, or sooner.
    fn review_at(&mut self, time: Time) {
        self.review = Some(self.review.map_or(time, |review| review.min(time)));
    }

    /// Takes in what an application declares; the objective that it is under is to hear it too.
    fn declare(&mut self, now: Time, network: &Network, declared: &Declared) -> Option<usize> {
        let job = match declared {
            Declared::JobStart { job, application } => {
                let terms = Terms::default();
                let room = self.room_of(application, &terms);
                let due = self.due_of(room, now, &terms);
                let application = Arc::clone(application);
                let member = || Member { application, started: now, room, due };
                self.roster.start(*job, member);
                job
            }
            Declared::JobTerms { job, terms } => {
                self.heed(now, *job, terms);
                job
            }
            Declared::Streams(samples) => {
                self.sample(now, samples, Declared::Streams);
                return None;
            }
            Declared::JobComplete { job }
            | Declared::TaskHost { job, .. }
            | Declared::Size { job, .. }
            | Declared::FlowRequest { job, .. }
            | Declared::FlowComplete { job, .. } => job,
            // Policies of requests are under no objective.
            Declared::Gather(_) => return None,
        };
        let room = self.roster.get_mut(*job)?.record.room;
        match *declared {
            Declared::FlowRequest { job, flow, src, dst, size } => {
                if let Some(entry) = self.roster.enter(network, job, flow, (src, dst)) {
                    let due = entry.record.due;
                    let mut record = Flow::new(now, room, (src, dst), size, due);
                    record.path = record.way(network, flow);
                    self.enter(now, flow, record);
                }
            }
            Declared::FlowComplete { job, flow } if self.roster.leave(job, flow) => {
                self.leave(now, flow);
            }
            Declared::JobComplete { job } => {
                for flow in self.roster.complete(job).iter() {
                    // Nobody will decide about it again, so it isn't left throttled.
                    if self.leave(now, flow).is_some() {
                        self.released.push(flow);
                    }
                }
            }
            _ => {}
        }
        Some(room)
    }

    /// The objective of a job: the one it asks for, if that names its application, or the first that does.
    fn room_of(&self, application: &str, terms: &Terms) -> usize {
        let asked = terms.objective.as_deref();
        let named = |own: &&Objective| own.names(application);
        let is_asked = |own: &Objective| asked == Some(&*own.name) && named(&own);
        let objectives = &self.objectives;
        let asked = objectives.iter().position(is_asked);
        let first = || objectives.iter().position(|own| named(&own));
        asked.or_else(first).unwrap_or(objectives.len())
    }

    /// When a job is to have ended: what it asks for counts before what its objective says of all.
    fn due_of(&self, room: usize, started: Time, terms: &Terms) -> Due {
        match self.rooms[room].aim {
            Aim::Deadline { within, .. } => {
                let within = terms.deadline.unwrap_or(within);
                Due { at: started + within, within }
            }
            _ => Due { at: Time::NEVER, within: Span::ZERO },
        }
    }

    /// A job asks for something else than before.
    fn heed(&mut self, now: Time, job: JobId, terms: &Terms) {
        let Some(entry) = self.roster.get_mut(job) else {
            return;
        };
        let Member { application, started, room: old, .. } = &entry.record;
        let (application, started, old) = (Arc::clone(application), *started, *old);
        let flows: Vec<FlowId> = entry.flows.iter().collect();
        let room = self.room_of(&application, terms);
        let due = self.due_of(room, started, terms);
        if let Some(entry) = self.roster.get_mut(job) {
            (entry.record.room, entry.record.due) = (room, due);
        }
        if room != old {
            self.rooms[old].observe(now, &Declared::JobComplete { job }.into());
            self.rooms[room].observe(now, &Declared::JobStart { job, application }.into());
        }
        for id in flows {
            let Some(mut flow) = self.flows.remove(id) else {
                continue;
            };
            flow.due = due;
            if room == old {
                self.flows.insert(id, flow);
                continue;
            }
            self.stake(now, &flow, false);
            self.rooms[old].flows.remove(id);
            self.rooms[old].is_moved = true;
            let ((src, dst), size) = (flow.ends, flow.size);
            (flow.room, flow.limit) = (room, None);
            self.enter(now, id, flow);
            if self.priorities && self.rooms[room].class == 0 {
                self.fresh.push(id);
            }
            let request = Declared::FlowRequest { job, flow: id, src, dst, size };
            self.rooms[room].observe(now, &request.into());
        }
        self.review_at(now);
    }

    fn enter(&mut self, now: Time, id: FlowId, flow: Flow) {
        self.stake(now, &flow, true);
        let room = &mut self.rooms[flow.room];
        room.flows.insert(id);
        room.is_moved = true;
        if self.priorities && room.class > 0 {
            self.fresh.push(id);
        }
        self.due = Some(now);
        self.flows.insert(id, flow);
    }

    /// Forgets a flow; the limit that it was held to.
    fn leave(&mut self, now: Time, id: FlowId) -> Option<Rate> {
        let flow = self.flows.remove(id)?;
        self.stake(now, &flow, false);
        if let Some(cross) = &mut self.cross {
            cross.begin_anew(&flow.path);
        }
        let room = &mut self.rooms[flow.room];
        room.flows.remove(id);
        room.is_moved = true;
        self.due = Some(now);
        flow.told
    }

    /// A flow comes to its links, or goes.
    fn stake(&mut self, now: Time, flow: &Flow, comes: bool) {
        let bits = if flow.size == Bytes::MAX { 0 } else { self.bits(flow.size) };
        let mut review = None;
        for link in &flow.path {
            let stake = &mut self.rooms[flow.room].stakes[link.index()];
            if comes {
                stake.flows += 1;
                stake.enter(bits);
                if stake.given.is_none() {
                    self.changed[link.index()] = true;
                    review = Some(now);
                }
            } else {
                stake.flows = stake.flows.saturating_sub(1);
                stake.leave(bits);
                // What it had stands a while, for the next may come soon.
                review = review.or(Some(now + self.interval));
            }
        }
        if let Some(time) = review {
            self.review_at(time);
        }
    }

    /// Each objective is told of its own streams.
    fn sample<T: Into<Observation>>(
        &mut self,
        now: Time,
        samples: &[StreamSample],
        kind: impl Fn(Vec<StreamSample>) -> T,
    ) {
        for sample in samples {
            if let Some(flow) = self.flows.get_mut(sample.flow) {
                flow.sample(now, sample);
            }
        }
        self.pass_on(now, samples, |sample| sample.flow, kind);
    }

    /// Tells each objective what is said of its flows.
    fn pass_on<S: Clone, T: Into<Observation>>(
        &mut self,
        now: Time,
        said: &[S],
        flow: impl Fn(&S) -> FlowId,
        kind: impl Fn(Vec<S>) -> T,
    ) {
        let mut shares = vec![Vec::new(); self.rooms.len()];
        for one in said {
            if let Some(known) = self.flows.get(flow(one)) {
                shares[known.room].push(one.clone());
            }
        }
        for (room, share) in self.rooms.iter_mut().zip(shares) {
            if !share.is_empty() {
                room.observe(now, &kind(share).into());
            }
        }
    }

    /// Takes in what was measured; whether every objective is to hear it as it is.
    fn measure(&mut self, now: Time, network: &Network, measured: &Measured) -> bool {
        match measured {
            Measured::Streams(samples) => self.sample(now, samples, Measured::Streams),
            Measured::Delivered(flows) => {
                for (id, delivered) in flows {
                    if let Some(flow) = self.flows.get_mut(*id) {
                        flow.measure(now, *delivered);
                    }
                }
                self.pass_on(now, flows, |(flow, _)| *flow, Measured::Delivered);
            }
            Measured::Carried { flows } => {
                let kind = |flows| Measured::Carried { flows };
                self.pass_on(now, flows, |(flow, _)| *flow, kind);
            }
            Measured::RoundTrips(flows) => {
                self.pass_on(now, flows, |(flow, _)| *flow, Measured::RoundTrips);
            }
            Measured::Ports(counters) => {
                let links = network.topology().links();
                let flows = self.flows.iter_mut();
                let carried = flows.map(|(_, flow)| (&flow.path[..], &mut flow.counter));
                let cross = self.cross.as_mut();
                if cross.is_some_and(|cross| cross.hear(now, links, counters, carried)) {
                    // The capacities that objectives are given are without it.
                    self.changed.fill(true);
                    self.review_at(now);
                }
            }
            Measured::LinkState { link, .. } => {
                let ids: Vec<FlowId> = self.flows.iter().map(|(id, _)| id).collect();
                for id in ids {
                    self.reroute(now, network, id);
                }
                for room in &mut self.rooms {
                    room.follow(network, *link);
                    room.is_moved = true;
                }
                self.due = Some(now);
                return true;
            }
            _ => return true,
        }
        false
    }

    /// Moves a flow to the way that the network has for it now.
    fn reroute(&mut self, now: Time, network: &Network, id: FlowId) {
        let Some(mut flow) = self.flows.remove(id) else {
            return;
        };
        let path = flow.way(network, id);
        if path != flow.path {
            self.stake(now, &flow, false);
            if let Some(cross) = &mut self.cross {
                cross.begin_anew(&flow.path);
                cross.begin_anew(&path);
            }
            flow.path = path;
            self.stake(now, &flow, true);
        }
        self.flows.insert(id, flow);
    }

    /// Divides links among objectives: once an interval all of them, in between those that have changed.
    fn divide(&mut self, now: Time, network: &Network) {
        let passed = now.since(self.reviewed);
        let is_full = passed >= self.interval;
        let links = network.topology().links().len();
        if is_full {
            self.reviewed = now;
        }
        let divided = (0..links).filter(|link| is_full || self.changed[*link]);
        let divided: Vec<(usize, u64)> =
            divided.map(|link| (link, self.capacity(network, link))).collect();
        self.changed.fill(false);
        self.reckon(now, network, is_full.then_some(passed));
        for room in &mut self.rooms {
            for (link, capacity) in &divided {
                room.stakes[*link].draft = *capacity;
            }
        }
        for _ in 0..if is_full { PASSES } else { 1 } {
            self.bound();
            for (link, capacity) in &divided {
                self.share(*link, *capacity);
            }
        }
        for (link, capacity) in &divided {
            self.contended[*link] = self.adopt(*link, *capacity);
        }
        for room in &mut self.rooms {
            room.tell(now);
            // What its flows could use may have changed though its parts haven't.
            room.is_moved |= is_full;
        }
        let next = now + self.interval;
        self.review = (self.contended.contains(&true) && next > now).then_some(next);
    }

    /// What objectives need of links before others.
    fn reckon(&mut self, now: Time, network: &Network, passed: Option<Span>) {
        let links = network.topology().links().len();
        let mut sums = vec![(0u64, 0u64); links];
        for number in 0..self.rooms.len() {
            let aim = self.rooms[number].aim;
            let (Aim::Latency { most, .. } | Aim::Deadline { most, .. }) = aim else {
                continue;
            };
            sums.fill((0, 0));
            for id in self.rooms[number].flows.iter() {
                let Some(flow) = self.flows.get(id) else {
                    continue;
                };
                let (need, more) = self.needed(now, &aim, flow);
                for link in &flow.path {
                    let sum = &mut sums[link.index()];
                    *sum = (sum.0.saturating_add(need), sum.1.saturating_add(more));
                }
            }
            for (link, (need, more)) in sums.iter().enumerate() {
                let most = most.divided(Rate::from_bps(self.capacity(network, link)), 1).as_bps();
                let stake = &mut self.rooms[number].stakes[link];
                if let Some(passed) = passed {
                    stake.pass(passed, self.interval);
                }
                let need = match aim {
                    Aim::Latency { .. } if self.priorities => stake.carries(*need),
                    Aim::Latency { target, .. } => stake.latency(target, *need),
                    _ => *need,
                };
                let need = need.saturating_add(need / HEADROOM);
                (stake.need, stake.asks) = (need.min(most), need.saturating_add(*more));
            }
        }
    }

    /// What a flow needs before flows of later turns, and what it could use besides. What waits for a
    /// latency of flows with an end is in its stakes.
    fn needed(&self, now: Time, aim: &Aim, flow: &Flow) -> (u64, u64) {
        match aim {
            Aim::Latency { target, .. } if flow.size == Bytes::MAX => {
                let waiting = self.framed(Rate::of(flow.waiting(now), *target));
                let waiting = if self.priorities { 0 } else { waiting };
                let seen = self.framed(flow.carried()).saturating_add(waiting);
                (seen.saturating_add(self.framed(flow.unseen())), 0)
            }
            Aim::Latency { .. } => (0, 0),
            // It is too late, or never ends.
            Aim::Deadline { .. } if flow.due.at <= now || flow.size == Bytes::MAX => {
                (0, self.framed(flow.demand()))
            }
            Aim::Deadline { .. } => (self.framed(flow.need(now, self.interval)), 0),
            Aim::Weight(_) | Aim::Background => (0, 0),
        }
    }

    /// What objectives could use of links: what their flows could, given what the objective has of their
    /// other links.
    fn bound(&mut self) {
        for room in &mut self.rooms {
            for stake in &mut room.stakes {
                stake.demand = 0;
            }
        }
        for (_, flow) in self.flows.iter() {
            let demand = self.framed(flow.demand()).max(LEAST_RATE.as_bps());
            let stakes = &mut self.rooms[flow.room].stakes;
            // The least part on its path, and the least of the others.
            let (mut least, mut second, mut at) = (u64::MAX, u64::MAX, None);
            for link in &flow.path {
                let bound = stakes[link.index()].draft;
                if bound < least {
                    (second, least, at) = (least, bound, Some(*link));
                } else {
                    second = second.min(bound);
                }
            }
            for link in &flow.path {
                let bound = if at == Some(*link) { second } else { least };
                let stake = &mut stakes[link.index()];
                stake.demand = stake.demand.saturating_add(demand.min(bound));
            }
        }
    }

    /// Divides a link among the objectives that have flows there, or need it.
    fn share(&mut self, link: usize, capacity: u64) {
        let Scratch { wants, parts, .. } = &mut self.scratch;
        wants.clear();
        wants.extend(self.rooms.iter().filter(|room| room.is_at(link)).map(|room| room.want(link)));
        if wants.is_empty() {
            return;
        }
        parts::divide(capacity, wants, parts);
        let present = self.rooms.iter_mut().filter(|room| room.is_at(link));
        for (room, part) in present.zip(&*parts) {
            room.stakes[link].draft = *part;
        }
    }

    /// Gives what was drafted for a link, all of it, unless all that changes is within the slack; whether
    /// several have a part.
    fn adopt(&mut self, link: usize, capacity: u64) -> bool {
        let slack = self.slack;
        let stands = |room: &Room| {
            let stake = &room.stakes[link];
            match stake.given {
                Some(given) if room.is_at(link) => {
                    let within = slack.divided(Rate::from_bps(given), 1).as_bps();
                    stake.draft.abs_diff(given) <= within
                }
                given => given.is_none() && !room.is_at(link),
            }
        };
        let sum = |room: &Room| room.stakes[link].given.unwrap_or(0);
        let given = self.rooms.iter().map(sum).fold(0, u64::saturating_add);
        if given > capacity || !self.rooms.iter().all(stands) {
            for number in 0..self.rooms.len() {
                let first = self.first(&self.rooms[number].aim, capacity);
                let room = &mut self.rooms[number];
                let given = room.is_at(link).then_some(room.stakes[link].draft);
                let seen = given.map_or(capacity, |given| given.max(first));
                room.give(LinkId(position(link)), given, seen);
            }
        }
        self.rooms.iter().filter(|room| room.stakes[link].given.is_some()).count() > 1
    }

    /// What an objective may have of a link for a while though it is given less: others yield to it
    /// packet by packet.
    fn first(&self, aim: &Aim, capacity: u64) -> u64 {
        match aim {
            Aim::Latency { most, .. } if self.priorities => {
                most.divided(Rate::from_bps(capacity), 1).as_bps()
            }
            _ => 0,
        }
    }

    /// Tells the limits of an objective's flows that have changed.
    fn hold(&mut self, now: Time, network: &Network, number: usize, out: &mut Directives) {
        let ids: Vec<FlowId> = self.rooms[number].flows.iter().collect();
        let flows: Vec<&Flow> = ids.iter().filter_map(|id| self.flows.get(*id)).collect();
        let is_shared: Vec<bool> = flows
            .iter()
            .map(|flow| flow.path.iter().any(|link| self.contended[link.index()]))
            .collect();
        let rates = if is_shared.contains(&true) {
            let Room { stakes, aim, .. } = &self.rooms[number];
            let given = |link: LinkId| {
                let first = self.first(aim, self.capacity(network, link.index()));
                let given = stakes[link.index()].given;
                given.map_or(Rate::MAX, |given| Rate::from_bps(given.max(first)))
            };
            let framed = |rate| Rate::from_bps(self.framed(rate));
            let yield_to = self.priorities && matches!(aim, Aim::Latency { .. });
            shares::divide(&flows, stakes.len(), given, framed, yield_to)
        } else {
            Vec::new()
        };
        let mut targets = Vec::with_capacity(flows.len());
        for (place, flow) in flows.iter().enumerate() {
            targets.push(if is_shared[place] {
                Some(self.target(flow, rates[place]))
            } else {
                flow.limit
            });
        }
        for (id, target) in ids.into_iter().zip(targets) {
            if let Some(flow) = self.flows.get_mut(id)
                && flow.told != target
            {
                let carries = target.map(|rate| rate.fraction(self.frame.1, self.frame.0));
                flow.tell(now, target, carries.unwrap_or(Rate::ZERO));
                out.push(pace(id, target));
            }
        }
    }

    /// What a flow is held to that may have `rate`: what its own policy says, if that is no more; what it
    /// was told, as long as that is within the slack; else the middle of that.
    fn target(&self, flow: &Flow, rate: Rate) -> Rate {
        if let Some(limit) = flow.limit
            && limit <= rate
        {
            return limit.max(LEAST_RATE);
        }
        let slack = self.slack.divided(rate, 1);
        let stands = |told: &Rate| *told <= rate && *told >= rate - slack;
        let middle = rate - slack.fraction(1, 2);
        flow.told.filter(stands).unwrap_or(middle).max(LEAST_RATE)
    }
}

impl Policy for Arbiter {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        let links = network.topology().links().len();
        self.contended.resize(links, false);
        self.changed.resize(links, false);
        for room in &mut self.rooms {
            room.cover(network);
        }
        match observation {
            Observation::Declared(declared) => {
                if let Some(room) = self.declare(now, network, declared) {
                    self.rooms[room].observe(now, observation);
                }
            }
            Observation::Measured(measured) => {
                if self.measure(now, network, measured) {
                    for room in &mut self.rooms {
                        room.observe(now, observation);
                    }
                }
            }
            Observation::Tick => self.ticked = true,
        }
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        out.extend(self.released.drain(..).map(|flow| pace(flow, None)));
        for id in core::mem::take(&mut self.fresh) {
            if let Some(flow) = self.flows.get(id) {
                let priority = self.rooms[flow.room].class;
                out.push(Directive::Prioritize { flow: id, priority });
            }
        }
        let ticked = core::mem::take(&mut self.ticked);
        if ticked && self.review.is_some_and(|review| review <= now) {
            self.divide(now, network);
        }
        let mut said = core::mem::take(&mut self.scratch.said);
        for (number, room) in self.rooms.iter_mut().enumerate() {
            if ticked && room.policy.deadline().is_some_and(|deadline| deadline <= now) {
                room.observe(now, &Observation::Tick);
            }
            room.decide(now, &mut said);
            for directive in said.drain(..) {
                let Directive::Pace { flow, limit } = directive else {
                    continue;
                };
                if let Some(flow) = self.flows.get_mut(flow).filter(|flow| flow.room == number) {
                    flow.limit = limit;
                    room.is_moved = true;
                }
            }
        }
        self.scratch.said = said;
        let is_moved = |room: &Room| room.is_moved;
        if ticked {
            self.due = None;
            for number in 0..self.rooms.len() {
                if core::mem::take(&mut self.rooms[number].is_moved) {
                    self.hold(now, network, number, out);
                }
            }
        } else if self.rooms.iter().any(is_moved) {
            self.due = Some(now);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let rooms = self.rooms.iter().filter_map(|room| room.policy.deadline());
        rooms.chain(self.due).chain(self.review).min()
    }

    fn ports(&self) -> Option<Span> {
        self.cross.as_ref().map(Cross::every)
    }

    fn account(&self, flow: FlowId) -> Option<Account> {
        let known = self.flows.get(flow)?;
        let part = |link: &LinkId| {
            let having = self.rooms.iter().filter_map(|room| {
                let stake = &room.stakes[link.index()];
                let want = Rate::from_bps(room.want(link.index()).demand);
                Some((room, Rate::from_bps(stake.given?), want))
            });
            Part {
                link: *link,
                given: having
                    .map(|(room, given, want)| Holding {
                        objective: room.name.clone(),
                        aim: room.aim,
                        rate: given,
                        wants: want,
                    })
                    .collect(),
            }
        };
        let room = &self.rooms[known.room];
        let aim = match room.aim {
            Aim::Deadline { most, .. } => Aim::Deadline { within: known.due.within, most },
            aim => aim,
        };
        Some(Account {
            objective: room.name.clone(),
            aim,
            due: Some(known.due.at).filter(|due| *due < Time::NEVER),
            policy: room.served_by,
            parts: known.path.iter().map(part).collect(),
        })
    }
}
