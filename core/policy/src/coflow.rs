//! The flows of one job while they are in the network: what each still has to send, at which rate
//! it is held, and what the job loads on every link.
//!
//! What remains of a flow is its declared size less the rates it was held to over time. That is
//! exact where rates are kept and nothing else holds flows back; where it isn't so, measurements of
//! what was delivered set it right whenever they come. A flow that should have ended and has not
//! counts as if 1/1024 of its size remained.

use alloc::vec::Vec;

use model::{Directives, FlowId, LEAST_RATE, LinkId, Network, NodeId};
use units::{Bytes, Rate, Time};

use crate::filling::Paths;
use crate::links::Links;
use crate::lists::{Rows, position};
use crate::pace;
use crate::standing::{Standing, is_full};

/// A division may go over all jobs so many times.
pub(crate) const STAGES: usize = 2;
/// The part of its size that a flow has left at least, until it says that it has ended.
const OVERDUE: f64 = 1.0 / 1024.0;

/// Counts up in the order in which jobs and flows come.
pub(crate) type Arrival = u64;

/// A job with flows.
#[derive(Debug)]
pub(crate) struct Coflow {
    pub(crate) arrival: Arrival,
    pub(crate) submitted: Time,
    /// What its completion is worth beside that of others.
    pub(crate) weight: u32,
    /// Whether it is older than the guard's threshold; then links count its flows among the old.
    pub(crate) is_old: bool,
    /// Up to when what was sent is accounted for.
    synced: Time,
    /// In the order in which they came. Their numbers are given again, so that nothing goes by these.
    flows: Vec<Flow>,
    accounts: Accounts,
    /// The links of all flows, in any order.
    routes: Vec<LinkId>,
    /// The links of the flows, each once, by number, and which flows use which of them, but for what
    /// has changed.
    uses: Vec<Use>,
    paths: Paths,
    change: Change,
    /// The busiest link, when it was looked for last.
    peak: Option<Peak>,
    /// Sent by flows that have ended, bits.
    sent: f64,
    /// Flows whose acknowledgements come back another way than their data went, with that way.
    astray: Vec<(Arrival, Vec<LinkId>)>,
    /// What each stage granted.
    standing: [Standing; STAGES],
    /// Whether rates may have changed since they were told.
    is_moved: bool,
    /// If the guard had something for flows of the job when limits were told last: which of
    /// [`Links::rations`].
    rations: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    came: Arrival,
    id: FlowId,
    ends: (NodeId, NodeId),
    /// The range of its links in the routes; empty when no path leads from end to end.
    route: (u32, u32),
    has_ended: bool,
}

impl Flow {
    fn route<'a>(&self, routes: &'a [LinkId]) -> &'a [LinkId] {
        &routes[self.route.0 as usize..self.route.1 as usize]
    }
}

/// What each flow has to send and may send, by its position: a column for each quantity, as all flows
/// are gone through again and again.
#[derive(Debug, Default)]
struct Accounts {
    /// Bits.
    size: Vec<f64>,
    /// Bits at the coflow's `synced`.
    sent: Vec<f64>,
    /// Bits that remained then.
    left: Vec<f64>,
    /// By stage, bit/s.
    granted: [Vec<u64>; STAGES],
    /// The limit in force, bit/s; zero is none, or that the flow has ended.
    rate: Vec<u64>,
}

impl Accounts {
    /// A flow more that has all of its size to send.
    fn enter(&mut self, size: f64) {
        self.size.push(size);
        self.sent.push(0.0);
        self.left.push(left(size, 0.0));
        let [one, other] = &mut self.granted;
        for column in [one, other, &mut self.rate] {
            column.push(0);
        }
    }

    /// Takes over the account at `from`.
    fn keep(&mut self, from: usize, to: usize) {
        for column in [&mut self.size, &mut self.sent, &mut self.left] {
            column[to] = column[from];
        }
        let [one, other] = &mut self.granted;
        for column in [one, other, &mut self.rate] {
            column[to] = column[from];
        }
    }

