//! Policies that have hosts tag packets: what ports serve first and what they drop.
#![allow(clippy::unwrap_used)] // in what the tests share, too

use crate::runs::{host, incast, job, link, outcome, setup};
use engine::{Actions, Application};
use model::{FlowId, JobId, NodeId};
use policy::{Parameters, by_name};
use proptest::prelude::*;
use units::{Bytes, Span, Time};
use watermaster_packet::{Outcome, Protocol, RunError, Setup, Transport, World};

/// Time of a full packet at 100 Mbit/s.
const PACKET: Span = Span::from_micros(120);
const SEGMENT: u64 = 1460;

/// When the last of so many packets has crossed the sender's link, at 100 Gbit/s, and the receiver's, at
/// 100 Mbit/s, with 50 µs each, all of them ready at the start.
fn after(packets: u64) -> Span {
    Span::from_nanos(120) + Span::from_micros(100) + PACKET * packets
}

/// Hosts of which each sends a flow, of so many packets from so many ns on, to one over its link.
fn senders(flows: &[(u64, u64)], transport: Transport) -> Setup<'static> {
    let senders = u32::try_from(flows.len()).unwrap();
    let topology = incast(senders, link(100, 50, 1_000));
    let receiver = host(&topology, "receiver");
    let jobs = (0u32..).zip(flows).map(|(id, (packets, ns))| {
        let at = Time::from_nanos(*ns);
        job(id, at, host(&topology, &format!("h{id}")), receiver, packets * SEGMENT)
    });
    let mut jobs: Vec<_> = jobs.collect();
    jobs.sort_by_key(|job| job.arrival);
    setup(topology, transport, jobs)
}

/// These flows under pFabric with so many octets of buffer a port and this timeout.
fn pfabric(flows: &[(u64, u64)], buffer: u64, timeout: Span) -> Outcome {
    let parameters = Parameters::default().with("timeout", timeout);
    let parameters = parameters.with("buffer", Bytes::new(buffer));
    let mut setup = senders(flows, Transport::default());
    setup.policy = Some(by_name("pfabric", &parameters).unwrap());
    setup.until = Time::ZERO + Span::from_secs(9);
    outcome(setup)
}

fn completions(outcome: &Outcome) -> Vec<Span> {
    outcome.flows.iter().map(|flow| flow.completion().unwrap()).collect()
}

fn dropped(outcome: &Outcome) -> u64 {
    outcome.links.iter().map(|link| link.dropped).sum()
}

#[test]
fn the_flow_with_the_least_left_is_served_first() {
    // All 16 packets are there before the second leaves; the first of the first flow is under way.
    let outcome = pfabric(&[(5, 0), (3, 0), (8, 0)], 36_000, Span::from_millis(50));
    assert_eq!(completions(&outcome), [after(8), after(4), after(16)]);
    assert_eq!(dropped(&outcome), 0);
}

#[test]
fn the_packet_with_the_most_left_makes_room() {
    // Room for four beside the one under way, as at the hosts, and packets come in turns. Four of the first
    // flow: one is under way, one waits to the end, two are dropped for the second flow's or on arrival. The
    // third flow's five find no room, or lose it.
    let outcome = pfabric(&[(4, 0), (3, 0), (5, 0)], 6_000, Span::from_millis(50));
    assert_eq!(completions(&outcome)[1], after(4));
    assert_eq!(dropped(&outcome), 2 + 5);
    let timeouts: Vec<u32> = outcome.flows.iter().map(|flow| flow.timeouts).collect();
    assert_eq!(timeouts, [1, 0, 1]);
}

#[test]
fn acknowledgements_go_before_data() {
    // Each host sends to the other: on either's link data and acknowledgements of the other flow meet.
    let star = testing::network::hosts(2, link(100, 50, 1_000));
    let ends = [host(&star, "h0"), host(&star, "h1")];
    let jobs = (0u32..2).map(|id| {
        let [src, dst] = if id == 0 { ends } else { [ends[1], ends[0]] };
        job(id, Time::ZERO, src, dst, 200 * SEGMENT)
    });
    let mut setup = setup(star, Transport::default(), jobs.collect());
    let parameters = Parameters::default().with("timeout", Span::from_millis(20));
    setup.policy = Some(by_name("pfabric", &parameters).unwrap());
    let outcome = outcome(setup);
    // 200 packets and as many acknowledgements of 40 octets; none waits for a window.
    let busy = PACKET * 200 + Span::from_nanos(3_200) * 200;
    for time in completions(&outcome) {
        assert!(time <= busy + Span::from_millis(1), "{time}, of {busy}");
    }
}

