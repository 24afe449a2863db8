//! The controller as a whole: from an announcement, or a packet that a switch sent up, to what is sent
//! to agents and switches.

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};

use control::{ChannelId, Config, Controller, HostConfig, Input, Output, SwitchConfig};
use model::build::{Access, leaf_spine};
use model::{Buffer, LinkSpec, NodeKind};
use openflow::switch::{Output as Answers, Switch};
use openflow::{
    BufferId, Event, Field, Kind, List, Message, PacketIn, PacketInReason, Port, Session, Side,
    TableId,
};
use policy::{Messages, Need, Parameters};
use protocol::agent::{Capability, Host, Report};
use protocol::application::{Declaration, StreamReport};
use protocol::{Connection, Processes};
use units::{Bytes, Rate, Span, Time};

use super::{Decision, timed_us};
use crate::failure::Failure;

const APPLICATIONS: u64 = 500;
const LEAVES: u32 = 10;
const HOSTS_PER_LEAF: u32 = 50;
const HOSTS: u32 = LEAVES * HOSTS_PER_LEAF;

/// 500 applications, 10,000 live flows, `smsf`: one more flow is announced and another ends.
pub(super) fn smsf() -> Result<Decision, Failure> {
    announcing("smsf", 10_000)
}

/// The same under `app-aware`, which decides later, at its interval.
pub(super) fn app_aware() -> Result<Decision, Failure> {
    announcing("app-aware", 10_000)
}

fn address(host: u32) -> IpAddr {
    let [_, high, middle, low] = host.to_be_bytes();
    [10, high, middle, low].into()
}

fn connection(number: u64) -> Connection {
    let hosts = u64::from(HOSTS);
    // Coprime steps, so that flows spread over all pairs of hosts.
    let from = number * 7919 % hosts;
    let to = (from + 1 + number * 104_729 % (hosts - 1)) % hosts;
    let host = |host: u64| address(u32::try_from(host).unwrap_or(0));
    let port = |number: u64| u16::try_from(1024 + number % 60_000).unwrap_or(1);
    Connection {
        source: SocketAddr::new(host(from), port(number)),
        destination: SocketAddr::new(host(to), port(number / 60_000)),
    }
}

fn controller(name: &str) -> Result<Controller, Failure> {
    // As in the daemon.
    let parameters = Parameters::default().at_cost(Messages::Costly);
    let policy = policy::by_name(name, &parameters).map_err(Failure::failed)?;
    let mut config = Config::new(name, policy);
    let link = LinkSpec {
        capacity: Rate::from_mbps(10_000),
        delay: Span::from_micros(1),
        buffer: Buffer::Packets(100),
        mark: None,
    };
    let access = Access { link, nic: Buffer::Unlimited };
    config.topology =
        leaf_spine(LEAVES, 4, HOSTS_PER_LEAF, &access, &link).map_err(Failure::failed)?;
    let hosts = (0u32..).zip(config.topology.hosts());
    config.hosts = hosts
        .map(|(number, node)| HostConfig {
            node,
            addresses: vec![address(number)],
            ethernet: Vec::new(),
        })
        .collect();
    config.limits.declarations_per_second = u32::MAX;
    config.limits.packets_per_second = u32::MAX;
    Controller::new(config, 1, Time::ZERO).map_err(Failure::failed)
}

fn announcing(name: &str, live: u64) -> Result<Decision, Failure> {
    let mut controller = controller(name)?;
    let mut out: Vec<Output> = Vec::new();
    let mut now = Time::ZERO;
    for host in 0..HOSTS {
        let (peer, identity) = (ChannelId(u64::from(host)), format!("h{host}"));
        let hosts = vec![Host { name: identity.clone(), addresses: vec![address(host)] }];
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
        let connected = Input::AgentConnected { channel: peer, identity: &identity };
        for input in [connected, Input::Reported(peer, &hello)] {
            controller.step(now, input, &mut out).map_err(Failure::failed)?;
        }
    }
    let applications: Vec<String> = (0..APPLICATIONS).map(|n| format!("application-{n}")).collect();
    let is_stream = policy::find(name).is_ok_and(|policy| policy.needs(Need::StreamSamples));
    let declare = |controller: &mut Controller,
                   now,
                   application: u64,
                   declaration: &Declaration,
                   out: &mut Vec<Output>| {
        let application = applications[usize::try_from(application).unwrap_or(0)].as_str();
        controller.step(now, Input::Declared { application, declaration }, out)
    };
    let request = |number: u64| Declaration::FlowRequest {
        job: format!("job-{}", number / APPLICATIONS % 10),
        flow: number.to_string(),
        connection: connection(number),
        processes: Processes::default(),
        bytes: (!is_stream).then(|| Bytes::new(number * 7919 % 1_000_000_000)),
    };
    for application in 0..APPLICATIONS {
        for job in 0..10 {
            let declaration = Declaration::JobStart { job: format!("job-{job}") };
            declare(&mut controller, now, application, &declaration, &mut out)
                .map_err(Failure::failed)?;
        }
    }
    let mut open = VecDeque::new();
    let mut next = 0;
    while next < live {
        now += Span::from_micros(100);
        out.clear();
        declare(&mut controller, now, next % APPLICATIONS, &request(next), &mut out)
            .map_err(Failure::failed)?;
        if is_stream {
            let samples = vec![StreamReport {
                flow: next.to_string(),
                delivered_bytes: Bytes::ZERO,
                sender_queue_bytes: Bytes::new(1_000_000),
                receiver_queue_bytes: Bytes::ZERO,
            }];
            let job = format!("job-{}", next / APPLICATIONS % 10);
            let declaration = Declaration::Streams { job, samples };
            declare(&mut controller, now, next % APPLICATIONS, &declaration, &mut out)
                .map_err(Failure::failed)?;
        }
        open.push_back(next);
        next += 1;
    }
    let applications = applications.clone();
    Ok(Box::new(move || {
        let declaration = Declaration::FlowRequest {
            job: format!("job-{}", next / APPLICATIONS % 10),
            flow: next.to_string(),
            connection: connection(next),
            processes: Processes::default(),
            bytes: (!is_stream).then(|| Bytes::new(next * 7919 % 1_000_000_000)),
        };
        now += Span::from_micros(100);
        out.clear();
        let application = applications[usize::try_from(next % APPLICATIONS).unwrap_or(0)].as_str();
        let input = Input::Declared { application, declaration: &declaration };
        let took = timed_us(|| {
            let _ = black_box(controller.step(now, input, &mut out));
        });
        open.push_back(next);
        next += 1;
        if let Some(old) = open.pop_front() {
            let job = format!("job-{}", old / APPLICATIONS % 10);
            let declaration = Declaration::FlowComplete { job, flow: old.to_string() };
            let application =
                applications[usize::try_from(old % APPLICATIONS).unwrap_or(0)].as_str();
            let input = Input::Declared { application, declaration: &declaration };
            let _ = controller.step(now, input, &mut out);
        }
        while controller.deadline().is_some_and(|at| at <= now) {
            let _ = controller.step(now, Input::Tick, &mut out);
        }
        took
    }))
}

