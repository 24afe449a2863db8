//! The quantities from which the metrics of one run are computed.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use engine::{Completions, FlowRecord, JobRecord, Outcome, RateRecord};
use model::{JobClass, JobId, LinkId, NodeId, NodeKind, Topology};
use units::{Bytes, Rate, Span, Time};

use super::flows::{Flows, Length};
use super::sample::Sample;
use super::transmit;

/// The jobs a metric is about: those of a class, or all.
pub(super) type Group = Option<JobClass>;

/// A run, beside the baseline's where there is one.
pub(super) struct View<'a> {
    pub(super) topology: &'a Topology,
    pub(super) run: &'a Outcome,
    /// Goodput over expected rate, of flows that had a rate and enough to send.
    pub(super) rates: Sample,
    /// Of the jobs that have one.
    classes: BTreeMap<JobId, JobClass>,
    pairs: Option<Vec<Pair>>,
    /// Sorted on first use.
    pub(super) latency: OnceCell<Sample>,
    /// Computed once: each goes over all flows and is used by several metrics.
    flows: OnceCell<Flows>,
    fct: OnceCell<Sample>,
    transmit: OnceCell<BTreeMap<JobId, f64>>,
}

/// A job's completion times under the policy and under the baseline.
struct Pair {
    class: Group,
    ours: Option<Span>,
    base: Option<Span>,
}

impl Pair {
    /// In seconds, ours first; `None` unless it completed in both runs.
    fn times(&self) -> Option<(f64, f64)> {
        Some((self.ours?.as_secs_f64(), self.base?.as_secs_f64()))
    }
}

/// Whether a job was quicker in `one` run than in the `other`, or completed in `one` alone.
fn quicker(one: Option<Span>, other: Option<Span>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one < other,
        (one, other) => one.is_some() && other.is_none(),
    }
}

fn of_group(job: Group, group: Group) -> bool {
    group.is_none() || job == group
}

impl<'a> View<'a> {
    pub(super) fn new(topology: &'a Topology, run: &'a Outcome, base: Option<&'a Outcome>) -> Self {
        let pairs = base.map(|base| {
            let theirs: BTreeMap<_, _> =
                base.jobs.iter().map(|job| (job.id, job.completion())).collect();
            let pair = |job: JobRecord| {
                let base = *theirs.get(&job.id)?;
                Some(Pair { class: job.class, ours: job.completion(), base })
            };
            run.jobs.iter().filter_map(pair).collect()
        });
        Self {
            topology,
            run,
            rates: run.rates.iter().filter_map(RateRecord::ratio).collect(),
            classes: run.jobs.iter().filter_map(|job| Some((job.id, job.class?))).collect(),
            pairs,
            latency: OnceCell::new(),
            flows: OnceCell::new(),
            fct: OnceCell::new(),
            transmit: OnceCell::new(),
        }
    }

    /// Sums over all flows.
    pub(super) fn flows(&self) -> &Flows {
        self.flows.get_or_init(|| Flows::of(self.run))
    }

    /// Completion times of completed flows, s.
    pub(super) fn fct(&self) -> &Sample {
        self.fct.get_or_init(|| self.flows().fct())
    }

    /// Completion times of completed flows of this length, s.
    pub(super) fn fct_of(&self, length: Length) -> &Sample {
        self.flows().fct_of(length)
    }

    fn jobs(&self, group: Group) -> impl Iterator<Item = JobRecord> {
        let jobs = self.run.jobs.iter();
        jobs.filter(move |job| of_group(job.class, group))
    }

    /// Completion times of completed jobs, s.
    pub(super) fn jct(&self, group: Group) -> Sample {
        let times = self.jobs(group).filter_map(|job| job.completion());
        times.map(Span::as_secs_f64).collect()
    }

    /// Completed jobs over jobs with an end.
    pub(super) fn completed(&self) -> Option<f64> {
        let finite = self.jobs(None).filter(|job| job.size != Bytes::MAX);
        let ended = finite.map(|job| f64::from(u8::from(job.end.is_some())));
        ended.collect::<Sample>().mean()
    }

    /// Jobs of the group over all jobs.
    pub(super) fn job_share(&self, group: JobClass) -> Option<f64> {
        let all = self.run.jobs.len() as f64;
        let part = self.jobs(Some(group)).count() as f64;
        (part > 0.0).then(|| part / all)
    }

