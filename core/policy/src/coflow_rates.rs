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
        links.forget_old();
        for job in &mut jobs {
            job.refresh(now, links);
            let gets_old = guard.map(|guard| job.submitted + guard.threshold);
            job.is_old = gets_old.is_some_and(|time| time < now);
            if job.is_old {
                job.count_old(links);
            } else {
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
