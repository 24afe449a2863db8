//! The flows of one job while they are in the network: what each still has to send, at which rate
//! it is held, and what the job loads on every link.
//!
//! What remains of a flow is its declared size less the rates it was held to over time. That is
//! exact where rates are kept and nothing else holds flows back; where it isn't so, measurements of
//! what was delivered set it right whenever they come. A flow that should have ended and has not
//! counts as if 1/1024 of its size remained.

use alloc::vec::Vec;

use model::{Directives, FlowId, LinkId, Network, NodeId};
use units::{Bytes, Rate, Time};

use crate::links::{Growing, Links};
use crate::{FLOOR, pace};

/// A division may go over all jobs so many times.
pub(crate) const STAGES: usize = 2;
/// The part of its size that a flow has left at least, until it says that it has ended.
const OVERDUE: f64 = 1.0 / 1024.0;

/// A job with flows.
#[derive(Debug)]
pub(crate) struct Coflow {
    /// Counts up in the order in which jobs registered.
    pub(crate) arrival: u64,
    pub(crate) submitted: Time,
    /// Whether it is older than the guard's threshold.
    pub(crate) is_old: bool,
    /// Up to when what was sent is accounted for.
    synced: Time,
    /// By number.
    flows: Vec<Flow>,
    /// The links of the flows, each once, unless flows have come, gone or moved.
    uses: Vec<Use>,
    is_stale: bool,
    /// Sent by all flows up to `synced`, bits.
    sent: f64,
    /// Whether what the stage granted may stand while as much is left for it as there was.
    stands: [bool; STAGES],
    /// Whether the stage granted nothing.
    is_idle: [bool; STAGES],
    /// Whether rates may have changed since they were told.
    is_moved: bool,
}

#[derive(Debug)]
struct Flow {
    id: FlowId,
    ends: (NodeId, NodeId),
    /// Empty when no path leads from end to end.
    path: Vec<LinkId>,
    /// Bits.
    size: f64,
    /// Bits at the coflow's `synced`.
    sent: f64,
    /// By stage, bit/s.
    granted: [u64; STAGES],
    /// The limit in force, bit/s; zero is none.
    rate: u64,
    has_ended: bool,
}

impl Flow {
    /// Bits that remain.
    fn left(&self) -> f64 {
        (self.size - self.sent).max(self.size * OVERDUE).max(1.0)
    }
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
    /// By stage: what was left before it, and after.
    before: [u64; STAGES],
    after: [u64; STAGES],
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

/// Flows while a stage grants them rates.
struct Stage<'a> {
    flows: &'a mut [Flow],
    stage: usize,
    rule: Rule,
}

impl Growing for Stage<'_> {
    fn count(&self) -> usize {
        self.flows.len()
    }

    fn path(&self, flow: usize) -> &[LinkId] {
        &self.flows[flow].path
    }

    fn weight(&self, flow: usize) -> f64 {
        if self.rule == Rule::Equally { 1.0 } else { self.flows[flow].left() }
    }

    fn grant(&mut self, flow: usize, rate: u64) {
        self.flows[flow].granted[self.stage] = rate;
    }
}

impl Coflow {
    pub(crate) const fn new(arrival: u64, submitted: Time) -> Self {
        Self {
            arrival,
            submitted,
            is_old: false,
            synced: submitted,
            flows: Vec::new(),
            uses: Vec::new(),
            is_stale: false,
            sent: 0.0,
            stands: [false; STAGES],
            is_idle: [true; STAGES],
            is_moved: true,
        }
    }

    /// Seconds since the last account.
    fn age(&self, now: Time) -> f64 {
        now.since(self.synced).as_secs_f64()
    }

    /// Bits sent so far.
    pub(crate) fn sent(&self, now: Time) -> f64 {
        self.sent + self.rate() * self.age(now)
    }

    /// Bit/s of all flows together.
    pub(crate) fn rate(&self) -> f64 {
        let here = self.flows.iter().filter(|flow| !flow.has_ended);
        here.map(|flow| flow.rate as f64).sum()
    }

    /// For each link with flows of the job, the time that it takes for what remains of them, s.
    /// The job is up to date.
    pub(crate) fn loads(&self, now: Time, links: &Links) -> impl Iterator<Item = (LinkId, f64)> {
        let age = self.age(now);
        self.uses.iter().map(move |of| {
            let capacity = links.table[of.link.index()].capacity.max(1) as f64;
            (of.link, (of.load - of.rate as f64 * age).max(1.0) / capacity)
        })
    }

    /// Each flow with what remains of it, bits. The job is up to date.
    pub(crate) fn remaining(&mut self, now: Time) -> impl Iterator<Item = (FlowId, f64)> {
        self.sync(now);
        self.flows.iter().map(|flow| (flow.id, flow.left()))
    }

