//! A switch is what its certificate says that it is.

use crate::in_memory::{Rig, SECOND, Shape, connection};
use protocol::agent::{Command, Host, Report};
use watermaster_control::{Config, Input};

fn connected(rig: &Rig) -> Vec<(String, bool)> {
    let switches = rig.controller.at(rig.now).status().switches;
    switches.into_iter().map(|switch| (switch.name, switch.connected)).collect()
}

fn rig() -> Rig {
    rig_of(|_| ())
}

fn rig_of(change: impl FnOnce(&mut Config)) -> Rig {
    let shape = Shape::racks(1);
    let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    let mut config = shape.config("tcp", tcp, true);
    change(&mut config);
    Rig::new(&shape, config, 1)
}

#[test]
fn a_switch_shows_the_certificate_of_its_name() {
    let mut rig = rig();
    let first = rig.plug_as(0, Some("s0"));
    // The second says that it is 0x2, which is s1.
    for other in ["s0", "rogue"] {
        rig.plug_as(1, Some(other));
        let why = rig.closed.pop().unwrap();
        assert!(why.contains("0x2 is s1's") && why.contains(&format!("switch {other};")), "{why}");
    }
    assert_eq!(connected(&rig), [("s0".into(), true), ("s1".into(), false)]);
    rig.plug_as(1, Some("s1"));
    assert_eq!(connected(&rig), [("s0".into(), true), ("s1".into(), true)]);
    // It may come again, and takes its own place.
    let again = rig.plug_as(0, Some("s0"));
    assert_eq!(rig.closed.pop().unwrap(), "the same peer has a newer connection");
    assert!(first != again && connected(&rig)[0].1);
}

/// The place of a switch that is there is not taken, nor is it closed, by another's certificate.
#[test]
fn a_certificate_of_another_takes_no_place() {
    let mut rig = rig();
    rig.plug_as(0, Some("s0"));
    rig.plug_as(1, Some("s1"));
    let true_switch = testing::openflow::switch(2, 254, 2);
    rig.swap_switch(0, true_switch);
    rig.unplug(0);
    // The machine of s0 says now that it is 0x2.
    rig.plug_as(0, Some("s0"));
    assert!(rig.closed.pop().unwrap().contains("0x2 is s1's"));
    assert_eq!(connected(&rig), [("s0".into(), false), ("s1".into(), true)]);
}

/// A switch that nobody declared is called by its number, in certificates too.
#[test]
fn a_switch_that_nobody_declared_is_bound_to_its_number() {
    let mut rig = rig();
    rig.swap_switch(0, testing::openflow::switch(0x1f, 254, 2));
    rig.plug_as(0, Some("s0"));
    let why = rig.closed.pop().unwrap();
    assert!(why.contains("0x1f is s-1f's"), "{why}");
    assert_eq!(connected(&rig).len(), 2, "nothing is learnt from it");
    // A name that begins as another is another.
    rig.plug_as(0, Some("s-1"));
    assert!(rig.closed.pop().unwrap().contains("certificate of switch s-1;"));
    rig.plug_as(0, Some("s-1f"));
    assert!(connected(&rig).contains(&("s-1f".into(), true)));
}

/// The switch is declared, and its number forgotten: who shows its certificate learns what is missing, and
/// so does the operator.
#[test]
fn a_switch_of_the_topology_without_a_number_is_told_what_is_missing() {
    let mut rig = rig_of(|config| {
        config.switches.remove(0);
    });
    rig.plug_as(0, Some("s0"));
    let why = rig.closed.pop().unwrap();
    assert!(why.contains("add [[switch]] name = \"s0\", datapath_id = \"0x1\""), "{why}");
    let problems = rig.controller.at(rig.now).status().problems;
    assert!(problems.iter().any(|problem| problem.contains("0x1 is refused: ")), "{problems:?}");
}

/// It is called as a switch of its number is that nobody declared: it is that one.
#[test]
fn a_switch_of_the_topology_may_be_called_by_its_number() {
    let mut rig = rig_of(|config| {
        config.switches.remove(0);
        let mut topology = model::Topology::new();
        for node in config.topology.nodes() {
            let name = if node.name == "s0" { "s-1" } else { node.name.as_str() };
            topology.add_node(name.to_owned(), node.kind).unwrap();
        }
        for link in config.topology.links().chunks(2) {
            topology.connect(link[0].from, link[0].to, link[0].spec, link[1].spec).unwrap();
        }
        config.topology = topology;
    });
    rig.plug_as(0, Some("s-1"));
    assert_eq!(connected(&rig), [("s-1".into(), true), ("s1".into(), false)]);
}

