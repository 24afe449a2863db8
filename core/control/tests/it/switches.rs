//! Switches beside agents: their meters and roles, and the windows that they cap.

use crate::decide::named;
use crate::in_memory::{Rig, SECOND, Shape, address, connection, metered, meters, segment};
use model::Severity;
use openflow::switch::{Output as Answers, Switch};
use openflow::{Message, PortNo, Role, RoleMessage};
use protocol::agent::{Capability, Command, Host, Report};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, ChannelId, Controller, Input, LEASE, Output};

/// Meters have no timeout: the entry that leads to one has. Within two leases (a switch counts whole
/// seconds) a dead controller's limits have ended, and packets still go their way.
#[test]
fn meters_of_a_dead_controller_end() {
    let shape = Shape::racks(3);
    let config = |epoch: u64| (metered(shape.config("smsf", named("smsf"), true)), epoch);
    let (first, epoch) = config(1);
    let mut rig = Rig::new(&shape, first, epoch);
    (0..2).for_each(|switch| rig.connect(switch));
    for (job, from, bytes) in [("large", 0, 2), ("small", 1, 1)] {
        rig.start("hadoop", job);
        let connection = connection(from, 3 + from, 1000);
        rig.flow("hadoop", job, 1, connection, Some(bytes * 100_000_000)).unwrap();
    }
    let burst = |rig: &Rig, after: Span| {
        let mut switch = rig.switch(0).clone();
        let mut out = Answers::default();
        let now = rig.now + after;
        switch.tick(now, &mut out);
        for _ in 0..100 {
            switch.receive(now, PortNo(2), &segment(0, 3, 1000, 16, 1400), &mut out);
        }
        out.frames.len()
    };
    let held = burst(&rig, Span::ZERO);
    assert!((8..20).contains(&held), "{held}: ten frames at once and no more");
    let why = rig.why("hadoop", "large", 1);
    assert_eq!(
        (why.flow.enforced_bps, why.by.as_str()),
        (Some(Rate::from_mbps(1)), "switch s0, by a meter")
    );
    rig.pass(SECOND * 60);
    let held = burst(&rig, Span::ZERO);
    assert!((8..20).contains(&held), "{held}: the entry is renewed");
    assert_eq!(burst(&rig, LEASE), 100, "nobody renewed it");
    // The next controller finds the meter, and removes it when nothing leads to it any more.
    let (second, epoch) = config(2);
    rig.replace(second, epoch);
    (0..2).for_each(|switch| rig.connect(switch));
    assert!(burst(&rig, Span::ZERO) < 20, "what stands, stands until its lease ends");
    assert_eq!(meters(rig.switch(0)).len(), 1);
    rig.pass(LEASE * 3);
    assert_eq!((burst(&rig, Span::ZERO), meters(rig.switch(0)).len()), (100, 0));
    assert_eq!(rig.controller.counters().switch_errors, 0);
}

/// Of two controllers a switch obeys the one of the later epoch (OpenFlow 1.3.5, section 6.3.6); the
/// other is told, says so, and changes nothing.
#[test]
fn a_switch_obeys_the_later_epoch() {
    let shape = Shape::racks(3);
    let config = || shape.config("smsf", named("smsf"), true);
    let mut rig = Rig::new(&shape, config(), 2);
    rig.connect(0);
    rig.pass(SECOND);
    let before = crate::in_memory::entries(rig.switch(0));
    assert!(!before.is_empty());
    rig.replace(config(), 1);
    rig.connect(0);
    assert!(rig.closed[0].contains("a controller of a later epoch"), "{:?}", rig.closed);
    let problems = rig.controller.at(rig.now).status().problems.join("\n");
    assert!(
        problems.contains("switch s0 obeys a controller of a later epoch than 1"),
        "{problems}"
    );
    assert_eq!(crate::in_memory::entries(rig.switch(0)), before);
    // The next start is later than both.
    rig.replace(config(), 3);
    rig.connect(0);
    rig.pass(SECOND);
    assert_eq!((rig.closed.len(), rig.controller.counters().switch_errors), (1, 0));

    // Another comes while this one is there: what it writes is refused from then on.
    let mut switch = rig.switch(0).clone();
    let role = RoleMessage { role: Role::SLAVE, generation_id: 4 };
    switch.handle(rig.now, 1, &Message::RoleRequest(role), &mut Answers::default());
    let before = crate::in_memory::entries(&switch);
    rig.swap_switch(0, switch);
    rig.unplug(1);
    rig.connect(1);
    rig.pass(SECOND * 30);
    assert!(rig.closed[1].contains("a controller of a later epoch"), "{:?}", rig.closed);
    assert_eq!(crate::in_memory::entries(rig.switch(0)).len(), before.len());
}