    /// Adds up what the flows do on every link.
    fn add_up(&self, paths: impl Rows, uses: &mut [Use]) {
        for of in &mut *uses {
            (of.flows, of.load, of.rate) = (0, 0.0, 0);
        }
        for ((path, left), rate) in paths.rows().zip(&self.left).zip(&self.rate) {
            for &place in path.as_ref() {
                let of = &mut uses[place as usize];
                of.flows += 1;
                of.load += left;
                of.rate += rate;
            }
        }
    }

    /// Appends to `out` the limits of flows that have changed: [`Coflow::tell`].
    fn tell(
        &mut self,
        flows: &[Flow],
        paths: impl Rows,
        uses: &mut [Use],
        aside: Rate,
        out: &mut Directives,
    ) {
        let (floor, aside) = (LEAST_RATE.as_bps(), aside.as_bps());
        let most = uses.iter().map(|of| of.ration).max().unwrap_or(0);
        let Self { granted: [one, other], rate: rates, .. } = self;
        let granted = one.iter().zip(&*other).map(|(one, other)| one + other);
        for (((flow, path), mut granted), told) in
            flows.iter().zip(paths.rows()).zip(granted).zip(rates)
        {
            let path = path.as_ref();
            if granted < most {
                let ration = path.iter().map(|link| uses[*link as usize].ration).min();
                granted = granted.max(ration.unwrap_or(0));
            }
            let rate = if path.is_empty() { 0 } else { granted.max(floor) };
            // No faster than what it was granted and what is set aside for it.
            let is_close = *told <= granted + aside && rate <= told.saturating_add(aside);
            if is_close && (rate == 0) == (*told == 0) {
                continue;
            }
            for link in path {
                let of = &mut uses[*link as usize];
                of.rate = of.rate - *told + rate;
            }
            *told = rate;
            out.push(pace(flow.id, (rate > 0).then_some(Rate::from_bps(rate))));
        }
    }

    fn truncate(&mut self, count: usize) {
        for column in [&mut self.size, &mut self.sent, &mut self.left] {
            column.truncate(count);
        }
        let [one, other] = &mut self.granted;
        for column in [one, other, &mut self.rate] {
            column.truncate(count);
        }
    }
}

/// Bits that remain of a flow.
const fn left(size: f64, sent: f64) -> f64 {
    (size - sent).max(size * OVERDUE).max(1.0)
}

/// What has happened to the flows of a job since its lists were brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    /// Some have ended, or were measured.
    Left,
    /// Some have come, or take other links.
    Links,
}

/// What the job does on a link.
#[derive(Debug)]
struct Use {
    link: LinkId,
    /// Flows of the job.
    flows: u64,
    /// Bits to send at `synced`.
    load: f64,
    /// Sum of the limits in force, bit/s.
    rate: u64,
    /// What the guard had for each old flow when limits were told last, bit/s.
    ration: u64,
}

impl Use {
    const fn new(link: LinkId) -> Self {
        Self { link, flows: 0, load: 0.0, rate: 0, ration: 0 }
    }

    /// The time that the link takes for what remains so many seconds after `synced`, s.
    fn time(&self, age: f64, links: &Links) -> f64 {
        let capacity = links.table[self.link.index()].capacity.max(1) as f64;
        (self.load - self.rate as f64 * age).max(1.0) / capacity
    }
}

/// The busiest link of a job at a time. What remains only gets less until flows come or are measured, so that
/// it is the busiest as long as it takes no less than the others did.
#[derive(Clone, Copy, Debug)]
struct Peak {
    /// Its place among those that the job uses.
    place: usize,
    /// The longest time that any other took, s.
    others: f64,
    at: Time,
    /// That of the links' capacities.
    revision: u64,
}

