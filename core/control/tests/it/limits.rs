//! Limits on connections of agents and switches, and on what agents report: the surplus is refused,
//! what was accepted stays.

use crate::in_memory::{Rig, SECOND, Shape, address, connection, entries, even};
use protocol::agent::{Command, ConnectionReport, Host, MOST_REPORTED, Report};
use protocol::application::{Declaration, Portion};
use units::{Bytes, Span, Time};
use watermaster_control::{Change, ChannelId, Config, Input, Refusal};

fn rig(limit: impl FnOnce(&mut Config)) -> Rig {
    let shape = Shape::racks(2);
    let mut config = shape.config("fair", even(), true);
    limit(&mut config);
    Rig::new(&shape, config, 1)
}

/// An agent that comes when there is no room; what becomes of its hello.
fn knock(rig: &mut Rig, identity: &str, host: u32) -> (ChannelId, bool) {
    let peer = rig.peer();
    rig.input(Input::AgentConnected { channel: peer, identity }).unwrap();
    let hosts = vec![Host { name: format!("h{host}"), addresses: vec![address(host)] }];
    let hello =
        Report::Hello { hosts, capabilities: protocol::agent::Capability::ALL.to_vec(), epoch: 0 };
    let is_taken = rig.input(Input::Reported(peer, &hello)).is_ok();
    (peer, is_taken)
}

#[test]
fn agents_beyond_the_limit_are_refused_and_the_others_stay() {
    let mut rig = rig(|config| config.limits.agents = 2);
    let (first, second) = (rig.agent("first", &[0]), rig.agent("second", &[1]));
    let (third, is_taken) = knock(&mut rig, "third", 2);
    assert!(!is_taken);
    assert!(
        rig.closed.iter().any(|why| why.contains("2 agents are connected")),
        "{:?}",
        rig.closed
    );
    let known: Vec<_> =
        rig.controller.at(rig.now).status().agents.into_iter().map(|a| a.identity).collect();
    assert_eq!(known, ["first", "second"]);
    // The end of the connection that was refused takes nothing from anybody.
    rig.input(Input::AgentGone(third)).unwrap();
    rig.start("a", "j");
    for (flow, host) in [(1, 0), (2, 1)] {
        rig.flow("a", "j", flow, connection(host, 3, 10), None).unwrap();
    }
    assert_eq!([first, second].map(|peer| rig.agents[&peer].paced.len()), [1, 1]);
    // Leases of those that were accepted are renewed all the time.
    rig.pass(SECOND * 30);
    assert_eq!([first, second].map(|peer| rig.agents[&peer].paced.len()), [1, 1]);

    rig.input(Input::AgentGone(second)).unwrap();
    let (_, is_taken) = knock(&mut rig, "third", 2);
    assert!(is_taken, "there is room again");
}

#[test]
fn switches_beyond_the_limit_are_refused_and_the_others_stay() {
    let mut rig = rig(|config| config.limits.switches = 1);
    let connected = |rig: &Rig| -> Vec<bool> {
        rig.controller.at(rig.now).status().switches.iter().map(|switch| switch.connected).collect()
    };
    rig.plug(0);
    rig.pass(SECOND);
    let before = entries(rig.switch(0)).len();
    assert!(before > 0);
    let refused = rig.plug(1);
    assert!(
        rig.closed.iter().any(|why| why.contains("1 switches are connected")),
        "{:?}",
        rig.closed
    );
    assert_eq!(connected(&rig), [true, false]);
    // What it says is nobody's word, and its end nobody's end.
    rig.input(Input::SwitchBytes(refused, &[4, 0, 0, 8, 0, 0, 0, 1])).unwrap();
    rig.input(Input::SwitchGone(refused)).unwrap();
    rig.pass(SECOND * 30);
    assert_eq!(connected(&rig), [true, false]);
    assert_eq!(entries(rig.switch(0)).len(), before);

    rig.unplug(0);
    rig.plug(1);
    assert_eq!(connected(&rig), [false, true]);
}

/// Anybody can open connections, each of which is told; that samples fail is told once.
#[test]
fn openings_silence_no_failure_of_samples_and_failures_are_bounded_too() {
    let mut rig = rig(|config| config.limits.reports_per_second = 10);
    let agent = rig.agent("h0", &[0]);
    rig.pass(SECOND);
    let opened = Report::Opened { connection: connection(0, 3, 10) };
    let taken = |rig: &mut Rig, report: &Report| {
        (0..50).filter(|_| rig.input(Input::Reported(agent, report)).is_ok()).count()
    };
    assert_eq!(taken(&mut rig, &opened), 10);
    let (command, reason) = (Command::Sample { every_ns: SECOND }, "no files".into());
    let failed = Report::Failed { epoch: 1, sequence: 1, command, reason };
    rig.input(Input::Reported(agent, &failed)).unwrap();
    let problems = rig.controller.at(rig.now).status().problems.join("\n");
    assert!(problems.contains("samples of connections can't be had"), "{problems}");
    assert_eq!(taken(&mut rig, &failed), 9, "ten at once, of which one came before");
}

