//! Forwarding while it changes. Cables fail and return, switches take messages in one at a time and in
//! many orders, and after each of them every packet is followed through the tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::in_memory::{End, Shape, connection, entries, port, segment};
use openflow::switch::{Output as Answers, Switch};
use openflow::{Config as SessionConfig, Event, PortNo, Session, Side};
use protocol::Processes;
use protocol::application::Declaration;
use units::Time;
use watermaster_control::{ChannelId, Controller, Input, Output};

/// `OFPT_FLOW_MOD`.
const FLOW_MOD: u8 = 14;

struct Device {
    switch: Switch,
    session: Session,
    /// What the controller has sent and the switch has not taken in.
    inbox: Vec<u8>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrived,
    /// It was sent into a cable that has failed.
    Lost,
    /// After so many switches one had no entry for it.
    Unknown(usize),
}

struct Fabric {
    controller: Controller,
    devices: Vec<Device>,
    wiring: BTreeMap<(u32, u32), End>,
    /// The packets that are followed: from which host to which, and their source port.
    packets: Vec<(u32, u32, u16)>,
    /// The ports of cables that have failed.
    down: BTreeSet<(u32, u32)>,
    /// Which switch takes in its messages before which.
    order: Vec<u32>,
}

impl Fabric {
    /// All switches are connected and have their entries. Between any two hosts there are so many flows
    /// that are declared, and packets of none.
    fn new(shape: &Shape, flows: u16, order: &[u32]) -> Self {
        let hosts = u32::try_from(shape.hosts.len()).unwrap();
        let policy = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
        let config = shape.config("tcp", policy, true);
        let devices = (0..shape.switches).map(|number| {
            let mut switch = Switch::new(u64::from(number) + 1, 2);
            for (_, number) in shape.wiring().into_keys().filter(|(of, _)| *of == number) {
                switch.set_port(Time::ZERO, port(number, true), &mut Answers::default());
            }
            let session = Session::new(SessionConfig::new(Side::Switch), Time::ZERO);
            Device { switch, session, inbox: Vec::new() }
        });
        let mut fabric = Self {
            controller: Controller::new(config, 1, Time::ZERO).unwrap(),
            devices: devices.collect(),
            wiring: shape.wiring(),
            packets: Vec::new(),
            down: BTreeSet::new(),
            order: order.to_vec(),
        };
        for switch in 0..shape.switches {
            fabric.input(Input::SwitchConnected {
                channel: ChannelId(switch.into()),
                identity: None,
            });
            fabric.poll(switch);
        }
        fabric.run(|_| {});
        let job = Declaration::JobStart { job: "job".into() };
        fabric.input(Input::Declared { application: "app", declaration: &job });
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            if from != to {
                fabric.packets.push((from, to, 0));
                (1..=flows).for_each(|number| fabric.declare(from, to, number));
            }
        }
        fabric.run(|_| {});
        fabric.all(&[Fate::Arrived]);
        fabric
    }

    fn declare(&mut self, from: u32, to: u32, number: u16) {
        self.packets.push((from, to, number));
        let declaration = Declaration::FlowRequest {
            job: "job".into(),
            flow: self.packets.len().to_string(),
            connection: connection(from, to, number),
            processes: Processes::default(),
            bytes: None,
        };
        self.input(Input::Declared { application: "app", declaration: &declaration });
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.controller.step(Time::ZERO, input, &mut out).unwrap();
        for output in out {
            let Output::Switch(ChannelId(switch), bytes) = output else { panic!("{output:?}") };
            self.devices[usize::try_from(switch).unwrap()].inbox.extend(bytes);
        }
    }

    /// A switch does what came, and answers.
    fn poll(&mut self, at: u32) {
        let Device { switch, session, .. } = &mut self.devices[at as usize];
        let mut answers = Answers::default();
        while let Some(event) = session.poll(Time::ZERO) {
            if let Event::Message { xid, message } = event {
                switch.handle(Time::ZERO, xid, &message, &mut answers);
            }
        }
        let mut bytes = session.output().to_vec();
        session.sent(bytes.len());
        bytes.extend(answers.messages.concat());
        if !bytes.is_empty() {
            self.input(Input::SwitchBytes(ChannelId(at.into()), &bytes));
        }
    }

    /// The first switch in the order that has a message takes it in: the type of that.
    fn take_in(&mut self) -> Option<u8> {
        let has_some = |at: &&u32| !self.devices[**at as usize].inbox.is_empty();
        let at = self.order.iter().find(has_some).copied()?;
        let Device { session, inbox, .. } = &mut self.devices[at as usize];
        let length = u16::from_be_bytes([inbox[2], inbox[3]]);
        let message: Vec<u8> = inbox.drain(..usize::from(length)).collect();
        assert_eq!(session.receive(Time::ZERO, &message), message.len());
        self.poll(at);
        Some(message[1])
    }

    /// Switches take in all there is; after each that may change a table `check` looks. How many these were.
    fn run(&mut self, mut check: impl FnMut(&mut Self)) -> usize {
        let mut count = 0;
        while let Some(taken) = self.take_in() {
            if taken == FLOW_MOD {
                count += 1;
                check(self);
            }
        }
        count
    }

    /// A cable fails or returns at both ends, which tell.
    fn cable(&mut self, end: (u32, u32), up: bool) {
        let End::Switch(to, back) = self.wiring[&end] else { panic!("{end:?} leads to a host") };
        for (at, number) in [end, (to, back)] {
            if up {
                self.down.remove(&(at, number));
            } else {
                self.down.insert((at, number));
            }
            let mut answers = Answers::default();
            let switch = &mut self.devices[at as usize].switch;
            switch.set_port(Time::ZERO, port(number, up), &mut answers);
            let told = answers.messages.concat();
            self.input(Input::SwitchBytes(ChannelId(at.into()), &told));
        }
    }

    fn fate(&mut self, (from, to, number): (u32, u32, u16)) -> Fate {
        let start = self.wiring.iter().find(|(_, end)| **end == End::Host(from)).unwrap();
        let (mut at, mut frame) = (*start.0, segment(from, to, number, 16, 1));
        for hops in 0..=self.devices.len() {
            let mut answers = Answers::default();
            let switch = &mut self.devices[at.0 as usize].switch;
            switch.receive(Time::ZERO, PortNo(at.1), &frame, &mut answers);
            if !answers.messages.is_empty() {
                return Fate::Unknown(hops);
            }
            let Some((PortNo(port), next)) = answers.frames.pop() else {
                // A switch sends nothing back where it came from, nor into a port that is down.
                let has_failed = self.down.iter().any(|(of, _)| *of == at.0);
                assert!(has_failed, "{from} -> {to}: a loop between two switches");
                return Fate::Lost;
            };
            if self.down.contains(&(at.0, port)) {
                return Fate::Lost;
            }
            frame = next;
            match self.wiring[&(at.0, port)] {
                End::Host(host) => {
                    assert_eq!(host, to, "what {from} sent");
                    return Fate::Arrived;
                }
                End::Switch(next, port) => at = (next, port),
            }
        }
        panic!("{from} -> {to}: a loop");
    }

    /// Entries of single flows, at all switches.
    fn own(&self) -> usize {
        let all = self.devices.iter().flat_map(|device| entries(&device.switch));
        all.filter(|(_, priority)| *priority == 300).count()
    }

    /// Each packet has one of these fates.
    fn all(&mut self, fates: &[Fate]) {
        for packet in self.packets.clone() {
            let fate = self.fate(packet);
            assert!(fates.contains(&fate), "{packet:?}: {fate:?}, {:?}", self.order);
        }
    }

    /// Nothing is lost but in a cable that has failed.
    fn is_whole(&mut self) {
        let fates = [Fate::Arrived, Fate::Lost];
        self.all(if self.down.is_empty() { &fates[..1] } else { &fates });
    }
}

