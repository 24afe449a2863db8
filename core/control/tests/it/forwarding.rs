//! Forwarding through model switches: discovery, make-before-break, restart.

use std::sync::{Arc, Mutex};

use crate::in_memory::{Rig, SECOND, Shape, address, connection, entries, ethernet, port, segment};
use model::{Directives, Measured, Network, Observation};
use openflow::switch::{Output as Answers, Switch};
use policy::{Policy, Watch};
use protocol::application::Declaration;
use units::{Span, Time};
use watermaster_control::LEASE;

fn tcp() -> Box<dyn Policy + Send> {
    policy::by_name("tcp", &policy::Parameters::default()).unwrap()
}

fn up(shape: &Shape, ports: bool) -> Rig {
    let mut rig = Rig::new(shape, shape.config("tcp", tcp(), ports), 1);
    for switch in 0..shape.switches {
        rig.plug(switch);
    }
    rig
}

#[track_caller]
fn arrives(rig: &mut Rig, from: u32, to: u32) {
    rig.delivered.clear();
    let frame = segment(from, to, 1000, 16, 100);
    rig.send(from, frame.clone());
    assert_eq!(rig.delivered, [(to, frame)], "{from} -> {to}");
}

#[track_caller]
fn all_arrive(rig: &mut Rig, hosts: u32) {
    for from in 0..hosts {
        for to in (0..hosts).filter(|to| *to != from) {
            arrives(rig, from, to);
        }
    }
}

/// Who has 10.0.0.`of`? (RFC 826)
fn question(host: u32, of: u8) -> Vec<u8> {
    let std::net::IpAddr::V4(sender) = address(host) else { panic!() };
    let mut frame = [[0xff; 6], ethernet(host)].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(ethernet(host));
    frame.extend(sender.octets());
    frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, of]);
    frame
}

/// A question for a known address goes to its host alone, without the controller.
#[test]
fn questions_need_no_flooding() {
    let shape = Shape::racks(2);
    let mut rig = up(&shape, true);
    for switch in 0..2 {
        rig.unplug(switch);
    }
    rig.send(0, question(0, 4));
    assert_eq!(rig.delivered, [(3, question(0, 4))]);
}

#[test]
fn every_host_reaches_every_other() {
    let shape = Shape::diamond(3);
    let mut rig = up(&shape, true);
    all_arrive(&mut rig, 6);
    let status = rig.controller.at(rig.now).status();
    assert!(status.switches.iter().all(|switch| switch.connected && switch.settled));
    assert_eq!(rig.controller.counters().switch_errors, 0);
}

/// Ports that are not declared are found by probes and by what hosts send.
#[test]
fn ports_are_found() {
    let shape = Shape::racks(2);
    let mut rig = up(&shape, false);
    rig.pass(SECOND * 3);
    // As any host that is about to send, they ask for somebody's address.
    for host in 0..4 {
        rig.send(host, question(host, 99));
    }
    all_arrive(&mut rig, 4);
    let status = rig.controller.at(rig.now).status();
    let cables = status.links.iter().filter(|link| link.seen == Some(true)).count();
    assert_eq!((cables, status.problems.len()), (2, 0), "{:?}", status.problems);
}

/// Without any declaration, everything is found.
#[test]
fn an_unknown_network_is_found() {
    let shape = Shape::diamond(2);
    let config = watermaster_control::Config::new("tcp", tcp());
    let mut rig = Rig::new(&shape, config, 1);
    (0..4).for_each(|switch| rig.connect(switch));
    rig.pass(SECOND * 3);
    for host in 0..4 {
        rig.send(host, question(host, 99));
    }
    all_arrive(&mut rig, 4);
    let status = rig.controller.at(rig.now).status();
    // Four cables between switches and four to hosts, each way.
    assert_eq!((status.switches.len(), status.links.len()), (4, 16));
}

