//! Northbound messages to admission: what `fifo`, `sff` and `smsf` do alike (Phurti, chapters 4, 5).

use model::{Declared, Directives, Measured, Network, Observation};
use units::{Bytes, Time};

use crate::admission::{Admission, Rank};
use crate::guard::{Alarm, Guard};
use crate::roster::Roster;
use crate::{Policy, Share, pace};

/// How a policy ranks flows, kept for each job. This is all in which the policies differ.
pub(crate) trait Standing {
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
    guard: Option<(Guard, Alarm)>,
    /// Counts jobs and flows as they come.
    arrivals: u64,
}

#[derive(Debug)]
struct Member<S> {
    submitted: Time,
    standing: S,
}

impl<S: Standing> Scheduler<S> {
    pub(crate) fn new(slow_share: Share, guard: Option<Guard>) -> Self {
        Self {
            roster: Roster::default(),
            admission: Admission::new(slow_share),
            guard: guard.map(|guard| (guard, Alarm::new(&guard))),
            arrivals: 0,
        }
    }

    fn declare(&mut self, now: Time, network: &Network, declared: &Declared, out: &mut Directives) {
        let arrival = self.arrivals;
        match *declared {
            Declared::JobStart { job } => {
                self.arrivals += 1;
                self.roster.start(job, || Member { submitted: now, standing: S::new(arrival) });
            }
            Declared::JobComplete { job } => {
                for flow in self.roster.complete(job).iter() {
                    // Nobody will decide about this flow again, so it isn't left throttled.
                    if self.admission.exit(flow).is_some() {
                        out.push(pace(flow, None));
                    }
                }
            }
            Declared::FlowRequest { job, flow, src, dst, size } => {
                let Some(entry) = self.roster.enter(network, job, flow, (src, dst)) else {
                    return;
                };
                self.arrivals += 1;
                let standing = &mut entry.record.standing;
                if let Some(rank) = standing.learn(network, declared) {
                    let others = entry.flows.iter().filter(|other| *other != flow);
                    self.admission.rerank(others, rank);
                }
                let rank = standing.rank(arrival, size);
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
                    && let Some(rank) = entry.record.standing.learn(network, declared)
                {
                    self.admission.rerank(entry.flows.iter(), rank);
                }
            }
            _ => {}
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

impl<S: Standing> Policy for Scheduler<S> {
    fn observe(
        &mut self,
        now: Time,
        network: &Network,
        observation: &Observation,
        out: &mut Directives,
    ) {
        self.hear(now, network, observation, out);
        self.conclude(now, network, out);
    }

    fn hear(
        &mut self,
        now: Time,
        network: &Network,
        observation: &Observation,
        out: &mut Directives,
    ) {
        match observation {
            Observation::Declared(declared) => self.declare(now, network, declared, out),
            Observation::Measured(Measured::LinkState { .. }) => self.admission.reroute(network),
            Observation::Measured(_) => {}
        }
    }

    fn conclude(&mut self, now: Time, network: &Network, out: &mut Directives) {
        self.admission.settle(network, out);
        if let Some((_, alarm)) = &mut self.guard {
            alarm.arm(now, self.admission.any_slow());
        }
    }

    fn spare(&mut self) {
        self.admission.spare();
    }

    fn deadline(&self) -> Option<Time> {
        self.guard.as_ref().and_then(|(_, alarm)| alarm.next())
    }

    fn tick(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let Some((guard, mut alarm)) = self.guard.take() else {
            return;
        };
        if alarm.relief_over(now) {
            self.admission.end_exceptions();
        }
        if alarm.check_due(now) && self.relieve(now, &guard) {
            alarm.relieve(now + guard.duration);
        }
        self.admission.settle(network, out);
        alarm.arm(now, self.admission.any_slow());
        self.guard = Some((guard, alarm));
    }
}
