//! What the controller tells the policy of ports: how congested they are, and what they have sent.

use crate::scripted::{LINK, PORT, Rig, Scripted, config, connection, watched};
use agent::Happening;
use model::{Directives, Measured, Network, Observation, Severity};
use policy::Policy;
use protocol::agent::{Command, Host, PortCount, Report};
use units::{Bytes, Span, Time};
use watermaster_control::{ChannelId, Controller, Input, Limits};

#[test]
fn the_policy_is_told_of_a_congested_port() {
    let mut rig = Rig::new();
    assert_eq!(rig.connect(), watched());
    for (severity, bytes) in [(Severity::High, 60_000), (Severity::Recovered, 0)] {
        let queue = Bytes::new(bytes);
        let mut reports = Vec::new();
        rig.agent.hear(PORT, &Happening::Congested { severity, queue }, &mut reports);
        rig.told(Input::Reported(rig.channel, &reports[0]));
        let told = rig.policy.0.lock().unwrap().0.pop();
        assert_eq!(told, Some(Measured::Congested { link: LINK, severity, queue }.into()));
    }
}

/// Who watched a port is gone: nobody would tell that it has recovered. An agent that goes on tells how it stands.
#[test]
fn what_nobody_watches_is_not_congested() {
    let mut rig = Rig::new();
    rig.connect();
    let (severity, queue) = (Severity::High, Bytes::new(60_000));
    let high = Observation::from(Measured::Congested { link: LINK, severity, queue });
    let recovered =
        Measured::Congested { link: LINK, severity: Severity::Recovered, queue: Bytes::ZERO };
    let heard = |rig: &Rig| core::mem::take(&mut rig.policy.0.lock().unwrap().0);
    let congested = |rig: &Rig| {
        let status = rig.controller.at(rig.now).status();
        let link = status.links.into_iter().find_map(|link| link.congested).unwrap();
        (link.severity, link.queue_bytes, link.notices)
    };
    let mut reports = Vec::new();
    rig.agent.hear(PORT, &Happening::Congested { severity, queue }, &mut reports);
    rig.told(Input::Reported(rig.channel, &reports[0]));
    assert_eq!(heard(&rig), vec![high.clone()]);
    rig.told(Input::AgentGone(rig.channel));
    assert_eq!(heard(&rig), [recovered.clone().into()]);
    assert_eq!(congested(&rig), (Severity::Recovered, Bytes::ZERO, 1));
    rig.connect();
    let mut reports = Vec::new();
    rig.agent.tick(rig.now, &mut rig.kernel, &mut reports).unwrap();
    for report in reports {
        rig.told(Input::Reported(rig.channel, &report));
    }
    assert!(heard(&rig).contains(&high), "it is told again");
    // Another connection takes its place.
    let hello = rig.agent.hello(vec![Host { name: "s0".into(), addresses: vec![] }]);
    let channel = ChannelId(rig.channel.0 + 1);
    for input in
        [Input::AgentConnected { channel, identity: "left" }, Input::Reported(channel, &hello)]
    {
        rig.controller.observe(rig.now, input).unwrap();
    }
    assert_eq!(heard(&rig), [recovered.into()]);
}

/// Anybody can open connections, each of which is told: that keeps nobody from hearing of a full queue, or its end.
#[test]
fn openings_silence_no_notice_of_congestion() {
    let mut rig = Rig::new();
    rig.connect();
    let refused = (0..2_000).filter(|port| {
        let report = Report::Opened { connection: connection(1 + port) };
        rig.controller.observe(rig.now, Input::Reported(rig.channel, &report)).is_err()
    });
    assert!(refused.count() > 500, "more than limits.reports_per_second");
    for severity in [Severity::High, Severity::Recovered] {
        let queue = Bytes::new(60_000);
        let mut reports = Vec::new();
        rig.agent.hear(PORT, &Happening::Congested { severity, queue }, &mut reports);
        rig.controller.observe(rig.now, Input::Reported(rig.channel, &reports[0])).unwrap();
    }
}

/// Asks for counters of ports.
struct Counting(Scripted);

impl Policy for Counting {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        self.0.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        self.0.decide(now, network, out);
    }

    fn ports(&self) -> Option<Span> {
        Some(Span::from_millis(300))
    }
}

fn counts(ports: &[(&str, &str)]) -> Report {
    let count = |(node, interface): &(&str, &str)| PortCount {
        node: (*node).into(),
        interface: (*interface).into(),
        sent_bytes: Bytes::new(70_000),
    };
    Report::Ports { ports: ports.iter().map(count).collect() }
}