/// Every cable of the shape, by one of its ends, and orders in which each switch is first once and the
/// others follow either way round.
fn cases(shape: &Shape) -> Vec<((u32, u32), Vec<u32>)> {
    let (mut ends, mut seen) = (Vec::new(), BTreeSet::new());
    for (end, to) in shape.wiring() {
        if let End::Switch(to, back) = to
            && !seen.contains(&end)
        {
            seen.insert((to, back));
            ends.push(end);
        }
    }
    let count = shape.switches;
    let around = (0..count).flat_map(|first| {
        let forth: Vec<u32> = (first..first + count).map(|at| at % count).collect();
        let back = forth.iter().rev().copied().collect();
        [forth, back]
    });
    let orders: Vec<Vec<u32>> = around.collect();
    ends.into_iter().flat_map(|end| orders.iter().map(move |order| (end, order.clone()))).collect()
}

/// Switches in a circle or a row, a host at each.
fn row(switches: u32, is_circle: bool) -> Shape {
    let last = if is_circle { switches } else { switches - 1 };
    let cables = (0..last).map(|at| (at, (at + 1) % switches)).collect();
    Shape { switches, cables, hosts: (0..switches).collect(), mbps: 100, cable_mbps: 100 }
}

/// Shapes with several ways, and how many flows between any two hosts: where there are several shortest
/// ways, some of them go their own.
fn shapes(circle: u32) -> [(Shape, u16); 2] {
    [(Shape::diamond(1), 4), (row(circle, true), 0)]
}

