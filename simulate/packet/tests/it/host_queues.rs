//! Packets that wait at their hosts: closed forms and laws of `syn` and `asy`.

#![allow(clippy::unwrap_used)] // a test may panic

use crate::runs::{host, job, link, outcome, setup};
use model::build::{self, Access};
use model::{Buffer, Job, LinkSpec, NodeKind, Topology};
use policy::{Parameters, by_name};
use units::{Rate, Span, Time};
use watermaster_packet::{Lengths, Outcome, Protocol, Setup, Transport};

/// A packet of 1500 octets at 1 Gbit/s.
const SLOT: Span = Span::from_micros(12);
/// Payload of a full packet.
const FULL: u64 = 1480;

fn held() -> Transport {
    Transport {
        protocol: Protocol::Datagram,
        mss: 1480,
        header: 20,
        held: true,
        ..Transport::default()
    }
}

/// The text's network in small: two leaves with four hosts at 1 Gbit/s, two spines at 2 Gbit/s.
fn network() -> Topology {
    let cable = |mbps| LinkSpec { buffer: Buffer::Unlimited, ..link(mbps, 1, 1) };
    let access = Access { link: cable(1000), nic: Buffer::Unlimited };
    build::leaf_spine(2, 2, 4, &access, &cable(2000)).unwrap()
}

fn under(name: &str, transport: Transport, jobs: Vec<Job>, delay: Span) -> Outcome {
    let policy = by_name(name, &Parameters::default()).unwrap();
    let setup =
        Setup { policy: Some(policy), control_delay: delay, ..setup(network(), transport, jobs) };
    outcome(setup)
}

fn completion(outcome: &Outcome, flow: usize) -> Span {
    outcome.flows.at(flow).completion().unwrap()
}

/// Ten packets from leaf to leaf: ten slots, then 6 µs on each of the two links of 2 Gbit/s, 12 µs
/// on the last, and four times 1 µs of propagation; nobody is met, so that is also the ideal. A
/// bucket lets the first packet go when it has leaked, a slot later.
#[test]
fn an_empty_network_takes_what_the_closed_form_says() {
    let topology = network();
    let jobs = || vec![job(0, Time::ZERO, host(&topology, "h0"), host(&topology, "h7"), 10 * FULL)];
    let ideal = SLOT * 10 + Span::from_micros(6 + 6 + 12 + 4);
    for (name, expected) in [("syn", ideal), ("fastpass", ideal), ("asy", ideal + SLOT)] {
        let outcome = under(name, held(), jobs(), Span::ZERO);
        // A rate below the link's by rounding costs a nanosecond a packet.
        let extra = completion(&outcome, 0).saturating_sub(expected);
        assert!(completion(&outcome, 0) >= expected && extra <= Span::from_nanos(10), "{name}");
        // Full packets fill their slots.
        assert_eq!(
            (&outcome.host_queues.ideal[..], &outcome.host_queues.slotted[..]),
            (&[ideal][..], &[ideal][..])
        );
        assert_eq!(outcome.host_queues.granted, name != "asy");
        assert_eq!(outcome.host_queues.latency, [ideal.saturating_sub(SLOT * 9); 10]);
    }
    // A message to the controller and one back come first.
    let delay = Span::from_micros(50);
    let late = completion(&under("asy", held(), jobs(), delay), 0);
    assert!(late.saturating_sub(ideal + SLOT + delay * 2) <= Span::from_nanos(10));
    // In timeslots: the report comes after 50 µs, the next slot to decide begins at 60 µs, and its
    // grant reaches the host 50 µs later.
    let late = completion(&under("syn", held(), jobs(), delay), 0);
    assert_eq!(late, ideal + SLOT * 5 + delay);
}