#[test]
fn names_of_undeclared_switches_are_not_for_others() {
    let shape = Shape::racks(1);
    let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    let mut config = shape.config("tcp", tcp, true);
    let mut topology = model::Topology::new();
    let s = topology.add_node("s-1f".to_owned(), model::NodeKind::Switch).unwrap();
    config.switches =
        vec![watermaster_control::SwitchConfig { node: s, datapath_id: 2, windows: false }];
    (config.topology, config.hosts, config.ports) = (topology, Vec::new(), Vec::new());
    let wrong = watermaster_control::Controller::new(config, 1, units::Time::ZERO).err().unwrap();
    assert!(wrong.to_string().contains("switches[0].node: s-1f is what a switch"), "{wrong}");
}

/// One that nobody declared may go as it came.
#[test]
fn an_undeclared_switch_that_is_gone_is_no_problem() {
    let mut rig = rig();
    rig.plug(1);
    rig.swap_switch(0, testing::openflow::switch(0x1f, 254, 2));
    rig.plug(0);
    rig.unplug(0);
    rig.unplug(1);
    let problems = rig.controller.at(rig.now).status().problems;
    let missing: Vec<_> = problems.iter().filter(|p| p.ends_with("is not connected")).collect();
    assert_eq!(missing, ["switch s0 is not connected", "switch s1 is not connected"]);
}

/// As hosts that are gone: their places are others' then.
#[test]
fn undeclared_switches_that_are_gone_are_forgotten() {
    let mut rig = rig_of(|config| config.limits.switches = 4);
    let mut come = |number: u64| {
        rig.swap_switch(0, testing::openflow::switch(number, 254, 2));
        rig.plug(0);
        rig.unplug(0);
        (connected(&rig).len(), rig.closed.pop().is_some())
    };
    let known: Vec<_> = (0x10..0x15).map(&mut come).collect();
    assert_eq!(known, [(3, false), (4, false), (5, false), (6, false), (6, true)]);
    rig.plug(1);
    rig.pass(SECOND * 400);
    // One of them is there again.
    rig.swap_switch(0, testing::openflow::switch(0x11, 254, 2));
    rig.plug(0);
    rig.pass(SECOND * 300);
    let left = [("s0".into(), false), ("s1".into(), true), ("s-11".into(), true)];
    assert_eq!(connected(&rig), left);
    rig.unplug(0);
    rig.agent("x", &[99]);
    rig.swap_switch(0, testing::openflow::switch(0x10, 254, 2));
    rig.plug(0);
    let names: Vec<_> = connected(&rig).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"s-10".into()) && names.len() == 4, "{names:?}");
}

fn hello(name: &str, address: &str, epoch: u64) -> Report {
    let host = Host { name: name.into(), addresses: vec![address.parse().unwrap()] };
    Report::Hello { hosts: vec![host], capabilities: Vec::new(), epoch }
}

/// What an agent says of itself that can't be: why it is refused.
#[test]
fn a_hello_that_can_not_be_is_refused() {
    let mut rig = rig();
    rig.agent("h0", &[0]);
    let mut refused = |report: &Report| {
        let channel = rig.peer();
        rig.input(Input::AgentConnected { channel, identity: "evil" }).unwrap();
        let refusal = rig.input(Input::Reported(channel, report)).unwrap_err().to_string();
        let problems = rig.controller.at(rig.now).status().problems;
        assert!(problems.contains(&format!("agent evil is refused: {refusal}")), "{problems:?}");
        refusal
    };
    let host = |name: &str| Host { name: name.into(), addresses: Vec::new() };
    let twice = Report::Hello {
        hosts: vec![host("hx"), host("hy"), host("hx")],
        capabilities: Vec::new(),
        epoch: 0,
    };
    for (report, wanted) in [
        (twice, "hosts: hx is named twice"),
        (
            hello("hx", "10.9.9.9", (1 << 32) + 2),
            "epoch: 4294967298 was never given: this controller has 1",
        ),
        (hello("hx", "255.255.255.255", 0), "hosts.addresses: 255.255.255.255 is no host's"),
        (hello("hx", "0.0.0.0", 0), "hosts.addresses: 0.0.0.0 is no host's"),
        (hello("hx", "127.0.0.1", 0), "hosts.addresses: 127.0.0.1 is no host's"),
        (hello("h1", "::1", 0), "hosts.addresses: ::1 is no host's"),
        (hello("s-2a", "10.9.9.9", 0), "hosts.name: s-2a is what a switch is called"),
        (hello("h0", "10.9.9.9", 0), "hosts: another agent acts for h0"),
        (
            hello("hq", &crate::in_memory::address(0).to_string(), 0),
            "hosts: hq has an address of h0, for which another agent acts",
        ),
    ] {
        let said = refused(&report);
        assert!(said.starts_with(wanted), "{said}");
    }
}