/// What a port does that has room for so many packets beside the one under way, of flows that arrive each
/// at its time with all of its packets: when each flow has left as a whole, and how many packets dropped.
/// Straight from section 4.1 of pFabric, with lists. All packets of a flow say the same.
fn port(flows: &[(u64, u64)], room: usize) -> (Vec<Option<u64>>, u64) {
    let mut arrivals: Vec<(u64, usize)> = Vec::new();
    for (flow, (packets, at)) in flows.iter().enumerate() {
        arrivals.extend((0..*packets).map(|n| (at + n * 120, flow)));
    }
    arrivals.sort_unstable();
    let mut arrivals = arrivals.into_iter().peekable();
    let (mut queue, mut left): (Vec<usize>, Vec<u64>) =
        (Vec::new(), flows.iter().map(|f| f.0).collect());
    let (mut ends, mut dropped, mut free) = (vec![None; flows.len()], 0, 0);
    let size = |flow: &usize| flows[*flow].0;
    loop {
        // The next packet leaves before the next one arrives, or there is none.
        let next = arrivals.peek().map_or(u64::MAX, |(at, _)| *at);
        if free <= next && !queue.is_empty() {
            let first = (0..queue.len()).min_by_key(|&at| (size(&queue[at]), at)).unwrap();
            let flow = queue.remove(first);
            free += PACKET.as_nanos();
            left[flow] -= 1;
            ends[flow] = (left[flow] == 0).then_some(free);
            continue;
        }
        let Some((at, flow)) = arrivals.next() else {
            return (ends, dropped);
        };
        free = free.max(at);
        queue.push(flow);
        // With nothing under way the first goes at once.
        if queue.len() > room + usize::from(free == at) {
            let last = (0..queue.len()).max_by_key(|&at| (size(&queue[at]), at)).unwrap();
            queue.remove(last);
            dropped += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Flows of one window, until a timeout: a port does exactly as the text says.
    #[test]
    fn a_port_does_as_the_text_says(
        flows in prop::collection::vec((1u64..12, 0u64..2_000), 2..9),
        room in 2u64..40,
    ) {
        // No two packets meet in the same nanosecond, and a host's own port has room for its flow.
        let apart =
            |(id, (packets, us)): (u64, (u64, u64))| (packets.min(room + 1), us * 1_000 + 7 * id);
        let mut flows: Vec<(u64, u64)> = (0..).zip(flows).map(apart).collect();
        flows.sort_by_key(|(_, at)| *at);
        let outcome = pfabric(&flows, room * 1_500, Span::from_secs(10));
        // Each flow is at the port a packet's time of its link and 50 µs later.
        let there: Vec<(u64, u64)> = flows.iter().map(|(n, at)| (*n, at + 50_120)).collect();
        let (ends, dropped) = port(&there, usize::try_from(room).unwrap());
        for (flow, end) in outcome.flows.iter().zip(ends) {
            prop_assert_eq!(flow.end.map(Time::as_nanos), end.map(|at| at + 50_000));
        }
        prop_assert_eq!(self::dropped(&outcome), dropped);
    }
}

/// These flows under PIAS with these thresholds in packets, of hosts without a congestion window.
fn pias(flows: &[(u64, u64)], thresholds: &[u64]) -> Outcome {
    let sizes: Vec<Bytes> = thresholds.iter().map(|n| Bytes::new(n * SEGMENT)).collect();
    let mut setup =
        senders(flows, Transport { protocol: Protocol::Granted, ..Transport::default() });
    setup.policy = Some(by_name("pias", &Parameters::default().with("thresholds", sizes)).unwrap());
    outcome(setup)
}

#[test]
fn a_flow_loses_priority_with_what_it_has_sent() {
    // The long flow's first ten packets have left when the short one comes: it waits for none but the one
    // under way. 1300 µs are ten packets and 100 µs, of which 50 are on the way.
    let outcome = pias(&[(100, 0), (5, 1_300_000)], &[10]);
    let late = after(11) + PACKET * 5;
    assert_eq!(completions(&outcome), [after(105), late.saturating_sub(Span::from_micros(1_300))]);
    // It comes when the fifth is under way: the other five are as urgent and were there before.
    let outcome = pias(&[(100, 0), (5, 490_000)], &[10]);
    assert_eq!(completions(&outcome)[1], after(15).saturating_sub(Span::from_micros(490)));
}

#[test]
fn each_threshold_is_one_priority_less() {
    // Six packets of one flow and, while its first is under way, five of the other: two of each, two of
    // each, then what is left.
    let outcome = pias(&[(6, 0), (5, 1_000)], &[2, 4]);
    let microsecond = Span::from_micros(1);
    assert_eq!(completions(&outcome), [after(10), after(11).saturating_sub(microsecond)]);
}

/// These flows under Homa, which have so many segments ahead, and so many of which are granted to at once.
fn homa(flows: &[(u64, u64)], ahead: u32, overcommitment: u32) -> Outcome {
    granted(senders(flows, Transport::default()), ahead, overcommitment)
}

fn granted(mut setup: Setup<'static>, ahead: u32, overcommitment: u32) -> Outcome {
    let parameters = Parameters::default().with("ahead", ahead);
    // Longer than anything waits at the receiver's port.
    let parameters = parameters.with("timeout", Span::from_millis(200));
    let parameters = parameters.with("overcommitment", overcommitment);
    setup.policy = Some(by_name("homa", &parameters).unwrap());
    outcome(setup)
}

/// Beside how long a link is busy with data: the way there and back, once or twice.
const SLACK: Span = Span::from_micros(500);

#[test]
fn the_message_with_the_least_left_is_granted_first() {
    // C*RTT is two packets. What needs no grant goes at once, two packets each; then one after the other.
    let flows = [(40, 0), (10, 0), (20, 0)];
    let outcome = homa(&flows, 4, 1);
    let [long, short, middle] = completions(&outcome)[..] else { panic!() };
    for (time, packets) in [(short, 4 + 4 + 10), (middle, 4 + 10 + 20), (long, 70)] {
        let least = after(packets).saturating_sub(PACKET * 8);
        assert!(least <= time && time <= after(packets) + SLACK, "{time} of {packets} packets");
    }
    assert_eq!(dropped(&outcome), 0);
    let timeouts: u32 = outcome.flows.iter().map(|flow| flow.timeouts).sum();
    assert_eq!(timeouts, 0);
}

#[test]
fn no_more_waits_at_a_receiver_than_is_granted() {
    for overcommitment in [1, 2, 5] {
        // Who comes later has more left: what needs no grant joins what is granted to those before.
        let flows: Vec<(u64, u64)> = (0..8).map(|n| (100, n * 1_000_000)).collect();
        let outcome = homa(&flows, 3, overcommitment);
        let peak = outcome.links.iter().map(|link| link.peak).max().unwrap();
        assert!(peak <= 3 + 3 * overcommitment + 1, "{peak} packets with {overcommitment}");
        assert!(peak >= 3 * overcommitment, "{peak} packets with {overcommitment}");
        let last = outcome.flows.iter().map(|flow| flow.end.unwrap()).max().unwrap();
        assert!(last <= Time::ZERO + after(800) + SLACK, "{last}: the receiver's link never rests");
    }
    // What comes late, and needs no grant, waits for nobody.
    let mut flows = vec![(200, 0); 8];
    flows.push((1, 60_000_000));
    let late = completions(&homa(&flows, 3, 5))[8];
    assert!(late <= after(3), "{late}");
}

/// A host whose link carries a tenth of the receiver's has two messages, a fast one has a longer one.
#[test]
fn a_receiver_grants_to_one_message_of_a_host() {
    let mut topology = incast(2, link(100, 50, 1_000));
    let receiver = host(&topology, "receiver");
    let slow = topology.add_node("slow".into(), model::NodeKind::Host).unwrap();
    let switch = topology.node_named("s0").unwrap();
    let tenth = link(10, 50, 1_000);
    topology.connect(slow, switch, tenth, tenth).unwrap();
    let fast = host(&topology, "h0");
    // The shorter one comes when the receiver knows of the longer.
    let jobs = [(slow, 30, 0), (fast, 200, 0), (slow, 20, 5)];
    let jobs = (0u32..).zip(jobs).map(|(id, (from, packets, ms))| {
        job(id, Time::ZERO + Span::from_millis(ms), from, receiver, packets * SEGMENT)
    });
    let jobs = jobs.collect();
    let outcome = granted(setup(topology, Transport::default(), jobs), 4, 2);
    let other = completions(&outcome)[1];
    // Two at once: one of the slow host's, and the fast one's, which is not kept waiting.
    assert!(other <= after(200 + 20) + SLACK, "{other}");
}

#[test]
fn grants_say_priorities() {
    // Both are granted to at once; a packet of the shorter goes before all of the longer's that wait.
    let outcome = homa(&[(100, 0), (50, 0)], 10, 2);
    let [long, short] = completions(&outcome)[..] else { panic!() };
    assert!(short <= after(50 + 10) + SLACK, "{short}");
    assert!(long <= after(150) + SLACK, "{long}");
}

/// Streams from one host each to a receiver, and so many packets that are written to which of them so many µs after the
/// start.
struct Streams {
    ends: Vec<(NodeId, NodeId)>,
    writes: Vec<(u64, usize, u64)>,
    flows: Vec<FlowId>,
}

impl Application<World> for Streams {
    fn arrival(&mut self) -> Option<Time> {
        self.flows.is_empty().then_some(Time::ZERO)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, World>) -> Result<(), RunError> {
        for (src, dst) in &self.ends {
            self.flows.push(actions.open(JobId(0), *src, *dst)?);
        }
        for (number, (after, ..)) in (0..).zip(&self.writes) {
            actions.later(Span::from_micros(*after), number);
        }
        Ok(())
    }

    fn due(&mut self, number: u64, actions: &mut Actions<'_, World>) -> Result<(), RunError> {
        let number = usize::try_from(number).unwrap();
        let (_, to, packets) = self.writes[number];
        actions.write(self.flows[to], Bytes::new(packets * SEGMENT));
        if self.writes[number + 1..].iter().all(|(_, other, _)| *other != to) {
            actions.close(self.flows[to]);
        }
        Ok(())
    }
}

/// What is written while a stream waits for grants is granted like what was there before, also where it is another
/// message's packet that has the receiver grant.
#[test]
fn what_is_written_to_a_stream_is_granted() {
    let topology = incast(2, link(100, 50, 1_000));
    let receiver = host(&topology, "receiver");
    let ends = ["h0", "h1"].map(|name| (host(&topology, name), receiver)).to_vec();
    let writes = vec![(0, 0, 20), (0, 1, 30), (900, 0, 200), (1_500, 0, 10)];
    let mut setup = setup(topology, Transport::default(), Vec::new());
    setup.application = Box::new(Streams { ends, writes, flows: Vec::new() });
    let outcome = granted(setup, 4, 2);
    for (flow, packets) in outcome.flows.iter().zip([230, 30]) {
        assert_eq!((flow.delivered, flow.timeouts), (Bytes::new(packets * SEGMENT), 0));
    }
    let last = outcome.flows.at(0).end.unwrap();
    assert!(last <= Time::ZERO + after(260) + SLACK, "{last}: the receiver's link never rests");
}

#[test]
fn what_is_lost_under_grants_comes_again() {
    // Room for five: what needs no grant doesn't fit.
    let topology = incast(6, link(100, 50, 5));
    let receiver = host(&topology, "receiver");
    let jobs = (0..6)
        .map(|id| job(id, Time::ZERO, host(&topology, &format!("h{id}")), receiver, 30 * SEGMENT));
    let jobs = jobs.collect();
    let outcome = granted(setup(topology, Transport::default(), jobs), 4, 2);
    assert!(dropped(&outcome) > 0);
    assert!(outcome.flows.iter().all(|flow| flow.end.is_some() && flow.delivered == flow.size));
}

#[test]
fn what_has_no_tags_is_refused() {
    let datagrams = Transport { protocol: Protocol::Datagram, ..Transport::default() };
    for name in ["pfabric", "pias", "homa"] {
        let mut setup = senders(&[(1, 0)], datagrams);
        setup.policy = Some(by_name(name, &Parameters::default()).unwrap());
        let error = watermaster_packet::run(setup, &mut |_| {}).unwrap_err();
        assert!(matches!(error, RunError::Transport(_)), "{error}");
        assert!(error.to_string().contains("datagrams have no tags"), "{error}");
    }
    let jumbo = Transport { mss: 8_960, ..Transport::default() };
    let mut setup = senders(&[(1, 0)], jumbo);
    let parameters = Parameters::default().with("buffer", Bytes::new(3_000));
    setup.policy = Some(by_name("pfabric", &parameters).unwrap());
    let error = watermaster_packet::run(setup, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("has no room for a packet of 9 kB"), "{error}");
}
