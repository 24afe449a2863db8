//! What switches do for a policy that watches: reports, windows, spacing; and the handshake that they
//! see.
#![allow(clippy::unwrap_used)] // a test may panic

use std::cell::RefCell;
use std::rc::Rc;

use crate::runs::{access, host, incast, job, link, outcome, setup};
use model::{
    Cap, Directive, Directives, FlowId, LinkId, Measured, Network, Observation, Severity,
    Thresholds, Topology, build,
};
use policy::{Policy, Watch};
use units::{Bytes, Span, Time};
use watermaster_packet::{Outcome, Setup, Transport};

const MSS: u64 = 1460;

fn transport() -> Transport {
    Transport { handshake: true, ..Transport::default() }
}

/// What a policy heard and when.
type Heard = Rc<RefCell<Vec<(Time, Measured)>>>;

/// Notes what is measured, and answers as told.
struct Watcher<F> {
    watch: Watch,
    heard: Heard,
    answer: F,
    directives: Directives,
}

impl<F: FnMut(&Measured, &mut Directives)> Policy for Watcher<F> {
    fn observe(&mut self, now: Time, _: &Network, observation: &Observation) {
        if let Observation::Measured(measured) = observation {
            self.heard.borrow_mut().push((now, measured.clone()));
            (self.answer)(measured, &mut self.directives);
        }
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.directives);
    }

    fn watch(&self) -> Option<Watch> {
        Some(self.watch)
    }
}

fn watched<'a>(
    mut setup: Setup<'a>,
    watch: Watch,
    answer: impl FnMut(&Measured, &mut Directives) + 'a,
) -> (Outcome, Vec<(Time, Measured)>) {
    let heard = Heard::default();
    let directives = Directives::new();
    setup.policy = Some(Box::new(Watcher { watch, heard: heard.clone(), answer, directives }));
    let outcome = outcome(setup);
    let heard = heard.take();
    (outcome, heard)
}

/// Two hosts and a switch, 1 Gbit/s and 100 µs a link: a header takes 0.32 µs and a full packet 12 µs
/// a link, so that a round trip of one segment is 424.64 µs.
fn pair() -> Topology {
    build::star(2, &access(link(1000, 100, 100))).unwrap()
}

const ROUND: Span = Span::from_nanos(424_640);

fn flow_of(topology: Topology, transport: Transport, segments: u64) -> Setup<'static> {
    let (a, b) = (host(&topology, "h0"), host(&topology, "h1"));
    setup(topology, transport, vec![job(0, Time::ZERO, a, b, segments * MSS)])
}

/// The link that data leaves the switch of [`pair`] by.
fn downlink() -> LinkId {
    let topology = pair();
    topology.link_between(host(&topology, "s0"), host(&topology, "h1")).unwrap()
}

#[test]
fn a_handshake_takes_a_round_trip_of_headers() {
    let plain = outcome(flow_of(pair(), Transport::default(), 1)).flows.at(0).completion().unwrap();
    let opened = outcome(flow_of(pair(), transport(), 1)).flows.at(0).completion().unwrap();
    assert_eq!(plain, Span::from_nanos(2 * (100_000 + 12_000)));
    // Four times 100 µs and 0.32 µs.
    assert_eq!(opened, plain + Span::from_nanos(401_280));
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    // Ten hosts send at once; the buffer has five places.
    let topology = incast(10, link(10, 10, 5));
    let receiver = host(&topology, "receiver");
    let jobs = (0..10).map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, 1));
    let jobs: Vec<_> = jobs.collect();
    let outcome = outcome(setup(topology, transport(), jobs));
    let lost = outcome.flows.iter().filter(|flow| flow.timeouts > 0);
    let lost: Vec<f64> = lost.map(|flow| flow.completion().unwrap().as_secs_f64()).collect();
    assert_eq!(lost.len(), 5);
    assert!(lost.iter().all(|seconds| (1.0..1.001).contains(seconds)), "{lost:?}");
}

#[test]
fn switches_report_syn_fin_and_statistics() {
    let mut setup = flow_of(pair(), transport(), 10);
    setup.control_delay = Span::from_micros(33);
    let watch = Watch { statistics: Some(Span::from_micros(600)), ..Watch::default() };
    let (outcome, heard) = watched(setup, watch, |_, _| {});
    let topology = pair();
    let (flow, src, dst) = (FlowId(0), host(&topology, "h0"), host(&topology, "h1"));
    // The SYN is at the switch after a link, and 33 µs later at the controller.
    let syn = Time::from_nanos(100_320 + 33_000);
    assert_eq!(heard[0], (syn, Measured::Opened { flow, src, dst }));
    // What the handshake took is told with the statistics.
    let told = Time::from_nanos(633_000);
    let timed = vec![(flow, Span::from_nanos(401_280))];
    assert_eq!(heard[1], (told, Measured::RoundTrips(timed)));
    // Segments leave a round trip of headers later, 12 µs each: at 600 µs eight have passed.
    let flows = vec![(flow, Bytes::new(8 * 1500 + 40))];
    assert_eq!(heard[2], (told, Measured::Carried { flows }));
    // The tenth has the FIN.
    let fin = Time::from_nanos(401_280 + 10 * 12_000 + 100_000 + 33_000);
    assert_eq!(heard[3], (fin, Measured::Closed { flow }));
    assert_eq!(heard.len(), 4, "no flow, no statistics");
    assert!(outcome.reactions.is_empty());
}