#[test]
fn reports_beyond_the_limit_are_refused_and_the_others_count() {
    let mut rig = rig(|config| config.limits.reports_per_second = 10);
    let (busy, other) = (rig.agent("busy", &[0]), rig.agent("other", &[1]));
    rig.start("a", "j");
    let of = [connection(0, 3, 10), connection(1, 3, 10)];
    for (flow, of) in (0..).zip(of) {
        rig.flow("a", "j", flow, of, None).unwrap();
    }
    let report = |host: usize, delivered: u64| Report::Connections {
        sampled_ns: Time::ZERO,
        connections: vec![ConnectionReport {
            connection: of[host],
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1_000_000),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::from_micros(100),
            processes: Vec::new(),
        }],
    };
    let delivered = |rig: &Rig, flow| rig.why("a", "j", flow).flow.delivered_bytes.get();
    rig.pass(SECOND);
    // What was delivered before the first report may be an earlier flow's.
    rig.input(Input::Reported(busy, &report(0, 0))).unwrap();
    rig.input(Input::Reported(other, &report(1, 0))).unwrap();
    let (mut taken, mut refused) = (0, 0);
    for step in 1..=50_u64 {
        match rig.input(Input::Reported(busy, &report(0, step * 1000))) {
            Ok(()) => taken = step,
            Err(refusal) => {
                assert!(refusal.busy && refusal.field == "agent", "{refusal}");
                refused += 1;
            }
        }
    }
    assert_eq!((taken, refused), (9, 41), "ten at once, of which one came before");
    assert_eq!(delivered(&rig, 0), 9_000, "what was taken counts, and nothing else");
    assert_eq!(rig.controller.counters().reports_refused, 41);
    // Nobody else is held back, and it goes on being told.
    rig.input(Input::Reported(other, &report(1, 5_000))).unwrap();
    assert_eq!(delivered(&rig, 1), 5_000);
    rig.flow("a", "j", 2, connection(0, 2, 11), None).unwrap();
    assert!(rig.agents[&busy].paced.contains_key(&connection(0, 2, 11)));
    // Its word that it has done so is one that the controller asks for. Said again, it is not.
    let agents = rig.controller.at(rig.now).status().agents;
    let confirmed: usize = agents.iter().map(|agent| agent.paced + agent.unseen).sum();
    assert_eq!(confirmed, rig.agents.values().map(|agent| agent.paced.len()).sum::<usize>());
    let sequence = u64::from(rig.agents[&busy].heard);
    let again = Report::Applied { epoch: 1, sequence };
    assert!(rig.input(Input::Reported(busy, &again)).unwrap_err().busy);

    rig.pass(SECOND);
    rig.input(Input::Reported(busy, &report(0, 60_000))).unwrap();
    assert_eq!(delivered(&rig, 0), 60_000);
}

/// As many connections as agents send in one report, whatever the limit is; beyond both, nothing counts.
#[test]
fn a_report_of_too_many_connections_is_refused_whole() {
    for (flows, most) in [(10, MOST_REPORTED), (MOST_REPORTED + 500, MOST_REPORTED + 500)] {
        let mut rig = rig(|config| config.limits.flows = flows);
        let agent = rig.agent("h0", &[0]);
        rig.start("a", "j");
        rig.flow("a", "j", 1, connection(0, 3, 10), None).unwrap();
        let report = |rig: &mut Rig, count: usize, delivered| {
            rig.pass(SECOND);
            let connections = (10..).take(count).map(|port| ConnectionReport {
                connection: connection(0, 3, port),
                delivered_bytes: Bytes::new(delivered),
                unsent_bytes: Bytes::ZERO,
                in_flight_bytes: Bytes::ZERO,
                rtt_ns: Span::from_micros(100),
                processes: Vec::new(),
            });
            let connections = connections.collect();
            rig.input(Input::Reported(
                agent,
                &Report::Connections { sampled_ns: rig.now, connections },
            ))
        };
        let delivered = |rig: &Rig| rig.why("a", "j", 1).flow.delivered_bytes.get();
        report(&mut rig, 1, 0).unwrap();
        report(&mut rig, most, 1_000).unwrap();
        assert_eq!(delivered(&rig), 1_000, "{most}");
        let refusal = report(&mut rig, most + 1, 2_000).unwrap_err();
        assert_eq!((refusal.field, refusal.busy), ("connections", false), "{refusal}");
        assert!(refusal.reason.contains(&format!("more than {most} ")), "{refusal}");
        assert_eq!(delivered(&rig), 1_000, "{most}");
        assert_eq!(rig.controller.counters().reports_refused, 1);
    }
}