#[test]
fn the_policy_is_told_what_ports_have_sent_if_it_asks() {
    let mut rig = Rig::new();
    let policy = Box::new(Counting(rig.policy.clone()));
    rig.controller = Controller::new(config("counting", policy), 1, Time::ZERO).unwrap();
    let every_ns = Span::from_millis(300);
    assert!(rig.connect().contains(&Command::Count { every_ns }));
    // One that is no port of the network is left out.
    let report = counts(&[("s0", "wan0"), ("s0", "eth0")]);
    rig.told(Input::Reported(rig.channel, &report));
    let told = || rig.policy.0.lock().unwrap().0.pop();
    assert_eq!(told(), Some(Measured::Ports(vec![(LINK, Bytes::new(70_000))]).into()));
    // Nor does one that is no node of the agent's silence the others; it is counted, and told.
    for (times, stranger) in [(1, "s1"), (2, "s9"), (3, "")] {
        let report = counts(&[(stranger, "eth0"), ("s0", "eth0"), (stranger, "eth1")]);
        let refused = rig.controller.observe(rig.now, Input::Reported(rig.channel, &report));
        assert_eq!(refused.unwrap_err().field, "ports.node");
        assert_eq!(told(), Some(Measured::Ports(vec![(LINK, Bytes::new(70_000))]).into()));
        assert_eq!(rig.controller.counters().reports_refused, times);
        let problems = rig.controller.at(rig.now).status().problems;
        let said = format!(
            "refused: ports.node: {stranger} is no node that the agent acts for; declare it"
        );
        assert!(problems.iter().any(|problem| problem.ends_with(&said)), "{problems:?}");
    }
    let many = counts(&vec![("s0", "eth0"); Limits::default().flows + 1]);
    let refused = rig.controller.observe(rig.now, Input::Reported(rig.channel, &many));
    assert_eq!(refused.unwrap_err().field, "ports");
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
}

#[test]
fn a_policy_that_does_not_ask_is_told_no_counters() {
    let mut rig = Rig::new();
    assert_eq!(rig.connect(), watched());
    rig.policy.0.lock().unwrap().0.clear();
    rig.told(Input::Reported(rig.channel, &counts(&[("s0", "eth0")])));
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
}

/// An agent of a host apart, which is known from then on.
fn connect_another(rig: &mut Rig) -> ChannelId {
    let channel = ChannelId(99);
    let hosts = vec![Host { name: "h9".into(), addresses: vec![] }];
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    for input in
        [Input::AgentConnected { channel, identity: "right" }, Input::Reported(channel, &hello)]
    {
        rig.controller.observe(rig.now, input).unwrap();
    }
    rig.policy.0.lock().unwrap().0.clear();
    channel
}

#[test]
fn another_agent_says_nothing_of_a_port() {
    let mut rig = Rig::new();
    rig.connect();
    let channel = connect_another(&mut rig);
    let (node, interface, queue_bytes) = ("s0".into(), "eth0".into(), Bytes::new(60_000));
    let report = Report::Congested { node, interface, severity: Severity::High, queue_bytes };
    let refused = rig.controller.observe(rig.now, Input::Reported(channel, &report));
    assert_eq!(refused.unwrap_err().field, "interface");
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
}

/// Of a node that is known, too, only the agent that acts for it tells what its ports have sent: another is refused,
/// and nothing of others is told.
#[test]
fn another_agent_says_nothing_of_what_a_port_has_sent() {
    let mut rig = Rig::new();
    let policy = Box::new(Counting(rig.policy.clone()));
    rig.controller = Controller::new(config("counting", policy), 1, Time::ZERO).unwrap();
    rig.connect();
    let (own, another) = (rig.channel, connect_another(&mut rig));
    let ports = [("s0", "eth0"), ("h9", "eth0")];
    for (channel, ports) in [(another, &ports[..1]), (another, &ports[1..]), (own, &ports[1..])] {
        let report = counts(ports);
        let refused = rig.controller.observe(rig.now, Input::Reported(channel, &report));
        assert_eq!(refused.is_err(), (channel == own) == (ports[0].0 == "h9"), "{ports:?}");
    }
    rig.controller.decide(&mut Vec::new());
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
    let refused = rig.controller.observe(rig.now, Input::Reported(own, &counts(&ports)));
    assert_eq!(refused.unwrap_err().field, "ports.node");
    let told = &rig.policy.0.lock().unwrap().0;
    assert_eq!(*told, [Measured::Ports(vec![(LINK, Bytes::new(70_000))]).into()]);
}