/// Who is refused often hides no other without a word.
#[test]
fn how_many_more_agents_were_refused_is_told() {
    let mut rig = rig();
    for number in 0..68 {
        let channel = rig.peer();
        let identity = format!("z{number}");
        rig.input(Input::AgentConnected { channel, identity: &identity }).unwrap();
        rig.input(Input::Reported(channel, &hello("hx", "0.0.0.0", 0))).unwrap_err();
    }
    let problems = rig.controller.at(rig.now).status().problems;
    assert_eq!(problems.iter().filter(|problem| problem.starts_with("agent z")).count(), 64);
    let more =
        "4 more things that agents were refused or said have no room here; the log names refusals";
    assert!(problems.iter().any(|problem| problem == more), "{problems:?}");
}

/// On one machine, where nothing else is meant.
#[test]
fn an_agent_has_the_loopback_address_that_the_configuration_gives_its_host() {
    let shape = Shape::racks(2);
    let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    let mut config = shape.config("tcp", tcp, true);
    config.hosts[0].addresses = vec!["127.0.0.1".parse().unwrap()];
    let mut rig = Rig::new(&shape, config, 1);
    let channel = rig.peer();
    rig.input(Input::AgentConnected { channel, identity: "h0" }).unwrap();
    let done = rig.input(Input::Reported(channel, &hello("h0", "127.0.0.1", 0)));
    assert_eq!(done.map_err(|refusal| refusal.to_string()), Ok(()));
}

/// What an agent says that it couldn't do was asked of it.
#[test]
fn a_failure_of_what_was_never_asked_is_refused() {
    let mut rig = rig();
    let agent = rig.agent("h0", &[0]);
    rig.agent("h1", &[1]);
    let mut fails = |sequence, source| {
        let command = Command::Pace { connection: connection(source, 2, 7), rate_bps: None };
        let failed = Report::Failed { epoch: 1, sequence, command, reason: "no".into() };
        rig.input(Input::Reported(agent, &failed)).map_err(|refusal| refusal.to_string())
    };
    assert!(fails(1, 0).unwrap_err().starts_with("sequence: commands were confirmed before"));
    assert_eq!(
        fails(1_000, 0).unwrap_err(),
        "sequence: no such commands were sent; answer with the numbers of those that came"
    );
    assert!(fails(1, 1).unwrap_err().starts_with("connection.source: 10."));
    let problems = rig.controller.at(rig.now).status().problems;
    assert_eq!(problems.iter().filter(|problem| problem.contains("is refused: ")).count(), 3);
}

/// Whatever one agent says, a controller can have the epoch that the status tells an operator to write, and later ones.
#[test]
fn an_epoch_that_agents_name_leaves_room_for_later_ones() {
    let most = 1 << 48;
    for (own, believed) in [
        (1, (1 << 32) + 1),
        (1 << 40, (1 << 40) + (1 << 32)),
        (most - 100, most - 50),
        (most - 1, most - 1),
        (most, most),
    ] {
        let shape = Shape::racks(2);
        let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
        let mut rig = Rig::new(&shape, shape.config("tcp", tcp, true), own);
        let channel = [believed + 1, believed].map(|epoch| {
            let channel = rig.peer();
            rig.input(Input::AgentConnected { channel, identity: "x" }).unwrap();
            let done = rig.input(Input::Reported(channel, &hello("hx", "10.9.9.9", epoch)));
            assert_eq!(done.is_ok(), epoch == believed, "{own} {epoch} {done:?}");
            channel
        });
        let stale = Report::Stale { epoch: own, obeys: believed + 1 };
        let refused = rig.input(Input::Reported(channel[1], &stale)).unwrap_err();
        assert!(refused.to_string().starts_with("epoch: "), "{refused}");
        let problems = rig.controller.at(rig.now).status().problems;
        let told = problems.iter().find(|problem| problem.contains("obeys a controller of"));
        assert_eq!(told.is_some(), believed > own, "{problems:?}");
        assert!(told.is_none_or(|told| told.contains("the agents' logs name it")), "{told:?}");
    }
}

