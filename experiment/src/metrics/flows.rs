//! What metrics take from all flows, in one pass: each pass reads every record anew.

use std::collections::BTreeMap;

use engine::{FlowRecord, Outcome};
use model::NodeId;
use units::{Bytes, Time};

use super::sample::Sample;

/// How much a flow moves, in the classes of pFabric (SIGCOMM 2013, section 5.3) and PIAS (NSDI 2015,
/// section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// At most 100 kB.
    Short,
    /// More, and at most 10 MB.
    Middle,
    /// More than 10 MB.
    Long,
}

impl Length {
    const fn of(size: Bytes) -> Self {
        match size.get() {
            0..=100_000 => Self::Short,
            100_001..=10_000_000 => Self::Middle,
            _ => Self::Long,
        }
    }
}

/// Sums over the flows of a run.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Completion times of completed flows by [`Length`], s.
    fct: [Sample; 3],
    /// All flows.
    pub(super) all: Sums,
    /// Those that aren't endless.
    pub(super) bounded: Sums,
    /// Payload that endless flows delivered.
    pub(super) endless: Bytes,
    /// Payload delivered from a host (`true`) or to one, by host.
    pub(super) ends: BTreeMap<(NodeId, bool), Bytes>,
}

/// Sums over some flows.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) count: usize,
    /// When the first began and the last ended, or the run before it.
    pub(super) time: Option<(Time, Time)>,
    pub(super) delivered: Bytes,
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    /// Flows with a timeout.
    pub(super) late: usize,
}

impl Flows {
    pub(super) fn of(run: &Outcome) -> Self {
        let mut flows = Self::default();
        let mut fct: [Vec<f64>; 3] = Default::default();
        for flow in &run.flows {
            if let Some(took) = flow.completion() {
                fct[Length::of(flow.size) as usize].push(took.as_secs_f64());
            }
            flows.all.add(&flow, run.end);
            if flow.size == Bytes::MAX {
                flows.endless += flow.delivered;
            } else {
                flows.bounded.add(&flow, run.end);
            }
            *flows.ends.entry((flow.src, true)).or_default() += flow.delivered;
            *flows.ends.entry((flow.dst, false)).or_default() += flow.delivered;
        }
        flows.fct = fct.map(Sample::from_iter);
        flows
    }

    /// Completion times of completed flows of this length, s.
    pub(super) const fn fct_of(&self, length: Length) -> &Sample {
        &self.fct[length as usize]
    }

    /// Completion times of completed flows, s.
    pub(super) fn fct(&self) -> Sample {
        let all: Vec<f64> = self.fct.each_ref().map(Sample::values).concat();
        all.into_iter().collect()
    }
}

impl Sums {
    fn add(&mut self, flow: &FlowRecord, run_end: Time) {
        let end = flow.end.unwrap_or(run_end);
        let (first, last) = self.time.unwrap_or((flow.start, end));
        self.time = Some((first.min(flow.start), last.max(end)));
        self.count += 1;
        self.delivered += flow.delivered;
        self.retransmissions = self.retransmissions.saturating_add(flow.retransmissions.into());
        self.timeouts = self.timeouts.saturating_add(flow.timeouts.into());
        self.late += usize::from(flow.timeouts > 0);
    }

    /// A number of flows, or a sum over them; `None` where there are none.
    pub(super) fn known(&self, of: impl Fn(&Self) -> u64) -> Option<f64> {
        (self.count > 0).then(|| of(self) as f64)
    }

    /// Share of the flows with a timeout.
    pub(super) fn late_share(&self) -> Option<f64> {
        (self.count > 0).then(|| self.late as f64 / self.count as f64)
    }
}
