//! Shuffle jobs calibrated to published job classes (Phurti, table 6.1), for when no trace is at
//! hand.

use engine::random::Stream;
use model::{Job, JobClass, NodeId};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::Exp1;
use units::{Bytes, Span, Time};

use crate::class::{SHARES, ranked};
use crate::error::{require, require_bytes};
use crate::sample::MOST_JOBS;
use crate::{Draft, ParameterError, Tasks, apportion};

/// Shuffle jobs of three classes, arriving as a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shuffle {
    /// Number of jobs; 62, 16 and 22 % of them are small, medium and large.
    pub jobs: u32,
    /// Mean shuffle of a job; the classes have 5.5, 10.3 and 84.2 % of the bytes.
    pub mean_bytes: Bytes,
    /// The largest size of a class over its smallest, at least 1: within a class sizes are
    /// log-uniform. Up to 5 the classes hardly ever overlap, because their means are 7.3 and 5.9
    /// apart.
    pub spread: f64,
    /// Mean gap between arrivals; [`crate::load::calibrate`] sets a load instead.
    pub mean_gap: Span,
    /// How a job's bytes become tasks; its map input and its output are as large as its shuffle.
    pub tasks: Tasks,
}

impl Shuffle {
    /// Draws the jobs and places their tasks. The first arrives at 0. Streams: `class`, `size`,
    /// `arrival`, `placement`, `map-end`.
    ///
    /// The sizes drawn for a class are scaled to its share of all bytes, so the shares are met to
    /// the octet; where a class gets no job, the others keep their proportion. No job shuffles
    /// less than one octet.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn jobs(&self, hosts: &[NodeId], seed: u64) -> Result<Vec<Job>, ParameterError> {
        self.tasks.place(&self.drafts(seed)?, hosts, seed)
    }

    /// The jobs before placement.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn drafts(&self, seed: u64) -> Result<Vec<Draft>, ParameterError> {
        self.tasks.validate()?;
        require((1..=MOST_JOBS).contains(&self.jobs), "jobs", || {
            format!("{} is outside the range from 1 to {MOST_JOBS}", self.jobs)
        })?;
        require_bytes("mean_bytes", self.mean_bytes)?;
        require((1.0..=1e6).contains(&self.spread), "spread", || {
            format!("{} is outside the range from 1 to 1000000", self.spread)
        })?;
        let mut classes: Vec<JobClass> = ranked(self.jobs as usize).collect();
        classes.shuffle(&mut Stream::named(seed, "class"));
        let sizes = self.sizes(&classes, &mut Stream::named(seed, "size"));
        let mut arrivals = Stream::named(seed, "arrival");
        let mut arrival = Time::ZERO;
        let drafts = classes.into_iter().zip(sizes).map(|(class, size)| {
            let draft =
                Draft { arrival, class: Some(class), input: size, shuffle: size, output: size };
            let gaps: f64 = arrivals.sample(Exp1);
            arrival += Span::from_secs_f64(gaps * self.mean_gap.as_secs_f64());
            draft
        });
        Ok(drafts.collect())
    }

    fn sizes(&self, classes: &[JobClass], stream: &mut Stream) -> Vec<Bytes> {
        let draws: Vec<f64> = classes.iter().map(|_| self.spread.powf(stream.random())).collect();
        let mut weights = vec![0; classes.len()];
        for (class, _, thousandths) in SHARES {
            let members = || (0..classes.len()).filter(|&job| classes[job] == class);
            let sum: f64 = members().map(|job| draws[job]).sum();
            for job in members() {
                weights[job] = weight(f64::from(thousandths) * draws[job] / sum);
            }
        }
        let total = self.mean_bytes * u64::from(self.jobs);
        let sizes = apportion(total, &weights).into_iter();
        sizes.map(|size| size.max(Bytes::new(1))).collect()
    }
}

/// A part of a thousand as a whole number, in steps small enough to vanish in any size.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 2⁵⁰
fn weight(thousandths: f64) -> u64 {
    (thousandths * 2f64.powi(40)) as u64
}
