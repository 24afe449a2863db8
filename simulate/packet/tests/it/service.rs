//! Meters, disciplines of service, and messages that take their time.
#![allow(clippy::unwrap_used)] // in what the tests share, too

use crate::runs::{access, host, incast, job, link, outcome, pace, per_flow, setup};
use model::{Directive, Directives, build};
use units::{Bytes, Rate, Span, Time};
use watermaster_packet::{Discipline, Jobs, Limiter, Protocol, Setup, Transport};

const PACKET: Span = Span::from_micros(120);

fn datagrams() -> Transport {
    Transport { protocol: Protocol::Datagram, ..Transport::default() }
}

fn limited(mbps: u64) -> impl policy::Policy {
    per_flow(move |_, flow, out: &mut Directives| out.push(pace(flow, Some(Rate::from_mbps(mbps)))))
}

/// What passes a meter of `mbps` of datagrams that reach it at `sent_mbps`, Mbit/s of frames.
fn metered(mbps: u64, sent_mbps: u64, burst: u64) -> f64 {
    let star = build::star(2, &access(link(sent_mbps, 50, 1_000))).unwrap();
    let jobs = vec![job(0, Time::ZERO, host(&star, "h0"), host(&star, "h1"), 10_000 * 1460)];
    let mut setup = setup(star, datagrams(), jobs);
    setup.policy = Some(Box::new(limited(mbps)));
    setup.enforcement = Limiter::Meter { burst: Bytes::new(burst) };
    let outcome = outcome(setup);
    let seconds = Rate::from_mbps(sent_mbps).time_for(Bytes::new(10_000 * 1500)).as_secs_f64();
    outcome.flows.at(0).delivered.get() as f64 / 1460.0 * 1500.0 * 8.0 / seconds / 1e6
}

#[test]
fn a_meter_passes_its_rate_and_its_burst() {
    // 10,000 packets of 1500 octets at 100 Mbit/s last 1.2 s: through 20 Mbit/s go a fifth of them
    // and the burst.
    let (rate, burst) = (20.0, 30_000.0);
    let passed = metered(20, 100, 30_000);
    let expected = rate + burst * 8.0 / 1.2 / 1e6;
    assert!((passed / expected - 1.0).abs() < 0.01, "{passed} Mbit/s, not {expected}");
    assert!(
        (metered(200, 100, 30_000) / 100.0 - 1.0).abs() < 1e-6,
        "it must not drop below its rate"
    );
}

#[test]
fn a_meter_drops_where_pacing_does_not() {
    let run = |enforcement| {
        let topology = build::star(2, &access(link(100, 50, 100))).unwrap();
        let jobs =
            vec![job(0, Time::ZERO, host(&topology, "h0"), host(&topology, "h1"), 2_000_000)];
        let mut setup = setup(topology, Transport::default(), jobs);
        setup.policy = Some(Box::new(limited(10)));
        setup.enforcement = enforcement;
        outcome(setup)
    };
    let paced = run(Limiter::Pacing);
    let metered = run(Limiter::Meter { burst: Bytes::new(12_500) });
    assert_eq!(paced.flows.at(0).retransmissions, 0);
    assert!(metered.flows.at(0).retransmissions > 0);
    assert!(metered.links.iter().map(|link| link.metered).sum::<u64>() > 0);
    assert!(metered.flows.at(0).completion() > paced.flows.at(0).completion());
}

/// Two hosts send 20 datagrams each to a third over its one link.
fn two_senders(discipline: Discipline, policy: Option<Box<dyn policy::Policy>>) -> Setup<'static> {
    let topology = incast(2, link(100, 50, 1_000));
    let receiver = host(&topology, "receiver");
    let jobs = (0..2)
        .map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, 20 * 1460))
        .collect();
    let mut setup = setup(topology, datagrams(), jobs);
    setup.switch_queue = discipline;
    setup.policy = policy;
    setup
}

/// When the last of so many packets has crossed both links, all of them ready at the start.
fn after(packets: u64) -> Span {
    Span::from_nanos(120) + Span::from_micros(100) + PACKET * packets
}

#[test]
fn strict_priority_serves_the_higher_first() {
    // Flow 0 becomes less urgent than flow 1 as both are announced, before any packet is through.
    let policy = per_flow(|_, flow: model::FlowId, out: &mut Directives| {
        let priority = if flow.0 == 0 { 3 } else { 1 };
        out.push(Directive::Prioritize { flow, priority });
    });
    let outcome = outcome(two_senders(Discipline::StrictPriority, Some(Box::new(policy))));
    let (low, high) = (outcome.flows.at(0), outcome.flows.at(1));
    // One packet may be in transmission when the first of the urgent ones arrives.
    assert!(high.completion().unwrap() <= after(21));
    assert_eq!(low.completion(), Some(after(40)));
}

