//! When a flow was free to transmit: the TRANSMIT and SLOW states of Phurti, section 4, derived
//! from the enforced limits. A flow is in TRANSMIT while it has no limit.

use std::collections::BTreeMap;

use engine::{FlowRecord, Outcome};
use model::JobId;
use units::{Span, Time};

/// A period of a flow's life in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub to: Time,
    /// Without a limit.
    pub free: bool,
}

/// The life of `flow` as consecutive periods in order; an unfinished flow lives until `end`, the
/// end of the run. Adjacent periods differ in state; a life of zero length has none.
pub fn stretches(flow: &FlowRecord, end: Time) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    each(flow, end, |stretch| match stretches.last_mut() {
        Some(previous) if previous.free == stretch.free => previous.to = stretch.to,
        _ => stretches.push(stretch),
    });
    stretches
}

/// Calls `act` for each period of [`stretches`]; adjacent ones may have the same state.
fn each(flow: &FlowRecord, end: Time, mut act: impl FnMut(Stretch)) {
    let last = flow.end.unwrap_or(end);
    let (mut from, mut free) = (flow.start, true);
    let ends = flow.limits.iter().map(|&(time, limit)| (time, limit.is_none()));
    for (to, next) in ends.chain([(last, true)]) {
        let to = to.clamp(from, last.max(from));
        if from < to {
            act(Stretch { from, to, free });
        }
        (from, free) = (to, next);
    }
}

/// Time that the flow lived, and the part of it without a limit.
fn lived(flow: &FlowRecord, end: Time) -> (Span, Span) {
    let mut sum = (Span::ZERO, Span::ZERO);
    each(flow, end, |stretch| {
        let length = stretch.to.since(stretch.from);
        sum.0 += length;
        if stretch.free {
            sum.1 += length;
        }
    });
    sum
}

fn ratio((life, free): (Span, Span)) -> Option<f64> {
    (life != Span::ZERO).then(|| free.as_secs_f64() / life.as_secs_f64())
}

/// Share of the flow's life without a limit; `None` for a life of zero length.
pub fn of_flow(flow: &FlowRecord, end: Time) -> Option<f64> {
    ratio(lived(flow, end))
}

/// The effective transmit rate of every job (Phurti, section 6.3): the time that its flows spent
/// without a limit over the time that they lived, each summed over its flows.
pub fn of_jobs(outcome: &Outcome) -> BTreeMap<JobId, f64> {
    let mut sums: BTreeMap<JobId, (Span, Span)> = BTreeMap::new();
    // Flows of a job are mostly adjacent.
    let mut flows = outcome.flows.iter().peekable();
    while let Some(job) = flows.peek().map(|flow| flow.job) {
        let sum = sums.entry(job).or_default();
        while let Some(flow) = flows.next_if(|flow| flow.job == job) {
            let (life, free) = lived(&flow, outcome.end);
            sum.0 += life;
            sum.1 += free;
        }
    }
    let ratios = sums.into_iter();
    ratios.filter_map(|(job, sum)| Some((job, ratio(sum)?))).collect()
}