/// A controller that starts again may hear applications before switches. What these get to hear is
/// the same in either order: the meters, and the entries of flows that go their own way.
#[test]
fn switches_that_come_after_applications_are_told_all_the_same() {
    let shape = Shape::diamond(2);
    let told = |switches_first: bool| {
        let mut rig = Rig::new(&shape, metered(shape.config("smsf", named("smsf"), true)), 1);
        let connect = |rig: &mut Rig| (0..4).for_each(|switch| rig.connect(switch));
        if switches_first {
            connect(&mut rig);
        }
        for (port, bytes) in (1000_u16..1008).zip(1..) {
            let job = port.to_string();
            rig.start("hadoop", &job);
            let connection = connection(u32::from(port % 2), u32::from(2 + port % 2), port);
            rig.flow("hadoop", &job, 1, connection, Some(bytes * 100_000_000)).unwrap();
        }
        if !switches_first {
            connect(&mut rig);
        }
        rig.pass(SECOND);
        let entries = |switch| {
            let mut found = crate::in_memory::entries(rig.switch(switch));
            found.sort_unstable();
            found
        };
        (meters(rig.switch(0)).len(), (0..4).map(entries).collect::<Vec<_>>())
    };
    let (before, after) = (told(true), told(false));
    assert!(before.0 > 2, "{before:?}");
    assert!(before.1[0].iter().any(|(_, priority)| *priority == 300), "flows go their own ways");
    assert_eq!(before, after);
}

/// The SYN-ACK of a connection from the first host to the fourth comes back; without the option its
/// scale is zero.
pub fn accept(rig: &mut Rig, port: u16) {
    let mut back = segment(3, 0, 5000, 18, 0);
    // Its destination port is where the SYN came from.
    let at = 14 + 20 + 2;
    back[at..at + 2].copy_from_slice(&port.to_be_bytes());
    rig.send(3, back);
}

/// The entries of a switch that cap windows.
fn capping(rig: &Rig, switch: u32) -> usize {
    let entries = crate::in_memory::entries(rig.switch(switch)).into_iter();
    entries.filter(|(_, priority)| *priority == 850).count()
}

/// SDTCP through a switch that knows the extension: SYN seen, congestion told, windows capped.
#[test]
fn windows_are_capped_at_the_switch() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sdtcp", named("sdtcp"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    assert_eq!(rig.controller.at(rig.now).flows(9).len(), 1);
    let notice = rig.congest(0, Severity::High, 1);
    let before = rig.controller.counters();
    rig.tell(0, &notice);
    let after = rig.controller.counters();
    assert_eq!(after.directives, before.directives + 1);
    assert_eq!(after.directives_unenforced, before.directives_unenforced);
    assert_eq!(after.entries_added, before.entries_added + 1);
    // FIN: forgotten.
    rig.send(0, segment(0, 3, 1000, 17, 0));
    assert_eq!(rig.controller.at(rig.now).flows(9).len(), 0);
}

/// An agent on a switch that caps windows, which can't itself, leaves them to the switch; also when it comes back,
/// and is told everything.
#[test]
fn an_agent_that_caps_no_windows_leaves_them_to_the_switch() {
    for capabilities in [vec![Capability::Watching], Capability::ALL.to_vec()] {
        let by_agent = capabilities.contains(&Capability::Windows);
        let shape = Shape::racks(3);
        let mut rig = Rig::new(&shape, shape.config("sdtcp", named("sdtcp"), true), 1);
        (0..2).for_each(|switch| rig.connect(switch));
        let connect = |rig: &mut Rig| {
            let channel = rig.peer();
            rig.agents.insert(channel, crate::in_memory::Host::default());
            rig.input(Input::AgentConnected { channel, identity: "s0" }).unwrap();
            let hosts = vec![Host { name: "s0".into(), addresses: Vec::new() }];
            let capabilities = capabilities.clone();
            rig.input(Input::Reported(channel, &Report::Hello { hosts, capabilities, epoch: 1 }))
                .unwrap();
            channel
        };
        let agent = connect(&mut rig);
        rig.start("app", "job");
        rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
        rig.send(0, segment(0, 3, 1000, 2, 0));
        accept(&mut rig, 1000);
        let notice = rig.congest(0, Severity::High, 1);
        let before = rig.controller.counters();
        rig.tell(0, &notice);
        rig.pass(SECOND);
        let after = rig.controller.counters();
        assert_eq!(after.directives_unenforced, before.directives_unenforced);
        for comes_back in [false, true] {
            if comes_back {
                rig.input(Input::AgentGone(agent)).unwrap();
                connect(&mut rig);
                rig.pass(SECOND);
            }
            assert_eq!(capping(&rig, 0), usize::from(!by_agent));
            let problems = rig.controller.at(rig.now).status().problems;
            assert!(!problems.iter().any(|told| told.contains("no windows")), "{problems:?}");
            let why = rig.why("app", "job", 1);
            // The model of an agent's machine has no interfaces.
            let failed = by_agent.then_some("no interface p1 of s0 is configured here");
            assert_eq!(why.flow.failed.as_deref(), failed, "{}", why.by);
            assert_eq!(why.by.starts_with("nobody"), by_agent, "{}", why.by);
        }
    }
}

