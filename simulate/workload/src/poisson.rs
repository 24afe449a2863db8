//! Flows that arrive as a Poisson process, each a job of its own.

use engine::random::Stream;
use model::{Flow, Job, JobId, NodeId, TaskId, Terms};
use rand::RngExt;
use rand_distr::Exp1;
use units::{Rate, Span, Time};

use crate::error::{require, require_hosts};
use crate::{ParameterError, SizeDistribution};

/// Most flows that a run may be expected to have: half of what a [`JobId`] counts.
const MOST_EXPECTED: f64 = (1u64 << 31) as f64;

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A random host to a random other one.
    Uniform,
    /// A random host to this one.
    Incast(NodeId),
}

/// Poisson flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Poisson {
    /// Size of a flow.
    pub sizes: SizeDistribution,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Part of `capacity` that each host sends on average ([`Pattern::Uniform`]), or that the one
    /// host receives ([`Pattern::Incast`]); above 0, at most 1000.
    pub load: f64,
    /// What load 1 is, in payload of a host: to make the load count frames, give the link's
    /// capacity times the payload's part of a frame.
    pub capacity: Rate,
    /// Flows arrive from 0 to here.
    pub duration: Span,
}

impl Poisson {
    /// The flows, drawn one by one as they are asked for. Streams: `arrival`, `size`, `pair`.
    ///
    /// # Errors
    /// A parameter outside its range; more than 2³¹ expected flows.
    pub fn flows(&self, hosts: &[NodeId], seed: u64) -> Result<Flows, ParameterError> {
        require_hosts(hosts)?;
        self.sizes.validate()?;
        require(self.load > 0.0 && self.load <= 1000.0, "load", || {
            format!("{} is outside the range above 0 and up to 1000", self.load)
        })?;
        require(self.capacity > Rate::ZERO, "capacity", || {
            "0; give the capacity of a host's link".to_owned()
        })?;
        let (busy, target) = match self.pattern {
            Pattern::Uniform => (hosts.len(), None),
            Pattern::Incast(receiver) => {
                let target = hosts.iter().position(|&host| host == receiver);
                require(target.is_some(), "receiver", || {
                    "it is not among the hosts; name one of them".to_owned()
                })?;
                (1, target)
            }
        };
        let octets_per_s = self.capacity.bytes_in(Span::from_secs(1)).get() as f64;
        let per_s = self.load * octets_per_s * busy as f64 / self.sizes.mean();
        let expected = per_s * self.duration.as_secs_f64();
        require(expected <= MOST_EXPECTED, "duration", || {
            format!("{expected:.0} flows are expected in it; at most {MOST_EXPECTED} are possible")
        })?;
        Ok(Flows {
            sizes: self.sizes.clone(),
            end: Time::ZERO + self.duration,
            hosts: hosts.to_vec(),
            target,
            per_s,
            clock_s: 0.0,
            next: 0,
            arrival: Stream::named(seed, "arrival"),
            size: Stream::named(seed, "size"),
            pair: Stream::named(seed, "pair"),
        })
    }
}

/// The flows of a [`Poisson`] workload in order of arrival, each as a job.
#[derive(Clone, Debug)]
pub struct Flows {
    sizes: SizeDistribution,
    end: Time,
    hosts: Vec<NodeId>,
    /// Position of the one receiver.
    target: Option<usize>,
    per_s: f64,
    clock_s: f64,
    next: u32,
    arrival: Stream,
    size: Stream,
    pair: Stream,
}

impl Flows {
    /// Expected flows per second.
    pub const fn per_second(&self) -> f64 {
        self.per_s
    }

    /// Two different hosts.
    fn ends(&mut self) -> (NodeId, NodeId) {
        let count = self.hosts.len();
        let dst = match self.target {
            Some(target) => target,
            None => self.pair.random_range(0..count),
        };
        // One of the others: the range leaves out one, and from `dst` on positions move up.
        let src = self.pair.random_range(0..count - 1);
        let src = src + usize::from(src >= dst);
        (self.hosts[src], self.hosts[dst])
    }
}

impl Iterator for Flows {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        let gaps: f64 = self.arrival.sample(Exp1);
        self.clock_s += gaps / self.per_s;
        let arrival = Time::ZERO + Span::from_secs_f64(self.clock_s);
        let id = self.next;
        if arrival > self.end || id == u32::MAX {
            return None;
        }
        self.next += 1;
        let (src, dst) = self.ends();
        Some(Job {
            id: JobId(id),
            arrival,
            class: None,
            terms: Terms::default(),
            flows: vec![Flow {
                src,
                dst,
                from: TaskId(0),
                to: TaskId(1),
                size: self.sizes.draw(&mut self.size),
                offset: Span::ZERO,
            }],
        })
    }
}
