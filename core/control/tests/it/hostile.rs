//! Peers that mean harm. The nine advisories against Ryu's parsers (faucetsdn/ryu issues 188 to 196)
//! are lengths of zero on which a loop made no progress: each message is sent to the controller here,
//! by a switch whose session is up. And no bytes, reports or declarations in any order make it panic.

use crate::in_memory::{Rig, SECOND, Shape, address, connection};
use model::{Cap, Caps, Severity};
use proptest::prelude::*;
use protocol::agent::{Capability, Command, EndedConnection, Host, PortCount, Report};
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, ChannelId, Controller, Input, Output, Tenant};

fn message(kind: u8, xid: u8, body: &str) -> Vec<u8> {
    let digits: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let hex = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let body: Vec<u8> = digits.chunks(2).map(hex).collect();
    let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
    let mut message = vec![4, kind, length[0], length[1], 0, 0, 0, xid];
    message.extend(body);
    message
}

/// A switch that answers whatever it is asked by its ports.
#[test]
fn ports_that_were_not_asked_for_begin_nothing_anew() {
    let shape = Shape::racks(1);
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    let mut rig = Rig::new(&shape, shape.config("smsf", policy, true), 1);
    let peer = rig.peer();
    let (mut out, mut asked) = (Vec::new(), 0);
    let mut answers = vec![message(0, 0, "")];
    let connected = Input::SwitchConnected { channel: peer, identity: None };
    rig.controller.step(rig.now, connected, &mut out).unwrap();
    for _ in 0..50 {
        for answer in answers.drain(..) {
            let bytes = Input::SwitchBytes(peer, &answer);
            rig.controller.step(rig.now, bytes, &mut out).unwrap();
        }
        for output in out.drain(..) {
            let Output::Switch(_, bytes) = output else { panic!("{output:?}") };
            let mut rest = &bytes[..];
            while let [_, kind, high, low, _, _, _, xid, ..] = *rest {
                match kind {
                    5 => answers.push(message(
                        6,
                        xid,
                        "00000000000000aa 00000000 ff 00 0000 0000004f 00000000",
                    )),
                    18 => answers.push(message(19, xid, "000d 0000 00000000")),
                    _ => {}
                }
                asked += u32::from(kind == 18);
                rest = &rest[usize::from(u16::from_be_bytes([high, low]))..];
            }
        }
    }
    assert!((2..10).contains(&asked), "{asked}");
}