/// A cable that was found and carries no probe any more is gone, which isn't told; one whose port says that
/// it is down is told.
#[test]
fn a_found_link_is_gone_once_no_probe_crosses_it() {
    let shape = Shape::racks(1);
    let mut rig = Rig::new(&shape, watermaster_control::Config::new("tcp", tcp()), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    let links = |rig: &Rig| {
        let status = rig.controller.at(rig.now).status();
        (status.links.iter().map(|link| link.up).collect::<Vec<_>>(), status.problems)
    };
    rig.pass(SECOND * 3);
    assert_eq!(links(&rig), (vec![true; 2], vec![]));
    rig.unprobed = true;
    // Of three probes one may still have crossed it just before.
    for (after, up) in [(2, true), (3, false)] {
        rig.pass(SECOND * after);
        assert_eq!(links(&rig), (vec![up; 2], vec![]));
    }
    rig.unprobed = false;
    rig.pass(SECOND);
    rig.set_port(0, 1, false);
    let (up, problems) = links(&rig);
    assert_eq!(up, [false; 2]);
    assert!(
        problems.iter().all(|told| told.ends_with(" is down")) && problems.len() == 2,
        "{problems:?}"
    );
}

/// What a switch has no room for is told, and sent again until it has.
#[test]
fn an_entry_that_a_switch_refuses_is_told_and_sent_again() {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("tcp", tcp(), true), 1);
    rig.full = true;
    (0..2).for_each(|switch| rig.connect(switch));
    let are_settled = |rig: &Rig| {
        let switches = rig.controller.at(rig.now).status().switches;
        switches.iter().all(|switch| switch.settled)
    };
    let told = problems(&rig);
    let full = "entries that forward packets are not confirmed: the table of flow entries is full";
    assert!(
        told.iter().any(|one| one.starts_with("switch s0: ") && one.contains(full)),
        "{told:?}"
    );
    assert!(!are_settled(&rig));
    rig.full = false;
    rig.pass(LEASE);
    assert_eq!(problems(&rig), [""; 0]);
    assert!(are_settled(&rig));
    all_arrive(&mut rig, 4);
}

#[test]
fn a_link_that_fails_is_gone_around_and_comes_back() {
    let shape = Shape::diamond(2);
    let mut rig = up(&shape, true);
    // Port 1 of leaf 0 leads to spine 2.
    rig.set_port(0, 1, false);
    all_arrive(&mut rig, 4);
    rig.set_port(0, 2, false);
    rig.delivered.clear();
    rig.send(0, segment(0, 2, 1000, 16, 1));
    assert_eq!(rig.delivered, []);
    arrives(&mut rig, 0, 1);
    rig.set_port(0, 1, true);
    all_arrive(&mut rig, 4);
    rig.set_port(0, 2, true);
    all_arrive(&mut rig, 4);
}

#[test]
fn a_port_that_vanishes_while_its_switch_is_away_is_down() {
    let shape = Shape::diamond(2);
    let mut rig = up(&shape, true);
    let whole = rig.switch(0).clone();
    // Port 1 of leaf 0 leads to spine 2.
    let mut less = Switch::new(1, 2);
    for number in 2..=4 {
        less.set_port(Time::ZERO, port(number, true), &mut Answers::default());
    }
    for (switch, is_down) in [(less, true), (whole, false)] {
        rig.unplug(0);
        rig.swap_switch(0, switch);
        rig.plug(0);
        let told = problems(&rig);
        assert_eq!(told.contains(&"link s0 -> s2 is down".to_owned()), is_down, "{told:?}");
        all_arrive(&mut rig, 4);
    }
}

/// Nothing is wiped before the new state stands: while a new controller takes over, step by step, no
/// packet is lost; when it has, nothing of the old one is left.
#[test]
fn a_new_controller_takes_over_without_a_gap() {
    let shape = Shape::diamond(2);
    let mut rig = up(&shape, true);
    let before = entries(rig.switch(0)).len();
    for epoch in 2..5 {
        rig.replace(shape.config("tcp", tcp(), true), epoch);
        // Alone, switches forward as they were told.
        rig.pass(SECOND * 60);
        all_arrive(&mut rig, 4);
        for switch in 0..4 {
            rig.plug(switch);
            all_arrive(&mut rig, 4);
        }
        for switch in 0..4 {
            for (cookie, _) in entries(rig.switch(switch)) {
                assert_eq!(cookie >> 48, 0x574d);
                assert_eq!(cookie >> 16 & 0xff_ffff, epoch, "an entry of an old controller");
            }
        }
        assert_eq!(entries(rig.switch(0)).len(), before);
    }
}