#[test]
fn no_step_of_a_change_makes_a_loop_or_a_gap() {
    for (shape, flows) in shapes(5) {
        for (end, order) in cases(&shape) {
            let mut fabric = Fabric::new(&shape, flows, &order);
            let own = fabric.own();
            assert_eq!(own > 0, flows > 0);
            for up in [false, true] {
                fabric.cable(end, up);
                fabric.is_whole();
                let steps = fabric.run(Fabric::is_whole);
                assert!(steps > 5, "{steps}");
                fabric.all(&[Fate::Arrived]);
            }
            assert_eq!(fabric.own(), own, "flows go their own ways again");
        }
    }
}

/// A cable returns, and flows begin, while switches still hear that it has failed.
#[test]
fn a_change_that_replaces_another_makes_no_loop_or_gap_either() {
    for (shape, flows) in shapes(4) {
        for (case, (end, order)) in cases(&shape).into_iter().enumerate() {
            let mut whole = Fabric::new(&shape, flows, &order);
            whole.cable(end, false);
            let messages = std::iter::from_fn(|| whole.take_in()).count();
            // Flows have entries of their own at few moments only. Each case begins with another moment.
            let step = if flows > 0 { 4 } else { 13 };
            for before in (case % step..=messages).step_by(step) {
                let mut fabric = Fabric::new(&shape, flows, &order);
                fabric.cable(end, false);
                for _ in 0..before {
                    fabric.take_in().unwrap();
                }
                fabric.cable(end, true);
                for (from, to) in [(0, 1), (1, 0)] {
                    (5..9).for_each(|number| fabric.declare(from, to, number));
                }
                fabric.is_whole();
                fabric.run(Fabric::is_whole);
                fabric.all(&[Fate::Arrived]);
            }
        }
    }
}

/// Hosts were cut off: as their cable returns, whoever has an entry for them has a way to the end.
#[test]
fn a_way_that_returns_is_whole_before_it_is_taken() {
    let shape = row(5, false);
    for (end, order) in cases(&shape) {
        let mut fabric = Fabric::new(&shape, 0, &order);
        fabric.cable(end, false);
        fabric.run(|_| {});
        fabric.cable(end, true);
        let steps = fabric.run(|fabric| fabric.all(&[Fate::Arrived, Fate::Unknown(0)]));
        assert!(steps > 5, "{steps}");
        fabric.all(&[Fate::Arrived]);
    }
}