/// The policy caps all windows of a port with the first SYN, when no scale is known yet.
#[test]
fn a_switch_caps_the_window_of_each_flow_once_its_scale_is_seen() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    let counted = |rig: &Rig| {
        let counters = rig.controller.counters();
        (counters.directives, counters.directives_unenforced)
    };
    for (count, port) in [(1, 1000_u16), (2, 1001)] {
        let before = counted(&rig);
        rig.send(0, segment(0, 3, port, 2, 0));
        assert_eq!(capping(&rig, 0), count - 1);
        let waiting = counted(&rig);
        let (said, unenforced) = (waiting.0 - before.0, waiting.1 - before.1);
        assert!(said > 0 && unenforced == said, "{unenforced} of {said} are enforced by nobody");
        accept(&mut rig, port);
        assert_eq!(capping(&rig, 0), count);
        assert_eq!(counted(&rig), waiting);
    }
    let before = counted(&rig);
    rig.send(0, segment(0, 3, 1001, 17, 0));
    assert_eq!(capping(&rig, 0), 1, "an entry ends with its flow");
    let after = counted(&rig);
    assert!(after.0 > before.0 && after.1 == before.1, "the other's scale is known");
    rig.reload(Change { policy: Some(("tcp".into(), named("tcp"))), ..Change::default() });
    assert_eq!(capping(&rig, 0), 0, "and with the policy that wanted it");
}

/// Options that break off say nothing, as at an agent's ports: without a scale windows are left alone.
#[test]
fn a_switch_caps_no_window_before_a_list_of_options_that_is_whole() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.send(0, segment(0, 3, 1000, 2, 0));
    let mut broken = segment(3, 0, 5000, 18, 4);
    broken[36..38].copy_from_slice(&1000_u16.to_be_bytes());
    // A header of six words: the payload is its options, the first of nine octets where four are left.
    broken[46] = 0x60;
    rig.send(3, broken);
    assert_eq!(capping(&rig, 0), 0);
    accept(&mut rig, 1000);
    assert_eq!(capping(&rig, 0), 1);
}

/// A sender without room for a segment as large as passes here would wait for its persist timer.
#[test]
fn a_switch_caps_no_window_below_the_largest_segment() {
    let shape = Shape::racks(3);
    let parameters = policy::Parameters::default().with("buffer_share", policy::Share::literal(1));
    let sparing = policy::by_name("sab", &parameters).unwrap();
    let mut config = shape.config("sab", sparing, true);
    config.mss = Bytes::new(8_960);
    let mut rig = Rig::new(&shape, config, 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    let mut wide = segment(3, 0, 5000, 16, 0);
    wide[36..38].copy_from_slice(&1000_u16.to_be_bytes());
    wide[48..50].copy_from_slice(&[0xff; 2]);
    rig.send(3, wide);
    let (_, narrowed) = rig.delivered.last().unwrap();
    assert_eq!(u16::from_be_bytes([narrowed[48], narrowed[49]]), 8_960);
    let by = rig.why("app", "job", 1).by;
    assert!(by.contains("a window of 8960 B at s0"), "{by}");
}

/// A flow that was declared goes on under the policy that comes: only its caps end.
#[test]
fn another_policy_lifts_the_caps_at_switches() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    assert_eq!([0, 1].map(|switch| capping(&rig, switch)), [1, 1]);
    rig.reload(Change { policy: Some(("tcp".into(), named("tcp"))), ..Change::default() });
    assert_eq!(rig.why("app", "job", 1).by, "nobody: there is nothing to enforce");
    for _ in 0..2 {
        assert_eq!([0, 1].map(|switch| capping(&rig, switch)), [0, 0]);
        rig.pass(LEASE);
    }
}