/// A switch has kept what led flows over another spine than all else; of those that ended meanwhile it is removed.
#[test]
fn what_ended_while_a_switch_was_away_is_removed() {
    let mut rig = up(&Shape::diamond(2), true);
    let bare = entries(rig.switch(0)).len();
    rig.start("app", "job");
    for flow in 0..8 {
        let port = 1000 + u16::try_from(flow).unwrap();
        rig.flow("app", "job", flow, connection(0, 2, port), None).unwrap();
    }
    assert!(entries(rig.switch(0)).len() > bare);
    rig.unplug(0);
    rig.declare("app", Declaration::JobComplete { job: "job".into() }).unwrap();
    rig.plug(0);
    rig.pass(SECOND);
    assert_eq!(entries(rig.switch(0)).len(), bare);
}

/// Notes what the switches have counted.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Vec<Measured>>>);

impl Policy for Counted {
    fn observe(&mut self, _: Time, _: &Network, observation: &Observation) {
        if let Observation::Measured(measured @ Measured::Carried { .. }) = observation {
            self.0.lock().unwrap().push(measured.clone());
        }
    }

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}

    fn watch(&self) -> Option<Watch> {
        Some(Watch { statistics: Some(SECOND), ..Watch::default() })
    }
}

/// A switch is there once it has listed all its ports, and what it counted of three connections is
/// told together.
#[test]
fn a_switch_may_list_things_in_several_messages() {
    let shape = Shape::racks(2);
    let counted = Counted::default();
    let config = shape.config("counted", Box::new(counted.clone()), true);
    let mut rig = Rig::new(&shape, config, 1);
    rig.in_parts = true;
    (0..2).for_each(|switch| rig.connect(switch));
    assert_eq!(rig.early, 0, "it was given entries before its last port was known");
    all_arrive(&mut rig, 4);
    (0..3).for_each(|number| rig.send(0, segment(0, 2, 1000 + number, 2, 0)));
    counted.0.lock().unwrap().clear();
    rig.pass(SECOND);
    let told = counted.0.lock().unwrap();
    let of_all = |told: &Measured| matches!(told, Measured::Carried { flows } if flows.len() == 3);
    assert!(!told.is_empty() && told.iter().all(of_all), "{told:?}");
}

/// A switch that starts anew gets everything; one that only lost its connection keeps it meanwhile.
#[test]
fn a_switch_comes_back() {
    let shape = Shape::racks(2);
    let mut rig = up(&shape, true);
    rig.unplug(0);
    assert!(!rig.controller.at(rig.now).status().problems.is_empty());
    all_arrive(&mut rig, 4);
    rig.plug(0);
    all_arrive(&mut rig, 4);
    rig.unplug(1);
    let empty = Rig::new(&shape, shape.config("tcp", tcp(), true), 9).switch(1).clone();
    rig.swap_switch(1, empty);
    rig.plug(1);
    all_arrive(&mut rig, 4);
    assert!(rig.controller.at(rig.now).status().problems.is_empty());
}

/// Somebody else deletes the entries of a switch, whose connection stands.
#[test]
fn a_declared_link_that_goes_silent_is_told() {
    let shape = Shape::racks(2);
    let config = || shape.config("tcp", tcp(), true);
    let mut rig = up(&shape, true);
    rig.pass(SECOND * 20);
    let problems = |rig: &Rig| rig.controller.at(rig.now).status().problems;
    assert!(problems(&rig).is_empty());
    let empty = Rig::new(&shape, config(), 9).switch(0).clone();
    let whole = rig.switch(0).clone();
    rig.swap_switch(0, empty);
    rig.pass(SECOND * 20);
    let told = problems(&rig);
    assert!(told.iter().any(|what| what.contains("no probe has crossed it for ")), "{told:?}");
    rig.swap_switch(0, whole);
    rig.pass(SECOND * 20);
    assert!(problems(&rig).is_empty());
}

