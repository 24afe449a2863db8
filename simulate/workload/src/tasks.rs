//! From the bytes of a shuffle to tasks on hosts and flows between them.
//!
//! Traces and published job classes say how much a job shuffles, not between whom. The rule here is
//! that of Hadoop 1: one map task per HDFS block of map input, tasks limited by the slots of the
//! cluster, every map sending a part to every reduce.

use engine::random::Stream;
use model::{Flow, Job, JobClass, JobId, NodeId, TaskId, Terms};
use rand::RngExt;
use rand::seq::SliceRandom;
use units::{Bytes, Span, Time};

use crate::error::{require, require_bytes, require_hosts};
use crate::{MOST_FLOWS, ParameterError};

/// Most map-reduce pairs in one job.
const MOST_PAIRS: u64 = 1 << 20;

/// Splits `total` in proportion to `weights`, to the octet.
///
/// With W(k) the sum of the first k weights, share k is ⌊total·W(k)/W⌋ − ⌊total·W(k−1)/W⌋: the
/// shares add up to `total`, and each is less than one octet from its exact part. No weights, or
/// none above zero, give no shares.
pub fn apportion(total: Bytes, weights: &[u64]) -> Vec<Bytes> {
    // 64 bits of weight, times 64 of octets, fill 128 exactly.
    let sum = weights.iter().map(|&weight| u128::from(weight)).sum::<u128>();
    let sum = u64::try_from(sum).unwrap_or(u64::MAX);
    let mut before = 0u64;
    let mut upto = 0u64;
    let shares = weights.iter().map_while(|&weight| {
        upto = upto.saturating_add(weight);
        let cut = (u128::from(total.get()) * u128::from(upto)).checked_div(u128::from(sum))?;
        let cut = u64::try_from(cut).unwrap_or(u64::MAX);
        let share = cut - before;
        before = cut;
        Some(Bytes::new(share))
    });
    shares.collect()
}

/// How many reduce tasks a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduces {
    /// One for each begun block that it shuffles, and at most so many: the reduce slots of the
    /// cluster.
    Slots(u32),
    /// What SWIM's `GenerateReplayScript` asks for in a cluster of so many nodes: one for each block
    /// that the job shuffles and writes, rounded; where these are more than the nodes, a fifth of the
    /// nodes.
    Swim(u32),
}

impl Reduces {
    const fn most(self) -> u32 {
        match self {
            Self::Slots(most) | Self::Swim(most) => most,
        }
    }

    fn of(self, draft: &Draft, block: Bytes) -> u32 {
        match self {
            Self::Slots(most) => tasks(draft.shuffle, block, most),
            Self::Swim(nodes) => {
                let block = u128::from(block.get().max(1));
                let octets = u128::from(draft.shuffle.get()) + u128::from(draft.output.get());
                let blocks = (octets + block / 2) / block;
                let reduces = u32::try_from(blocks).unwrap_or(u32::MAX);
                if reduces > nodes { nodes / 5 } else { reduces }.max(1)
            }
        }
    }
}

/// One for each begun block of `bytes`: at least one, at most `most`.
fn tasks(bytes: Bytes, block: Bytes, most: u32) -> u32 {
    let blocks = bytes.get().div_ceil(block.get().max(1));
    u32::try_from(blocks).unwrap_or(u32::MAX).min(most).max(1)
}

/// The rule by which a shuffle's bytes become tasks and flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tasks {
    /// Map input per map task, and bytes per reduce task.
    pub block: Bytes,
    /// Most map tasks of a job: the map slots of the cluster.
    pub most_maps: u32,
    /// Reduce tasks of a job.
    pub reduces: Reduces,
    /// Zipf exponent of what the reduces receive: the k-th gets a part in proportion to k^−skew.
    /// 0 is even; up to 10.
    pub skew: f64,
    /// Map tasks end evenly distributed over this span, and their flows start when they do.
    pub map_spread: Span,
}