#[test]
fn messages_of_published_attacks_are_survived() {
    const MATCH_ALL: &str = "0001 0004 00000000";
    const FLOW_MOD: &str = "0000000000000000 0000000000000000 00 00 0000 0000 8000 ffffffff ffffffff ffffffff 0000 0000";
    const MULTIPART: &str = "0000 00000000";
    let zeros = |count: usize| "00".repeat(count);
    let attacks = [
        (14, format!("{FLOW_MOD} {MATCH_ALL} 0001 0000 00000000")),
        (14, format!("{FLOW_MOD} {MATCH_ALL} 0004 0018 00000000 0000 0000 fffffffd ffff 000000000000")),
        (23, "0000000a 00000000 00000001 0000000a 0020 000000000000 0001 0000 00000000 0001 000000000000".into()),
        (19, format!("0001 {MULTIPART} 0000 00 00 {} {MATCH_ALL}", zeros(44))),
        (19, format!("0001 {MULTIPART} 0040 00 00 {} {MATCH_ALL} 0004 0000 00000000", zeros(44))),
        (19, format!("0007 {MULTIPART} 0028 00 00 00000000 0000 0001 ffffffff ffffffff 00000000 0000 0010 00000001 ffe5 000000000000")),
        (19, format!("0007 {MULTIPART} 0028 00 00 00000000 0020 0001 ffffffff ffffffff 00000000 0019 0000 80000806 0000000000000000")),
        (0, "0001 0000 00000010".into()),
        (19, format!("000c {MULTIPART} 0048 01 0000000000 {} 0000 0000 00000001", zeros(56))),
    ];
    let shape = Shape::racks(1);
    let policy = policy::by_name("sdtcp", &policy::Parameters::default()).unwrap();
    let mut rig = Rig::new(&shape, shape.config("sdtcp", policy, true), 1);
    let peer = rig.plug(0);
    for (kind, body) in &attacks {
        // As a message of its own, and as an answer to whatever may be open.
        for xid in 0..=40 {
            let bytes = message(*kind, xid, body);
            rig.input(Input::SwitchBytes(peer, &bytes)).unwrap();
        }
    }
    let status = rig.controller.at(rig.now).status();
    assert!(status.switches[0].connected, "the session goes on: {:?}", rig.closed);
    // A second hello says nothing; the rest is counted.
    assert_eq!(rig.controller.counters().malformed, 8 * 41);
    // A header shorter than a header ends the session.
    rig.input(Input::SwitchBytes(peer, &[4, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(rig.closed, ["the peer sent a message shorter than its header"]);
}

/// A text of at most 20 octets, or none.
fn name(flow: u64) -> String {
    if flow == 3 { String::new() } else { flow.to_string() }
}

fn process() -> impl Strategy<Value = Process> {
    let path = prop_oneof![Just("/a"), Just("/a/b"), Just("..")];
    let group = path.prop_map(|path| Process::Cgroup(path.into()));
    let pod = prop_oneof![Just("a/b"), Just("a/\u{1b}")].prop_map(|pod| Process::Pod(pod.into()));
    prop_oneof![(0_u32..3).prop_map(Process::Pid), group, pod]
}

fn processes() -> impl Strategy<Value = Processes> {
    let end = || prop::option::of(process());
    (end(), end()).prop_map(|(source, destination)| Processes { source, destination })
}

/// Some without one port or both.
fn packets() -> impl Strategy<Value = Connection> {
    (0_u32..7, 0_u32..7, 0_u16..2, any::<bool>()).prop_map(|(from, to, port, known)| {
        let mut packets = connection(from, to, port);
        if !known {
            packets.destination.set_port(0);
        }
        packets
    })
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let job = || prop_oneof![Just(String::from("a")), Just(String::from("b")), Just(String::new())];
    let number = || prop_oneof![0_u64..4, Just(u64::MAX)];
    let task = || prop_oneof![0_u32..4, Just(u32::MAX)];
    let amount = || number().prop_map(Bytes::new);
    prop_oneof![
        job().prop_map(|job| Declaration::JobStart { job }),
        (job(), prop::option::of(job()), prop::option::of(number()), prop::option::of(task()))
            .prop_map(|(job, objective, deadline_ms, weight)| {
                Declaration::JobTerms { job, objective, deadline_ms, weight }
            }),
        job().prop_map(|job| Declaration::JobComplete { job }),
        (job(), task(), 0_u32..9).prop_map(|(job, task, host)| {
            Declaration::TaskHost { job, task, host: format!("h{host}") }
        }),
        (job(), task(), prop::collection::vec((task(), amount()), 0..4)).prop_map(
            |(job, map, list)| {
                let reduces =
                    list.into_iter().map(|(task, bytes)| Portion { task, bytes }).collect();
                Declaration::Size { job, map, reduces }
            }
        ),
        (job(), number(), packets(), processes(), prop::option::of(amount())).prop_map(
            |(job, flow, connection, processes, bytes)| {
                Declaration::FlowRequest { job, flow: name(flow), connection, processes, bytes }
            }
        ),
        (job(), number())
            .prop_map(|(job, flow)| Declaration::FlowComplete { job, flow: name(flow) }),
        (job(), prop::collection::vec((number(), amount(), amount()), 0..3)).prop_map(
            |(job, list)| {
                let samples =
                    list.into_iter().map(|(flow, delivered_bytes, sender_queue_bytes)| {
                        StreamReport {
                            flow: name(flow),
                            delivered_bytes,
                            sender_queue_bytes,
                            receiver_queue_bytes: Bytes::MAX,
                        }
                    });
                Declaration::Streams { job, samples: samples.collect() }
            }
        ),
    ]
}

fn epoch() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..3, any::<u64>()]
}

/// A command that an agent may name in its answer; it need not have been told so.
fn command() -> impl Strategy<Value = Command> {
    let pace = |(connection, rate): (Connection, Option<u64>)| Command::Pace {
        connection,
        rate_bps: rate.map(Rate::from_bps),
    };
    let port = || (0_u32..3).prop_map(|port| (String::from("s0"), format!("p{port}")));
    let cap = (any::<u64>(), 0_u32..3)
        .prop_map(|(bytes, floor_segments)| Cap { bytes: Bytes::new(bytes), floor_segments });
    let caps = prop::array::uniform4(prop::option::of(cap))
        .prop_map(|[recovered, low, medium, high]| Caps { recovered, low, medium, high });
    prop_oneof![
        (packets(), prop::option::of(any::<u64>())).prop_map(pace),
        (packets(), any::<u8>())
            .prop_map(|(connection, priority)| Command::Prioritize { connection, priority }),
        (port(), prop::option::of(packets())).prop_map(|((node, interface), connection)| {
            Command::Window { node, interface, connection, cap: None }
        }),
        (port(), prop::option::of(packets()), caps).prop_map(
            |((node, interface), connection, caps)| {
                Command::Prepare { node, interface, connection, caps }
            }
        ),
        port().prop_map(|(node, interface)| Command::Space { node, interface, gap_ns: None }),
        port().prop_map(|(node, interface)| Command::Watch { node, interface, watch: None }),
        any::<u64>().prop_map(|every| Command::Sample { every_ns: Span::from_nanos(every) }),
        any::<u64>().prop_map(|every| Command::Count { every_ns: Span::from_nanos(every) }),
        prop::collection::vec(process(), 0..3)
            .prop_map(|processes| Command::Identify { processes }),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    let capabilities =
        prop::sample::subsequence(Capability::ALL.to_vec(), 0..=Capability::ALL.len());
    prop_oneof![
        (prop::collection::vec(0_u32..9, 0..3), capabilities, epoch()).prop_map(
            |(hosts, capabilities, epoch)| Report::Hello {
                hosts: hosts
                    .into_iter()
                    .map(|host| Host { name: format!("h{host}"), addresses: vec![address(host)] })
                    .collect(),
                capabilities,
                epoch,
            }
        ),
        (
            any::<u64>(),
            prop::collection::vec(
                (packets(), any::<u64>(), any::<u64>(), prop::collection::vec(process(), 0..3)),
                0..3
            ),
        )
            .prop_map(|(sampled, list)| {
                let connections =
                    list.into_iter().map(|(connection, delivered, unsent, processes)| {
                        protocol::agent::ConnectionReport {
                            connection,
                            delivered_bytes: Bytes::new(delivered),
                            unsent_bytes: Bytes::new(unsent),
                            in_flight_bytes: Bytes::MAX,
                            rtt_ns: Span::MAX,
                            processes,
                        }
                    });
                Report::Connections {
                    sampled_ns: Time::from_nanos(sampled),
                    connections: connections.collect(),
                }
            }),
        packets().prop_map(|connection| Report::Opened { connection }),
        packets().prop_map(|connection| Report::Closed { connection }),
        (0_u32..9, prop::sample::select(Severity::ALL.to_vec())).prop_map(|(port, severity)| {
            Report::Congested {
                node: "s0".into(),
                interface: format!("p{port}"),
                severity,
                queue_bytes: Bytes::MAX,
            }
        }),
        prop::collection::vec((0_u32..9, 0_u32..3, any::<u64>()), 0..4).prop_map(|counters| {
            let ports = counters.into_iter().map(|(port, node, sent)| PortCount {
                node: format!("s{node}"),
                interface: format!("p{port}"),
                sent_bytes: Bytes::new(sent),
            });
            Report::Ports { ports: ports.collect() }
        }),
        (epoch(), number()).prop_map(|(epoch, sequence)| Report::Applied { epoch, sequence }),
        (any::<u64>(), any::<u64>()).prop_map(|(epoch, obeys)| Report::Stale { epoch, obeys }),
        Just(Report::Left {}),
        (epoch(), number(), command()).prop_map(|(epoch, sequence, command)| {
            Report::Failed { epoch, sequence, command, reason: "no".repeat(1_000) }
        }),
        (any::<u64>(), prop::collection::vec((packets(), any::<u64>()), 0..3), any::<u64>())
            .prop_map(|(sampled, list, lost)| {
                let ended = list.into_iter().map(|(connection, sent)| EndedConnection {
                    connection,
                    sent_bytes: Bytes::new(sent),
                    processes: Vec::new(),
                });
                let sampled_ns = Time::from_nanos(sampled);
                Report::Ended { sampled_ns, connections: ended.collect(), lost }
            }),
    ]
}

/// The number of commands, most often of some that were sent.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..20_u64, 1 => any::<u64>()]
}

fn order() -> impl Strategy<Value = Order> {
    let of = || prop::sample::select(vec!["app", "other", "nobody"]).prop_map(String::from);
    let host = || (0_u32..9).prop_map(|host| format!("h{host}"));
    let job = || prop::option::of(Just(String::from("a")));
    let rate =
        prop_oneof![Just(0), Just(1), Just(1_000_000), Just(u64::MAX)].prop_map(Rate::from_bps);
    let lasts = prop::option::of(prop_oneof![Just(0), 1_u64..30, Just(u64::MAX)]);
    prop_oneof![
        of().prop_map(|application| Order::Cancel { application, job: "a".into() }),
        of().prop_map(|application| Order::Evict { application }),
        of().prop_map(|application| Order::Block { application, reason: None }),
        of().prop_map(|application| Order::Unblock { application }),
        Just(Order::Freeze { reason: Some("fire".into()) }),
        Just(Order::Thaw {}),
        host().prop_map(|host| Order::Drain { host, reason: None }),
        host().prop_map(|host| Order::Undrain { host }),
        (of(), job(), rate, lasts).prop_map(|(application, job, rate_bps, lasts_s)| {
            Order::Limit { application, job, rate_bps, lasts_s, reason: None }
        }),
        (of(), job()).prop_map(|(application, job)| Order::Unlimit { application, job }),
    ]
}

const APPLICATIONS: [&str; 2] = ["app", "other"];

#[derive(Clone, Debug)]
enum Word {
    Declared(usize, Declaration),
    Ordered(Order, bool),
    Policy(&'static str),
    Reported(u64, Report),
    Agent(u64, bool),
    Bytes(Vec<u8>),
    Switch(bool),
    Unreadable,
    Here(usize),
    Gone(usize),
    Pass(u64),
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        4 => (0_usize..2, declaration()).prop_map(|(who, what)| Word::Declared(who, what)),
        1 => (order(), any::<bool>()).prop_map(|(order, again)| Word::Ordered(order, again)),
        1 => prop::sample::select(policy::NAMES.to_vec()).prop_map(Word::Policy),
        4 => (0_u64..3, report()).prop_map(|(peer, report)| Word::Reported(peer, report)),
        1 => (0_u64..3, any::<bool>()).prop_map(|(peer, on)| Word::Agent(peer, on)),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Word::Bytes),
        1 => any::<bool>().prop_map(Word::Switch),
        1 => Just(Word::Unreadable),
        1 => (0_usize..2).prop_map(Word::Here),
        1 => (0_usize..2).prop_map(Word::Gone),
        1 => (0_u64..20_000).prop_map(Word::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn anything_in_any_order_is_survived(
        name in prop::sample::select(policy::NAMES.to_vec()),
        meters: bool,
        tenants: bool,
        words in prop::collection::vec(word(), 0..60),
    ) {
        let shape = Shape::racks(3);
        let policy = policy::by_name(name, &policy::Parameters::default()).unwrap();
        let config = shape.config(name, policy, true);
        let config = if meters { crate::in_memory::metered(config) } else { config };
        let mut config = config;
        let hosts = (0..6).map(|host| format!("h{host}")).collect();
        let tenant = Tenant {
            application: "app".into(), hosts, cgroups: vec!["/a".into()], ..Tenant::default()
        };
        config.tenants.extend(tenants.then_some(tenant));
        let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let (mut now, mut out) = (Time::ZERO, Vec::new());
        for word in &words {
            out.clear();
            let act;
            let input = match word {
                Word::Declared(who, declaration) => {
                    Input::Declared { application: APPLICATIONS[*who], declaration }
                }
                Word::Ordered(order, again) => {
                    act = Act { at_s: now.as_nanos() / 1_000_000_000, by: "me".into(), order: order.clone() };
                    Input::Ordered { act: &act, again: *again }
                }
                Word::Policy(name) => {
                    let policy = policy::by_name(name, &policy::Parameters::default()).unwrap();
                    let change = Change { policy: Some(((*name).into(), policy)), ..Change::default() };
                    controller.reconfigure(now, change);
                    Input::Tick
                }
                Word::Reported(peer, report) => Input::Reported(ChannelId(*peer), report),
                Word::Agent(peer, true) => {
                    let identity = if *peer == 2 { "y" } else { "x" };
                    Input::AgentConnected { channel: ChannelId(*peer), identity }
                }
                Word::Agent(peer, false) => Input::AgentGone(ChannelId(*peer)),
                Word::Bytes(bytes) => Input::SwitchBytes(ChannelId(9), bytes),
                Word::Switch(true) => Input::SwitchConnected { channel: ChannelId(9), identity: None },
                Word::Switch(false) => Input::SwitchGone(ChannelId(9)),
                Word::Unreadable => Input::Unreadable("app"),
                Word::Here(who) => Input::ApplicationHere(APPLICATIONS[*who]),
                Word::Gone(who) => Input::ApplicationGone(APPLICATIONS[*who]),
                Word::Pass(ms) => {
                    now += Span::from_millis(*ms);
                    Input::Tick
                }
            };
            if let Err(refusal) = controller.step(now, input, &mut out) {
                prop_assert!(!refusal.field.is_empty() && !refusal.reason.is_empty());
            }
        }
        let answers = controller.at(now);
        crate::turns::assert_alike(&answers);
        // What was declared and is gone leaves nothing behind.
        for application in APPLICATIONS {
            controller.observe(now, Input::ApplicationGone(application)).unwrap();
        }
        controller.step(now + SECOND * 11, Input::Tick, &mut out).unwrap();
        prop_assert!(controller.at(now).explain_job("app", "a").is_none());
        prop_assert!(controller.at(now).status().applications.is_empty());
    }
}