/// Other leases, another policy, and time.
#[test]
fn an_agent_hears_nothing_before_its_hello() {
    let mut rig = rig(|_| {});
    let peer = rig.peer();
    rig.input(Input::AgentConnected { channel: peer, identity: "h0" }).unwrap();
    let mut out = Vec::new();
    for change in [
        Change { lease: Some(SECOND * 3), ..Change::default() },
        Change { policy: Some(("fair".into(), even())), ..Change::default() },
    ] {
        rig.controller.reconfigure(rig.now, change);
        rig.controller.decide(&mut out);
        rig.now += SECOND * 30;
        rig.controller.observe(rig.now, Input::Tick).unwrap();
        rig.controller.decide(&mut out);
    }
    assert_eq!(out, []);
}

#[test]
fn a_size_that_is_said_again_counts_once() {
    let mut rig = rig(|config| config.limits.tasks = 2);
    rig.start("a", "j");
    let reduces = [3, 4].map(|task| Portion { task, bytes: Bytes::new(9) }).to_vec();
    let size = |map| Declaration::Size { job: "j".into(), map, reduces: reduces.clone() };
    for _ in 0..3 {
        rig.declare("a", size(0)).unwrap();
    }
    let refusal = rig.declare("a", size(1)).unwrap_err();
    assert!(refusal.busy && refusal.reason.contains("more than 2 portions"), "{refusal:?}");
    // As many maps as the limit lets a job have: each can be said again and corrected.
    rig.start("a", "full");
    let of = |map, bytes: &[u64]| {
        let portions = (0..).zip(bytes).map(|(task, &of)| Portion { task, bytes: Bytes::new(of) });
        Declaration::Size { job: "full".into(), map, reduces: portions.collect() }
    };
    for size in [of(0, &[9]), of(1, &[9]), of(0, &[9]), of(1, &[8]), of(0, &[])] {
        rig.declare("a", size).unwrap();
    }
    assert!(rig.declare("a", of(2, &[])).unwrap_err().busy, "a third map");
    assert!(rig.declare("a", of(0, &[1, 1])).unwrap_err().busy, "a third portion");
}

#[test]
fn an_agent_says_hello_once() {
    let mut rig = rig(|_| {});
    let peer = rig.agent("h0", &[0]);
    let hosts = vec![Host { name: "h1".into(), addresses: vec![address(1)] }];
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    assert_eq!(rig.input(Input::Reported(peer, &hello)).unwrap_err().field, "type");
    assert!(!rig.agents.contains_key(&peer), "it is closed");
    // Another may act for the host that it named.
    let (_, is_taken) = knock(&mut rig, "h1", 1);
    assert!(is_taken);
}

/// An agent that obeyed a later controller says so with its first word.
#[test]
fn the_epoch_of_a_hello_is_heard() {
    let mut rig = rig(|_| {});
    rig.agent("h1", &[1]);
    assert_eq!(rig.controller.outranked(), None);
    let peer = rig.peer();
    rig.input(Input::AgentConnected { channel: peer, identity: "h0" }).unwrap();
    let hosts = vec![Host { name: "h0".into(), addresses: vec![address(0)] }];
    // The next one is later already.
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 2 };
    rig.controller.observe(rig.now, Input::Reported(peer, &hello)).unwrap();
    assert_eq!(rig.controller.outranked(), Some(("h0", 2)));
}

