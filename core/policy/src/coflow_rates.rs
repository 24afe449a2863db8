//! Rates for all flows of all jobs, solved once an instant: the machine that `fair`, `sebf`, `srb`,
//! `bssf`, `dclas`, `srpt` and `fifo-lm` share.
//!
//! Messages only note what changed. The division itself falls due at the same instant, as the
//! [`Policy::deadline`], when everything that is said then has been heard. A flow that ends while its
//! job goes on may wait: thousands end one after another, and what they leave is divided at most
//! once a [`Discipline::patience`].
//!
//! What acknowledgements take of links on their way back is left to them: a division is made again until that
//! fits (`links`).
//!
//! Every flow has at least [`LEAST_RATE`](model::LEAST_RATE). For that a little of each link is set aside,
//! for a number of flows rounded up to a power of two, so that flows that come and go change few
//! rates. The rest is divided; so all rates together don't exceed a link, unless the floors alone
//! do.

use alloc::vec::Vec;

use model::{Declared, Directives, FlowId, JobId, Measured, Network, Observation};
use units::{Rate, Span, Time};

use crate::coflow::{Arrival, Coflow};
use crate::flow_map::FlowMap;
use crate::links::Links;
use crate::roster::Roster;
use crate::{Given, Policy, Share, pace};

/// How often a division is made until acknowledgements have the room that they need, and no more.
const PASSES: usize = 8;
/// How many of these keep back what the one before needed. Flows that give way to acknowledgements have fewer
/// themselves, so that divisions may take turns between two; later ones go half of the way.
const LEAPS: usize = 2;

/// How a policy divides the network. This is all in which the policies differ.
pub(crate) trait Discipline {
    /// What is set aside on every link for each of its flows.
    const ASIDE: Rate = model::LEAST_RATE;

    /// Grants a rate to every flow, out of what is left of the links.
    fn divide(&mut self, now: Time, division: Division<'_, '_>);

    /// How long what a flow leaves to others may stay unused.
    fn patience(&self) -> Span {
        Span::ZERO
    }

    /// When the division is to be made anew although nothing was said.
    fn review(&self) -> Option<Time> {
        None
    }

    /// The starvation guard.
    fn guard(&self) -> Option<Ration> {
        None
    }
}

/// A starvation guard: what old jobs always have for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ration {
    /// Jobs submitted longer ago than this are old.
    pub(crate) threshold: Span,
    /// The share of every link that the flows of old jobs divide, whatever the order.
    pub(crate) share: Share,
}

/// What there is to divide.
pub(crate) struct Division<'a, 'j> {
    /// Jobs with flows in the network, in order of arrival, up to date.
    pub(crate) jobs: &'a mut [&'j mut Coflow],
    pub(crate) links: &'a mut Links,
    /// Whether jobs came or went since the last time.
    pub(crate) is_new: bool,
    /// Whether the same was divided a moment ago, with other room kept back for acknowledgements.
    pub(crate) is_again: bool,
}

/// A policy that divides links by rate.
#[derive(Debug)]
pub(crate) struct CoflowRates<D> {
    discipline: D,
    roster: Roster<Coflow>,
    links: Links,
    /// When to divide because of what was heard.
    due: Option<Time>,
    /// When the next job gets old.
    ageing: Option<Time>,
    divided: Time,
    is_new: bool,
    arrivals: Arrival,
    /// When each flow came.
    came: FlowMap<Arrival>,
    /// Flows whose job completed.
    released: Vec<FlowId>,
    ticked: bool,
}

impl<D: Discipline> CoflowRates<D> {
    /// `given` is what the policy is built from.
    pub(crate) fn new(discipline: D, given: &Given<'_>) -> Self {
        Self {
            discipline,
            roster: Roster::default(),
            links: Links::new(given.acknowledgements()),
            due: None,
            ageing: None,
            divided: Time::ZERO,
            is_new: true,
            arrivals: 0,
            came: FlowMap::NONE,
            released: Vec::new(),
            ticked: false,
        }
    }