/// Where a packet leaves before it leaks, a flow that meets nobody takes the ideal time. Half of a link for
/// each of two flows takes each twice as long but for the last packet, which waits for none. Rates end a
/// little below the link's.
#[test]
fn a_packet_that_leaves_first_saves_its_own_time() {
    let topology = network();
    let flow =
        |id, to: &str| job(id, Time::ZERO, host(&topology, "h0"), host(&topology, to), 10 * FULL);
    let first = Transport { leaves_first: true, ..held() };
    let ideal = SLOT * 10 + Span::from_micros(6 + 6 + 12 + 4);
    let near = |ours: Span, expected: Span| {
        assert!(
            ours >= expected && ours.saturating_sub(expected) <= Span::from_micros(1),
            "{ours}"
        );
    };
    near(completion(&under("asy", first, vec![flow(0, "h7")], Span::ZERO), 0), ideal);
    let both = || vec![flow(0, "h7"), flow(1, "h6")];
    let later = under("asy", held(), both(), Span::ZERO);
    let sooner = under("asy", first, both(), Span::ZERO);
    // The nineteen packets before it leave at 12 µs each on the one link of the host.
    let last = |outcome: &Outcome| completion(outcome, 0).max(completion(outcome, 1));
    near(last(&sooner), ideal.saturating_sub(SLOT * 10) + SLOT * 20);
    assert!(last(&later).saturating_sub(last(&sooner)) >= SLOT);
}

/// Packets of several lengths: the ideal is what one flow alone takes, but for the time of the last
/// packet on its first link, before which it must have leaked.
#[test]
fn the_ideal_is_what_a_flow_alone_takes() {
    let topology = network();
    for lengths in [Lengths::Bimodal, Lengths::Web, Lengths::Alternating] {
        for to in ["h1", "h7"] {
            let flow = job(0, Time::ZERO, host(&topology, "h0"), host(&topology, to), 46_000);
            let outcome = under("asy", Transport { lengths, ..held() }, vec![flow], Span::ZERO);
            let (ours, ideal) = (completion(&outcome, 0), outcome.host_queues.ideal[0]);
            // Each packet's time on a link is rounded up to a nanosecond where it is predicted.
            let rounding = Span::from_nanos(outcome.host_queues.latency.len() as u64);
            let expected = ideal..=ideal + SLOT + rounding * 2;
            assert!(expected.contains(&(ours + rounding)), "{lengths:?}: {ours} for {ideal}");
        }
    }
}

/// In timeslots a flow alone takes a slot for each packet, whatever the packet's length.
#[test]
fn alone_in_timeslots_each_packet_has_its_slot() {
    let topology = network();
    for lengths in [Lengths::Bimodal, Lengths::Web, Lengths::Alternating] {
        for to in ["h1", "h7"] {
            let flow = job(0, Time::ZERO, host(&topology, "h0"), host(&topology, to), 46_000);
            let outcome = under("syn", Transport { lengths, ..held() }, vec![flow], Span::ZERO);
            let (ours, queues) = (completion(&outcome, 0), &outcome.host_queues);
            let apart =
                ours.saturating_sub(queues.slotted[0]).max(queues.slotted[0].saturating_sub(ours));
            assert!(apart <= Span::from_nanos(10), "{lengths:?}: {ours} for {}", queues.slotted[0]);
            assert!(queues.slotted[0] > queues.ideal[0], "{lengths:?}");
        }
    }
}

/// Every host sends 40 packets to every other.
fn everybody(topology: &Topology) -> Vec<Job> {
    let hosts: Vec<_> = topology.hosts().collect();
    let pairs = hosts.iter().flat_map(|&a| hosts.iter().map(move |&b| (a, b)));
    let pairs = pairs.filter(|(a, b)| a != b);
    (0u32..).zip(pairs).map(|(id, (a, b))| job(id, Time::ZERO, a, b, 40 * FULL)).collect()
}

/// Under `syn` no unit link is used twice in a slot: a host's link never holds two packets, and one
/// between switches never more than its two unit links bring in a slot. On a link to a host
/// packets of long paths, which are up to two slots longer under way, meet those of short ones. `asy` keeps
/// none of this.
#[test]
fn timeslots_use_no_link_twice() {
    let topology = network();
    let peaks = |name: &str| {
        let outcome = under(name, held(), everybody(&topology), Span::ZERO);
        assert!(outcome.flows.iter().all(|flow| flow.end.is_some()));
        let is_host = |node: model::NodeId| topology.nodes()[node.index()].kind == NodeKind::Host;
        let mut peaks = [0; 3];
        for record in &outcome.links {
            let link = topology.link(record.link);
            let kind = if is_host(link.from) { 0 } else { 1 + usize::from(is_host(link.to)) };
            peaks[kind] = peaks[kind].max(record.peak);
        }
        (peaks, outcome.end)
    };
    let (syn, end) = peaks("syn");
    assert_eq!(syn, [1, 2, 3]);
    // 280 packets from each host, all senders busy but for the matchings' tail.
    assert!(end < Time::ZERO + SLOT * 300, "{end}");
    let (asy, _) = peaks("asy");
    assert!(asy[1] > 2 && asy[2] > 3, "{asy:?}");
}

