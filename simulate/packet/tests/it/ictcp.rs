//! ICTCP: what receivers that hold their windows back do to an incast.
#![allow(clippy::unwrap_used)] // a test may panic

use crate::runs::{access, host, incast, job, link, outcome, setup};
use model::build;
use units::{Span, Time};
use watermaster_packet::{Outcome, Transport};

fn transport(ictcp: bool) -> Transport {
    Transport { ictcp, min_rto: Span::from_millis(10), initial_window: 2, ..Transport::default() }
}

/// So many hosts send 256 kB each, within 20 ms, over 1 Gbit/s and a buffer of 100 packets.
fn incast_of(senders: u32, ictcp: bool) -> Outcome {
    let topology = incast(senders, link(1000, 30, 100));
    let receiver = host(&topology, "receiver");
    let jobs = (0..senders).map(|n| {
        let at = Time::ZERO + Span::from_micros(u64::from(n) * 20_000 / u64::from(senders));
        job(n, at, host(&topology, &format!("h{n}")), receiver, 256_000)
    });
    let jobs = jobs.collect();
    outcome(setup(topology, transport(ictcp), jobs))
}

#[test]
fn a_burst_loses_nothing_that_fits_at_two_segments_each() {
    // Twice forty segments are less than the pipe and the buffer.
    let timeouts = |run: &Outcome| run.flows.iter().map(|flow| flow.timeouts).sum::<u32>();
    let dropped = |run: &Outcome| run.links.iter().map(|link| link.dropped).sum::<u64>();
    let (plain, held) = (incast_of(40, false), incast_of(40, true));
    assert!(timeouts(&plain) > 0, "a test that TCP passes too tells nothing");
    assert_eq!((timeouts(&held), dropped(&held)), (0, 0));
    // And two segments in flight of each leave the link no time.
    let end = held.flows.iter().filter_map(|flow| flow.end).max().unwrap();
    let goodput = 40.0 * 256_000.0 * 8.0 / end.as_secs_f64();
    assert!(goodput > 0.9e9, "{goodput}");
}

#[test]
fn a_flow_alone_gets_what_may_be_promised() {
    // Windows grow while less than 90 % of the link comes; doubling may pass that once.
    let topology = build::star(2, &access(link(1000, 50, 1000))).unwrap();
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let jobs = vec![job(0, Time::ZERO, a, b, 50_000_000)];
    let run = outcome(setup(topology, transport(true), jobs));
    let goodput = 50_000_000.0 * 8.0 / run.flows.at(0).completion().unwrap().as_secs_f64();
    assert!((0.7e9..0.98e9).contains(&goodput), "{goodput}");
    assert_eq!(run.flows.at(0).retransmissions, 0);
}
