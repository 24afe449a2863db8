//! Jobs of a small cluster from a SWIM trace of a large one (Phurti, section 6.3).
//!
//! The text scales jobs of a 600-node cluster to its testbed in proportion, and doesn't say which
//! 100 jobs it took. Here: sample k is the k-th run of consecutive jobs, of all or of those that
//! shuffle anything; octets are multiplied by nodes / trace nodes, and raised to [`Floors`].

use std::io::BufRead;

use model::{Job, NodeId};
use units::Bytes;

use crate::error::require;
use crate::swim::{Entry, Reader};
use crate::{Draft, Error, Tasks, by_rank};

/// Most jobs in one sample.
pub const MOST_JOBS: u32 = 1_000_000;

/// Least octets of a job, after scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floors {
    /// Read by its maps.
    pub input: Bytes,
    /// Moved from maps to reduces; one octet at least.
    pub shuffle: Bytes,
    /// Written by its reduces.
    pub output: Bytes,
}

impl Floors {
    /// A single octet of shuffle, so that no job is lost.
    pub const NONE: Self = Self { input: Bytes::ZERO, shuffle: Bytes::new(1), output: Bytes::ZERO };

    /// Those of SWIM's `GenerateReplayScript`.
    pub const SWIM: Self = Self {
        input: Bytes::new(64 << 20),
        shuffle: Bytes::new(1 << 10),
        output: Bytes::new(1 << 10),
    };
}

/// Which jobs to take from a SWIM trace, and how to scale them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Nodes of the cluster that the trace was taken on; 600 for Facebook's of 2009.
    pub trace_nodes: u32,
    /// Jobs in a sample; 100 in the text.
    pub jobs: u32,
    /// Which sample, from 0.
    pub sample: u32,
    /// Whether jobs that shuffle nothing are taken, too.
    pub all: bool,
    /// To what the octets of small jobs are raised.
    pub floors: Floors,
    /// How a job's bytes become tasks.
    pub tasks: Tasks,
}

/// The jobs of one sample before placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drafted {
    /// The jobs; the first arrives at 0, the others as long after it as in the trace.
    pub drafts: Vec<Draft>,
    /// How many whole samples the trace holds.
    pub samples: u64,
}

/// The jobs of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The jobs; the first arrives at 0, the others as long after it as in the trace.
    pub jobs: Vec<Job>,
    /// How many whole samples the trace holds.
    pub samples: u64,
}

impl Sample {
    /// Takes the sample from `trace`, for a cluster of `hosts`. Streams: `placement`, `map-end`.
    ///
    /// The trace is read to its end, so that a fault anywhere in it is found. A scaled size is
    /// rounded to the nearest octet, and raised to its floor. Classes are by rank of the scaled
    /// shuffle ([`by_rank`]).
    ///
    /// # Errors
    /// A fault in the trace; a parameter outside its range, or a sample beyond the trace's end.
    pub fn take<R: BufRead>(
        &self,
        trace: Reader<R>,
        hosts: &[NodeId],
        seed: u64,
    ) -> Result<Sampled, Error> {
        let Drafted { drafts, samples } = self.drafts(trace, hosts.len())?;
        Ok(Sampled { jobs: self.tasks.place(&drafts, hosts, seed)?, samples })
    }

    /// The same for a cluster of so many `nodes`, without places.
    ///
    /// # Errors
    /// As [`Sample::take`].
    pub fn drafts<R: BufRead>(&self, trace: Reader<R>, nodes: usize) -> Result<Drafted, Error> {
        self.tasks.validate()?;
        require(self.trace_nodes > 0, "trace_nodes", || {
            "0; give the number of nodes the trace was taken on".to_owned()
        })?;
        require((1..=MOST_JOBS).contains(&self.jobs), "jobs", || {
            format!("{} is outside the range from 1 to {MOST_JOBS}", self.jobs)
        })?;

        let first = u64::from(self.sample) * u64::from(self.jobs);
        let window = first..first + u64::from(self.jobs);
        let mut entries = Vec::new();
        let mut taken = 0;
        for entry in trace {
            let entry = entry?;
            if self.all || entry.shuffle > Bytes::ZERO {
                if window.contains(&taken) {
                    entries.push(entry);
                }
                taken += 1;
            }
        }
        let samples = taken / u64::from(self.jobs);
        let that = if self.all { "" } else { " that shuffle" };
        require(u64::from(self.sample) < samples, "sample", || {
            format!(
                "{}; the trace has {taken} jobs{that}, {samples} samples of {} counted from 0: ask \
                 for one of them",
                self.sample, self.jobs
            )
        })?;

        let nodes = nodes as u128;
        let scale = |bytes: Bytes| {
            let of = u128::from(self.trace_nodes);
            let scaled = (u128::from(bytes.get()) * nodes + of / 2) / of;
            Bytes::new(u64::try_from(scaled).unwrap_or(u64::MAX))
        };
        let Floors { input, shuffle, output } = self.floors;
        let shuffled = |entry: &Entry| scale(entry.shuffle).max(shuffle).max(Bytes::new(1));
        let classes = by_rank(&entries.iter().map(shuffled).collect::<Vec<_>>());
        let start = entries[0].submit;
        let drafts = entries.iter().zip(classes).map(|(entry, class)| Draft {
            arrival: units::Time::ZERO + entry.submit.since(start),
            class: Some(class),
            input: scale(entry.map_input).max(input),
            shuffle: shuffled(entry),
            output: scale(entry.output).max(output),
        });
        Ok(Drafted { drafts: drafts.collect(), samples })
    }
}