    /// Payload of the group's jobs over that of all jobs, endless jobs left out of both.
    pub(super) fn byte_share(&self, group: JobClass) -> Option<f64> {
        let sum = |group| {
            let sizes = self.jobs(group).map(|job| job.size);
            let finite = sizes.filter(|&size| size != Bytes::MAX);
            finite.map(|size| size.get() as f64).sum::<f64>()
        };
        let (part, all) = (sum(Some(group)), sum(None));
        (self.jobs(Some(group)).count() > 0 && all > 0.0).then(|| part / all)
    }

    /// From the first arrival to the last completion, s.
    pub(super) fn makespan(&self) -> Option<f64> {
        let first = self.jobs(None).map(|job| job.arrival).min()?;
        let last = self.jobs(None).filter_map(|job| job.end).max()?;
        Some(last.since(first).as_secs_f64())
    }

    fn end_of(&self, flow: &FlowRecord) -> Time {
        flow.end.unwrap_or(self.run.end)
    }

    /// From the first start of a flow to the last end; `None` if zero.
    fn busy(&self) -> Option<Span> {
        let (first, last) = self.flows().all.time?;
        Some(last.since(first)).filter(|&span| span != Span::ZERO)
    }

    /// Payload of all flows over the busy time, bit/s.
    pub(super) fn goodput(&self) -> Option<f64> {
        Some(Rate::of(self.flows().all.delivered, self.busy()?).as_bps() as f64)
    }

    /// Payload of datagrams that didn't arrive over all that was sent.
    pub(super) fn datagrams_lost(&self) -> Option<f64> {
        if self.run.datagrams.is_empty() {
            return None;
        }
        let flows = self.run.flows.iter();
        let flows: Vec<_> = flows.filter(|flow| self.run.datagrams.contains(&flow.id)).collect();
        let sum = |of: fn(&FlowRecord) -> Bytes| flows.iter().map(of).sum::<Bytes>().get() as f64;
        let (sent, arrived) = (sum(|flow| flow.size), sum(|flow| flow.delivered));
        (sent > 0.0).then(|| 1.0 - arrived / sent)
    }

    /// From the first start to the last end of finite flows, and what endless flows had delivered
    /// at both times; `None` if zero.
    fn burst(&self) -> Option<(Span, [Bytes; 2])> {
        let (first, last) = self.flows().bounded.time?;
        let whole = || self.flows().endless;
        let noted = |time| self.run.background.iter().find(|(at, _)| *at == time).map(|n| n.1);
        let delivered = [noted(first).unwrap_or_default(), noted(last).unwrap_or_else(whole)];
        Some((last.since(first), delivered)).filter(|(span, _)| *span != Span::ZERO)
    }

    /// Payload of finite flows, or of all flows, over the time of the finite ones, bit/s.
    pub(super) fn burst_goodput(&self, all: bool) -> Option<f64> {
        let (span, [before, after]) = self.burst()?;
        let delivered = self.flows().bounded.delivered;
        let endless = if all { after - before } else { Bytes::ZERO };
        Some(Rate::of(delivered + endless, span).as_bps() as f64)
    }

    /// Lengths of the watched queues at all samples, packets.
    pub(super) fn queues(&self) -> Sample {
        self.run.queues.iter().flat_map(|queue| &queue.packets).map(|n| f64::from(*n)).collect()
    }

    /// The last sample of each queue that is watched, in packets.
    pub(super) fn last_queues(&self) -> Sample {
        let last = self.run.queues.iter().filter_map(|queue| queue.packets.last());
        last.map(|n| f64::from(*n)).collect()
    }

    /// Control delays, s.
    pub(super) fn reactions(&self) -> Sample {
        self.run.reactions.iter().map(|span| span.as_secs_f64()).collect()
    }

    /// Payload of each flow over its life, bit/s.
    pub(super) fn flow_goodput(&self) -> Sample {
        let flows = self.run.flows.iter().filter_map(|flow| {
            let life = self.end_of(&flow).since(flow.start);
            (life != Span::ZERO).then(|| Rate::of(flow.delivered, life).as_bps() as f64)
        });
        flows.collect()
    }

    /// Share of every link's capacity that was used in the busy time.
    pub(super) fn utilization(&self) -> BTreeMap<LinkId, f64> {
        let Some(busy) = self.busy() else {
            return BTreeMap::new();
        };
        let links = self.run.links.iter().filter_map(|record| {
            let capacity = self.topology.links().get(record.link.index())?.spec.capacity;
            let used = Rate::of(record.bytes, busy).as_bps() as f64;
            Some((record.link, used / capacity.as_bps() as f64))
        });
        links.collect()
    }