/// Whose addresses agents alone know: after a restart the application may come first.
#[test]
fn an_application_that_comes_before_the_agents_waits_for_them_a_while() {
    let shape = Shape::racks(2);
    let controller = |epoch| {
        let mut config = shape.config("fair", even(), true);
        config.hosts.clear();
        let mut rig = Rig::new(&shape, config, epoch);
        rig.start("a", "j");
        rig
    };
    let mut rig = controller(2);
    let request = |rig: &mut Rig| rig.flow("a", "j", 1, connection(0, 1, 10), None);
    let task = Declaration::TaskHost { job: "j".into(), task: 1, host: "10.9.9.9".into() };
    let place = |rig: &mut Rig| {
        let input = Input::Declared { application: "a", declaration: &task };
        rig.input(input).map(drop)
    };
    for refusal in [request(&mut rig).unwrap_err(), place(&mut rig).unwrap_err()] {
        assert_eq!((refusal.field, refusal.busy), ("application", true), "{refusal}");
    }
    assert_eq!(rig.controller.at(rig.now).status().applications[0].refused, 0);
    rig.agent("first", &[0, 1]);
    request(&mut rig).unwrap();
    rig.pass(SECOND * 15);
    let refusal = place(&mut rig).unwrap_err();
    assert_eq!((refusal.field, refusal.busy), ("host", false), "nobody comes any more");

    let refusal = request(&mut controller(1)).unwrap_err();
    assert_eq!(
        (refusal.field, refusal.busy),
        ("connection.source", false),
        "nobody was there before"
    );
}

/// However many pairs of hosts they are of, and in however many reports of one sample they come; another agent's count
/// beside them, and what goes makes room.
#[test]
fn connections_of_an_agent_are_bounded_in_all() {
    let shape = Shape::racks(3);
    let policy = policy::by_name("asy", &policy::Parameters::default()).unwrap();
    let mut config = shape.config("asy", policy, true);
    config.limits.flows = 10;
    let mut rig = Rig::new(&shape, config, 1);
    let (many, other) = (rig.agent("many", &[0, 1]), rig.agent("other", &[2]));
    let report = |rig: &mut Rig, agent, from: u32, to: u32| {
        let waits = |port| ConnectionReport {
            connection: connection(from, to, port),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::new(1_000_000),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        };
        let connections = (1..=400).map(waits).collect();
        let report = Report::Connections { sampled_ns: rig.now, connections };
        rig.input(Input::Reported(agent, &report)).unwrap();
    };
    let known = |rig: &Rig, agent: &ChannelId| rig.agents[agent].paced.len();
    let is_told = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems;
        problems.iter().any(|told| told.starts_with("agent many") && told.contains("limits.flows"))
    };
    rig.pass(SECOND);
    report(&mut rig, many, 0, 3);
    report(&mut rig, many, 0, 4);
    assert_eq!((known(&rig, &many), is_told(&rig)), (800, false));
    report(&mut rig, many, 1, 3);
    report(&mut rig, many, 1, 4);
    assert_eq!((known(&rig, &many), is_told(&rig)), (MOST_REPORTED, true));
    report(&mut rig, other, 2, 3);
    assert_eq!(known(&rig, &other), 400);
    for _ in 0..8 {
        rig.pass(SECOND);
        report(&mut rig, many, 1, 4);
    }
    assert_eq!(known(&rig, &many), 400, "all of those that are left");
}

/// An agent names so many hosts that nobody declared, also over several connections; what it doesn't act for any
/// more is forgotten in time.
#[test]
fn what_an_agent_names_is_bounded_and_forgotten() {
    let shape = Shape::racks(1);
    let mut config = shape.config("fair", even(), true);
    config.limits.hosts_per_agent = 3;
    config.limits.hosts = 4;
    let mut rig = Rig::new(&shape, config, 1);
    let names = |rig: &mut Rig, identity: &str, range: std::ops::Range<u32>| {
        let host = |of: u32| Host { name: format!("made-up-{of}"), addresses: vec![address(of)] };
        let hosts = range.map(host).collect();
        let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
        let channel = rig.peer();
        rig.input(Input::AgentConnected { channel, identity }).unwrap();
        let said = rig.input(Input::Reported(channel, &hello)).map_err(|refusal| refusal.reason);
        rig.input(Input::AgentGone(channel)).unwrap();
        said
    };
    assert_eq!(names(&mut rig, "a", 10..12), Ok(()));
    assert_eq!(names(&mut rig, "a", 10..13), Ok(()));
    let much = names(&mut rig, "a", 13..14).unwrap_err();
    assert!(much.contains("raise limits.hosts_per_agent"), "{much}");
    assert_eq!(names(&mut rig, "b", 20..21), Ok(()), "another is not kept out");
    for round in 1..9 {
        rig.pass(SECOND * 602);
        let first = round * 100;
        assert_eq!(names(&mut rig, "a", first..first + 3), Ok(()), "round {round}");
    }
}

#[test]
fn an_answer_says_what_may_be_taken_later() {
    for busy in [true, false] {
        let mut outcome = protocol::application::Outcome::default();
        let refusal = Refusal { field: "flow", reason: "no".into(), busy };
        assert!(watermaster_control::note(&mut outcome, 3, Err(refusal)));
        assert_eq!((outcome.refused[0].index, outcome.refused[0].later), (3, busy));
    }
}