/// Where there are no statistics, a round trip is told at once. That of a SYN that was sent twice is nobody's.
#[test]
fn switches_report_what_handshakes_took() {
    // Ten hosts send at once; the buffer has five places.
    let topology = incast(10, link(10, 10, 5));
    let receiver = host(&topology, "receiver");
    let jobs = (0..10).map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, 1));
    let jobs: Vec<_> = jobs.collect();
    let (outcome, heard) = watched(setup(topology, transport(), jobs), Watch::default(), |_, _| {});
    let timed: Vec<_> = heard
        .into_iter()
        .filter_map(|(at, measured)| match measured {
            Measured::RoundTrips(flows) => Some((at, flows)),
            _ => None,
        })
        .collect();
    let late = |flow: &FlowId| outcome.flows.at(flow.index()).timeouts > 0;
    assert_eq!(timed.len(), 5);
    for (place, (at, flows)) in (1..).zip(&timed) {
        let [(flow, took)] = flows[..] else { panic!("{flows:?}") };
        assert!(!late(&flow));
        // The SYN waits for those before it, 32 µs each.
        let [fast, slow, wire] = [2 * 4, 32_000 * (place + 1), 4 * 10_000];
        assert_eq!(took, Span::from_nanos(fast + slow + wire), "{place}");
        assert_eq!(*at, Time::ZERO + took);
    }
}

/// The controller's answer takes 33 µs each way, and 5 µs.
#[test]
fn a_syn_that_is_held_waits_for_the_answer() {
    let completion = |holds_syns| {
        let mut setup = flow_of(pair(), transport(), 1);
        setup.control_delay = Span::from_micros(33);
        setup.processing = Span::from_micros(5);
        let watch = Watch { holds_syns, ..Watch::default() };
        let (outcome, heard) = watched(setup, watch, |_, _| {});
        let opened = heard.iter().filter(|(_, m)| matches!(m, Measured::Opened { .. }));
        assert_eq!(opened.count(), 1);
        outcome.flows.at(0).completion().unwrap()
    };
    assert_eq!(completion(true), completion(false) + Span::from_micros(71));
}

/// What is told of a handshake is the way's round trip, without the time that the controller takes.
#[test]
fn a_syn_that_was_held_tells_the_same_round_trip() {
    let told = |holds_syns| {
        let mut setup = flow_of(pair(), transport(), 1);
        setup.control_delay = Span::from_micros(33);
        setup.processing = Span::from_micros(5);
        let watch = Watch { holds_syns, ..Watch::default() };
        let (_, heard) = watched(setup, watch, |_, _| {});
        let timed = heard.into_iter().filter_map(|(_, measured)| match measured {
            Measured::RoundTrips(flows) => Some(flows),
            _ => None,
        });
        timed.collect::<Vec<_>>()
    };
    assert_eq!(told(true), vec![vec![(FlowId(0), Span::from_nanos(401_280))]]);
    assert_eq!(told(false), told(true));
}

/// An answer that takes longer than the first timeout of a SYN: the one that came again goes on in its place.
#[test]
fn a_syn_that_comes_again_takes_the_place_of_the_one_that_waits() {
    let mut setup = flow_of(pair(), transport(), 1);
    setup.control_delay = Span::from_millis(600);
    let watch = Watch { holds_syns: true, ..Watch::default() };
    let (outcome, heard) = watched(setup, watch, |_, _| {});
    let opened = heard.iter().filter(|(_, m)| matches!(m, Measured::Opened { .. }));
    assert_eq!((opened.count(), outcome.flows.at(0).timeouts), (2, 1));
    // Both ways of the control channel, that of headers there and back, and the segment.
    let took = Span::from_nanos(1_200_000_000 + 401_280 + 224_000);
    assert_eq!(outcome.flows.at(0).completion(), Some(took));
}

/// A cap with the published floor; one below a segment is meant so.
fn cap_of(bytes: u64) -> Cap {
    Cap { bytes: Bytes::new(bytes), floor_segments: (bytes >= MSS).into() }
}