    fn divide_at(&mut self, time: Time) {
        self.due = Some(self.due.map_or(time, |due| due.min(time)));
    }

    /// At the end of the discipline's patience.
    fn divide_soon(&mut self, now: Time) {
        self.divide_at(now.max(self.divided + self.discipline.patience()));
    }

    fn declare(&mut self, now: Time, network: &Network, said: &Declared) {
        match *said {
            Declared::JobStart { job, .. } => {
                self.arrivals += 1;
                self.roster.start(job, || Coflow::new(self.arrivals, now));
            }
            Declared::JobTerms { job, ref terms } => {
                if let Some(entry) = self.roster.get_mut(job) {
                    entry.record.weight = terms.weight;
                    self.is_new = true;
                    self.divide_at(now);
                }
            }
            Declared::JobComplete { job } => self.complete(now, job),
            Declared::FlowRequest { job, flow, src, dst, size } => {
                if let Some(entry) = self.roster.enter(network, job, flow, (src, dst)) {
                    self.links.cover(network);
                    self.arrivals += 1;
                    self.came.insert(flow, self.arrivals);
                    let (flow, links) = ((self.arrivals, flow, (src, dst)), &mut self.links);
                    entry.record.insert(now, flow, size, network, links);
                    self.is_new = true;
                    self.divide_at(now);
                }
            }
            Declared::FlowComplete { job, flow } => self.end(now, job, flow),
            _ => {}
        }
    }

    fn end(&mut self, now: Time, job: JobId, flow: FlowId) {
        if !self.roster.leave(job, flow) {
            return;
        }
        if let Some(entry) = self.roster.get_mut(job)
            && let Some(came) = self.came.remove(flow)
        {
            entry.record.remove(now, came, &mut self.links);
            if entry.flows.is_empty() {
                entry.record.count_old(false, &mut self.links);
                self.is_new = true;
                self.divide_at(now);
            } else {
                self.divide_soon(now);
            }
        }
    }

    fn complete(&mut self, now: Time, job: JobId) {
        if let Some(entry) = self.roster.get_mut(job) {
            self.released.extend(entry.record.withdraw(&mut self.links));
        }
        let flows = self.roster.complete(job);
        for flow in flows.iter() {
            self.came.remove(flow);
        }
        if !flows.is_empty() {
            self.is_new = true;
            self.divide_at(now);
        }
    }

    fn measure(&mut self, now: Time, network: &Network, measured: &Measured) {
        match measured {
            Measured::LinkState { .. } => {
                self.links.cover(network);
                for entry in self.roster.jobs_mut() {
                    entry.record.reroute(now, network, &mut self.links);
                }
                self.divide_at(now);
            }
            Measured::Capacity(links) => {
                self.links.cover(network);
                self.links.resize(network, links);
                self.divide_at(now);
            }
            Measured::Delivered(flows) => {
                for &(flow, delivered) in flows {
                    let job = self.roster.owner(flow);
                    if let Some(entry) = job.and_then(|job| self.roster.get_mut(job))
                        && let Some(came) = self.came.get(flow)
                    {
                        entry.record.measure(now, *came, delivered);
                    }
                }
                self.divide_soon(now);
            }
            _ => {}
        }
    }

