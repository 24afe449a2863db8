//! Loss recovery and timers, one behaviour at a time. Losses have a known place: a window sent at
//! once over a fast link meets a buffer that is shorter by as many packets as shall be lost.
#![allow(clippy::unwrap_used)] // in what the tests share, too

use crate::runs::{host, incast, job, link, outcome, setup};
use units::{Bytes, Span, Time};
use watermaster_packet::{Outcome, Protocol, Transport};

const MSS: u64 = 1460;

/// Two links of 5 ms each way; transmission adds 1 % for one packet, 12 % for the windows here.
const ROUND: Span = Span::from_millis(20);

/// One flow of `segments` over 100 Mbit/s and a buffer of `buffer` packets.
fn flow(transport: Transport, buffer: u32, segments: u64) -> Outcome {
    let topology = incast(1, link(100, 5_000, buffer));
    let (a, b) = (host(&topology, "h0"), host(&topology, "receiver"));
    outcome(setup(topology, transport, vec![job(0, Time::ZERO, a, b, segments * MSS)]))
}

/// Completion in round trips.
fn rounds(outcome: &Outcome) -> f64 {
    outcome.flows.at(0).completion().unwrap().as_secs_f64() / ROUND.as_secs_f64()
}

/// A window of 20 segments that can't grow.
fn window_of_20(sack: bool) -> Transport {
    Transport {
        sack,
        initial_window: 20,
        receive_window: Bytes::new(20 * MSS),
        min_rto: Span::from_secs(1),
        ..Transport::default()
    }
}

#[test]
fn newreno_repairs_one_loss_a_round_trip_and_sack_all_in_one() {
    // The last k of 20 are lost. Acknowledgements of the others release 20 − k more after one
    // round trip, which give duplicates after two; what is then sent again arrives at 2.5.
    for lost in 1..=4u32 {
        for sack in [false, true] {
            let outcome = flow(window_of_20(sack), 20 - lost, u64::from(40 - lost));
            let flow = outcome.flows.at(0);
            assert_eq!((flow.timeouts, flow.retransmissions), (0, lost), "sack {sack}");
            let expected = if sack { 2.5 } else { 2.5 + f64::from(lost - 1) };
            let got = rounds(&outcome);
            assert!((expected..expected + 0.25).contains(&got), "{lost} lost, sack {sack}: {got}");
        }
    }
}

#[test]
fn limited_transmit_makes_up_the_missing_duplicates() {
    // The buffer has one place. Segments 0 and 1 are sent, 1 is lost; 0's acknowledgement releases
    // 2 and 3, 3 is lost; the duplicate for 2 releases 4, that for 4 releases 5, and the third
    // sends 1 again, its partial acknowledgement 3: six sendings a round trip apart.
    let transport =
        Transport { sack: false, initial_window: 2, min_rto: ROUND * 20, ..Transport::default() };
    let outcome = flow(transport, 1, 6);
    assert_eq!((outcome.flows.at(0).timeouts, outcome.flows.at(0).retransmissions), (0, 2));
    let got = rounds(&outcome);
    assert!((5.5..5.6).contains(&got), "{got} round trips");
    // Without, the duplicate for 2 releases nothing: the timer runs out and 1 is sent again. Its
    // acknowledgement releases 3 and 4, 4 is lost, and 5 brings one duplicate again.
    let outcome = flow(Transport { limited_transmit: false, ..transport }, 1, 6);
    assert_eq!(outcome.flows.at(0).timeouts, 2);
}

#[test]
fn the_first_timeouts_follow_from_two_samples() {
    // RFC 6298: the handshake gives SRTT = R and RTTVAR = R / 2, the acknowledgement of the first
    // segment RTTVAR = 3/8 R, so that the timeout is R + 4 · 3/8 R = 2.5 R. It starts at R, and
    // the lost second segment arrives half a round trip after it.
    let transport =
        Transport { initial_window: 2, min_rto: Span::from_millis(1), ..Transport::default() };
    let outcome = flow(transport, 1, 2);
    assert_eq!((outcome.flows.at(0).timeouts, outcome.flows.at(0).retransmissions), (1, 1));
    let got = rounds(&outcome);
    assert!((4.0..4.06).contains(&got), "{got} round trips");
}