/// How a stage divides what is left among the flows of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// All end together, as early as they can, and have no more than that takes (MADD).
    Together,
    /// In proportion to what remains, until nothing is left that one could have.
    ByRemaining,
    /// Max-min fairly.
    Equally,
}

impl Coflow {
    pub(crate) const fn new(arrival: Arrival, submitted: Time) -> Self {
        Self {
            arrival,
            submitted,
            weight: 1,
            is_old: false,
            synced: submitted,
            flows: Vec::new(),
            accounts: Accounts {
                size: Vec::new(),
                sent: Vec::new(),
                left: Vec::new(),
                granted: [const { Vec::new() }; STAGES],
                rate: Vec::new(),
            },
            routes: Vec::new(),
            uses: Vec::new(),
            paths: Paths::NONE,
            change: Change::None,
            peak: None,
            sent: 0.0,
            astray: Vec::new(),
            standing: [const { Standing::NONE }; STAGES],
            is_moved: true,
            rations: None,
        }
    }

    /// Seconds since the last account.
    fn age(&self, now: Time) -> f64 {
        now.since(self.synced).as_secs_f64()
    }

    /// Bits sent so far.
    pub(crate) fn sent(&self, now: Time) -> f64 {
        let here = self.flows.iter().zip(&self.accounts.sent).filter(|(flow, _)| !flow.has_ended);
        let rates: f64 = self.accounts.rate.iter().map(|rate| *rate as f64).sum();
        self.sent + here.map(|(_, sent)| sent).sum::<f64>() + rates * self.age(now)
    }

    /// For each link with flows of the job, the time that it takes for what remains of them, s.
    /// The job is up to date.
    pub(crate) fn loads(&self, now: Time, links: &Links) -> impl Iterator<Item = (LinkId, f64)> {
        let age = self.age(now);
        self.uses.iter().map(move |of| (of.link, of.time(age, links)))
    }

    /// The longest of these times, s.
    pub(crate) fn bottleneck(&mut self, now: Time, links: &Links) -> f64 {
        let age = self.age(now);
        if let Some(peak) = self.peak.filter(|peak| peak.revision == links.revision)
            && peak.at <= now
            && let Some(of) = self.uses.get(peak.place)
        {
            let time = of.time(age, links);
            if time >= peak.others {
                return time;
            }
        }
        let (mut most, mut others, mut place) = (0.0, 0.0, 0);
        for (number, of) in self.uses.iter().enumerate() {
            let time = of.time(age, links);
            if time > most {
                (most, others, place) = (time, most, number);
            } else if time > others {
                others = time;
            }
        }
        self.peak = Some(Peak { place, others, at: now, revision: links.revision });
        most
    }

    /// Each flow with what remains of it, bits. The job is up to date.
    pub(crate) fn remaining(&mut self, now: Time) -> impl Iterator<Item = (Arrival, f64)> {
        self.sync(now);
        self.flows.iter().zip(&self.accounts.left).map(|(flow, left)| (flow.came, *left))
    }