    fn divide(&mut self, now: Time, out: &mut Directives) {
        let Self { discipline, roster, links, .. } = self;
        let guard = discipline.guard();
        let entries = roster.jobs_mut().filter(|entry| !entry.flows.is_empty());
        let mut jobs: Vec<&mut Coflow> = entries.map(|entry| &mut entry.record).collect();
        jobs.sort_by_key(|job| job.arrival);
        self.ageing = None;
        for job in &mut jobs {
            job.refresh(now, links);
            let gets_old = guard.map(|guard| job.submitted + guard.threshold);
            let is_old = gets_old.is_some_and(|time| time < now);
            job.count_old(is_old, links);
            if !is_old {
                let next = gets_old.map(|time| time + Span::from_nanos(1));
                self.ageing = self.ageing.into_iter().chain(next).min();
            }
        }
        let mut is_new = core::mem::take(&mut self.is_new);
        for pass in 1..=PASSES {
            links.open(D::ASIDE, guard.map(|guard| guard.share));
            let is_again = pass > 1;
            discipline.divide(now, Division { jobs: &mut jobs, links, is_new, is_again });
            is_new = false;
            for job in &jobs {
                job.stray(D::ASIDE, links);
            }
            if links.fits(pass > LEAPS) {
                break;
            }
            if pass == PASSES {
                jobs.iter_mut().for_each(|job| job.trim(links));
            }
        }
        for job in jobs {
            job.tell(now, D::ASIDE, links, out);
        }
        self.divided = now;
        self.due = None;
    }
}