impl Tasks {
    /// The rule for a cluster of so many nodes: blocks of 64 MiB, two slots of each kind per node
    /// (the defaults of Hadoop 1), even parts, all maps ending at once.
    pub const fn for_nodes(nodes: u32) -> Self {
        Self {
            block: Bytes::new(64 << 20),
            most_maps: nodes.saturating_mul(2),
            reduces: Reduces::Slots(nodes.saturating_mul(2)),
            skew: 0.0,
            map_spread: Span::ZERO,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ParameterError> {
        require_bytes("block", self.block)?;
        require(self.most_maps > 0, "most_maps", || {
            "0; a job needs at least 1 map task".to_owned()
        })?;
        require(self.reduces.most() > 0, "most_reduces", || {
            "0; a job needs at least 1 reduce task".to_owned()
        })?;
        let pairs = u64::from(self.most_maps) * u64::from(self.reduces.most());
        require(pairs <= MOST_PAIRS, "most_maps", || {
            format!("with most_reduces it makes {pairs} pairs; at most {MOST_PAIRS} are possible")
        })?;
        require((0.0..=10.0).contains(&self.skew), "skew", || {
            format!("{} is outside the range from 0 to 10", self.skew)
        })
    }

    /// Refuses jobs that would make too many flows to hold.
    pub(crate) fn require_room(&self, jobs: &[Draft]) -> Result<(), ParameterError> {
        let pairs = jobs.iter().map(|draft| {
            let (maps, reduces) = self.counts(draft);
            u64::from(maps) * u64::from(reduces)
        });
        let pairs: u64 = pairs.sum();
        require(pairs <= MOST_FLOWS, "jobs", || {
            format!(
                "they make {pairs} flows; at most {MOST_FLOWS} are possible: ask for fewer jobs or \
                 larger blocks"
            )
        })
    }

    /// Numbers of map and reduce tasks.
    fn counts(&self, draft: &Draft) -> (u32, u32) {
        (tasks(draft.input, self.block, self.most_maps), self.reduces.of(draft, self.block))
    }

    /// The tasks of a job: a map for each begun block of its input, at most the slots, and reduces
    /// by the rule; at least one of each.
    pub fn plan(&self, draft: &Draft) -> Plan {
        let (maps, reduces) = self.counts(draft);
        let even = vec![1; maps as usize];
        let received = apportion(draft.shuffle, &zipf(reduces, self.skew));
        let sizes = received.into_iter().map(|part| apportion(part, &even));
        Plan { maps, reduces, sizes: sizes.collect() }
    }
}

/// A job before its tasks have hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// When it is submitted.
    pub arrival: Time,
    /// Size class.
    pub class: Option<JobClass>,
    /// Read by its maps.
    pub input: Bytes,
    /// Moved from maps to reduces; at least one octet.
    pub shuffle: Bytes,
    /// Written by its reduces.
    pub output: Bytes,
}

impl Tasks {
    /// The flows of `drafts`, numbered in their order, between tasks on `hosts`. Streams:
    /// `placement`, `map-end`.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn place(
        &self,
        drafts: &[Draft],
        hosts: &[NodeId],
        seed: u64,
    ) -> Result<Vec<Job>, ParameterError> {
        self.validate()?;
        let mut placer = Placer::new(hosts, seed)?;
        self.require_room(drafts)?;
        let jobs = (0u32..).zip(drafts).map(|(id, draft)| Job {
            id: JobId(id),
            arrival: draft.arrival,
            class: draft.class,
            terms: Terms::default(),
            flows: placer.flows(self, &self.plan(draft)),
        });
        Ok(jobs.collect())
    }
}

/// Weights in proportion to k^−skew for k from 1 to `count`, the first being 2³².
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and 2³²
fn zipf(count: u32, skew: f64) -> Vec<u64> {
    let weight = |k| f64::from(k).powf(-skew) * 2f64.powi(32);
    (1..=count).map(|k| (weight(k) as u64).max(1)).collect()
}

/// The tasks of one job and what moves between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of map tasks; they are tasks 0 and up.
    pub maps: u32,
    /// Number of reduce tasks; they are numbered after the maps.
    pub reduces: u32,
    /// What each reduce receives from each map: one list per reduce.
    pub sizes: Vec<Vec<Bytes>>,
}

/// Places the tasks of one job after another. Streams: `placement`, `map-end`.
pub(crate) struct Placer {
    hosts: Vec<NodeId>,
    placement: Stream,
    map_end: Stream,
}

impl Placer {
    pub(crate) fn new(hosts: &[NodeId], seed: u64) -> Result<Self, ParameterError> {
        require_hosts(hosts)?;
        Ok(Self {
            hosts: hosts.to_vec(),
            placement: Stream::named(seed, "placement"),
            map_end: Stream::named(seed, "map-end"),
        })
    }

    /// The flows of a planned job that shuffles at least one octet.
    ///
    /// Maps, and then reduces, go to hosts in a random order, which repeats when there are more
    /// tasks than hosts. If nothing would cross the network, every reduce moves on to the next host
    /// of that order. Offsets count from the first flow.
    pub(crate) fn flows(&mut self, tasks: &Tasks, plan: &Plan) -> Vec<Flow> {
        let map_hosts = self.order();
        let mut reduce_hosts = self.order();
        let spread = tasks.map_spread.as_nanos();
        let ends: Vec<u64> =
            (0..plan.maps).map(|_| self.map_end.random_range(0..=spread)).collect();
        let mut flows = plan.between(&map_hosts, &reduce_hosts, &ends);
        if flows.is_empty() {
            reduce_hosts.rotate_left(1);
            flows = plan.between(&map_hosts, &reduce_hosts, &ends);
        }
        let first = flows.iter().map(|flow| flow.offset).min();
        for flow in &mut flows {
            flow.offset = flow.offset.saturating_sub(first.unwrap_or(Span::ZERO));
        }
        flows
    }

    fn order(&mut self) -> Vec<NodeId> {
        let mut order = self.hosts.clone();
        order.shuffle(&mut self.placement);
        order
    }
}

impl Plan {
    /// Flows between different hosts that carry anything, map by map.
    fn between(&self, map_hosts: &[NodeId], reduce_hosts: &[NodeId], ends: &[u64]) -> Vec<Flow> {
        let maps = (0..self.maps).zip(map_hosts.iter().cycle()).zip(ends);
        let flows = maps.flat_map(|((map, &src), &end)| {
            let reduces = (0..self.reduces).zip(reduce_hosts.iter().cycle());
            reduces.zip(&self.sizes).map(move |((reduce, &dst), parts)| Flow {
                src,
                dst,
                from: TaskId(map),
                to: TaskId(self.maps + reduce),
                size: parts[map as usize],
                offset: Span::from_nanos(end),
            })
        });
        flows.filter(|flow| flow.src != flow.dst && flow.size > Bytes::ZERO).collect()
    }
}