/// A switch with one table gets no entries at all: not at once, not with renewals, not when it comes back.
#[test]
fn a_switch_without_a_second_table_gets_no_entries() {
    const MIDDLE: u32 = 2;
    const FEW: &str = "switch s2 has less than two tables";
    // Windows of flows, counts and meters.
    for (name, caps) in [("sab", true), ("sdtcp", false), ("fair", false)] {
        let hosts = vec![0, 0, 0, 1, 1, 1, MIDDLE];
        let shape = Shape {
            switches: 3,
            cables: vec![(0, MIDDLE), (MIDDLE, 1)],
            hosts,
            mbps: 100,
            cable_mbps: 100,
        };
        let config = shape.config(name, named(name), true);
        let config = if name == "fair" { metered(config) } else { config };
        let mut rig = Rig::new(&shape, config, 1);
        let mut small = Switch::new(u64::from(MIDDLE) + 1, 1);
        for port in 1..=3 {
            small.set_port(Time::ZERO, crate::in_memory::port(port, true), &mut Answers::default());
        }
        rig.swap_switch(MIDDLE, small);
        (0..3).for_each(|switch| rig.connect(switch));
        let agent = rig.agent("middle", &[6]);
        rig.start("app", "job");
        // The first goes through it, the second and a third, which nobody declared, begin there.
        rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
        rig.send(0, segment(0, 3, 1000, 2, 0));
        accept(&mut rig, 1000);
        rig.flow("app", "job", 2, connection(6, 3, 1), None).unwrap();
        let opened = Report::Opened { connection: connection(6, 3, 2) };
        rig.input(Input::Reported(agent, &opened)).unwrap();
        for comes_back in [false, true] {
            if comes_back {
                rig.unplug(MIDDLE);
                rig.plug(MIDDLE);
            }
            rig.pass(LEASE * 2);
            let there = crate::in_memory::entries(rig.switch(MIDDLE)).len();
            assert_eq!((there, meters(rig.switch(MIDDLE)).len()), (0, 0));
            assert_eq!(rig.controller.counters().switch_errors, 0);
        }
        let problems = rig.controller.at(rig.now).status().problems;
        assert!(problems.contains(&format!("{FEW}: it gets no entries")), "{problems:?}");
        assert_eq!(rig.controller.at(rig.now).status().switches[MIDDLE as usize].entries, 0);
        let [through, from] = [1, 2].map(|flow| rig.why("app", "job", flow));
        assert_eq!(from.flow.enforced_bps, None);
        assert_eq!(through.by.contains(&format!("at s2: {FEW}")), caps, "{}", through.by);
    }
}

/// The SYN-ACK doesn't come again for the flow that takes the place of what was only seen.
#[test]
fn a_flow_that_is_declared_after_its_scale_was_seen_has_its_window_capped() {
    let shape = Shape::racks(3);
    for declared in [1000, 0] {
        let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
        (0..2).for_each(|switch| rig.connect(switch));
        let capping = |rig: &Rig| {
            let entries = crate::in_memory::entries(rig.switch(0)).into_iter();
            entries.filter(|(_, priority)| *priority == 850).count()
        };
        rig.send(0, segment(0, 3, 1000, 2, 0));
        accept(&mut rig, 1000);
        rig.start("app", "job");
        rig.flow("app", "job", 1, connection(0, 3, declared), None).unwrap();
        // Of a flow whose port nobody knows the connection must be seen once more.
        rig.send(0, segment(0, 3, 1000, 2, 0));
        assert_eq!(rig.controller.at(rig.now).flows(9).len(), 1, "it was taken over");
        assert_eq!(capping(&rig), 1, "port {declared}");
    }
}

