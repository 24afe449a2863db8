//! Windows that are prepared at OpenFlow switches: each changes among them by itself.

use std::collections::BTreeMap;

use model::Severity;
use openflow::sdtcp::PrepareWindow;
use openflow::switch::Output as Answers;
use openflow::{Action, FlowSelect, Instruction, Kind, Message, PortNo, Reply, Request};
use protocol::agent::{Capability, Host, Report};
use units::{Bytes, Span, Time};

use crate::in_memory::{Rig, SECOND, Shape, connection, segment};
use crate::switches::accept;
use watermaster_control::{ChannelId, Input, LEASE};

const NONE: u32 = PrepareWindow::NONE;

/// Two racks of switches that know the action, under `sdtcp` with prepared windows; whoever has sent anything counts
/// as a background flow. Without probes nobody knows by which ports the switches are connected.
fn rig(probed: bool) -> Rig {
    let parameters = policy::Parameters::default()
        .with("windows", "prepared")
        .with("background_size", Bytes::ZERO)
        .with("background_age", Span::ZERO);
    let shape = Shape::racks(3);
    let sdtcp = policy::by_name("sdtcp", &parameters).unwrap();
    let mut config = shape.config("sdtcp", sdtcp, true);
    if !probed {
        config.ports[..2].iter_mut().for_each(|cable| cable.port = None);
    }
    let mut rig = Rig::new(&shape, config, 1);
    rig.unprobed = !probed;
    (0..2).for_each(|switch| rig.connect(switch));
    rig
}

/// The entries of a switch that prepare windows.
fn prepared(rig: &Rig, switch: u32) -> BTreeMap<u128, PrepareWindow> {
    acting(rig, switch, |action| match action {
        Action::PrepareWindow(caps) => Some(caps),
        _ => None,
    })
}

/// What entries of a switch do, by the port that their connection comes from. All of them end by themselves.
pub fn acting<T>(
    rig: &Rig,
    switch: u32,
    does: impl Fn(Action<'_>) -> Option<T>,
) -> BTreeMap<u128, T> {
    let mut switch = rig.switch(switch).clone();
    let mut answers = Answers::default();
    let request = Message::MultipartRequest { more: false, body: Request::Flow(FlowSelect::ALL) };
    switch.handle(Time::ZERO, 1, &request, &mut answers);
    let mut found = BTreeMap::new();
    for bytes in &answers.messages {
        let (_, message) = Message::decode(bytes).unwrap();
        let Message::MultipartReply { body: Reply::Flow(entries), .. } = message else { panic!() };
        for entry in entries.iter() {
            for instruction in entry.instructions.iter() {
                let Instruction::ApplyActions(actions) = instruction else { continue };
                for action in actions.iter() {
                    let Some(what) = does(action) else { continue };
                    assert!(entry.hard_timeout_s > 0);
                    found.insert(entry.fields.field(Kind::TcpDst).unwrap().value, what);
                }
            }
        }
    }
    found
}

/// The window of a wide acknowledgement of a connection when it has come back to the first host.
fn returned(rig: &mut Rig, port: u16) -> u16 {
    let mut wide = segment(3, 0, 5000, 16, 0);
    wide[36..38].copy_from_slice(&port.to_be_bytes());
    wide[48..50].copy_from_slice(&[0xff; 2]);
    rig.send(3, wide);
    let (host, frame) = rig.delivered.last().unwrap();
    assert_eq!(*host, 0);
    u16::from_be_bytes([frame[48], frame[49]])
}

#[test]
fn a_switch_is_told_what_applies_at_each_severity_and_changes_by_itself() {
    let mut rig = rig(true);
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1002), None).unwrap();
    for port in 1000..1004 {
        rig.send(0, segment(0, 3, port, 2, 0));
        accept(&mut rig, port);
    }
    // Nothing more waits for a scale.
    let waited = rig.controller.counters().directives_unenforced;
    // 3.3 of the text: the switch counts what connections have carried.
    rig.send(0, segment(0, 3, 1000, 16, 1400));
    rig.pass(SECOND * 2);
    let at = |port, window_bytes| PrepareWindow { port: PortNo(port), window_bytes, shift: 0 };
    // Equations 2 to 8 for four flows, one of them background: in a round trip of 60 µs and three segments the link
    // carries 5130 B; two thirds and a half of the quarter of that and 30 and 60 full packets, and with 85 of them a
    // third of what is left beside a segment.
    let (background, burst) = ([NONE, 8354, 11_891, 1460], [NONE, NONE, NONE, 43_723]);
    for (switch, port) in [(0, 1), (1, 2)] {
        let expected = [(1000, background), (1001, burst), (1002, burst), (1003, burst)];
        let expected = expected.map(|(of, windows)| (of, at(port, windows)));
        assert_eq!(prepared(&rig, switch), expected.into(), "s{switch}");
    }
    assert_eq!(rig.controller.counters().directives_unenforced, waited);
    let by = rig.why("app", "job", 1).by;
    assert!(by.starts_with("prepared windows (") && !by.contains("nobody"), "{by}");
    // Nobody hears what the switch has to say, and its windows are those of the severity all the same.
    let heard = rig.controller.counters();
    for (severity, windows) in [
        (Severity::Low, [8354, u16::MAX]),
        (Severity::Medium, [11_891, u16::MAX]),
        (Severity::High, [1460, 43_723]),
        (Severity::Recovered, [u16::MAX; 2]),
    ] {
        assert!(!rig.congest(0, severity, 1).is_empty());
        assert_eq!([1000, 1001].map(|port| returned(&mut rig, port)), windows, "{severity}");
    }
    assert_eq!(rig.controller.counters(), heard);
    // They are renewed, and end with their flows.
    rig.pass(LEASE * 2);
    assert_eq!(prepared(&rig, 0).len(), 4);
    rig.send(0, segment(0, 3, 1001, 17, 0));
    assert_eq!(prepared(&rig, 0).into_keys().collect::<Vec<_>>(), [1000, 1002, 1003]);
}