/// Caps the window of every flow at the switch when it opens.
fn capped(segments: u64, cap: u64, transport: Transport) -> Outcome {
    let mut setup = flow_of(pair(), transport, segments);
    setup.until = Time::from_nanos(10_000_000_000);
    let watch = Watch::default();
    let answer = |measured: &Measured, out: &mut Directives| {
        if let Measured::Opened { flow, .. } = measured {
            let (link, flow, cap) = (downlink(), Some(*flow), Some(cap_of(cap)));
            out.push(Directive::Window { link, flow, cap });
        }
    };
    watched(setup, watch, answer).0
}

#[test]
fn a_window_written_by_the_switch_gives_window_over_round_trip() {
    // From the SYN-ACK on: k segments a round trip; the last round trip ends with the delivery.
    for window in [1_u64, 2, 5] {
        let outcome = capped(100 * window, window * MSS + 700, transport());
        let took = outcome.flows.at(0).completion().unwrap().as_nanos();
        let rounds = 99 * ROUND.as_nanos() + 401_280 + 212_000 + 12_000 * window;
        assert!(took.abs_diff(rounds) < 12_000 * window, "{window}: {took} instead of {rounds}");
        assert_eq!((outcome.flows.at(0).timeouts, outcome.flows.at(0).retransmissions), (0, 0));
    }
}

#[test]
fn one_segment_survives_the_scale() {
    // 4 MiB ask for a scale of 7: eleven units of 128 octets would be less than a segment.
    assert_eq!(transport().window_scale(), 7);
    let exact = capped(50, MSS, transport()).flows.at(0).completion().unwrap();
    let small = Transport { receive_window: Bytes::new(60_000), ..transport() };
    assert_eq!(small.window_scale(), 0);
    assert_eq!(capped(50, MSS, small).flows.at(0).completion(), Some(exact));
}

#[test]
fn a_window_below_a_segment_lets_pieces_go_at_persist_timeouts() {
    // 1000 octets ask for pieces of 7 · 128 = 896 (but 1000 by the SYN-ACK, without scale), each
    // after the least timeout of 200 ms.
    let outcome = capped(2, 1000, transport());
    let took = outcome.flows.at(0).completion().unwrap().as_secs_f64();
    // 2920 octets: 1000, 896, 896, 128, the last as soon as it fits.
    assert!((0.6..0.61).contains(&took), "{took}");
    let flow = outcome.flows.at(0);
    assert_eq!((flow.timeouts, flow.retransmissions), (0, 0));
}

/// A cap of nothing leaves a unit of the scale.
#[test]
fn no_cap_closes_a_window() {
    // An octet by the SYN-ACK, without scale, and eleven pieces of 128, each after the least timeout of 200 ms; the last
    // 51 go as soon as they fit.
    let outcome = capped(1, 0, transport());
    let took = outcome.flows.at(0).completion().unwrap().as_secs_f64();
    assert!((2.4..2.42).contains(&took), "{took}");
    let flow = outcome.flows.at(0);
    assert_eq!((flow.timeouts, flow.retransmissions), (0, 0));
}

#[test]
fn a_flow_goes_on_once_its_cap_is_lifted() {
    let mut setup = flow_of(pair(), transport(), 100);
    setup.until = Time::from_nanos(2_000_000_000);
    let watch = Watch { statistics: Some(Span::from_millis(500)), ..Watch::default() };
    let mut seen = 0;
    let (outcome, _) = watched(setup, watch, |measured, out| {
        let link = downlink();
        match measured {
            Measured::Opened { .. } => {
                let cap = Some(cap_of(0));
                out.push(Directive::Window { link, flow: None, cap });
            }
            Measured::Carried { .. } if seen == 0 => {
                seen = 1;
                out.push(Directive::Window { link, flow: None, cap: None });
            }
            _ => {}
        }
    });
    // Pieces 0.2, 0.4 and 0.6 s after the handshake; the answer to the last has a window.
    let took = outcome.flows.at(0).completion().unwrap().as_secs_f64();
    assert!((0.6..0.61).contains(&took), "{took}");
    assert_eq!(outcome.flows.at(0).timeouts, 0);
}