/// A switch that doesn't know the action says so; one that takes the entry has confirmed it.
#[test]
fn a_cap_that_a_switch_refuses_is_not_enforced() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.uncapping = true;
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    let shown = |rig: &Rig| {
        let why = rig.why("app", "job", 1);
        let problems = rig.controller.at(rig.now).status().problems;
        (why.by, why.flow.failed, problems.into_iter().find(|told| told.contains("10.0.0.1")))
    };
    let (by, failed, problem) = shown(&rig);
    let reason = "the experimenter of the action is unknown, OpenFlow error of type 2, code 2";
    assert!(by.starts_with("nobody (a window of ") && by.contains(reason), "{by}");
    assert_eq!(failed.unwrap(), format!("switch s0: {reason}"));
    let told = format!("switch s0: the window of 10.0.0.1:1000 is not enforced: {reason}");
    assert_eq!(problem, Some(told));
    rig.uncapping = false;
    rig.pass(LEASE);
    let (by, failed, problem) = shown(&rig);
    assert!(by.contains(" at s0; ") && by.ends_with(" at s1") && !by.contains("nobody"), "{by}");
    assert_eq!((failed, problem), (None, None));
    // A switch that is away has confirmed nothing; one that is back confirms anew.
    rig.unplug(0);
    assert!(shown(&rig).0.contains(" at s0: it is not connected); "));
    rig.plug(0);
    assert_eq!(shown(&rig).0, by);
    // Nothing has reached it since.
    rig.now += LEASE + SECOND;
    let (by, ..) = shown(&rig);
    assert!(by.contains(" at s0: switch s0 has confirmed nothing for 11 s: its entries"), "{by}");
}

/// An agent on each machine: that of the sender's switch is told to watch, tells SYN and FIN, and caps.
#[test]
fn the_agent_of_a_switch_watches_for_the_policies_that_ask() {
    for (policy, is_congested) in [("sdtcp", true), ("sab", false)] {
        let shape = Shape::racks(3);
        let mut config = shape.config(policy, named(policy), true);
        config.switches.iter_mut().for_each(|switch| switch.windows = false);
        let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let mut tell = |input: Input<'_>| {
            let mut out = Vec::new();
            let done = controller.step(Time::ZERO, input, &mut out);
            let commands = out.into_iter().flat_map(|output| match output {
                Output::Agent(channel, said) => {
                    said.commands.into_iter().map(|command| (channel, command)).collect()
                }
                _ => Vec::new(),
            });
            (done, commands.collect::<Vec<_>>())
        };
        let names = ["h0", "h3", "s0", "s1"];
        let mut told = Vec::new();
        for (number, name) in (0..).zip(names) {
            let channel = ChannelId(number);
            tell(Input::AgentConnected { channel, identity: name }).0.unwrap();
            let addresses = if name == "h0" { vec![address(0)] } else { Vec::new() };
            let addresses = if name == "h3" { vec![address(3)] } else { addresses };
            let hosts = vec![Host { name: name.into(), addresses }];
            let capabilities = Capability::ALL.to_vec();
            let (done, said) =
                tell(Input::Reported(channel, &Report::Hello { hosts, capabilities, epoch: 0 }));
            done.unwrap();
            told.extend(said);
        }
        let watched = told.iter().filter_map(|(channel, command)| match command {
            Command::Watch { watch: Some(watch), .. } => Some((channel.0, watch.thresholds)),
            _ => None,
        });
        let watched: Vec<_> = watched.collect();
        for number in 0..4 {
            let ports = watched.iter().filter(|(channel, _)| *channel == number).count();
            assert_eq!(
                ports,
                if number < 2 { 0 } else { 4 },
                "{policy}: {}",
                names[usize::try_from(number).unwrap()]
            );
        }
        assert!(watched.iter().all(|(_, thresholds)| thresholds.is_some() == is_congested));
        let every = told.iter().filter_map(|(_, command)| match command {
            Command::Sample { every_ns } => Some(*every_ns),
            _ => None,
        });
        let wanted = if is_congested { Span::from_millis(100) } else { SECOND };
        assert!(every.collect::<Vec<_>>().iter().all(|every| *every == wanted));

        let opened = Report::Opened { connection: connection(0, 3, 1000) };
        for stranger in [1, 3] {
            let refused = tell(Input::Reported(ChannelId(stranger), &opened)).0.unwrap_err();
            assert_eq!(refused.field, "connection.source");
        }
        let mut said = tell(Input::Reported(ChannelId(2), &opened)).1;
        let (node, interface) = ("s0".into(), "p1".into());
        let congested = Report::Congested {
            node,
            interface,
            severity: Severity::High,
            queue_bytes: Bytes::ZERO,
        };
        said.extend(tell(Input::Reported(ChannelId(2), &congested)).1);
        let caps = said.iter().filter(|(channel, command)| {
            channel.0 == 2 && matches!(command, Command::Window { cap: Some(_), .. })
        });
        assert!(caps.count() > 0, "{policy}: {said:?}");
    }
}
