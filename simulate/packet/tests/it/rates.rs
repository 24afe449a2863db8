//! Rates that the network can carry: nothing is lost, and no timer runs out.

#![allow(clippy::unwrap_used)] // a test may panic

use crate::runs::{host, link, outcome, setup};
use model::Topology;
use policy::{Acknowledgements, Parameters, Policy, by_name};
use testing::network;
use units::{Span, Time};
use watermaster_packet::{Outcome, Setup, Transport};

/// Four hosts at 100 Mbit/s, whose two pairs send each other 30 flows each way.
fn exchange(name: &str, acknowledgements: Acknowledgements) -> Outcome {
    let topology: Topology = network::hosts(4, link(100, 50, 100));
    let [a, b, c, d] = ["h0", "h1", "h2", "h3"].map(|name| host(&topology, name));
    let ways = [(a, c), (b, c), (c, a), (c, b), (d, a), (a, d)];
    let jobs = (0u32..)
        .zip(ways)
        .map(|(number, (src, dst))| network::job(number, Time::ZERO, &[(src, dst, 400_000); 30]));
    let parameters = Parameters::default().acknowledged(acknowledgements);
    outcome(Setup {
        policy: Some(by_name(name, &parameters).unwrap()),
        control_delay: Span::from_millis(1),
        ..setup(topology, Transport::default(), jobs.collect())
    })
}

#[test]
fn all_rates_together_with_their_acknowledgements_lose_nothing() {
    for name in ["fair", "srb", "sebf", "bssf", "dclas"] {
        let acknowledgements = Transport::default().acknowledgements();
        let outcome = exchange(name, acknowledgements);
        let dropped: u64 = outcome.links.iter().map(|link| link.dropped).sum();
        let timeouts: u32 = outcome.flows.iter().map(|flow| flow.timeouts).sum();
        assert_eq!((dropped, timeouts), (0, 0), "{name}");
    }
}

/// A flow waits for its rate with its first packet; it needs no longer than that.
#[test]
fn a_flow_starts_when_its_rate_has_come() {
    let topology = network::hosts(2, link(100, 50, 100));
    let (src, dst) = (host(&topology, "h0"), host(&topology, "h1"));
    let segment = u64::from(Transport::default().mss);
    let end = |name: &str| {
        let jobs = vec![network::job(0, Time::ZERO, &[(src, dst, segment)])];
        let policy: Box<dyn Policy> = by_name(name, &Parameters::default()).unwrap();
        let policy = Some(policy);
        let control_delay = Span::from_millis(1);
        let setup = setup(topology.clone(), Transport::default(), jobs);
        outcome(Setup { policy, control_delay, ..setup }).flows.at(0).completion().unwrap()
    };
    // A packet of 1500 octets takes 120 us on each link, and its pace lets it go within as long.
    let (free, paced) = (end("tcp"), end("fair"));
    assert_eq!(free, Span::from_micros(2 * (120 + 50)));
    let waited = paced.saturating_sub(free);
    assert!(waited >= Span::from_millis(2), "{waited:?}");
    assert!(waited <= Span::from_millis(2) + Span::from_micros(121), "{waited:?}");
}