#[test]
fn a_lone_segment_is_acknowledged_when_the_delay_is_over() {
    // One segment, then (40 ms and a round trip later) two more together.
    let delay = Span::from_millis(40);
    let transport =
        Transport { initial_window: 1, delayed_ack: Some(delay), ..Transport::default() };
    let delayed = flow(transport, 100, 3);
    let at_once = flow(Transport { delayed_ack: None, ..transport }, 100, 3);
    assert_eq!(
        delayed.flows.at(0).completion().unwrap(),
        at_once.flows.at(0).completion().unwrap() + delay
    );
}

#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    // Of two flows that leave slow start at nearly the same time, one keeps the buffer full while
    // the other recovers, so that retransmissions are dropped too; every drop is sent again exactly
    // once all the same. (Without detection, each of the two buffers costs a timeout.)
    for buffer in [100, 150] {
        let topology = incast(2, link(100, 1, buffer));
        let b = host(&topology, "receiver");
        let flow =
            |n: u32, host| job(n, Time::from_nanos(7_000 * u64::from(n)), host, b, 4_000_000);
        let jobs = vec![flow(0, host(&topology, "h0")), flow(1, host(&topology, "h1"))];
        let transport = Transport { protocol: Protocol::Cubic, sack: true, ..Transport::default() };
        let outcome = outcome(setup(topology, transport, jobs));
        let dropped: u64 = outcome.links.iter().map(|link| link.dropped).sum();
        let resent: u64 = outcome.flows.iter().map(|flow| u64::from(flow.retransmissions)).sum();
        let timeouts: u32 = outcome.flows.iter().map(|flow| flow.timeouts).sum();
        assert!(dropped > 0);
        assert_eq!((timeouts, resent), (0, dropped), "buffer {buffer}");
    }
}

#[test]
fn a_probe_repairs_the_lost_end_of_a_flow_in_three_and_a_half_round_trips_more() {
    // RFC 8985: the last two of 20 are lost. The other acknowledgements end after one round trip, the
    // probe goes two later and brings, after a third, the news that the one before it is lost too,
    // which arrives half a round trip later. Without, that is the timer's, of 50 round trips.
    let by_time = Transport { rack: true, tail_loss_probe: true, ..window_of_20(true) };
    let outcome = flow(by_time, 18, 20);
    assert_eq!((outcome.flows.at(0).timeouts, outcome.flows.at(0).retransmissions), (0, 2));
    let got = rounds(&outcome);
    assert!((4.5..4.9).contains(&got), "{got} round trips");
    let outcome = flow(Transport { tail_loss_probe: false, ..by_time }, 18, 20);
    assert_eq!(outcome.flows.at(0).timeouts, 1);
    assert!(rounds(&outcome) > 50.0);
}

#[test]
fn cubic_leaves_its_first_slow_start_before_the_buffer_overflows() {
    // The pipe holds 167 packets, the buffer 4,000. Slow start alone fills it. With HyStart++ the
    // round in which two pipes are sent is the first to queue for more than 4 ms; that shows in its
    // acknowledgements, by whose end the window is at most four pipes, and five rounds of
    // conservative slow start add a quarter each: 4 · 167 · 1.25⁵ less the pipe.
    let losses = |protocol| {
        let transport =
            Transport { protocol, receive_window: Bytes::new(1 << 30), ..Transport::default() };
        let topology = incast(1, link(100, 5_000, 4_000));
        let (a, b) = (host(&topology, "h0"), host(&topology, "receiver"));
        let port = topology.link_between(host(&topology, "s0"), b).unwrap();
        let mut setup = setup(topology, transport, vec![job(0, Time::ZERO, a, b, 1 << 40)]);
        setup.until = Time::ZERO + Span::from_secs(2);
        setup.monitors = vec![watermaster_packet::Monitor {
            link: port,
            interval: Span::from_millis(1),
            start: Span::ZERO,
        }];
        let outcome = outcome(setup);
        let longest = outcome.queues[0].packets.iter().copied().max().unwrap();
        (outcome.links[port.index()].dropped, longest)
    };
    let (dropped, longest) = losses(Protocol::Cubic);
    assert_eq!(dropped, 0);
    assert!((33..1_872).contains(&longest), "{longest} packets queued");
    let (dropped, longest) = losses(Protocol::NewReno);
    assert!(dropped > 0 && longest >= 3_990, "{dropped} dropped, {longest} queued");
}