/// Packets in one round: many, so that the clock's own cost is none.
pub(super) const PACKETS: usize = 1000;

/// A switch sends up 1000 packets to a host that no entry knew a way to: each is read, its sender is
/// noted, and it is sent on by a Packet-Out. What cbench asks of a controller.
pub(super) fn packets() -> Result<Decision, Failure> {
    let policy = policy::by_name("tcp", &Parameters::default()).map_err(Failure::failed)?;
    let mut config = Config::new("tcp", policy);
    let mut topology = model::Topology::new();
    let node = topology.add_node("s0".into(), NodeKind::Switch).map_err(Failure::failed)?;
    let spec = config.discovered;
    for host in 0..100 {
        let end = topology.add_node(format!("h{host}"), NodeKind::Host).map_err(Failure::failed)?;
        let port = control::PortConfig {
            link: model::LinkId(host * 2),
            port: Some(host + 1),
            interface: String::new(),
        };
        topology.connect(node, end, spec, spec).map_err(Failure::failed)?;
        config.ports.push(port);
        let (addresses, ethernet) = (vec![address(host)], vec![mac(host)]);
        config.hosts.push(HostConfig { node: end, addresses, ethernet });
    }
    config.topology = topology;
    config.switches.push(SwitchConfig { node, datapath_id: 1, windows: false });
    config.limits.packets_per_second = u32::MAX;
    let mut controller = Controller::new(config, 1, Time::ZERO).map_err(Failure::failed)?;
    connect(&mut controller);
    let mut burst = Vec::new();
    for number in (0..).take(PACKETS) {
        let (from, to) = (number % 100, (number * 7 + 1) % 100);
        let fields = [Field::exact(Kind::InPort, from + 1).into()];
        let data = frame(from, if from == to { to + 1 } else { to });
        let packet = PacketIn {
            buffer: BufferId::NONE,
            total_len: 60,
            reason: PacketInReason::NO_MATCH,
            table: TableId(1),
            cookie: 0,
            fields: List::of(&fields),
            data: &data,
        };
        Message::PacketIn(packet).encode(0, &mut burst).map_err(Failure::failed)?;
    }
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    Ok(Box::new(move || {
        now += Span::from_millis(1);
        out.clear();
        let before = controller.counters();
        let took = timed_us(|| {
            let input = Input::SwitchBytes(ChannelId(1), &burst);
            let _ = black_box(controller.step(now, input, &mut out));
        });
        let after = controller.counters();
        assert_eq!(after.packets_in - before.packets_in, PACKETS as u64, "every packet was heard");
        took
    }))
}

fn mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = host.to_be_bytes();
    [2, 1, a, b, c, d]
}

/// A UDP packet, 60 octets with its Ethernet header.
fn frame(from: u32, to: u32) -> Vec<u8> {
    let mut frame = [mac(to), mac(from)].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    for host in [from, to] {
        let IpAddr::V4(address) = address(host) else { continue };
        frame.extend(address.octets());
    }
    frame.resize(60, 0);
    frame
}

/// Brings the session of a model switch up and has it answer until all is said.
fn connect(controller: &mut Controller) {
    let mut switch = Switch::new(1, 2);
    for number in 1..=100 {
        let port = Port::up(number, mac(number));
        switch.set_port(Time::ZERO, port, &mut Answers::default());
    }
    let mut session = Session::new(openflow::Config::new(Side::Switch), Time::ZERO);
    let mut out = Vec::new();
    let connected = Input::SwitchConnected { channel: ChannelId(1), identity: None };
    let _ = controller.step(Time::ZERO, connected, &mut out);
    loop {
        let mut answers = Answers::default();
        for output in out.drain(..) {
            if let Output::Switch(_, bytes) = output {
                session.receive(Time::ZERO, &bytes);
                while let Some(event) = session.poll(Time::ZERO) {
                    if let Event::Message { xid, message } = event {
                        switch.handle(Time::ZERO, xid, &message, &mut answers);
                    }
                }
            }
        }
        let mut bytes = session.output().to_vec();
        session.sent(bytes.len());
        bytes.extend(answers.messages.concat());
        if bytes.is_empty() {
            return;
        }
        let _ = controller.step(Time::ZERO, Input::SwitchBytes(ChannelId(1), &bytes), &mut out);
    }
}
