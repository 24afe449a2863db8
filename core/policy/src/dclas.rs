//! `dclas` (Aalo): coflows sink through queues as they send, and nobody says how large they are.
//!
//! Source: Chowdhury and Stoica, "Efficient coflow scheduling without prior knowledge", SIGCOMM
//! 2015: Discretized Coflow-Aware Least-Attained Service. A coflow that has sent so much is in queue
//! k when that is below `first`·`factor`ᵏ; the queues divide every link by weights that fall from
//! the first to the last, coflows within a queue go in order of arrival, the flows of a coflow are
//! equal, and what a queue can't use goes to the others in order. Sizes aren't looked at: what was
//! sent is what the rates granted add up to, or what was measured.
//!
//! The coordinator here knows at once when a coflow sinks; the published one every 10 ms.

use alloc::boxed::Box;
use alloc::vec::Vec;

use units::{Bytes, Span, Time};

use crate::coflow::Rule;
use crate::coflow_rates::{CoflowRates, Discipline, Division};
use crate::ordered::PAUSE;
use crate::{Descriptor, DirectiveKind, Kind, Parameter, Value};

const QUEUES: Parameter =
    Parameter::new("queues", Kind::Integer(1, 64), Value::Integer(10), "how many queues there are")
        .published("Aalo; the authors' CoflowSim");

const FIRST: Parameter = Parameter::new(
    "first",
    Kind::Bytes(Bytes::new(1), Bytes::MAX),
    Value::Bytes(Bytes::new(10_000_000)),
    "what a coflow sends in the first queue",
)
.published("Aalo; the authors' CoflowSim has 10 MiB");

const FACTOR: Parameter = Parameter::new(
    "factor",
    Kind::Integer(2, 1_000),
    Value::Integer(10),
    "how many times as much the limit of the next queue is",
)
.published("Aalo; the authors' CoflowSim");

/// What `dclas` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "dclas",
    summary: "coflows sink through queues as they send; sizes need not be known (Aalo)",
    source: "Aalo, SIGCOMM 2015",
    parameters: &[QUEUES, FIRST, FACTOR, PAUSE],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let settings = Settings {
            queues: given.get(QUEUES.name),
            first: given.get(FIRST.name),
            factor: given.get(FACTOR.name),
            pause: given.get(PAUSE.name),
        };
        Ok(Box::new(CoflowRates::new(LeastAttained::new(settings), given)))
    },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) queues: u32,
    pub(crate) first: Bytes,
    pub(crate) factor: u64,
    pub(crate) pause: Span,
}

impl Settings {
    /// What a coflow has sent when it leaves a queue, bits.
    fn limit(&self, queue: u32) -> f64 {
        (0..queue).fold(self.first.get() as f64 * 8.0, |limit, _| limit * self.factor as f64)
    }
}

#[derive(Debug)]
pub(crate) struct LeastAttained {
    settings: Settings,
    /// When the next coflow sinks.
    review: Option<Time>,
}

impl LeastAttained {
    pub(crate) const fn new(settings: Settings) -> Self {
        Self { settings, review: None }
    }
}

impl Discipline for LeastAttained {
    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let Division { jobs, links, .. } = division;
        let Settings { queues, .. } = self.settings;
        let mut places: Vec<(u32, usize)> = Vec::with_capacity(jobs.len());
        for (position, job) in jobs.iter().enumerate() {
            let sent = job.sent(now);
            let above = |queue: &u32| *queue + 1 == queues || sent < self.settings.limit(*queue);
            places.push(((0..queues).find(above).unwrap_or(0), position));
        }
        places.sort_unstable();
        // Weights fall by one from queue to queue; only those with coflows count.
        let weight = |queue: u32| u64::from(queues - queue);
        let mut present: Vec<u32> = places.iter().map(|(queue, _)| *queue).collect();
        present.dedup();
        let all: u64 = present.iter().map(|queue| weight(*queue)).sum();
        let whole = links.lefts();
        let mut unused = whole.clone();
        for queue in present {
            links.set_lefts(whole.iter().map(|left| part(*left, weight(queue), all)));
            for (_, position) in places.iter().filter(|(of, _)| *of == queue) {
                jobs[*position].grant(now, 0, Rule::Equally, links);
            }
            for ((unused, left), whole) in unused.iter_mut().zip(links.lefts()).zip(&whole) {
                *unused -= part(*whole, weight(queue), all) - left;
            }
        }
        links.set_lefts(unused.into_iter());
        for (_, position) in &places {
            jobs[*position].grant(now, 1, Rule::Equally, links);
        }
        let sinks = places.iter().filter(|(queue, _)| queue + 1 < queues).filter_map(|place| {
            let job = &jobs[place.1];
            let left = self.settings.limit(place.0) - job.sent(now);
            let rate = job.granted();
            // A nanosecond later than computed, so that it has sunk for sure.
            (rate > 0.0)
                .then(|| now + Span::from_secs_f64(left.max(0.0) / rate) + Span::from_nanos(1))
        });
        self.review = sinks.min();
    }

    fn patience(&self) -> Span {
        self.settings.pause
    }

    fn review(&self) -> Option<Time> {
        self.review
    }
}

/// The part `weight` of `all` of what is left, rounded down.
fn part(left: u64, weight: u64, all: u64) -> u64 {
    units::Rate::from_bps(left).fraction(weight, all).as_bps()
}