/// Two flows into one host share its link; each has half of it, and both end together.
#[test]
fn asy_halves_a_link() {
    let topology = network();
    let at = |name| host(&topology, name);
    let jobs = vec![
        job(0, Time::ZERO, at("h0"), at("h3"), 100 * FULL),
        job(1, Time::ZERO, at("h1"), at("h3"), 100 * FULL),
    ];
    let outcome = under("asy", held(), jobs, Span::ZERO);
    for flow in 0..2 {
        let rate = Rate::of(units::Bytes::new(100 * 1500), completion(&outcome, flow));
        let share = rate.as_bps() as f64 / 5e8;
        assert!((0.97..=1.01).contains(&share), "flow {flow}: {share}");
    }
}

/// The text's adversary (section III-F): a full packet and one of 40 octets in turn take two slots,
/// and `syn` carries about half of what the link could; `asy` carries all.
#[test]
fn short_packets_waste_their_slots() {
    let topology = network();
    let at = |name| host(&topology, name);
    let used = |name: &str| {
        let jobs = vec![job(0, Time::ZERO, at("h0"), at("h1"), 300 * (1480 + 20))];
        let transport = Transport { lengths: Lengths::Alternating, ..held() };
        let outcome = under(name, transport, jobs, Span::ZERO);
        outcome.host_queues.ideal[0].as_secs_f64() / completion(&outcome, 0).as_secs_f64()
    };
    assert!((0.51..0.52).contains(&used("syn")), "{}", used("syn"));
    assert!(used("asy") > 0.99, "{}", used("asy"));
}

/// Lengths come out as their laws say.
#[test]
fn lengths_follow_their_laws() {
    let topology = network();
    let at = |name| host(&topology, name);
    let mean = |lengths, payload: u64| {
        let jobs = vec![job(0, Time::ZERO, at("h0"), at("h1"), payload)];
        let outcome = under("asy", Transport { lengths, ..held() }, jobs, Span::ZERO);
        let packets = outcome.host_queues.latency.len() as f64;
        payload as f64 / packets + 20.0
    };
    // 0.4 · 40 + 0.6 · 1500, and 0.5 · 95 + 0.35 · 225 + 0.15 · 1500.
    assert!((mean(Lengths::Bimodal, 9_000_000) / 916.0 - 1.0).abs() < 0.03);
    assert!((mean(Lengths::Web, 3_000_000) / 351.25 - 1.0).abs() < 0.03);
    // 0.5 · 40 + 0.35 · 150 + 0.15 · 1500, and 0.5 · 95 + 0.35 · 825 + 0.15 · 1500.
    assert!((mean(Lengths::WebShortest, 3_000_000) / 297.5 - 1.0).abs() < 0.03);
    assert!((mean(Lengths::WebLonger, 6_000_000) / 561.25 - 1.0).abs() < 0.03);
}

/// Packets that nobody lets go stay, and are counted in the queue; those of TCP can't be held.
#[test]
fn held_packets_wait() {
    let topology = network();
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let link = topology.out(a)[0];
    let monitors = vec![watermaster_packet::Monitor { link, interval: SLOT, start: Span::ZERO }];
    let until = Time::ZERO + SLOT * 10;
    let jobs = vec![job(0, Time::ZERO, a, b, 7 * FULL)];
    let waiting = outcome(Setup { monitors, until, ..setup(network(), held(), jobs) });
    assert_eq!(waiting.queues[0].packets, [7; 10]);
    assert_eq!(waiting.flows.at(0).end, None);
    let tcp = Transport { held: true, ..Transport::default() };
    assert!(tcp.check().unwrap_err().contains("datagram"));
    let wide = Transport { lengths: Lengths::Web, header: 40, ..held() };
    assert!(wide.check().unwrap_err().contains("header"));
}