/// A switch that caps windows may not know how to change between prepared ones.
#[test]
fn prepared_windows_that_a_switch_refuses_are_not_enforced() {
    let mut rig = rig(true);
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.uncapping = true;
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    let by = rig.why("app", "job", 1).by;
    assert!(by.starts_with("nobody (prepared windows (") && by.contains("s0: the exp"), "{by}");
    rig.uncapping = false;
    rig.pass(LEASE);
    let by = rig.why("app", "job", 1).by;
    assert!(by.starts_with("prepared windows (") && !by.contains("nobody"), "{by}");
}

/// Also for a connection whose scale is seen after the windows were prepared.
#[test]
fn a_switch_whose_agent_caps_windows_is_given_none() {
    let mut rig = rig(true);
    let channel = connect(&mut rig);
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    let at_switches = |rig: &Rig| [0, 1].map(|switch| prepared(rig, switch).len());
    assert_eq!(at_switches(&rig), [0, 1]);
    // Once it is gone the switch caps, and no more when it is back.
    rig.input(Input::AgentGone(channel)).unwrap();
    rig.agents.remove(&channel);
    rig.pass(SECOND);
    assert_eq!(at_switches(&rig), [1, 1]);
    connect(&mut rig);
    rig.pass(SECOND);
    assert_eq!(at_switches(&rig), [0, 1]);
}

/// The agent of the first switch.
fn connect(rig: &mut Rig) -> ChannelId {
    let channel = rig.peer();
    rig.agents.insert(channel, crate::in_memory::Host::default());
    rig.input(Input::AgentConnected { channel, identity: "s0" }).unwrap();
    let hosts = vec![Host { name: "s0".into(), addresses: Vec::new() }];
    let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 1 };
    rig.input(Input::Reported(channel, &hello)).unwrap();
    channel
}

/// It is found by probes, and needed to say whose queue counts.
#[test]
fn prepared_windows_wait_for_the_port_of_their_link() {
    let mut rig = rig(false);
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    assert!(prepared(&rig, 0).is_empty());
    rig.send(0, segment(0, 3, 1001, 2, 0));
    accept(&mut rig, 1001);
    let before = rig.controller.counters().directives_unenforced;
    // What is left is divided anew at both switches.
    rig.send(0, segment(0, 3, 1001, 17, 0));
    assert_eq!(rig.controller.counters().directives_unenforced, before + 1);
    let by = rig.why("app", "job", 1).by;
    assert!(by.contains("at s0: the port of s0 -> s1 is not known"), "{by}");
    rig.unprobed = false;
    rig.pass(SECOND * 2);
    assert_eq!(prepared(&rig, 0)[&1000].port, PortNo(1));
    let by = rig.why("app", "job", 1).by;
    assert!(by.starts_with("prepared windows (") && !by.contains("nobody"), "{by}");
}
