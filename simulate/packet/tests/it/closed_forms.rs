//! The transports against what can be computed by hand.

use crate::runs::{access, host, incast, job, link, outcome, pace, per_flow, setup};
use model::{Buffer, Directives, build};
use units::{Bytes, Rate, Span, Time};
use watermaster_packet::{Protocol, Transport};

/// Full packets of 1500 octets take 120 µs at 100 Mbit/s.
const PACKET: Span = Span::from_micros(120);

fn newreno() -> Transport {
    Transport { receive_window: Bytes::new(1 << 30), ..Transport::default() }
}

#[test]
fn a_window_as_large_as_the_flow_takes_one_crossing_and_a_packet_time_each() {
    // 10 packets over two links of 100 Mbit/s and 50 µs: the first takes 2 · (120 + 50) µs, the
    // other nine follow at 120 µs.
    let topology = build::star(2, &access(link(100, 50, 100))).unwrap();
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let outcome = outcome(setup(topology, newreno(), vec![job(0, Time::ZERO, a, b, 14_600)]));
    let expected = (PACKET + Span::from_micros(50)) * 2 + PACKET * 9;
    assert_eq!(outcome.flows.at(0).completion(), Some(expected));
    assert_eq!(outcome.flows.at(0).retransmissions, 0);
    // 10 data packets and 10 acknowledgements over two links each; the last two acknowledgements
    // need not have arrived when the flow ends, but they are on their way and arrive.
    assert_eq!(outcome.hops, 40);
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    // One packet, then two, four, eight on a pipe so long that each window waits for the round
    // trip: 15 packets take three full round trips and a last one-way crossing with 8 packets.
    let topology = build::star(2, &access(link(100, 10_000, 100))).unwrap();
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let transport = Transport { initial_window: 1, ..newreno() };
    let outcome = outcome(setup(topology, transport, vec![job(0, Time::ZERO, a, b, 15 * 1460)]));
    // A round: the packet and its 40-octet acknowledgement (3.2 µs) cross two links each way.
    let one_way = (PACKET + Span::from_millis(10)) * 2;
    let round = one_way + (Span::from_nanos(3_200) + Span::from_millis(10)) * 2;
    assert_eq!(outcome.flows.at(0).completion(), Some(round * 3 + one_way + PACKET * 7));
}

#[test]
fn a_long_flow_over_a_loss_free_pipe_runs_at_the_rate_of_the_link() {
    let topology = build::star(2, &access(link(100, 50, 100))).unwrap();
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    // The window is above the pipe's 29 packets and below pipe plus buffer: nothing is lost.
    let transport = Transport { receive_window: Bytes::new(100 * 1460), ..newreno() };
    let size = 10_000 * 1460;
    let outcome = outcome(setup(topology, transport, vec![job(0, Time::ZERO, a, b, size)]));
    assert_eq!(outcome.flows.at(0).retransmissions, 0);
    // The initial window keeps the pipe full from the start (10 packets last 1.2 ms, the round
    // trip is 0.45 ms), so the closed form of the first test holds for all 10,000 packets.
    let expected = (PACKET + Span::from_micros(50)) * 2 + PACKET * 9_999;
    assert_eq!(outcome.flows.at(0).completion(), Some(expected));
}

/// A window of 200 packets for a pipe of 29, and 50 places at the host: what finds none is lost, unless the
/// rest waits at the sender from ten on.
#[test]
fn what_a_host_keeps_small_waits_at_the_sender() {
    let access = || build::Access { link: link(100, 50, 100), nic: Buffer::Packets(50) };
    let run = |small_queue| {
        let topology = build::star(2, &access()).unwrap();
        let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
        let own = topology.link_between(a, host(&topology, "s0")).unwrap();
        let transport =
            Transport { receive_window: Bytes::new(200 * 1460), small_queue, ..newreno() };
        let size = 10_000 * 1460;
        let outcome = outcome(setup(topology, transport, vec![job(0, Time::ZERO, a, b, size)]));
        (outcome.links[own.index()].peak, outcome)
    };
    let (peak, plain) = run(None);
    assert!(peak == 50 && plain.flows.at(0).retransmissions > 0);
    let (peak, small) = run(Some(Bytes::new(10 * 1500)));
    assert_eq!((peak, small.flows.at(0).retransmissions), (10, 0));
    // The host's link is never idle.
    let expected = (PACKET + Span::from_micros(50)) * 2 + PACKET * 9_999;
    assert_eq!(small.flows.at(0).completion(), Some(expected));
    // One that is less than a packet holds a packet.
    let (peak, least) = run(Some(Bytes::new(1)));
    assert_eq!((peak, least.flows.at(0).completion()), (1, Some(expected)));
}

#[test]
fn a_window_below_the_pipe_gives_window_over_round_trip() {
    // 4 packets a round trip of 40.2464 ms.
    let topology = build::star(2, &access(link(100, 10_000, 100))).unwrap();
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let transport =
        Transport { receive_window: Bytes::new(4 * 1460), initial_window: 4, ..newreno() };
    let size = 4_000 * 1460;
    let outcome = outcome(setup(topology, transport, vec![job(0, Time::ZERO, a, b, size)]));
    let round = (PACKET + Span::from_nanos(3_200) + Span::from_millis(20)) * 2;
    let got = outcome.flows.at(0).completion().unwrap().as_secs_f64();
    let expected = (round * 1_000).as_secs_f64();
    assert!((got / expected - 1.0).abs() < 0.001, "{got} s instead of {expected} s");
}