impl<D: Discipline> Policy for CoflowRates<D> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Declared(declared) => self.declare(now, network, declared),
            Observation::Measured(measured) => self.measure(now, network, measured),
            Observation::Tick => self.ticked = true,
        }
    }

    fn decide(&mut self, now: Time, _: &Network, out: &mut Directives) {
        out.extend(self.released.drain(..).map(|flow| pace(flow, None)));
        let ticked = core::mem::take(&mut self.ticked);
        if ticked && self.deadline().is_some_and(|deadline| deadline <= now) {
            self.divide(now, out);
        }
    }

    fn paces_all(&self) -> bool {
        true
    }

    fn deadline(&self) -> Option<Time> {
        let times = self.due.into_iter().chain(self.ageing).chain(self.discipline.review());
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use model::build::{Access, leaf_spine};
    use model::{Buffer, LinkId, LinkSpec, NodeId};
    use units::Bytes;

    use super::*;
    use crate::dclas::{LeastAttained, Settings};
    use crate::ordered::Ordered;
    use crate::sebf::SmallestBottleneck;
    use crate::srb::SmallestRemaining;
    use crate::{Acknowledgements, Parameters};

    const JOBS: u32 = 6;

    /// Pseudo-random numbers from 0 to `sides` − 1 (xorshift, Marsaglia 2003).
    fn roll(dice: &mut u64, sides: u32) -> u32 {
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        u32::try_from(*dice >> 32).unwrap() % sides
    }

    /// What happens in step `step`, whose flow, if one comes, has that number.
    fn happen(dice: &mut u64, step: u32, network: &mut Network) -> Observation {
        let hosts: Vec<NodeId> = network.topology().hosts().collect();
        let count = u32::try_from(hosts.len()).unwrap();
        let links = u32::try_from(network.topology().links().len()).unwrap();
        let flow = FlowId(roll(dice, step + 1));
        let link = LinkId(roll(dice, links));
        match roll(dice, 16) {
            _ if step < JOBS => {
                Declared::JobStart { job: JobId(step), application: "".into() }.into()
            }
            0 => Declared::JobComplete { job: JobId(step % JOBS) }.into(),
            1 => Declared::JobStart { job: JobId(step % JOBS), application: "".into() }.into(),
            2..=4 => Declared::FlowComplete { job: JobId(flow.0 % JOBS), flow }.into(),
            5..=6 => {
                let delivered = Bytes::new(u64::from(roll(dice, 20_000_000)));
                Measured::Delivered(vec![(flow, delivered)]).into()
            }
            7 => {
                let up = roll(dice, 4) > 0;
                network.set_up(link, up);
                Measured::LinkState { link, up }.into()
            }
            8 => {
                network.set_capacity(link, Rate::from_mbps(1 + u64::from(roll(dice, 300))));
                Measured::Capacity(vec![link]).into()
            }
            _ => {
                let [src, dst] = [(); 2].map(|()| hosts[roll(dice, count) as usize]);
                let size = Bytes::new(u64::from(roll(dice, 20_000_000)));
                let (job, flow) = (JobId(step % JOBS), FlowId(step));
                Declared::FlowRequest { job, flow, src, dst, size }.into()
            }
        }
    }

    /// Flows of old jobs on each link, by their paths.
    fn old<D>(policy: &CoflowRates<D>) -> Vec<u64> {
        let mut old = vec![0; policy.links.table.len()];
        let jobs = policy.roster.jobs().filter(|entry| !entry.flows.is_empty());
        for job in jobs.map(|entry| &entry.record).filter(|job| job.is_old) {
            for link in job.paths().flatten() {
                old[link.index()] += 1;
            }
        }
        old
    }

    /// Some things happen at once: the policies divide when they have heard all.
    fn hold<D: Discipline>(discipline: impl Fn() -> D) {
        let name = core::any::type_name::<D>();
        let spec = |mbps| {
            let capacity = Rate::from_mbps(mbps);
            LinkSpec { capacity, delay: Span::ZERO, buffer: Buffer::Unlimited, mark: None }
        };
        let access = Access { link: spec(100), nic: Buffer::Unlimited };
        for seed in 1..=40 {
            let mut dice = seed;
            let mut network = Network::new(leaf_spine(2, 2, 4, &access, &spec(300)).unwrap());
            let counted = [Acknowledgements::NONE, Acknowledgements::new(40, 1500)];
            let parameters = Parameters::default().acknowledged(counted[usize::from(seed > 20)]);
            let given = Given { parameters: &[], given: &parameters };
            let [mut keeps, mut looks] = [(); 2].map(|()| CoflowRates::new(discipline(), &given));
            let (mut now, mut told, mut oldest) = (Time::ZERO, 0, 0);
            let mut ticks = true;
            for step in 0..300 {
                if ticks {
                    now += Span::from_micros(u64::from(roll(&mut dice, 40_000)));
                }
                ticks = roll(&mut dice, 4) > 0;
                let happened = happen(&mut dice, step, &mut network);
                let tick = ticks.then_some(Observation::Tick);
                looks.roster.jobs_mut().for_each(|entry| entry.record.forget());
                for observation in core::iter::once(&happened).chain(&tick) {
                    let [kept, found] = [&mut keeps, &mut looks].map(|policy| {
                        let mut out = Directives::new();
                        policy.observe(now, &network, observation);
                        policy.decide(now, &network, &mut out);
                        out
                    });
                    assert_eq!(kept, found, "{name}, seed {seed}, step {step}");
                    told += kept.len();
                }
                // Whoever has ended since the last division is still there.
                if keeps.divided == now && keeps.due.is_none() {
                    let counted = keeps.links.table.iter().map(|link| link.old);
                    assert!(counted.eq(old(&keeps)), "{name}, seed {seed}, step {step}");
                    oldest = oldest.max(old(&keeps).into_iter().max().unwrap_or(0));
                }
            }
            assert!(told > 30, "{name}, seed {seed}: {told}");
            assert_eq!(oldest > 0, keeps.discipline.guard().is_some(), "{name}, seed {seed}");
        }
    }

    /// Whatever has happened, a policy that keeps who is the busiest link, who is blocked and what has a ration
    /// says what one says that looks at all links of all jobs whenever it decides; and flows of old jobs are those
    /// that are counted.
    #[test]
    fn what_is_kept_is_what_would_be_found() {
        let pause = Span::from_millis(50);
        let ration = Ration { threshold: Span::from_millis(500), share: Share::literal(10_000) };
        hold(|| Ordered::<SmallestRemaining>::new(pause, Some(ration)));
        hold(|| Ordered::<SmallestBottleneck>::new(pause, None));
        let settings = Settings { queues: 4, first: Bytes::new(1_000_000), factor: 4, pause };
        hold(|| LeastAttained::new(settings));
    }
}