    /// The path of each flow, in order. The job is up to date.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[LinkId]> {
        self.flows.iter().map(|flow| flow.route(&self.routes))
    }

    fn position(&self, came: Arrival) -> Option<usize> {
        self.flows.binary_search_by_key(&came, |flow| flow.came).ok()
    }

    fn change(&mut self, change: Change) {
        self.change = self.change.max(change);
        self.standing.iter_mut().for_each(Standing::fall);
    }

    /// Appends the links from end to end to the routes; their range.
    fn route(&mut self, network: &Network, id: FlowId, ends: (NodeId, NodeId)) -> (u32, u32) {
        let start = position(self.routes.len());
        network.path(ends.0, ends.1, u64::from(id.0), &mut self.routes);
        (start, position(self.routes.len()))
    }

    /// Notes which way the acknowledgements of a flow come back, if it isn't that of its data.
    fn look_back(&mut self, network: &Network, flow: &Flow, links: &Links) {
        if !links.counts_acknowledgements() {
            return;
        }
        let mut back = Vec::new();
        network.path(flow.ends.1, flow.ends.0, u64::from(flow.id.0), &mut back);
        let path = flow.route(&self.routes);
        if !path.is_empty() && !links.mirrors(path, &back) {
            self.astray.push((flow.came, back));
        }
    }

    /// A new flow, the last to come. Its number is in use by no other.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        (came, id, ends): (Arrival, FlowId, (NodeId, NodeId)),
        size: Bytes,
        network: &Network,
        links: &mut Links,
    ) {
        self.sync(now);
        let route = self.route(network, id, ends);
        let flow = Flow { came, id, ends, route, has_ended: false };
        links.enter(flow.route(&self.routes));
        self.look_back(network, &flow, links);
        self.flows.push(flow);
        self.accounts.enter(bits(size));
        self.change(Change::Links);
    }

    /// A flow of the job has ended. It is swept out in the next division.
    pub(crate) fn remove(&mut self, now: Time, came: Arrival, links: &mut Links) {
        let age = self.age(now);
        if let Some(position) = self.position(came) {
            let flow = &mut self.flows[position];
            links.leave(flow.route(&self.routes));
            flow.has_ended = true;
            let rate = core::mem::take(&mut self.accounts.rate[position]);
            self.sent += self.accounts.sent[position] + rate as f64 * age;
            self.change(Change::Left);
        }
    }

    /// The job has ended. Returns its flows that are still held to a limit.
    pub(crate) fn withdraw(&mut self, links: &mut Links) -> impl Iterator<Item = FlowId> {
        self.count_old(false, links);
        for flow in self.flows.iter().filter(|flow| !flow.has_ended) {
            links.leave(flow.route(&self.routes));
        }
        let limited = self.flows.iter().zip(&self.accounts.rate).filter(|(_, rate)| **rate > 0);
        limited.map(|(flow, _)| flow.id)
    }

    /// So much of a flow has arrived.
    pub(crate) fn measure(&mut self, now: Time, came: Arrival, delivered: Bytes) {
        self.sync(now);
        if let Some(position) = self.position(came) {
            let size = self.accounts.size[position];
            let sent = bits(delivered).min(size);
            self.accounts.sent[position] = sent;
            self.accounts.left[position] = left(size, sent);
            self.change(Change::Left);
        }
    }

    /// The topology has changed.
    pub(crate) fn reroute(&mut self, now: Time, network: &Network, links: &mut Links) {
        self.sync(now);
        self.sweep();
        let routes = core::mem::take(&mut self.routes);
        self.astray.clear();
        for position in 0..self.flows.len() {
            let flow = self.flows[position];
            links.leave(flow.route(&routes));
            self.flows[position].route = self.route(network, flow.id, flow.ends);
            let flow = self.flows[position];
            links.enter(flow.route(&self.routes));
            self.look_back(network, &flow, links);
        }
        self.change(Change::Links);
    }

    /// Accounts for what was sent.
    fn sync(&mut self, now: Time) {
        let age = self.age(now);
        self.synced = self.synced.max(now);
        if age > 0.0 {
            let Accounts { size, sent, left: remains, rate, .. } = &mut self.accounts;
            for (((sent, remains), size), rate) in sent.iter_mut().zip(remains).zip(size).zip(rate)
            {
                *sent += *rate as f64 * age;
                *remains = left(*size, *sent);
            }
            for of in &mut self.uses {
                of.load = (of.load - of.rate as f64 * age).max(1.0);
            }
        }
    }

    /// Forgets flows that have ended.
    fn sweep(&mut self) {
        let mut kept = 0;
        for position in 0..self.flows.len() {
            if !self.flows[position].has_ended {
                if kept < position {
                    self.flows[kept] = self.flows[position];
                    self.accounts.keep(position, kept);
                }
                kept += 1;
            }
        }
        self.flows.truncate(kept);
        self.accounts.truncate(kept);
        let mut astray = core::mem::take(&mut self.astray);
        astray.retain(|(flow, _)| self.position(*flow).is_some());
        self.astray = astray;
    }

    /// Brings the list of flows and that of links up to date.
    pub(crate) fn refresh(&mut self, now: Time, links: &mut Links) {
        let change = core::mem::replace(&mut self.change, Change::None);
        if change == Change::None {
            return;
        }
        self.count_old(false, links);
        self.sync(now);
        if change == Change::Left {
            self.paths.links.retain(|flow| !self.flows[flow].has_ended);
        }
        self.sweep();
        if change == Change::Links {
            self.lay_out(links);
        }
        self.add_up();
        self.paths.turn(self.uses.len());
        self.peak = None;
        self.is_moved = true;
    }

    /// Lists the links of the flows anew.
    fn lay_out(&mut self, links: &mut Links) {
        let Self { flows, routes, uses, paths, .. } = self;
        uses.clear();
        for link in flows.iter().flat_map(|flow| flow.route(routes)).copied() {
            let place = &mut links.table[link.index()].place;
            if uses.get(*place as usize).is_none_or(|of| of.link != link) {
                *place = position(uses.len());
                uses.push(Use::new(link));
            }
        }
        uses.sort_unstable_by_key(|of| of.link);
        for (place, of) in (0u32..).zip(&*uses) {
            links.table[of.link.index()].place = place;
        }
        let mut kept = Vec::with_capacity(routes.len());
        paths.links.clear();
        for flow in flows {
            let start = kept.len();
            kept.extend_from_slice(flow.route(routes));
            flow.route = (position(start), position(kept.len()));
            let places = kept[start..].iter().map(|link| links.table[link.index()].place);
            paths.links.push(places);
        }
        *routes = kept;
    }

    /// Adds up what the flows do on every link, and forgets links without flows.
    fn add_up(&mut self) {
        let Self { accounts, uses, paths, .. } = self;
        match paths.links.pairs() {
            Some(pairs) => accounts.add_up(pairs, uses),
            None => accounts.add_up(&paths.links, uses),
        }
        if uses.iter().any(|of| of.flows == 0) {
            let mut kept = 0;
            let place = |of: &Use| {
                let place = kept;
                kept += u32::from(of.flows > 0);
                place
            };
            let places: Vec<u32> = uses.iter().map(place).collect();
            uses.retain(|of| of.flows > 0);
            paths.links.replace(|before| places[before as usize]);
        }
    }

    /// Grants rates to all flows out of what is left. What was granted before stands when nothing
    /// changed that it depends on: rates in proportion to what remains stay so.
    pub(crate) fn grant(&mut self, now: Time, stage: usize, rule: Rule, links: &mut Links) {
        self.refresh(now, links);
        let is_stuck =
            rule == Rule::Together && self.uses.iter().any(|of| is_full(links.left(of.link)));
        if is_stuck && self.standing[stage].is_idle() {
            return;
        }
        if self.standing[stage].pass(&mut links.lefts) {
            return;
        }
        self.sync(now);
        let Links { lefts, filler, .. } = links;
        let standing = &mut self.standing[stage];
        if standing.stay_blocked(lefts) {
            return;
        }
        filler.open(standing.open(self.uses.iter().map(|of| of.link), lefts));
        let (rates, left) = (&mut self.accounts.granted[stage][..], &self.accounts.left);
        let least = LEAST_RATE.as_bps();
        let grows = match rule {
            Rule::Together => {
                if is_stuck {
                    rates.fill(0);
                } else {
                    filler.pace(&self.paths, |flow| left[flow], rates);
                }
                true
            }
            Rule::ByRemaining => filler.fill(&self.paths, least, |flow| left[flow], rates),
            Rule::Equally => filler.fill(&self.paths, least, |_| 1.0, rates),
        };
        standing.close(filler.lefts(), !grows, lefts);
        self.is_moved = true;
    }

    /// Has everything looked at again that need not be: what follows is the same.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.peak = None;
        self.rations = Some(u64::MAX);
        self.standing.iter_mut().for_each(Standing::forget);
    }

    /// Grants each flow, in order, what `rate` says.
    pub(crate) fn grant_each(&mut self, now: Time, rate: impl FnMut() -> u64) {
        self.sync(now);
        self.accounts.granted[0].fill_with(rate);
        self.is_moved = true;
    }

    /// Grants one flow what is left of its path.
    pub(crate) fn grant_left(&mut self, now: Time, came: Arrival, links: &mut Links) {
        self.sync(now);
        if let Some(position) = self.position(came) {
            let path = self.flows[position].route(&self.routes);
            let rate = links.left_on(path);
            links.take(path, rate);
            self.accounts.granted[0][position] = rate;
            self.is_moved = true;
        }
    }

    /// Adds what flows were granted, and `aside`, to the links that carry their acknowledgements another way
    /// than their data went.
    pub(crate) fn stray(&self, aside: Rate, links: &mut Links) {
        let [one, other] = &self.accounts.granted;
        for (flow, back) in &self.astray {
            if let Some(position) = self.position(*flow) {
                let path = self.flows[position].route(&self.routes);
                links.stray(path, back, one[position] + other[position] + aside.as_bps());
            }
        }
    }

    /// Takes from what flows were granted what leaves acknowledgements no room.
    pub(crate) fn trim(&mut self, links: &Links) {
        let Self { flows, accounts, routes, .. } = self;
        let mut is_less = false;
        for (position, flow) in flows.iter().enumerate() {
            for granted in &mut accounts.granted {
                let rate = links.trimmed(flow.route(routes), granted[position]);
                if rate < granted[position] {
                    granted[position] = rate;
                    is_less = true;
                }
            }
        }
        if is_less {
            self.standing.iter_mut().for_each(Standing::fall);
            self.is_moved = true;
        }
    }

    /// Bit/s granted to all flows together; at least their floors.
    pub(crate) fn granted(&self) -> f64 {
        let [one, other] = &self.accounts.granted;
        let granted = one.iter().zip(other).map(|(one, other)| one + other);
        granted.map(|granted| granted.max(LEAST_RATE.as_bps()) as f64).sum()
    }

    /// Appends to `out` the limits that have changed by more than `aside`, which every flow has for
    /// itself on its links whatever it was granted. So rounding moves no limit.
    pub(crate) fn tell(&mut self, now: Time, aside: Rate, links: &Links, out: &mut Directives) {
        let is_old = self.is_old;
        let ration = |of: &Use| if is_old { links.table[of.link.index()].ration } else { 0 };
        let rations = is_old.then_some(links.rations);
        let is_same = core::mem::replace(&mut self.rations, rations) == rations;
        let is_even = is_same || self.uses.iter().all(|of| of.ration == ration(of));
        if !core::mem::take(&mut self.is_moved) && is_even {
            return;
        }
        self.sync(now);
        for of in &mut self.uses {
            of.ration = ration(of);
        }
        let Self { accounts, flows, uses, paths, .. } = self;
        match paths.links.pairs() {
            Some(pairs) => accounts.tell(flows, pairs, uses, aside, out),
            None => accounts.tell(flows, &paths.links, uses, aside, out),
        }
    }

    /// Counts the flows of the job on every link among those of old jobs, as the last [`Coflow::refresh`] found
    /// them; or takes off again what was so counted.
    pub(crate) fn count_old(&mut self, is_old: bool, links: &mut Links) {
        if core::mem::replace(&mut self.is_old, is_old) == is_old {
            return;
        }
        for of in &self.uses {
            let old = &mut links.table[of.link.index()].old;
            *old = if is_old { *old + of.flows } else { *old - of.flows };
        }
    }
}

fn bits(bytes: Bytes) -> f64 {
    bytes.get() as f64 * 8.0
}