/// A host can forge a probe: what is declared stays.
#[test]
fn forged_probes_change_nothing_that_is_declared() {
    let shape = Shape::racks(2);
    let mut rig = up(&shape, true);
    rig.pass(SECOND * 5);
    // LLDP of ours: chassis 2, port 2.
    let mut forged = vec![1, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    forged.extend([2, 9, 7, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 7, 0, 0, 0, 2, 6, 2, 0, 120, 0, 0]);
    rig.send(0, forged);
    let problems = rig.controller.at(rig.now).status().problems;
    assert!(problems[0].contains("is declared, but a probe went"), "{problems:?}");
    all_arrive(&mut rig, 4);
}

/// What nobody knows a way for costs a message to each switch: a host may send so much of it a second, and others
/// none the less.
#[test]
fn what_goes_to_everybody_is_limited_at_each_port() {
    let shape = Shape::racks(2);
    let mut rig = up(&shape, true);
    rig.delivered.clear();
    (0..1_000).for_each(|_| rig.send(0, question(0, 99)));
    let heard = |rig: &Rig, by| {
        let is_question = |frame: &[u8]| frame[12..14] == [8, 6];
        rig.delivered.iter().filter(|(host, frame)| *host == by && is_question(frame)).count()
    };
    assert_eq!([0, 1, 2, 3].map(|host| heard(&rig, host)), [0, 100, 100, 100]);
    rig.send(3, question(3, 99));
    assert_eq!([0, 1, 2, 3].map(|host| heard(&rig, host)), [1, 101, 101, 100]);
    rig.pass(SECOND);
    rig.send(0, question(0, 99));
    assert_eq!(heard(&rig, 3), 101);
}

/// A switch that sends packets without end is heard so many times a second.
#[test]
fn packets_of_a_switch_are_limited() {
    let shape = Shape::racks(2);
    let mut config = shape.config("tcp", tcp(), true);
    config.limits.packets_per_second = 10;
    let mut rig = Rig::new(&shape, config, 1);
    rig.plug(0);
    let arp = question(0, 99);
    for _ in 0..50 {
        rig.send(0, arp.clone());
    }
    let counters = rig.controller.counters();
    assert!(counters.packets_refused >= 80, "{counters:?}");
    rig.pass(Span::from_secs(2));
    rig.send(0, arp);
    let later = rig.controller.counters();
    assert_eq!(later.packets_refused, counters.packets_refused);
}

/// What a connection carries that nobody declared is counted at its first switch, also when paths move.
#[test]
fn counting_outlives_moves_of_paths() {
    let shape = Shape::diamond(2);
    let sdtcp = policy::by_name("sdtcp", &policy::Parameters::default()).unwrap();
    let mut rig = Rig::new(&shape, shape.config("sdtcp", sdtcp, true), 1);
    (0..4).for_each(|switch| rig.connect(switch));
    // Of so many some take another path than the rest of the traffic.
    (0..8).for_each(|number| rig.send(0, segment(0, 2, 1000 + number, 2, 0)));
    let counting =
        |rig: &Rig| entries(rig.switch(0)).iter().filter(|(_, priority)| *priority == 700).count();
    assert_eq!(counting(&rig), 8);
    for up in [false, true, false, true] {
        rig.set_port(0, 1, up);
        rig.pass(Span::from_secs(1));
        assert_eq!(counting(&rig), 8, "a link of the first switch is up: {up}");
    }
}

/// Where no agent is, nobody tells of a connection whose last packet is lost, or whose host is.
#[test]
fn a_connection_that_is_idle_or_reset_is_forgotten_where_no_agent_is() {
    for name in ["sdtcp", "sab"] {
        let shape = Shape::racks(2);
        let policy = policy::by_name(name, &policy::Parameters::default()).unwrap();
        let mut rig = Rig::new(&shape, shape.config(name, policy, true), 1);
        (0..2).for_each(|switch| rig.connect(switch));
        let open = |rig: &Rig| rig.controller.at(rig.now).flows(9).len();
        rig.send(0, segment(0, 2, 1000, 2, 0));
        for _ in 0..4 {
            rig.pass(SECOND * 30);
            rig.send(0, segment(0, 2, 1000, 16, 100));
            assert_eq!(open(&rig), 1, "{name}: it sends now and then");
        }
        rig.pass(SECOND * 61);
        rig.pass(SECOND);
        assert_eq!(open(&rig), 0, "{name}: it is idle");
        rig.send(0, segment(0, 2, 1001, 2, 0));
        assert_eq!(open(&rig), 1);
        let mut reset = segment(0, 2, 1001, 16, 0);
        reset[14 + 20 + 13] = 4;
        rig.send(0, reset);
        assert_eq!(open(&rig), 0, "{name}: it is reset");
    }
}

/// An ARP message of a made-up host.
fn forged(number: u32) -> Vec<u8> {
    let mac = [&[2, 0xff][..], &number.to_be_bytes()].concat();
    let mut frame = [&[0xff; 6][..], &mac].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(mac);
    frame.extend((0x0a63_0000 + number).to_be_bytes());
    frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 99]);
    frame
}