#[test]
fn turns_share_the_port_packet_by_packet() {
    for discipline in [Discipline::PerFlow, Discipline::PerDestination] {
        let mut setup = two_senders(discipline, None);
        // The second flow begins when all of the first one's packets wait already.
        let topology = setup.network.topology().clone();
        let receiver = host(&topology, "receiver");
        let h = |n: &str| host(&topology, n);
        let later = Time::from_nanos(5_000);
        let jobs = vec![
            job(0, Time::ZERO, h("h0"), receiver, 20 * 1460),
            job(1, later, h("h1"), receiver, 5 * 1460),
        ];
        setup.application = Box::new(Jobs::new(jobs.into_iter()));
        let second = outcome(setup).flows.at(1).end.unwrap().since(Time::ZERO);
        match discipline {
            // It gets every other turn: its 5 packets are through among the first 11.
            Discipline::PerFlow => assert!(second <= after(11), "{second}"),
            // Both have the same destination: one queue, in order of arrival.
            _ => assert_eq!(second, after(25)),
        }
    }
}

#[test]
fn messages_take_the_control_delay_each_way() {
    let topology = build::star(2, &access(link(100, 50, 100))).unwrap();
    let jobs =
        vec![job(0, Time::from_nanos(7), host(&topology, "h0"), host(&topology, "h1"), 1 << 20)];
    let mut setup = setup(topology, Transport::default(), jobs);
    let heard = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let notes = heard.clone();
    setup.policy = Some(Box::new(per_flow(move |now, flow, out: &mut Directives| {
        notes.borrow_mut().push(now);
        out.push(pace(flow, Some(Rate::from_mbps(10))));
    })));
    setup.control_delay = Span::from_micros(300);
    let outcome = outcome(setup);
    let obeyed: Vec<Time> = outcome.flows.at(0).limits.iter().map(|(time, _)| *time).collect();
    assert_eq!(*heard.borrow(), [Time::from_nanos(300_007)]);
    assert_eq!(obeyed, [Time::from_nanos(600_007)]);
}

#[test]
fn ports_mark_whatever_their_discipline() {
    // Two long DCTCP flows over a port that marks from 10 packets on.
    for discipline in [Discipline::Fifo, Discipline::StrictPriority, Discipline::PerFlow] {
        let bottleneck = model::LinkSpec { mark: Some(10), ..link(100, 50, 200) };
        let topology = incast(2, bottleneck);
        let (receiver, switch) = (host(&topology, "receiver"), host(&topology, "s0"));
        let port = topology.link_between(switch, receiver).unwrap();
        let jobs = (0..2)
            .map(|n| job(n, Time::ZERO, host(&topology, &format!("h{n}")), receiver, 5_000_000))
            .collect();
        let transport = Transport { protocol: Protocol::Dctcp, ..Transport::default() };
        let mut setup = setup(topology, transport, jobs);
        setup.switch_queue = discipline;
        let outcome = outcome(setup);
        let record = &outcome.links[port.index()];
        assert!(record.marked > 100, "{discipline:?}: {} marks", record.marked);
        assert!(record.peak < 60, "{discipline:?}: the queue grew to {}", record.peak);
        assert_eq!(record.dropped, 0);
    }
}

#[test]
fn a_flow_that_takes_turns_cannot_fill_the_room_of_another() {
    // 100 datagrams at once fill the room of 40; five of another flow, a little later, take the
    // places of the last ones and all get through.
    let run = |discipline| {
        let topology = incast(2, link(100, 50, 40));
        let receiver = host(&topology, "receiver");
        let jobs = vec![
            job(0, Time::ZERO, host(&topology, "h0"), receiver, 100 * 1460),
            job(1, Time::from_nanos(20_000), host(&topology, "h1"), receiver, 5 * 1460),
        ];
        let mut setup = setup(topology, datagrams(), jobs);
        setup.switch_queue = discipline;
        outcome(setup)
    };
    let turns = run(Discipline::PerFlow);
    assert_eq!(turns.flows.at(1).delivered, Bytes::new(5 * 1460));
    assert_eq!(turns.flows.at(0).delivered, Bytes::new(35 * 1460));
    assert_eq!(turns.links.iter().map(|link| link.dropped).sum::<u64>(), 65);
    let order = run(Discipline::Fifo);
    assert_eq!(order.flows.at(1).delivered, Bytes::ZERO);
}
