//! When a flow was free to transmit: the TRANSMIT and SLOW states of Phurti, section 4, seen from
//! the limits that were enforced. A flow is in TRANSMIT while it has no limit.

use std::collections::BTreeMap;

use engine::{FlowRecord, Outcome};
use model::JobId;
use units::{Span, Time};

/// A stretch of a flow's life in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub to: Time,
    /// Without a limit.
    pub free: bool,
}

/// The life of `flow` in stretches without gaps, in order; an unfinished flow lives until `end`,
/// the end of the run. Neighbours differ in state; a life of no length has none.
pub fn stretches(flow: &FlowRecord, end: Time) -> Vec<Stretch> {
    let last = flow.end.unwrap_or(end);
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut add = |from: Time, to: Time, free| match stretches.last_mut() {
        _ if from >= to => {}
        Some(previous) if previous.free == free => previous.to = to,
        _ => stretches.push(Stretch { from, to, free }),
    };
    let (mut at, mut free) = (flow.start, true);
    for &(time, limit) in &flow.limits {
        let time = time.clamp(at, last.max(at));
        add(at, time, free);
        (at, free) = (time, limit.is_none());
    }
    add(at, last, free);
    stretches
}

/// Time that the flow lived, and the part of it without a limit.
fn lived(flow: &FlowRecord, end: Time) -> (Span, Span) {
    if flow.limits.is_empty() {
        let life = flow.end.unwrap_or(end).since(flow.start);
        return (life, life);
    }
    let mut sum = (Span::ZERO, Span::ZERO);
    for stretch in stretches(flow, end) {
        let length = stretch.to.since(stretch.from);
        sum.0 += length;
        if stretch.free {
            sum.1 += length;
        }
    }
    sum
}

fn ratio((life, free): (Span, Span)) -> Option<f64> {
    (life != Span::ZERO).then(|| free.as_secs_f64() / life.as_secs_f64())
}

/// Share of the flow's life without a limit; `None` of a life of no length.
pub fn of_flow(flow: &FlowRecord, end: Time) -> Option<f64> {
    ratio(lived(flow, end))
}

/// The effective transmit rate of every job (Phurti, section 6.3): the time that its flows spent
/// without a limit over the time that they lived, each summed over its flows.
pub fn of_jobs(outcome: &Outcome) -> BTreeMap<JobId, f64> {
    let mut sums: BTreeMap<JobId, (Span, Span)> = BTreeMap::new();
    for flow in &outcome.flows {
        let (life, free) = lived(flow, outcome.end);
        let sum = sums.entry(flow.job).or_default();
        sum.0 += life;
        sum.1 += free;
    }
    let ratios = sums.into_iter();
    ratios.filter_map(|(job, sum)| Some((job, ratio(sum)?))).collect()
}