#[test]
fn a_lost_window_costs_one_retransmission_timeout() {
    // The buffer of the last link is full of another flow's packets when the only packet arrives.
    let topology = incast(2, link(100, 50, 20));
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let receiver = host(&topology, "receiver");
    let transport = Transport {
        initial_window: 20,
        min_rto: Span::from_millis(250),
        receive_window: Bytes::new(20 * 1460),
        ..newreno()
    };
    let blocker = job(0, Time::ZERO, a, receiver, 20 * 1460);
    let lost = job(1, Time::from_nanos(5_000), b, receiver, 1460);
    let outcome = outcome(setup(topology, transport, vec![blocker, lost]));
    let (blocker, lost) = (outcome.flows.at(0), outcome.flows.at(1));
    assert_eq!((blocker.timeouts, blocker.retransmissions), (0, 0));
    assert_eq!((lost.timeouts, lost.retransmissions), (1, 1));
    // Then the queue is empty: 120 ns + 50 µs up, 120 µs + 50 µs down.
    let crossing = Span::from_nanos(120) + PACKET + Span::from_micros(100);
    assert_eq!(lost.completion(), Some(Span::from_millis(250) + crossing));
}

#[test]
fn timeouts_back_off_exponentially() {
    // A queue that always keeps one packet of an endless datagram flow, paced at the link's rate,
    // has no room for anyone else: the flow's only packet is lost again and again.
    let topology = incast(2, link(100, 50, 1));
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    let receiver = host(&topology, "receiver");
    let transport = Transport { min_rto: Span::from_millis(100), initial_window: 1, ..newreno() };
    // The other flow saturates the queue of one packet by itself until 1.2 s have passed.
    let blocker = job(0, Time::ZERO, a, receiver, 1 << 30);
    let lost = job(1, Time::from_nanos(5_000), b, receiver, 1460);
    let mut setup = setup(topology, transport, vec![blocker, lost]);
    setup.until = Time::from_nanos(1_600_000_000);
    let outcome = outcome(setup);
    // With a window of one or two packets the blocker leaves gaps, so the packet gets through at
    // some attempt; what is checked is that attempts come at 100, 300, 700, 1500 ms.
    let lost = outcome.flows.at(1);
    let attempts = [0u64, 100, 300, 700, 1_500];
    let sent = outcome.flows.at(1).timeouts as usize;
    let latest = Span::from_millis(attempts[sent]);
    if let Some(completion) = lost.completion() {
        assert!(completion >= latest && completion <= latest + Span::from_millis(1));
    } else {
        assert_eq!(sent, 4);
    }
}

#[test]
fn a_paced_flow_sends_at_its_pace_exactly() {
    for (mbps, protocol) in [(1, Protocol::NewReno), (33, Protocol::Cubic), (90, Protocol::Dctcp)] {
        let topology = build::star(2, &access(link(100, 50, 100))).unwrap();
        let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
        let transport = Transport { protocol, initial_window: 1, ..newreno() };
        let jobs = vec![job(0, Time::ZERO, a, b, 10_001 * 1460)];
        let mut setup = setup(topology, transport, jobs);
        setup.policy = Some(Box::new(per_flow(move |_, flow, out: &mut Directives| {
            out.push(pace(flow, Some(Rate::from_mbps(mbps))));
        })));
        let outcome = outcome(setup);
        // The first packet left before the policy spoke; 10,000 more follow at the pace, which
        // counts frame bytes: 1500 octets each.
        let spacing = Rate::from_mbps(mbps).time_for(Bytes::new(1500));
        let expected = (spacing * 10_000).as_secs_f64();
        let got = outcome.flows.at(0).completion().unwrap().as_secs_f64();
        assert!((got / expected - 1.0).abs() < 0.002, "{mbps} Mbit/s: {got} s, not {expected} s");
        assert_eq!(outcome.flows.at(0).retransmissions, 0);
    }
}

#[test]
fn a_datagram_flow_is_sent_at_once_and_counts_its_losses() {
    let topology = incast(1, link(100, 50, 30));
    let (a, receiver) = (host(&topology, "h0"), host(&topology, "receiver"));
    let transport = Transport { protocol: Protocol::Datagram, ..newreno() };
    let jobs = vec![job(0, Time::ZERO, a, receiver, 100 * 1460)];
    let outcome = outcome(setup(topology, transport, jobs));
    // 100 packets arrive within 12 µs, before the first of 120 µs has left: 30 find room.
    assert_eq!(outcome.flows.at(0).delivered, Bytes::new(30 * 1460));
    assert_eq!(outcome.links.iter().map(|link| link.dropped).sum::<u64>(), 70);
    let first = Span::from_nanos(120) + PACKET + Span::from_micros(100);
    assert_eq!(outcome.flows.at(0).completion(), Some(first + PACKET * 29));
}

