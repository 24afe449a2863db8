//! The same with an OpenFlow switch instead of an agent beside it: it copies SYN and FIN, counts, tells of its queue and
//! of its ports, caps windows, and holds rates by meters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use control::Output;
use control::record::Record;
use model::{Declared, Directive, FlowId, LinkId, Measured, Observation, Severity};
use openflow::sdtcp::Notice;
use openflow::{
    Action, Instruction, Message, MeterCommand, Port, PortNo, Request, TableId, tcp_flags,
};
use policy::Descriptor;
use protocol::Connection;
use serde_json::Value;
use testing::openflow::port;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use units::Bytes;
use wire::client::{Address, connect};

use super::{
    Load, Passed, QUEUE, again, begin, cases, connection, count, end, enough, fresh, heard, held,
    replayed,
};
use crate::daemon::{Agent, Daemon, PATIENCE, config};
use crate::switch::{End, Event, play, segment};

/// Where the hosts are at the switch; the queue before the last one fills.
const PORTS: [u32; 3] = [1, 2, 3];
const FULL: u32 = 3;

/// A host of the test, and a port of it.
fn at(address: SocketAddr) -> End {
    let SocketAddr::V4(address) = address else { panic!("{address} is not of IPv4") };
    let octets = address.ip().octets();
    ([2, 0, 0, 0, 0, octets[3]], octets, address.port())
}

/// The first host asks who the last one is.
fn question() -> Vec<u8> {
    let own = [2, 0, 0, 0, 0, 1];
    let mut frame = vec![0xff; 6];
    frame.extend(own);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(own);
    frame.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 3]);
    frame.resize(60, 0);
    frame
}

/// A switch in session.
struct Model {
    events: UnboundedSender<Event>,
    /// How often it was asked what it has counted.
    asked: Arc<AtomicU64>,
    notices: u64,
}

impl Model {
    /// One that is connected and set up.
    async fn start(daemon: &Daemon) -> Self {
        let address = Address::Tcp(daemon.openflow.clone().unwrap());
        let stream = connect(&address, None).await.unwrap();
        let (events, coming) = unbounded_channel();
        let asked = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&asked);
        let see = move |message: &Message<'_>| {
            // What earlier controllers left is asked for in all tables.
            let is_asked = matches!(message, Message::MultipartRequest { body: Request::Flow(of), .. }
                if of.table == TableId(0));
            counted.fetch_add(u64::from(is_asked), Ordering::Relaxed);
        };
        tokio::spawn(play(stream, coming, see));
        daemon.until("/v1/status", |status| status["switches"][0]["settled"] == true).await;
        Self { events, asked, notices: 0 }
    }

    fn meets(&self, event: Event) {
        assert!(self.events.send(event).is_ok(), "the switch is gone");
    }

    /// A segment of a flow comes in where its sender is, or its receiver.
    fn carries(&self, flow: u64, flags: u16, octets: u16) {
        let there = connection(flow);
        let back = Connection { source: there.destination, destination: there.source };
        let is_answer = flags & tcp_flags::SYN != 0 && flags & tcp_flags::ACK != 0;
        let (of, port) = if is_answer {
            (back, FULL)
        } else {
            (there, PORTS[usize::try_from(flow % 2).unwrap()])
        };
        let frame = segment(at(of.source), at(of.destination), flags, 7, octets);
        self.meets(Event::Frame(port, frame));
    }

    fn congested(&mut self, severity: Severity, queue: Bytes) {
        let queue_bytes = u32::try_from(queue.get()).unwrap();
        self.meets(Event::Notice(Notice { severity, port: PortNo(FULL), queue_bytes }));
        self.notices += 1;
    }

    /// Waits until all is taken in that the switch has told; what it said last was a notice.
    async fn heard(&self, daemon: &Daemon) {
        let heard =
            |status: &Value| link(status, "s0", "h2")["congested"]["notices"] == self.notices;
        daemon.until("/v1/status", heard).await;
    }
}

/// A link in the status.
fn link<'a>(status: &'a Value, from: &str, to: &str) -> &'a Value {
    let mut links = status["links"].as_array().unwrap().iter();
    links.find(|link| link["from"] == from && link["to"] == to).unwrap()
}

/// As with an agent at the switch. The sixth flow, which nobody declares, no agent samples: the switch counts it.
async fn recording(policy: &Descriptor, parameters: &str) -> (Vec<Record>, Daemon) {
    let name = policy.name;
    let of = |name: &str, parameters: &str| {
        let port = |(host, number): (usize, &u32)| {
            format!("[[port]]\nfrom = \"s0\"\nto = \"h{host}\"\nnumber = {number}\n")
        };
        let ports: String = PORTS.iter().enumerate().map(port).collect();
        config(&format!(
            "windows = true\n{ports}[control]\nenforcement = \"meters\"\n\
             [limits]\nreports_per_second = 1000000\n[recorder]\ndirectory = \"records\"\n\
             [policy]\nname = \"{name}\"\n{parameters}"
        ))
    };
    let mut daemon = Daemon::start(&of(name, parameters));
    let hosts = [("h0", "10.0.0.1"), ("h1", "10.0.0.2"), ("h2", "10.0.0.3")];
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &hosts, 0).await;
    let mut model = Model::start(&daemon).await;
    let mut client = daemon.client().await;
    begin(&mut client).await;
    for flow in 1..=6 {
        model.carries(flow, tcp_flags::SYN, 0);
        model.carries(flow, tcp_flags::SYN | tcp_flags::ACK, 0);
    }
    let counts = counts(policy);
    let start = Instant::now();
    let (mut decided, mut rounds, mut before) = (0, 0, 0);
    for round in 1_u64.. {
        rounds = round;
        assert!(start.elapsed() < PATIENCE, "{name} never decides: {decided}");
        // What it has answered before is taken in at the end of the round; since the first the sixth flow has carried
        // something.
        let asked = model.asked.load(Ordering::Relaxed);
        if round == 2 {
            before = asked;
        }
        let load = Load::since(start);
        agent.say(&load.sampled(1..=5)).await;
        model.meets(Event::Frame(PORTS[0], question()));
        model.carries(6, tcp_flags::ACK, 1_400);
        for severity in [Severity::Low, Severity::Medium, Severity::High] {
            model.congested(severity, QUEUE);
        }
        load.declared(&mut client, round).await;
        model.heard(&daemon).await;
        decided = count(&heard(&daemon, &mut agent, round).await, "directives");
        let is_enough = decided > 0 || enough(policy, parameters) == 0;
        if round >= 3 && is_enough && (asked > before || !counts) {
            break;
        }
    }
    model.carries(6, tcp_flags::FIN, 0);
    model.congested(Severity::Recovered, Bytes::ZERO);
    model.heard(&daemon).await;
    // A cable is pulled and put back.
    for (state, up) in [(1, false), (0, true)] {
        model.meets(Event::Port(Port { state, ..port(PORTS[0]) }));
        daemon.until("/v1/status", |status| link(status, "h0", "s0")["up"] == up).await;
    }
    heard(&daemon, &mut agent, rounds + 1).await;
    let records = end(&mut daemon, &mut client, name, of).await;
    (records, daemon)
}