    /// Payload delivered from or to a host over what its link could have carried in the busy time; of
    /// the host and direction where that is most.
    pub(super) fn host_payload(&self) -> Option<f64> {
        let busy = self.busy()?;
        let ends = &self.flows().ends;
        let shares = self.topology.links().iter().flat_map(|link| {
            let carried = [ends.get(&(link.from, true)), ends.get(&(link.to, false))];
            let capacity = link.spec.capacity.as_bps() as f64;
            let share = move |payload: &Bytes| Rate::of(*payload, busy).as_bps() as f64 / capacity;
            carried.into_iter().flatten().map(share)
        });
        shares.reduce(f64::max)
    }

    /// Packets that left a rack, over links from a switch with hosts to another switch.
    pub(super) fn inter_rack_packets(&self) -> u64 {
        let kind = |node: NodeId| self.topology.nodes()[node.index()].kind;
        let mut has_hosts = vec![false; self.topology.nodes().len()];
        for link in self.topology.links().iter().filter(|link| kind(link.from) == NodeKind::Host) {
            has_hosts[link.to.index()] = true;
        }
        let records = self.run.links.iter().filter(|record| {
            let link = self.topology.links().get(record.link.index());
            link.is_some_and(|l| has_hosts[l.from.index()] && kind(l.to) == NodeKind::Switch)
        });
        records.map(|record| record.packets).sum()
    }

    /// What the application completed besides jobs; `None` unless of exactly one kind.
    fn completions(&self) -> Option<&'a Completions> {
        match &self.run.completions[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Completions per second up to the end of the run.
    pub(super) fn throughput(&self) -> Option<f64> {
        let all = self.completions()?;
        let time = self.run.end.since(all.since);
        (time != Span::ZERO).then(|| all.count() as f64 / time.as_secs_f64())
    }

    /// How long completions took, s: their percentiles.
    pub(super) fn latencies(&self) -> Sample {
        let all = self.completions();
        let percentiles = (1..=100).filter_map(|percent| all?.percentile(percent));
        percentiles.map(Span::as_secs_f64).collect()
    }

    /// A statistic of how long completions took, s.
    pub(super) fn latency(&self, of: impl Fn(&Completions) -> Option<Span>) -> Option<f64> {
        of(self.completions()?).map(Span::as_secs_f64)
    }

    /// Share of each flow's life without a limit.
    pub(super) fn flows_transmit(&self) -> Sample {
        let flows = self.run.flows.iter();
        flows.filter_map(|flow| transmit::of_flow(&flow, self.run.end)).collect()
    }

    /// Effective transmit rate of each job of the group.
    pub(super) fn jobs_transmit(&self, group: Group) -> Sample {
        let class = |job: &JobId| self.classes.get(job).copied();
        let jobs = self.transmit.get_or_init(|| transmit::of_jobs(self.run)).iter();
        jobs.filter(|(job, _)| of_group(class(job), group)).map(|(_, rate)| *rate).collect()
    }

    /// Relative change of a statistic of the completion times, over jobs completed in both runs.
    pub(super) fn change(
        &self,
        group: Group,
        statistic: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        let pairs = self.pairs.iter().flatten();
        let times = pairs.filter(|pair| of_group(pair.class, group)).filter_map(Pair::times);
        let (ours, base): (Vec<_>, Vec<_>) = times.unzip();
        let (ours, base) = (Sample::from_iter(ours), Sample::from_iter(base));
        Some(statistic(&ours)? / statistic(&base)? - 1.0)
    }

    /// Share of the jobs of both runs that were quicker than under the baseline.
    pub(super) fn improved(&self) -> Option<f64> {
        self.share_of_pairs(|pair| quicker(pair.ours, pair.base))
    }

    /// Share of the jobs of both runs that were slower than under the baseline.
    pub(super) fn worsened(&self) -> Option<f64> {
        self.share_of_pairs(|pair| quicker(pair.base, pair.ours))
    }

    fn share_of_pairs(&self, holds: impl Fn(&Pair) -> bool) -> Option<f64> {
        let pairs = self.pairs.iter().flatten();
        pairs.map(|pair| f64::from(u8::from(holds(pair)))).collect::<Sample>().mean()
    }

    /// How much longer each job took than under the baseline, s.
    pub(super) fn increase(&self) -> Sample {
        let pairs = self.pairs.iter().flatten().filter_map(Pair::times);
        pairs.map(|(ours, base)| ours - base).collect()
    }
}