#[test]
fn dctcp_holds_the_queue_about_k() {
    // Two long flows, K = 20 of 250 packets: the queue swings around K (DCTCP, SIGCOMM 2010,
    // section 3.4: Q_max = K + N, the amplitude is about √(C·RTT + K) / 2 for N flows in step).
    let (k, senders) = (20, 2);
    let bottleneck = model::LinkSpec { mark: Some(k), ..link(1_000, 20, 250) };
    let topology = incast(senders, bottleneck);
    let receiver = host(&topology, "receiver");
    let port = topology.link_between(host(&topology, "s0"), receiver).unwrap();
    let jobs = (0..senders)
        .map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, 1 << 32))
        .collect();
    let transport = Transport {
        protocol: Protocol::Dctcp,
        initial_window: 2,
        min_rto: Span::from_millis(10),
        ..newreno()
    };
    let mut setup = setup(topology, transport, jobs);
    setup.until = Time::ZERO + Span::from_millis(300);
    setup.monitors = vec![watermaster_packet::Monitor {
        link: port,
        interval: Span::from_micros(50),
        start: Span::from_millis(50),
    }];
    let outcome = outcome(setup);
    let steady = &outcome.queues[0].packets;
    assert!((4_999..=5_000).contains(&steady.len()), "{} samples of 250 ms", steady.len());
    let mean = steady.iter().map(|p| f64::from(*p)).sum::<f64>() / steady.len() as f64;
    let most = *steady.iter().max().unwrap();
    assert!((10.0..25.0).contains(&mean), "mean queue {mean}");
    assert!(most <= k + senders + 4, "longest queue {most}");
    assert_eq!(outcome.links[port.index()].dropped, 0);
    let goodput = outcome.flows.iter().map(|f| f.delivered.get()).sum::<u64>() as f64 * 8.0 / 0.3;
    assert!(goodput > 0.95 * 1e9 * 1460.0 / 1500.0, "goodput {goodput}");
}

#[test]
fn newreno_with_a_buffer_of_one_pipe_keeps_the_link_busy() {
    // Pipe 100 packets (12 ms at 100 Mbit/s), buffer 100: halving 200 leaves 100, a full pipe.
    let topology = incast(1, link(100, 3_000, 100));
    let (a, receiver) = (host(&topology, "h0"), host(&topology, "receiver"));
    let transport = Transport { sack: true, ..newreno() };
    let mut setup = setup(topology, transport, vec![job(0, Time::ZERO, a, receiver, 1 << 32)]);
    setup.until = Time::ZERO + Span::from_secs(60);
    let outcome = outcome(setup);
    let goodput = outcome.flows.at(0).delivered.get() as f64 * 8.0 / 60.0;
    let possible = 100e6 * 1460.0 / 1500.0;
    assert!(goodput > 0.97 * possible, "goodput {goodput} of {possible}");
    assert!(outcome.flows.at(0).retransmissions > 0, "the sawtooth never reached the buffer's end");
}

#[test]
fn cubic_returns_to_its_plateau_in_the_time_of_the_formula() {
    // After a loss at W packets the window is back at W after K = ∛(W · (1 − β) / C) seconds
    // (RFC 9438, equation 2): losses of a long flow over a long pipe are K apart, when the pipe
    // is long enough for CUBIC to be in its concave region and not in Reno's.
    let topology = incast(1, link(1_000, 25_000, 400));
    let (a, receiver) = (host(&topology, "h0"), host(&topology, "receiver"));
    let port = topology.link_between(host(&topology, "s0"), receiver).unwrap();
    let transport = Transport { protocol: Protocol::Cubic, ..newreno() };
    let mut setup = setup(topology, transport, vec![job(0, Time::ZERO, a, receiver, 1 << 40)]);
    setup.until = Time::ZERO + Span::from_secs(150);
    setup.monitors = vec![watermaster_packet::Monitor {
        link: port,
        interval: Span::from_millis(50),
        start: Span::ZERO,
    }];
    let outcome = outcome(setup);
    // Times at which the full queue was left: local maxima of the queue at its limit.
    let queue = &outcome.queues[0].packets;
    let peaks: Vec<f64> = (1..queue.len())
        .filter(|&i| queue[i - 1] >= 380 && queue[i] < 200)
        .map(|i| i as f64 * 0.05)
        .filter(|t| *t > 30.0)
        .collect();
    assert!(peaks.len() >= 3, "the queue overflowed only at {peaks:?}");
    let apart = (peaks[peaks.len() - 1] - peaks[0]) / (peaks.len() - 1) as f64;
    // Pipe: 100 ms · 1 Gbit/s / 1500 octets = 8,333 packets, and 400 in the buffer. To overflow, the
    // window must pass the plateau by a packet, which takes ∛(1 / C) more.
    let k = (8_733.0f64 * 0.3 / 0.4).cbrt() + (1.0f64 / 0.4).cbrt();
    assert!((apart / k - 1.0).abs() < 0.15, "losses {apart} s apart, the formula gives {k} s");
}