/// Which epoch an agent obeys it says in its hello and in `stale`, which are checked. Whatever it says it has done, or
/// couldn't, says nothing of that.
#[test]
fn an_answer_names_no_epoch_to_believe() {
    let mut rig = rig();
    let agent = rig.agent("h0", &[0]);
    for epoch in [0, 2, (1 << 48) - 1, u64::MAX] {
        let (reason, command) = ("no".into(), Command::Sample { every_ns: units::Span::ZERO });
        let failed = Report::Failed { epoch, sequence: 1, command, reason };
        for answer in [Report::Applied { epoch, sequence: 0 }, failed] {
            let _ = rig.input(Input::Reported(agent, &answer));
            let problems = rig.controller.at(rig.now).status().problems;
            let told = problems.iter().find(|problem| problem.contains("obeys a controller of"));
            assert_eq!(told, None, "{answer:?}");
        }
    }
}

/// Each takes the other's place again and again, which one whose connection broke doesn't.
#[test]
fn two_agents_of_one_name_are_a_problem() {
    let rivals = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems;
        problems
            .into_iter()
            .filter(|told| told.contains("take each other's place"))
            .collect::<Vec<_>>()
    };
    let mut rig = rig();
    rig.agent("h0", &[0]);
    for _ in 0..3 {
        rig.pass(SECOND * 61);
        rig.agent("h0", &[0]);
        assert_eq!(rig.closed.pop().unwrap(), "the same peer has a newer connection");
        assert_eq!(rivals(&rig), [""; 0], "it has come back");
    }
    // Another name's doesn't count.
    rig.agent("h1", &[1]);
    rig.agent("h1", &[1]);
    assert_eq!(rivals(&rig), [""; 0]);
    rig.pass(SECOND * 8);
    rig.agent("h0", &[0]);
    let told = rivals(&rig);
    let [told] = &told[..] else { panic!("{told:?}") };
    assert!(told.starts_with("agent h0: ") && told.contains("first is refused"), "{told}");
    assert!(
        told.ends_with("stop one of them, or give it a name and a certificate of its own"),
        "{told}"
    );
    rig.pass(SECOND * 601);
    assert_eq!(rivals(&rig), [""; 0], "one of them was stopped");
}

/// What an agent says that can't be is in the status, and not a packet of a stranger that it saw.
#[test]
fn what_is_refused_of_an_agent_is_a_problem() {
    let told = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems;
        problems.into_iter().filter(|told| told.starts_with("agent h0: ")).collect::<Vec<_>>()
    };
    let mut rig = rig();
    let agent = rig.agent("h0", &[0]);
    let outside = Report::Opened { connection: connection(77, 0, 7) };
    rig.input(Input::Reported(agent, &outside)).unwrap_err();
    assert_eq!((told(&rig), rig.controller.counters().reports_refused), (Vec::new(), 1));
    let (severity, queue_bytes) = (model::Severity::High, units::Bytes::new(60_000));
    for wrong in [
        Report::Stale { epoch: 1, obeys: 1 << 48 | 1 },
        Report::Applied { epoch: 1, sequence: 99 },
        Report::Opened { connection: connection(1, 0, 7) },
        Report::Congested { node: "s9".into(), interface: "p1".into(), severity, queue_bytes },
        Report::Ports { ports: Vec::new() },
    ] {
        let refusal = rig.input(Input::Reported(agent, &wrong)).err();
        let said =
            refusal.map(|refusal| format!("agent h0: what it reports is refused: {refusal}"));
        assert!(said.is_none_or(|said| told(&rig).contains(&said)), "{wrong:?}");
    }
    assert_eq!((told(&rig).len(), rig.controller.counters().reports_refused), (4, 5));
    rig.pass(SECOND * 601);
    assert_eq!(told(&rig).iter().filter(|told| told.contains("refused")).count(), 0);
}
