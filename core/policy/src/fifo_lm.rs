//! `fifo-lm` (Baraat): tasks go in order of arrival, and beside a heavy one goes the next.
//!
//! Source: Dogar, Karagiannis, Ballani, Rowstron, "Decentralized Task-Aware Scheduling for Data Center
//! Networks", SIGCOMM 2014: FIFO with limited multiplexing. On each link a task, here a job, goes before all
//! later ones, and flows of one are equal. Once it has sent more than `heavy` it is heavy, and shares its
//! links with the next task there as if both were one; where that is heavy too, with the one after it as
//! well. Sizes aren't looked at: what was sent is what the rates granted add up to, or what was measured.
//!
//! Deviations: the published switches find out each for itself who is heavy, by what passed them; here one
//! who sees all does, by what a task has sent everywhere. And a flow that is behind others on one of its links
//! is so on all.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use model::LinkId;
use units::{Bytes, Rate, Span, Time};

use crate::coflow::Coflow;
use crate::coflow_rates::{CoflowRates, Discipline, Division};
use crate::ordered::PAUSE;
use crate::waterfill::{max_min_left, paths};
use crate::{Descriptor, DirectiveKind, Kind, Parameter};

const HEAVY: Parameter = Parameter::optional(
    "heavy",
    Kind::Bytes(Bytes::new(1), Bytes::MAX),
    "no task is heavy: strictly in order of arrival",
    "a task that has sent more is heavy; the text has the 80th percentile of all tasks' sizes (section 5)",
);

/// What `fifo-lm` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fifo-lm",
    summary: "tasks go in order of arrival, and beside a heavy one goes the next (Baraat)",
    source: "Baraat, SIGCOMM 2014: FIFO with limited multiplexing",
    parameters: &[HEAVY, PAUSE],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let heavy =
            given.find::<Bytes>(HEAVY.name).map_or(f64::INFINITY, |heavy| heavy.get() as f64 * 8.0);
        let fifo = LimitedMultiplexing { heavy, pause: given.get(PAUSE.name), review: None };
        Ok(Box::new(CoflowRates::new(fifo, given)))
    },
};

#[derive(Debug)]
struct LimitedMultiplexing {
    /// Bits.
    heavy: f64,
    pause: Span,
    /// When the next task gets heavy.
    review: Option<Time>,
}

/// The last of those who share a link, as tasks are gone through in order.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// How many groups come before them.
    level: u32,
    /// Whether the next task joins them: all are heavy.
    is_open: bool,
}

impl Last {
    const fn next(self) -> u32 {
        if self.is_open { self.level } else { self.level + 1 }
    }
}

impl LimitedMultiplexing {
    fn is_heavy(&self, now: Time, job: &Coflow) -> bool {
        job.sent(now) > self.heavy
    }

    /// Behind how many groups each flow of `jobs` is, by job and number.
    fn levels(&self, now: Time, jobs: &[&mut Coflow], links: usize) -> Vec<u32> {
        let mut lasts = vec![Last { level: 0, is_open: true }; links];
        let mut levels: Vec<u32> = Vec::new();
        for job in jobs {
            let first = levels.len();
            let level = |path: &[LinkId]| path.iter().map(|link| lasts[link.index()].next()).max();
            levels.extend(job.paths().map(|path| level(path).unwrap_or(0)));
            let is_open = self.is_heavy(now, job);
            for (path, level) in job.paths().zip(&levels[first..]) {
                for link in path {
                    let last = &mut lasts[link.index()];
                    *last = Last { level: last.level.max(*level), is_open };
                }
            }
        }
        levels
    }
}

impl Discipline for LimitedMultiplexing {
    fn divide(&mut self, now: Time, division: Division<'_, '_>) {
        let Division { jobs, links, .. } = division;
        let levels = self.levels(now, jobs, links.table.len());
        let routes: Vec<&[LinkId]> = jobs.iter().flat_map(|job| job.paths()).collect();
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by_key(|flow| levels[*flow]);
        let mut granted = vec![0; levels.len()];
        for group in order.chunk_by(|one, other| levels[*one] == levels[*other]) {
            let flows = paths(links.table.len(), group.iter().map(|flow| routes[*flow]));
            let (rates, lefts) = max_min_left(links.lefts(), &flows, &[]);
            links.set_lefts(lefts.into_iter());
            // No link limits a flow without a path.
            for (flow, rate) in group.iter().zip(rates).filter(|(_, rate)| *rate < Rate::MAX) {
                granted[*flow] = rate.as_bps();
            }
        }
        let mut granted = granted.into_iter();
        for job in &mut *jobs {
            job.grant_each(now, || granted.next().unwrap_or(0));
        }
        let light = jobs.iter().filter(|job| !self.is_heavy(now, job));
        let gets_heavy = light.filter_map(|job| {
            let (left, rate) = (self.heavy - job.sent(now), job.granted());
            // A nanosecond later than computed, so that it is for sure.
            (left.is_finite() && rate > 0.0)
                .then(|| now + Span::from_secs_f64(left / rate) + Span::from_nanos(1))
        });
        self.review = gets_heavy.min();
    }

    fn patience(&self) -> Span {
        self.pause
    }

    fn review(&self) -> Option<Time> {
        self.review
    }
}
