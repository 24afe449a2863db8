//! Synchronized incast: many senders, one receiver, all at once.

use engine::random::Stream;
use model::{Flow, Job, JobId, NodeId, TaskId, Terms};
use rand::RngExt;
use units::{Bytes, Span, Time};

use crate::error::{require, require_bytes, require_hosts};
use crate::{MOST_FLOWS, ParameterError};

/// Synchronized incast, once or in rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incast {
    /// Who receives.
    pub receiver: NodeId,
    /// Number of flows in a round. The other hosts send in their order, and again from the first
    /// when there are more flows than hosts.
    pub senders: u32,
    /// Payload of each flow.
    pub bytes: Bytes,
    /// Each flow starts evenly distributed over this span.
    pub jitter: Span,
    /// When the first round starts.
    pub start: Span,
    /// Number of rounds.
    pub rounds: u32,
    /// From the start of one round to that of the next, whether or not the one has ended.
    pub interval: Span,
    /// Whether one more flow, from the host that follows the last sender, starts at 0 and never
    /// ends.
    pub background: bool,
}

impl Incast {
    /// One round of `senders` flows of `bytes` each to `receiver`, all at 0.
    pub const fn once(receiver: NodeId, senders: u32, bytes: Bytes) -> Self {
        Self {
            receiver,
            senders,
            bytes,
            jitter: Span::ZERO,
            start: Span::ZERO,
            rounds: 1,
            interval: Span::ZERO,
            background: false,
        }
    }

    /// The jobs: the background flow if there is one, then each round. Stream: `jitter`.
    ///
    /// # Errors
    /// A parameter outside its range, a receiver that isn't among `hosts`.
    pub fn jobs(&self, hosts: &[NodeId], seed: u64) -> Result<Vec<Job>, ParameterError> {
        require_hosts(hosts)?;
        require(hosts.contains(&self.receiver), "receiver", || {
            "it is not among the hosts; name one of them".to_owned()
        })?;
        require_bytes("bytes", self.bytes)?;
        require(self.senders > 0, "senders", || "0; at least 1 must send".to_owned())?;
        require(self.rounds > 0, "rounds", || "0; there must be at least 1".to_owned())?;
        let flows = u64::from(self.senders) * u64::from(self.rounds);
        require(flows <= MOST_FLOWS, "senders", || {
            format!("with rounds they make {flows} flows; at most {MOST_FLOWS} are possible")
        })?;

        let others = hosts.iter().filter(|&&host| host != self.receiver);
        let mut jitter = Stream::named(seed, "jitter");
        let mut jobs = Vec::new();
        let flow = |task, src: &NodeId, size, offset| Flow {
            src: *src,
            dst: self.receiver,
            from: TaskId(task),
            to: TaskId(self.senders),
            size,
            offset,
        };
        let mut add = |arrival, flows| {
            let id = JobId(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
            jobs.push(Job { id, arrival, class: None, terms: Terms::default(), flows });
        };
        if self.background
            && let Some(src) = others.clone().cycle().nth(self.senders as usize)
        {
            add(Time::ZERO, vec![flow(0, src, Bytes::MAX, Span::ZERO)]);
        }
        for round in 0..self.rounds {
            let senders = (0..self.senders).zip(others.clone().cycle());
            let flows = senders.map(|(task, src)| {
                let late = jitter.random_range(0..=self.jitter.as_nanos());
                flow(task, src, self.bytes, Span::from_nanos(late))
            });
            let arrival = Time::ZERO + self.start + self.interval * u64::from(round);
            add(arrival, flows.collect());
        }
        Ok(jobs)
    }
}