/// Whether switches are asked for a policy what connections have carried.
fn counts(policy: &Descriptor) -> bool {
    let built = policy.build(&policy::Parameters::default()).ok();
    built.and_then(|built| built.watch()).is_some_and(|watch| watch.statistics.is_some())
}

/// What the switch was told.
#[derive(Default)]
struct Told {
    meters: bool,
    caps: bool,
    prepares: bool,
}

impl Told {
    fn take_in(&mut self, mut bytes: &[u8]) {
        while let [_, _, high, low, ..] = bytes {
            let (message, rest) = bytes.split_at(u16::from_be_bytes([*high, *low]).into());
            bytes = rest;
            match Message::decode(message).unwrap().1 {
                Message::MeterMod(change) => self.meters |= change.command == MeterCommand::ADD,
                Message::FlowMod(change) => {
                    for instruction in change.instructions.iter() {
                        let Instruction::ApplyActions(actions) = instruction else { continue };
                        for action in actions.iter() {
                            self.caps |= matches!(action, Action::CapWindow(_));
                            self.prepares |= matches!(action, Action::PrepareWindow(_));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn with_a_switch_in_session_they_decide_the_same() {
    for (policy, parameters) in cases() {
        let name = policy.name;
        // Where one fails below, what the daemon wrote is kept.
        let (records, _daemon) = recording(policy, parameters).await;
        let mut told = Told::default();
        let seams = replayed(name, again(&records), |output| {
            if let Output::Switch(_, bytes) = output {
                told.take_in(bytes);
            }
        });
        let (configuration, seam) = held(name, &seams);
        let Passed { observed, left } = Passed::expected(&seam.steps);
        eprintln!("{name}: {} steps, {} directives", seam.steps.len(), left.len());
        let is_passive = enough(policy, parameters) == 0;
        assert_eq!(left.is_empty(), is_passive, "{name}");
        // What the switch said is what the policy heard.
        let measured = observed.iter().filter_map(|(_, observation)| match observation {
            Observation::Measured(measured) => Some(measured),
            Observation::Declared(_) | Observation::Tick => None,
        });
        let notices: Vec<_> = measured
            .clone()
            .filter_map(|measured| match measured {
                Measured::Congested { severity, queue, .. } => Some((*severity, *queue)),
                _ => None,
            })
            .collect();
        let said = [Severity::Low, Severity::Medium, Severity::High].map(|level| (level, QUEUE));
        let (recovered, notices) = notices.split_last().unwrap();
        assert_eq!(*recovered, (Severity::Recovered, Bytes::ZERO), "{name}");
        assert!(notices.len() >= 9 && notices.chunks(3).all(|three| three == said), "{name}");
        let states: Vec<_> = measured
            .clone()
            .filter_map(|measured| match measured {
                Measured::LinkState { up, .. } => Some(*up),
                _ => None,
            })
            .collect();
        assert_eq!(states, [false, false, true, true], "{name}: both ways of a cable");
        let is_closed = measured.clone().any(|said| matches!(said, Measured::Closed { .. }));
        assert!(is_closed || fresh(configuration).watch().is_none(), "{name}: no FIN");
        let is_declared = |flow: &FlowId| {
            observed.iter().any(|(_, observation)| {
                matches!(observation, Observation::Declared(Declared::FlowRequest { flow: known, .. })
                    if known == flow)
            })
        };
        let is_counted = measured.clone().any(|measured| {
            matches!(measured, Measured::Carried { flows }
                if flows.iter().any(|(flow, _)| !is_declared(flow)))
        });
        assert_eq!(is_counted, counts(policy), "{name}: counters of connections");
        // What the policy wants of the switch, the switch is told.
        let topology = seam.steps[0].0.topology();
        let begins = |link: LinkId| topology.node_named("s0") == Some(topology.link(link).from);
        for (_, directive) in &left {
            let is_told = match directive {
                Directive::Pace { limit: Some(_), .. } | Directive::PacePair { .. } => told.meters,
                Directive::Window { link, cap: Some(_), .. } if begins(*link) => told.caps,
                Directive::Prepare { link, caps, .. }
                    if begins(*link) && caps.constant().is_none() =>
                {
                    told.prepares
                }
                _ => true,
            };
            assert!(is_told, "{name}: {directive:?}");
        }
    }
}