#[test]
fn spaced_acknowledgements_set_the_pace_of_all() {
    // 20 flows of 100 segments, one segment in flight each, acknowledgements 50 µs apart.
    let topology = incast(20, link(1000, 10, 100));
    let bottleneck = {
        let (s, r) = (host(&topology, "s0"), host(&topology, "receiver"));
        topology.link_between(s, r).unwrap()
    };
    let receiver = host(&topology, "receiver");
    let jobs = (0..20)
        .map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, 100 * MSS))
        .collect();
    let (outcome, heard) =
        watched(setup(topology, transport(), jobs), Watch::default(), |measured, out| {
            if let Measured::Opened { flow: FlowId(0), .. } = measured {
                let (link, gap) = (bottleneck, Some(Span::from_micros(50)));
                let cap = Some(cap_of(MSS));
                out.push(Directive::Window { link, flow: None, cap });
                out.push(Directive::Space { link, gap });
            }
        });
    assert_eq!(heard.iter().filter(|(_, m)| matches!(m, Measured::Opened { .. })).count(), 20);
    // 2000 segments, each let go by the SYN-ACK or acknowledgement before it.
    let end = outcome.flows.iter().filter_map(|flow| flow.end).max().unwrap().as_secs_f64();
    assert!((end - 2000.0 * 50e-6).abs() < 0.5e-3, "{end}");
    assert_eq!(outcome.links[bottleneck.index()].dropped, 0);
    assert!(outcome.links[bottleneck.index()].peak <= 20, "the SYNs");
}

#[test]
fn a_port_tells_its_congestion_and_its_recovery() {
    // A window of 80 packets over a pipe of some 3: the queue rises to 80, by slow start.
    let topology = incast(1, link(100, 100, 100));
    let bottleneck = {
        let (s, r) = (host(&topology, "s0"), host(&topology, "receiver"));
        topology.link_between(s, r).unwrap()
    };
    let (a, b) = (host(&topology, "h0"), host(&topology, "receiver"));
    let transport = Transport { receive_window: Bytes::new(80 * MSS), ..transport() };
    let recovery = Span::from_millis(100);
    let thresholds = Thresholds { low: 30, medium: 60, high: 85, recovery };
    let watch = Watch {
        congestion: Some(thresholds),
        queues: Some(Span::from_millis(1)),
        ..Watch::default()
    };
    let mut setup = setup(topology, transport, vec![job(0, Time::ZERO, a, b, 1000 * MSS)]);
    setup.control_delay = Span::from_micros(30);
    setup.processing = Span::from_micros(5);
    let (outcome, heard) = watched(setup, watch, |measured, out| {
        if let Measured::Congested { link, .. } = measured {
            out.push(Directive::Window { link: *link, flow: None, cap: None });
        }
    });
    let messages: Vec<_> = heard
        .iter()
        .filter_map(|(time, measured)| match measured {
            Measured::Congested { link, severity: level, queue } if *link == bottleneck => {
                Some((*time, *level, queue.get()))
            }
            _ => None,
        })
        .collect();
    let levels: Vec<_> = messages.iter().map(|(_, level, _)| *level).collect();
    assert_eq!(levels, [Severity::Low, Severity::Medium, Severity::Recovered]);
    // Full packets, but one SYN at most.
    assert!((29 * 1500..=30 * 1500).contains(&messages[0].2), "{messages:?}");
    assert!((59 * 1500..=60 * 1500).contains(&messages[1].2), "{messages:?}");
    let end = outcome.flows.at(0).end.unwrap();
    let recovered = messages[2].0.since(end);
    assert!(recovered > Span::from_millis(95) && recovered < Span::from_millis(205));
    // Each way 30 µs, and 5 µs for the controller.
    assert_eq!(outcome.reactions, vec![Span::from_micros(65); 3]);
    // The queue stands at the window less what is on the wire.
    let queued = heard.iter().filter_map(|(_, measured)| match measured {
        Measured::QueueLength { link, queue, .. } if *link == bottleneck => {
            Some(queue.get() / 1500)
        }
        _ => None,
    });
    assert!((74..80).contains(&queued.max().unwrap()));
}

#[test]
fn the_controller_takes_one_message_at_a_time() {
    // Ten SYNs at once, 50 µs for each.
    let topology = incast(10, link(1000, 10, 100));
    let receiver = host(&topology, "receiver");
    let jobs = (0..10)
        .map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, MSS))
        .collect();
    let mut setup = setup(topology, transport(), jobs);
    setup.processing = Span::from_micros(50);
    let (_, heard) = watched(setup, Watch::default(), |_, _| {});
    let opened: Vec<u64> = heard
        .iter()
        .filter(|(_, measured)| matches!(measured, Measured::Opened { .. }))
        .map(|(time, _)| time.as_nanos())
        .collect();
    assert!(opened.windows(2).all(|pair| pair[1] - pair[0] == 50_000), "{opened:?}");
}

#[test]
fn windows_need_a_handshake_to_be_known() {
    let mut setup = flow_of(pair(), Transport::default(), 1);
    let heard = Heard::default();
    let (watch, answer) = (Watch::default(), |_: &Measured, _: &mut Directives| {});
    setup.policy = Some(Box::new(Watcher { watch, heard, answer, directives: Directives::new() }));
    let error = watermaster_packet::run(setup, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("handshake = true"), "{error}");
}