fn problems(rig: &Rig) -> Vec<String> {
    rig.controller.at(rig.now).status().problems
}

/// 11,000 made-up hosts at one port get no more entries than a port may have, are told, keep no honest host out
/// elsewhere, and are forgotten.
#[test]
fn forged_hosts_are_bounded_told_and_forgotten() {
    let shape = Shape::racks(2);
    let mut config = shape.config("tcp", tcp(), true);
    config.limits.packets_per_second = 100_000;
    let mut rig = Rig::new(&shape, config, 1);
    for switch in 0..2 {
        rig.plug(switch);
    }
    rig.pass(SECOND * 3);
    let before = entries(rig.switch(0)).len();
    for number in 0..11_000 {
        rig.send(0, forged(number));
    }
    rig.pass(SECOND);
    let flooded = entries(rig.switch(0)).len();
    assert!(flooded > before && flooded <= before + 64 * 3, "{before} {flooded}");
    let told = problems(&rig);
    assert!(told.len() == 1 && told[0].contains("shows more than 64 hosts"), "{told:?}");
    // An honest one elsewhere, whom nobody declared either, and at the same port after a while.
    rig.send(3, forged(20_000));
    rig.pass(SECOND);
    let honest = entries(rig.switch(0)).len();
    assert!(honest > flooded, "{flooded} {honest}");
    rig.pass(SECOND * 31);
    rig.send(0, forged(20_001));
    rig.pass(SECOND);
    assert_eq!(entries(rig.switch(0)).len(), honest, "it takes the place of a silent one");
    all_arrive(&mut rig, 4);
    // Who answers stays.
    rig.delivered.clear();
    let asked = |rig: &Rig| {
        rig.delivered.iter().any(|(host, frame)| {
            *host == 3
                && frame
                    .ends_with(&[&(0x0a63_0000_u32 + 20_000).to_be_bytes()[..], &[0; 18]].concat())
        })
    };
    let mut waited = 0;
    while !asked(&rig) {
        rig.pass(SECOND);
        waited += 1;
        assert!(waited < 700, "it is never asked");
    }
    rig.send(3, forged(20_000));
    rig.pass(SECOND * 60);
    assert_eq!(
        entries(rig.switch(0)).len(),
        before + (honest - flooded),
        "the others are forgotten"
    );
    rig.pass(SECOND * 600);
    assert_eq!(entries(rig.switch(0)).len(), before);
    assert_eq!(problems(&rig), [""; 0]);
    all_arrive(&mut rig, 4);
}

/// Where hosts aren't learnt, those that are declared are found, and others are told.
#[test]
fn hosts_need_not_be_learnt() {
    let shape = Shape::racks(2);
    let mut config = shape.config("tcp", tcp(), false);
    config.learn = false;
    let mut rig = Rig::new(&shape, config, 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.pass(SECOND * 3);
    rig.send(0, forged(1));
    (0..4).for_each(|host| rig.send(host, question(host, 99)));
    rig.send(1, forged(2));
    all_arrive(&mut rig, 4);
    let told = problems(&rig);
    assert!(
        told.len() == 2 && told.iter().all(|one| one.contains("nobody declared it")),
        "{told:?}"
    );
}
