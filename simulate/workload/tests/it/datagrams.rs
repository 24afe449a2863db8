//! Datagrams at a constant rate, and what a policy is told of the ports that they leave by.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{Jobs, Outcome};
use model::build::{Access, star};
use model::{Buffer, Directives, JobId, LinkId, Measured, Network, Observation, Topology};
use packet::{Setup, Transport};
use policy::Policy;
use testing::network::{host, link};
use testing::packet::{outcome, setup};
use units::{Bytes, Rate, Span, Time};
use watermaster_workload::Datagrams;

/// Links of 10 Mbit/s: a frame of 1500 octets takes 1.2 ms. The buffer has ten places.
fn topology() -> Topology {
    let link = link(10, 0, Buffer::Packets(10));
    star(2, &Access { link, nic: Buffer::Packets(10) }).unwrap()
}

fn datagrams(kbps: u64) -> Datagrams {
    let topology = topology();
    Datagrams {
        src: host(&topology, "h0"),
        dst: host(&topology, "h1"),
        rate: Rate::from_bps(1000 * kbps),
        size: Bytes::new(1460),
        start: Span::from_secs(1),
        until: Span::from_secs(3),
    }
}

fn seconds(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

fn plan(datagrams: Datagrams) -> Setup<'static> {
    let application = Box::new(datagrams.application(JobId(0)));
    Setup { until: seconds(4), ..setup(topology(), Transport::default(), application) }
}

fn lost(outcome: &Outcome) -> u64 {
    let flow = outcome.flows.at(outcome.datagrams[0].index());
    (flow.size - flow.delivered).get() / 1460
}

/// 2.92 Mbit/s of payload are 250 datagrams a second, from 1 s to before 3 s.
#[test]
fn they_go_at_their_rate_and_none_is_lost_where_there_is_room() {
    let run = outcome(plan(datagrams(2920)));
    assert_eq!(run.flows.at(0).size, Bytes::new(500 * 1460));
    assert_eq!(lost(&run), 0);
    let used = run.links.iter().filter(|link| link.packets > 0);
    let used: Vec<_> = used.map(|link| (link.packets, link.bytes.get())).collect();
    assert_eq!(used, [(500, 750_000); 2]);
}

/// 19.46 Mbit/s in frames are twice what the link carries: of 3334 datagrams 1667 leave in 2 s, and ten wait.
#[test]
fn what_finds_no_room_is_lost_and_not_sent_again() {
    let run = outcome(plan(datagrams(19_467)));
    let sent = run.flows.at(0).size.get() / 1460;
    assert_eq!(sent, 3334);
    assert!(lost(&run).abs_diff(sent - 1667 - 10) <= 1, "{}", lost(&run));
    assert_eq!(run.flows.at(0).retransmissions, 0);
}

/// What ports had sent, and when the policy heard it.
type Readings = Vec<(Time, Vec<(LinkId, Bytes)>)>;
type Heard = Rc<RefCell<Readings>>;

struct Reader {
    every: Option<Span>,
    heard: Heard,
}

impl Policy for Reader {
    fn observe(&mut self, now: Time, _: &Network, observation: &Observation) {
        if let Observation::Measured(Measured::Ports(counters)) = observation {
            self.heard.borrow_mut().push((now, counters.clone()));
        }
    }

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}

    fn ports(&self) -> Option<Span> {
        self.every
    }
}

fn read(setup: Setup<'static>, every: Option<Span>) -> (Outcome, Readings) {
    let heard = Heard::default();
    let policy = Some(Box::new(Reader { every, heard: heard.clone() }) as Box<dyn Policy>);
    let run = outcome(Setup { policy, control_delay: Span::from_millis(7), ..setup });
    (run, heard.take())
}

/// A port has sent what has left its queue: the link is busy from 1 s on, 10 Mbit/s.
#[test]
fn counters_of_ports_are_read_as_often_as_the_policy_asks() {
    let topology = topology();
    let uplink = topology.link_between(host(&topology, "h0"), host(&topology, "s0")).unwrap();
    let (_, heard) = read(plan(datagrams(19_467)), Some(Span::from_millis(500)));
    let at = |n: usize| Time::ZERO + Span::from_millis(500) * n as u64 + Span::from_millis(7);
    for (n, (time, counters)) in heard.iter().enumerate() {
        assert_eq!(*time, at(n));
        assert_eq!(counters.len(), topology.links().len());
        let sent = counters.iter().find(|(link, _)| *link == uplink).unwrap().1.get();
        let busy = n.clamp(2, 6) as u64 - 2;
        // Ten frames waited when the last was sent.
        let most = 625_000 * busy + if n > 6 { 15_000 } else { 0 };
        assert!((most.saturating_sub(1_500)..=most).contains(&sent), "{n}: {sent} of {most}");
    }
    assert_eq!(heard.len(), 8, "{heard:?}");
}

/// A policy that asks for none hears none, and nothing else happens in its world; and a run whose flows have
/// ended ends, though its policy asks.
#[test]
fn reading_counters_neither_disturbs_a_run_nor_keeps_it_alive() {
    let jobs = || {
        let topology = topology();
        let (src, dst) = (host(&topology, "h0"), host(&topology, "h1"));
        let job = testing::network::job(0, Time::ZERO, &[(src, dst, 1_000_000)]);
        setup(topology, Transport::default(), Box::new(Jobs::new(vec![job].into_iter())))
    };
    let (without, none) = read(jobs(), None);
    let (with, heard) = read(jobs(), Some(Span::from_millis(1)));
    assert!(none.is_empty() && heard.len() > 100);
    assert_eq!((with.events, &with.flows), (without.events, &without.flows));
    assert!(with.end.since(without.end) <= Span::from_millis(1), "{} {}", with.end, without.end);
}
