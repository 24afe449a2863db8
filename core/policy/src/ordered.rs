//! Jobs in an order, each taking what those before it leave: what `sebf`, `bssf` and `srb` do alike.

use alloc::vec::Vec;

use units::{Span, Time};

use crate::coflow::{Coflow, Rule};
use crate::coflow_rates::{Discipline, Division, Ration};
use crate::links::Links;
use crate::order::Demand;
use crate::{Kind, Parameter, Value};

/// How long what a single flow leaves may stay unused while its job goes on; ours, in no text.
///
/// Every division costs the controller and the hosts work in proportion to the flows; without a
/// pause thousands that end one after another would cause one each. With a second the mean completion
/// time of an hour of Facebook's coflows gets 0.3 % longer.
pub(crate) const PAUSE: Parameter = Parameter::new(
    "pause",
    Kind::Span(Span::ZERO, Span::from_secs(3_600)),
    Value::Span(Span::from_secs(1)),
    "how long what a flow leaves may stay unused while its job goes on",
);

/// Jobs that are to be put in order, in order of arrival.
pub(crate) struct Jobs<'a, 'j> {
    now: Time,
    jobs: &'a mut [&'j mut Coflow],
    links: &'a Links,
    demands: &'a mut Vec<Demand>,
}

impl Jobs<'_, '_> {
    /// The time that its busiest link takes for what remains of each, s.
    pub(crate) fn bottlenecks(&mut self) -> Vec<f64> {
        self.jobs.iter_mut().map(|job| job.bottleneck(self.now, self.links)).collect()
    }

    /// What these take, by position.
    pub(crate) fn demands(&mut self, of: impl ExactSizeIterator<Item = usize>) -> &[Demand] {
        self.demands.resize_with(of.len(), Vec::new);
        for (demand, job) in self.demands.iter_mut().zip(of) {
            let loads = self.jobs[job].loads(self.now, self.links);
            demand.clear();
            demand.extend(loads.map(|(link, time)| (link.index(), time)));
        }
        self.demands
    }

    /// What the completion of each is worth.
    pub(crate) fn weights(&self) -> Vec<f64> {
        self.jobs.iter().map(|job| f64::from(job.weight)).collect()
    }
}

/// An order of jobs, and what each may take.
pub(crate) trait Order {
    /// One pass over all jobs each.
    const RULES: &'static [Rule];

    /// Positions of the jobs, the first to go first.
    fn order(jobs: &mut Jobs<'_, '_>) -> Vec<usize>;
}

/// The discipline of an order.
#[derive(Debug)]
pub(crate) struct Ordered<O> {
    pause: Span,
    guard: Option<Ration>,
    /// Positions of the jobs, as long as none comes or goes.
    order: Vec<usize>,
    /// What jobs take that the order is chosen by, kept for the room that it has.
    demands: Vec<Demand>,
    by: core::marker::PhantomData<O>,
}

impl<O> Ordered<O> {
    pub(crate) const fn new(pause: Span, guard: Option<Ration>) -> Self {
        Self { pause, guard, order: Vec::new(), demands: Vec::new(), by: core::marker::PhantomData }
    }
}

impl<O: Order> Discipline for Ordered<O> {
    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let Division { jobs, links, is_new, .. } = division;
        if is_new {
            let demands = &mut self.demands;
            self.order = O::order(&mut Jobs { now, jobs: &mut *jobs, links, demands });
        }
        for (stage, &rule) in O::RULES.iter().enumerate() {
            for &position in &self.order {
                jobs[position].grant(now, stage, rule, links);
            }
        }
        if jobs.is_empty() {
            (self.order, self.demands) = (Vec::new(), Vec::new());
        }
    }

    fn patience(&self) -> Span {
        self.pause
    }

    fn guard(&self) -> Option<Ration> {
        self.guard
    }
}
