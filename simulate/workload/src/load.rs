//! The load that jobs offer to a network, and arrivals stretched to meet one.
//!
//! The load is what the busiest link would have to carry, divided by what it could carry while the
//! jobs arrive: its payload over its capacity, divided by n mean gaps between n arrivals. Payload
//! alone is counted; headers make a link's use larger by their part of a frame. Flows that never
//! end are left out.

use std::borrow::Borrow;

use model::{Flow, Job, LinkId, Network};
use units::{Bytes, Span, Time};

use crate::ParameterError;
use crate::error::require;

/// The link that needs the longest time for its part of all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busiest {
    /// The link; of several the first.
    pub link: LinkId,
    /// Payload that crosses it.
    pub payload: Bytes,
    /// Time that this takes at the link's capacity, rounded up.
    pub time: Span,
}

/// The busiest link, or `None` when nothing crosses the network.
///
/// Flows take the ECMP paths of `network` by their number, counted from 0 through all jobs in
/// order. A world numbers flows as they start: if flows of several jobs start interleaved, its
/// choice among equal paths may differ, with the same distribution.
pub fn busiest<J: Borrow<Job>>(
    network: &Network,
    jobs: impl IntoIterator<Item = J>,
) -> Option<Busiest> {
    let links = network.topology().links();
    let mut payload = vec![Bytes::ZERO; links.len()];
    let mut path = Vec::new();
    let mut keys = 0u64..;
    for job in jobs {
        for (flow, key) in flows(&job).zip(keys.by_ref()) {
            path.clear();
            if flow.size < Bytes::MAX && network.path(flow.src, flow.dst, key, &mut path) {
                for link in &path {
                    payload[link.index()] += flow.size;
                }
            }
        }
    }
    let used = (0u32..).zip(links.iter().zip(payload));
    let timed = used.map(|(number, (link, payload))| Busiest {
        link: LinkId(number),
        payload,
        time: link.spec.capacity.time_for(payload),
    });
    let busy = timed.filter(|link| link.payload > Bytes::ZERO);
    busy.reduce(|most, link| if link.time > most.time { link } else { most })
}

fn flows<J: Borrow<Job>>(job: &J) -> impl Iterator<Item = &Flow> {
    let job: &Job = job.borrow();
    job.flows.iter()
}

/// The load that `jobs`, in order of arrival, offer to `network`; `None` when nothing crosses it,
/// or all arrive at once.
pub fn offered<J: Borrow<Job>>(
    network: &Network,
    jobs: impl IntoIterator<Item = J>,
) -> Option<f64> {
    let (mut first, mut last, mut count) = (None, Time::ZERO, 0u64);
    let counted = jobs.into_iter().inspect(|job| {
        let job: &Job = job.borrow();
        first.get_or_insert(job.arrival);
        last = job.arrival;
        count += 1;
    });
    let busy = busiest(network, counted)?.time.as_secs_f64();
    let between = last.since(first?);
    // Of n mean gaps.
    let period_s = between.as_secs_f64() * count as f64 / (count - 1) as f64;
    (between > Span::ZERO).then(|| busy / period_s)
}

/// Moves the arrivals of `jobs`, which are in order of arrival, so that they offer `load`: the
/// first stays, and every gap is multiplied by one factor.
///
/// # Errors
/// A load that isn't above 0 and at most 1000; jobs that all arrive at once or move nothing.
pub fn calibrate(network: &Network, jobs: &mut [Job], load: f64) -> Result<(), ParameterError> {
    let factor = factor(network, &*jobs, load)?;
    stretch(jobs.iter_mut().map(|job| &mut job.arrival), factor);
    Ok(())
}

/// By what every gap is multiplied for `jobs` to offer `load`.
pub(crate) fn factor<J: Borrow<Job>>(
    network: &Network,
    jobs: impl IntoIterator<Item = J>,
    load: f64,
) -> Result<f64, ParameterError> {
    require(load > 0.0 && load <= 1000.0, "load", || {
        format!("{load} is outside the range above 0 and up to 1000")
    })?;
    let now = offered(network, jobs).ok_or_else(|| ParameterError {
        parameter: "load",
        message: "the jobs arrive all at once, or nothing crosses the network; leave the load out"
            .to_owned(),
    })?;
    Ok(now / load)
}

/// Multiplies every gap of `arrivals`, which are in order.
pub(crate) fn stretch<'a>(arrivals: impl Iterator<Item = &'a mut Time>, factor: f64) {
    let mut first = None;
    for arrival in arrivals {
        let first = *first.get_or_insert(*arrival);
        let gap = arrival.since(first).as_secs_f64();
        *arrival = first + Span::from_secs_f64(gap * factor);
    }
}
