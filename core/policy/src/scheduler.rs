//! Northbound messages to admission: what `fifo`, `sff` and `smsf` do alike (Phurti, chapters 4, 5).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::{Declared, Directives, FlowId, JobId, Measured, Network, Observation};
use units::{Bytes, Time};

use crate::admission::Admission;
use crate::groups::Rank;
use crate::guard::{Alarm, Guard};
use crate::roster::Roster;
use crate::{Kind, Messages, Parameter, Policy, Share, Value, pace};

/// β. Its default is Phurti's (section 6.1); of `fifo` and `sff` the text says nothing like it.
pub(crate) const BETA: Parameter = Parameter::new(
    "beta",
    Kind::Share,
    Value::Share(Share::literal(10_000)),
    "the share of its access link that a host's SLOW flows divide",
);

/// How a policy ranks flows, kept for each job. This is all in which the policies differ.
pub(crate) trait Ranking {
    /// The job that registered as the `arrival`-th event.
    fn new(arrival: u64) -> Self;

    /// Takes in a message of the job. The new rank of all its flows when that changes one.
    fn learn(&mut self, network: &Network, declared: &Declared) -> Option<Rank> {
        let _ = (network, declared);
        None
    }

    /// The rank of a flow of `size` that enters as the `arrival`-th event.
    fn rank(&mut self, arrival: u64, size: Bytes) -> Rank;
}

/// A policy that admits flows by rank.
#[derive(Debug)]
pub(crate) struct Scheduler<S> {
    roster: Roster<Member<S>>,
    admission: Admission,
    /// Jobs that must be ranked anew before anything is decided: once, however often a rank changes.
    reranked: BTreeMap<JobId, Rank>,
    guard: Option<(Guard, Alarm)>,
    /// Counts jobs and flows as they come.
    arrivals: u64,
    /// Flows that were limited when their job completed.
    released: Vec<FlowId>,
    ticked: bool,
}

#[derive(Debug)]
struct Member<S> {
    submitted: Time,
    ranking: S,
}

impl<S: Ranking> Scheduler<S> {
    pub(crate) fn new(slow_share: Share, messages: Messages, guard: Option<Guard>) -> Self {
        Self {
            roster: Roster::default(),
            admission: Admission::new(slow_share, messages),
            reranked: BTreeMap::new(),
            guard: guard.map(|guard| (guard, Alarm::new(&guard))),
            arrivals: 0,
            released: Vec::new(),
            ticked: false,
        }
    }

    fn declare(&mut self, now: Time, network: &Network, declared: &Declared) {
        let arrival = self.arrivals;
        match *declared {
            Declared::JobStart { job, .. } => {
                self.arrivals += 1;
                self.roster.start(job, || Member { submitted: now, ranking: S::new(arrival) });
            }
            Declared::JobComplete { job } => {
                self.reranked.remove(&job);
                for flow in self.roster.complete(job).iter() {
                    // Nobody will decide about this flow again, so it isn't left throttled.
                    if self.admission.exit(flow).is_some() {
                        self.released.push(flow);
                    }
                }
            }
            Declared::FlowRequest { job, flow, src, dst, size } => {
                let Some(entry) = self.roster.enter(network, job, flow, (src, dst)) else {
                    return;
                };
                self.arrivals += 1;
                let ranking = &mut entry.record.ranking;
                if let Some(rank) = ranking.learn(network, declared) {
                    self.reranked.insert(job, rank);
                }
                let rank = ranking.rank(arrival, size);
                self.admission.enter(network, flow, (src, dst), rank);
            }
            Declared::FlowComplete { job, flow } => {
                let known = self.roster.leave(job, flow);
                if known {
                    self.admission.exit(flow);
                }
            }
            Declared::TaskHost { job, .. } | Declared::Size { job, .. } => {
                if let Some(entry) = self.roster.get_mut(job)
                    && let Some(rank) = entry.record.ranking.learn(network, declared)
                {
                    self.reranked.insert(job, rank);
                }
            }
            _ => {}
        }
    }

    /// Gives jobs whose rank has changed that rank.
    fn rerank(&mut self) {
        for rank in core::mem::take(&mut self.reranked).into_values() {
            self.admission.rerank(rank);
        }
    }

    /// Lets the SLOW flows of jobs past the threshold transmit; whether there are any.
    fn relieve(&mut self, now: Time, guard: &Guard) -> bool {
        let mut any = false;
        let jobs = self.roster.jobs();
        for old in jobs.filter(|job| now.since(job.record.submitted) > guard.threshold) {
            for flow in old.flows.iter() {
                any |= self.admission.except(flow);
            }
        }
        any
    }
}

impl<S: Ranking> Policy for Scheduler<S> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Declared(declared) => self.declare(now, network, declared),
            Observation::Measured(Measured::LinkState { .. }) => self.admission.reroute(network),
            Observation::Measured(_) => {}
            Observation::Tick => self.ticked = true,
        }
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        out.extend(self.released.drain(..).map(|flow| pace(flow, None)));
        self.rerank();
        self.admission.settle(network, out);
        let ticked = core::mem::take(&mut self.ticked);
        let Some((guard, mut alarm)) = self.guard.take() else {
            return;
        };
        if ticked {
            if alarm.relief_over(now) {
                self.admission.end_exceptions();
            }
            if alarm.check_due(now) && self.relieve(now, &guard) {
                alarm.relieve(now + guard.duration);
            }
            self.admission.settle(network, out);
        }
        alarm.arm(now, self.admission.any_slow());
        self.guard = Some((guard, alarm));
    }

    fn deadline(&self) -> Option<Time> {
        self.guard.as_ref().and_then(|(_, alarm)| alarm.next())
    }
}