    /// The path of each flow, by number. The job is up to date.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[LinkId]> {
        self.flows.iter().map(|flow| &flow.path[..])
    }

    fn position(&self, id: FlowId) -> Result<usize, usize> {
        self.flows.binary_search_by_key(&id, |flow| flow.id)
    }

    /// Flows have come, gone or moved.
    const fn change(&mut self) {
        self.is_stale = true;
        self.stands = [false; STAGES];
    }

    /// A new flow. Its number is in use by no other.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        (id, ends): (FlowId, (NodeId, NodeId)),
        size: Bytes,
        network: &Network,
        links: &mut Links,
    ) {
        self.sync(now);
        let (size, path) = (bits(size), route(network, id, ends));
        let (granted, rate) = ([0; STAGES], 0);
        let flow = Flow { id, ends, path, size, sent: 0.0, granted, rate, has_ended: false };
        links.enter(&flow.path);
        match self.position(id) {
            Ok(ended) => self.flows[ended] = flow,
            Err(place) => self.flows.insert(place, flow),
        }
        self.change();
    }

    /// A flow of the job has ended. It is swept out in the next division.
    pub(crate) fn remove(&mut self, now: Time, id: FlowId, links: &mut Links) {
        let age = self.age(now);
        if let Ok(position) = self.position(id) {
            let flow = &mut self.flows[position];
            links.leave(&flow.path);
            self.sent += flow.rate as f64 * age;
            flow.has_ended = true;
            self.change();
        }
    }

    /// The job has ended. Returns its flows that are still held to a limit.
    pub(crate) fn withdraw(&self, links: &mut Links) -> impl Iterator<Item = FlowId> {
        let here = self.flows.iter().filter(|flow| !flow.has_ended);
        for flow in here.clone() {
            links.leave(&flow.path);
        }
        here.filter(|flow| flow.rate > 0).map(|flow| flow.id)
    }

    /// So much of a flow has arrived.
    pub(crate) fn measure(&mut self, now: Time, id: FlowId, delivered: Bytes) {
        self.sync(now);
        if let Ok(position) = self.position(id) {
            let flow = &mut self.flows[position];
            let sent = bits(delivered).min(flow.size);
            self.sent += sent - flow.sent;
            flow.sent = sent;
            self.change();
        }
    }

    /// The topology has changed.
    pub(crate) fn reroute(&mut self, now: Time, network: &Network, links: &mut Links) {
        self.sync(now);
        for flow in self.flows.iter_mut().filter(|flow| !flow.has_ended) {
            links.leave(&flow.path);
            flow.path = route(network, flow.id, flow.ends);
            links.enter(&flow.path);
        }
        self.change();
    }

    /// Accounts for what was sent.
    fn sync(&mut self, now: Time) {
        let age = self.age(now);
        self.synced = self.synced.max(now);
        if age > 0.0 {
            for flow in self.flows.iter_mut().filter(|flow| !flow.has_ended) {
                let sent = flow.rate as f64 * age;
                flow.sent += sent;
                self.sent += sent;
            }
            for of in &mut self.uses {
                of.load = (of.load - of.rate as f64 * age).max(1.0);
            }
        }
    }

    /// Brings the list of flows and that of links up to date.
    pub(crate) fn refresh(&mut self, now: Time, links: &mut Links) {
        if !core::mem::take(&mut self.is_stale) {
            return;
        }
        self.sync(now);
        self.flows.retain(|flow| !flow.has_ended);
        self.uses.clear();
        for flow in &self.flows {
            for &link in &flow.path {
                let place = &mut links.table[link.index()].place;
                match self.uses.get_mut(*place as usize).filter(|of| of.link == link) {
                    Some(of) => {
                        of.flows += 1;
                        of.load += flow.left();
                        of.rate += flow.rate;
                    }
                    None => {
                        // A coflow has fewer links than flows have hops, and a u32 counts those.
                        *place = u32::try_from(self.uses.len()).unwrap_or(u32::MAX);
                        let (load, rate) = (flow.left(), flow.rate);
                        let (before, after) = ([0; STAGES], [0; STAGES]);
                        let (flows, ration) = (1, 0);
                        self.uses.push(Use { link, flows, load, rate, ration, before, after });
                    }
                }
            }
        }
        self.is_moved = true;
    }

    /// Grants rates to all flows out of what is left. What was granted before stands when nothing
    /// changed that it depends on: rates in proportion to what remains stay so. A link that has less
    /// than a floor left is full, whatever rounding left of it: nothing is granted on it.
    pub(crate) fn grant(&mut self, now: Time, stage: usize, rule: Rule, links: &mut Links) {
        self.refresh(now, links);
        let is_full = |left: u64| left < FLOOR.as_bps();
        let is_stuck =
            rule == Rule::Together && self.uses.iter().any(|of| is_full(links.left(of.link)));
        if is_stuck && self.is_idle[stage] {
            return;
        }
        let same = |of: &Use| {
            let (left, before) = (links.left(of.link), of.before[stage]);
            left == before || is_full(left) && is_full(before)
        };
        if self.stands[stage] && self.uses.iter().all(same) {
            for of in self.uses.iter().filter(|of| !is_full(of.before[stage])) {
                links.table[of.link.index()].left = of.after[stage];
            }
            return;
        }
        self.sync(now);
        for of in &mut self.uses {
            of.before[stage] = links.left(of.link);
        }
        let mut flows = Stage { flows: &mut self.flows, stage, rule };
        match rule {
            Rule::Together if is_stuck => (0..flows.count()).for_each(|flow| flows.grant(flow, 0)),
            Rule::Together => links.pace(&mut flows),
            Rule::ByRemaining | Rule::Equally => {
                let used = self.uses.iter().map(|of| of.link);
                links.fill(used, FLOOR.as_bps(), &mut flows);
            }
        }
        for of in &mut self.uses {
            of.after[stage] = links.left(of.link);
        }
        self.is_idle[stage] = self.uses.iter().all(|of| of.before[stage] == of.after[stage]);
        self.stands[stage] = true;
        self.is_moved = true;
    }

    /// Grants each flow, by number, what `rate` says.
    pub(crate) fn grant_each(&mut self, now: Time, mut rate: impl FnMut() -> u64) {
        self.sync(now);
        for flow in &mut self.flows {
            flow.granted[0] = rate();
        }
        self.is_moved = true;
    }

    /// Grants one flow what is left of its path.
    pub(crate) fn grant_left(&mut self, now: Time, id: FlowId, links: &mut Links) {
        self.sync(now);
        if let Ok(position) = self.position(id) {
            let flow = &mut self.flows[position];
            flow.granted[0] = links.left_on(&flow.path);
            links.take(&flow.path, flow.granted[0]);
            self.is_moved = true;
        }
    }

    /// Bit/s granted to all flows together; at least their floors.
    pub(crate) fn granted(&self) -> f64 {
        let granted = |flow: &Flow| flow.granted.iter().sum::<u64>().max(FLOOR.as_bps()) as f64;
        self.flows.iter().map(granted).sum()
    }

    /// Appends to `out` the limits that have changed by more than `aside`, which every flow has for
    /// itself on its links whatever it was granted. So rounding moves no limit.
    pub(crate) fn tell(&mut self, now: Time, aside: Rate, links: &mut Links, out: &mut Directives) {
        let is_old = self.is_old;
        let ration = |of: &Use| if is_old { links.table[of.link.index()].ration } else { 0 };
        let is_even = self.uses.iter().all(|of| of.ration == ration(of));
        if !core::mem::take(&mut self.is_moved) && is_even {
            return;
        }
        self.sync(now);
        for (place, of) in (0u32..).zip(&mut self.uses) {
            let link = &mut links.table[of.link.index()];
            (of.rate, of.ration) = (0, if is_old { link.ration } else { 0 });
            link.place = place;
        }
        for flow in &mut self.flows {
            let ration = flow.path.iter().map(|link| links.table[link.index()].ration);
            let ration = ration.min().filter(|_| self.is_old).unwrap_or(0);
            let granted = flow.granted.iter().sum::<u64>().max(ration);
            let rate = if flow.path.is_empty() { 0 } else { granted.max(FLOOR.as_bps()) };
            // No faster than what it was granted and what is set aside for it.
            let is_close = flow.rate <= granted + aside.as_bps()
                && rate <= flow.rate.saturating_add(aside.as_bps());
            if !is_close || (rate == 0) != (flow.rate == 0) {
                flow.rate = rate;
                out.push(pace(flow.id, (rate > 0).then_some(Rate::from_bps(rate))));
            }
            for link in &flow.path {
                self.uses[links.table[link.index()].place as usize].rate += flow.rate;
            }
        }
    }

    /// Counts the flows of the job on every link among those of old jobs. The job is up to date.
    pub(crate) fn count_old(&self, links: &mut Links) {
        for of in &self.uses {
            links.table[of.link.index()].old += of.flows;
        }
    }
}

fn bits(bytes: Bytes) -> f64 {
    bytes.get() as f64 * 8.0
}

fn route(network: &Network, id: FlowId, ends: (NodeId, NodeId)) -> Vec<LinkId> {
    let mut path = Vec::new();
    network.path(ends.0, ends.1, u64::from(id.0), &mut path);
    path
}
