//! The load that jobs offer to a network, and arrivals stretched to meet one.
//!
//! The load is what the busiest link would have to carry, divided by what it could carry while the
//! jobs arrive: its payload over its capacity, divided by n mean gaps between n arrivals. Payload
//! alone is counted; headers make a link's use larger by their part of a frame. Flows that never
//! end are left out.

use model::{Job, LinkId, Network};
use units::{Bytes, Span};

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
pub fn busiest(network: &Network, jobs: &[Job]) -> Option<Busiest> {
    let links = network.topology().links();
    let mut payload = vec![Bytes::ZERO; links.len()];
    let mut path = Vec::new();
    for (key, flow) in (0u64..).zip(jobs.iter().flat_map(|job| &job.flows)) {
        path.clear();
        if flow.size < Bytes::MAX && network.path(flow.src, flow.dst, key, &mut path) {
            for link in &path {
                payload[link.index()] += flow.size;
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

/// The load that `jobs`, in order of arrival, offer to `network`; `None` when nothing crosses it,
/// or all arrive at once.
pub fn offered(network: &Network, jobs: &[Job]) -> Option<f64> {
    let busy = busiest(network, jobs)?.time.as_secs_f64();
    period(jobs).map(|period| busy / period)
}

/// Moves the arrivals of `jobs`, which are in order of arrival, so that they offer `load`: the
/// first stays, and every gap is multiplied by one factor.
///
/// # Errors
/// A load that isn't above 0 and at most 1000; jobs that all arrive at once or move nothing.
pub fn calibrate(network: &Network, jobs: &mut [Job], load: f64) -> Result<(), ParameterError> {
    require(load > 0.0 && load <= 1000.0, "load", || {
        format!("{load} is outside the range above 0 and up to 1000")
    })?;
    let now = offered(network, jobs);
    require(now.is_some(), "load", || {
        "the jobs arrive all at once, or nothing crosses the network; leave the load out".to_owned()
    })?;
    let (Some(now), Some(first)) = (now, jobs.first().map(|job| job.arrival)) else {
        return Ok(());
    };
    let factor = now / load;
    for job in jobs {
        let gap = job.arrival.since(first).as_secs_f64();
        job.arrival = first + Span::from_secs_f64(gap * factor);
    }
    Ok(())
}

/// Seconds of n mean gaps.
fn period(jobs: &[Job]) -> Option<f64> {
    let (first, last) = (jobs.first()?, jobs.last()?);
    let between = last.arrival.since(first.arrival);
    let gaps = (jobs.len() - 1) as f64;
    (between > Span::ZERO).then(|| between.as_secs_f64() * jobs.len() as f64 / gaps)
}
