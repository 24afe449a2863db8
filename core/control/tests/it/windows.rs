//! The windows, classes and gaps that an agent's kernel is told, what then stands there, and what is shown where a
//! command fails.

use crate::scripted::{
    FLOW, LINK, NARROW, PORT, Rig, Scripted, WIDE, by, config, connection, machine, problems,
    space, spaced, waiting, watched, window, windowed,
};
use model::{Cap, Caps, Directive, FlowId, Severity};
use protocol::Processes;
use protocol::agent::{Command, ConnectionReport, EndedConnection, Report};
use protocol::application::Declaration;
use protocol::operator::{Act, Order};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, Controller, Input, Limits};

/// What is to apply at each severity goes to the agent once, and is renewed with all else; who can't change between
/// caps by itself is told nothing, and it is shown.
#[test]
fn prepared_caps_are_told_once_and_stand_until_the_lease_ends() {
    let mut rig = Rig::with_a_flow();
    let caps = Caps { medium: Some(WIDE), high: Some(NARROW), ..Caps::default() };
    let prepare = |flow| Directive::Prepare { link: LINK, flow, caps };
    let prepared = |connection| Command::Prepare {
        node: "s0".into(),
        interface: "eth0".into(),
        connection,
        caps,
    };
    assert_eq!(rig.decided([prepare(None)]), [prepared(None)]);
    let stand = |rig: &Rig| {
        let at = |severity| rig.kernel.cap(rig.now, PORT, severity, &connection(1));
        Severity::ALL.map(at)
    };
    assert_eq!(stand(&rig), [None, None, Some(WIDE), Some(NARROW)]);
    // The port has told, and nothing is left to say.
    let (node, interface) = ("s0".into(), "eth0".into());
    let (severity, queue_bytes) = (Severity::High, Bytes::new(127_500));
    let report = Report::Congested { node, interface, severity, queue_bytes };
    assert_eq!(rig.told(Input::Reported(rig.channel, &report)), []);
    assert_eq!(rig.decided([prepare(None)]), [], "the same");
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    let said = format!("{why:?}");
    assert!(said.contains("at medium, ") && said.contains("at high)"), "{said}");
    // A cap for all severities takes its place, and the other way round; renewals go by the lease.
    assert_eq!(rig.decided([window(None, Some(WIDE))]), [windowed(None, Some(WIDE))]);
    assert_eq!(stand(&rig), [Some(WIDE); 4]);
    assert_eq!(rig.decided([prepare(Some(FLOW))]), [prepared(Some(connection(1)))]);
    rig.now += Span::from_secs(4);
    rig.decided([]);
    rig.now += Span::from_secs(8);
    assert_eq!(stand(&rig), [None, None, Some(WIDE), Some(NARROW)]);
    rig.now += Span::from_secs(3);
    assert_eq!(stand(&rig), [None; 4], "nobody has renewed them");
}

/// Spacing goes to the agent where the link begins, is renewed with all else, and is not in force while decisions are
/// frozen; who can't is told nothing, and it is shown.
#[test]
fn spacing_is_told_once_and_stands_until_the_lease_ends() {
    let mut rig = Rig::with_a_flow();
    let gap = Some(Span::from_micros(120));
    assert_eq!(rig.decided([space(gap)]), [spaced(gap)]);
    assert_eq!(rig.decided([space(gap)]), [], "the same");
    assert_eq!(rig.kernel.gap(rig.now, PORT), gap);
    let explained = |rig: &Rig| {
        let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
        format!("{why:?}")
    };
    let said = explained(&rig);
    assert!(said.contains("acknowledgements 120 us apart at s0"), "{said}");
    let freeze = |order| Act { at_s: 1, by: "me".into(), order };
    let (freezes, thaws) = (freeze(Order::Freeze { reason: None }), freeze(Order::Thaw {}));
    assert_eq!(rig.told(Input::Ordered { act: &freezes, again: false }), [spaced(None)]);
    assert_eq!(rig.told(Input::Ordered { act: &thaws, again: false }), [spaced(gap)]);
    // One that comes anew is told with all else.
    rig.told(Input::AgentGone(rig.channel));
    rig.connect();
    assert_eq!(rig.kernel.gap(rig.now, PORT), gap);
    rig.now += Span::from_secs(4);
    rig.decided([]);
    rig.now += Span::from_secs(8);
    assert_eq!(rig.kernel.gap(rig.now, PORT), gap);
    rig.now += Span::from_secs(3);
    assert_eq!(rig.kernel.gap(rig.now, PORT), None, "nobody has renewed it");
    let mut rig = Rig::with_a_flow();
    rig.refuses = true;
    rig.decided([space(gap)]);
    let said = explained(&rig);
    assert!(said.contains("no room"), "{said}");
    let problems = rig.controller.at(rig.now).status().problems;
    assert!(format!("{problems:?}").contains("the spacing of acknowledgements at s0 eth0"));
    rig.refuses = false;
    rig.decided([space(None)]);
    assert!(!explained(&rig).contains("no room"));
}

#[test]
fn windows_end_with_their_flow() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    let declaration = Declaration::FlowComplete { job: "sort".into(), flow: "1".into() };
    let input = Input::Declared { application: "app", declaration: &declaration };
    assert_eq!(rig.told(input), [windowed(Some(connection(1)), None)]);
    assert_eq!(rig.cap(1), None);
}

/// Those that come while decisions are frozen as well, by an agent that comes then; and of a host that is drained.
#[test]
fn windows_and_classes_are_not_in_force_while_decisions_are_frozen_or_their_host_is_drained() {
    let order = |order| Act { at_s: 1, by: "me".into(), order };
    let host = || String::from("h1");
    let begins = [Order::Freeze { reason: None }, Order::Drain { host: host(), reason: None }];
    let ends = [Order::Thaw {}, Order::Undrain { host: host() }];
    for (begin, end) in begins.into_iter().zip(ends) {
        let mut rig = Rig::with_a_flow();
        let is_frozen = matches!(begin, Order::Freeze { .. });
        let all = || [window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))];
        rig.decided(all());
        rig.decided([Directive::Prioritize { flow: FLOW, priority: 2 }]);
        rig.told(Input::Ordered { act: &order(begin), again: false });
        let class = |rig: &Rig| rig.kernel.class(rig.now, PORT, &connection(1));
        assert_eq!((rig.cap(1).is_none(), class(&rig)), (is_frozen, None));
        assert_ne!(rig.cap(1), Some(NARROW));
        rig.decided(all());
        rig.told(Input::AgentGone(rig.channel));
        rig.connect();
        assert_eq!((rig.cap(1).is_none(), class(&rig)), (is_frozen, None));
        assert_ne!(rig.cap(1), Some(NARROW));
        rig.told(Input::Ordered { act: &order(end), again: false });
        // Of a host that was drained the policy decides anew.
        rig.decided(all());
        assert_eq!((rig.cap(1), rig.cap(2)), (Some(NARROW), Some(WIDE)));
        assert_eq!(class(&rig), is_frozen.then_some(2));
    }
}

#[test]
fn a_cap_that_stands_is_not_told_again() {
    let mut rig = Rig::with_a_flow();
    for told in [vec![windowed(None, Some(WIDE))], vec![]] {
        assert_eq!(rig.decided([window(None, Some(WIDE))]), told);
    }
    for told in [vec![windowed(Some(connection(1)), Some(NARROW))], vec![]] {
        assert_eq!(rig.decided([window(Some(FLOW), Some(NARROW))]), told);
    }
}

/// Its process ends, and its windows with it; another one is told them.
#[test]
fn an_agent_that_reconnects_is_told_its_windows() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))]);
    rig.told(Input::AgentGone(rig.channel));
    rig.kernel.abandon();
    rig.agent = machine().after(rig.kernel.leases().clone(), rig.kernel.granted());
    assert_eq!(rig.cap(1), None);
    let windows = [windowed(None, Some(WIDE)), windowed(Some(connection(1)), Some(NARROW))];
    assert_eq!(rig.connect(), [watched(), windows].concat());
    assert_eq!((rig.cap(1), rig.cap(2)), (Some(NARROW), Some(WIDE)));
    // And that they end.
    rig.decided([window(None, None)]);
    assert_eq!((rig.cap(1), rig.cap(2)), (None, None));
}

#[test]
fn an_agent_that_reconnects_is_told_its_classes() {
    let mut rig = Rig::with_a_flow();
    rig.decided([Directive::Prioritize { flow: FLOW, priority: 2 }]);
    rig.told(Input::AgentGone(rig.channel));
    rig.kernel.abandon();
    rig.agent = machine().after(rig.kernel.leases().clone(), rig.kernel.granted());
    assert_eq!(rig.kernel.class(rig.now, PORT, &connection(1)), None);
    rig.connect();
    assert_eq!(rig.kernel.class(rig.now, PORT, &connection(1)), Some(2));
}

/// A flow whose port nobody knew has its window as soon as its connection is seen.
#[test]
fn a_connection_that_joins_has_its_flows_window() {
    let mut rig = Rig::with_two_flows();
    assert_eq!(rig.decided([window(Some(FlowId(1)), Some(NARROW))]), []);
    let connections = vec![ConnectionReport {
        connection: connection(7),
        delivered_bytes: Bytes::ZERO,
        unsent_bytes: Bytes::new(1_000),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    }];
    let report = Report::Connections { sampled_ns: rig.now, connections };
    let commands = [windowed(Some(connection(7)), Some(NARROW))];
    assert_eq!(rig.told(Input::Reported(rig.channel, &report)), commands);
    assert_eq!((rig.cap(7), rig.cap(1)), (Some(NARROW), None));
}

/// Of a connection that is told of when it has ended no window is capped, nor anything lifted.
#[test]
fn a_connection_that_has_ended_has_no_window() {
    let mut rig = Rig::with_two_flows();
    rig.decided([window(Some(FlowId(1)), Some(NARROW))]);
    waiting(&mut rig, &[(8, 1_000)]);
    assert_eq!(rig.cap(8), Some(NARROW));
    let mut ended = |port| {
        let sent_bytes = Bytes::new(9);
        let one = EndedConnection { connection: connection(port), sent_bytes, processes: vec![] };
        let (sampled_ns, connections) = (rig.now, vec![one]);
        let report = Report::Ended { sampled_ns, connections, lost: 0 };
        rig.told(Input::Reported(rig.channel, &report))
    };
    assert_eq!(ended(7), [], "nobody has seen it open");
    assert_eq!(ended(8), [windowed(Some(connection(8)), None)], "its entry goes");
}

#[test]
fn a_window_that_fails_is_shown_as_that_until_it_stands() {
    let mut rig = Rig::with_a_flow();
    let problem = "agent left: a window at s0 eth0 is not enforced: no room";
    let shown = problems;
    let limit = Some(Rate::from_mbps(5));
    rig.refuses = true;
    rig.decided([Directive::Pace { flow: FLOW, limit }, window(Some(FLOW), Some(NARROW))]);
    assert_eq!((shown(&rig), rig.cap(1)), (vec![problem.to_owned()], None));
    // The rate stands, and the window of all is not that of the connection.
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!((why.flow.enforced_bps, why.flow.failed.as_deref()), (limit, Some("no room")));
    rig.refuses = false;
    rig.decided([window(None, Some(WIDE))]);
    assert_eq!((shown(&rig), rig.cap(1)), (vec![problem.to_owned()], Some(WIDE)));
    rig.decided([window(Some(FLOW), Some(Cap { bytes: Bytes::new(4_000), ..NARROW }))]);
    assert_eq!(shown(&rig), [""; 0]);
}

/// A policy doesn't say again what it has said.
#[test]
fn a_window_that_failed_is_tried_again_with_each_renewal() {
    let mut rig = Rig::with_a_flow();
    rig.refuses = true;
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    for (refuses, cap) in [(true, None), (false, Some(NARROW))] {
        rig.refuses = refuses;
        // A third of a lease, when it is renewed.
        rig.now += Span::from_secs(4);
        rig.told(Input::Tick);
        assert_eq!((rig.cap(1), problems(&rig).is_empty()), (cap, cap.is_some()));
    }
    rig.now += Span::from_secs(4);
    assert_eq!(rig.told(Input::Tick), [], "what stands is not told again");
}

const NARROWED: &str = "a window of 3 kB at s0";
const UNSEEN: &str = "if agent left has seen both SYNs";

#[test]
fn windows_and_classes_count_while_they_are_confirmed_and_leased() {
    let mut rig = Rig::with_a_flow();
    let class = Directive::Prioritize { flow: FLOW, priority: 2 };
    rig.policy.0.lock().unwrap().1 = [window(Some(FLOW), Some(NARROW)), class].into();
    rig.controller.observe(rig.now, Input::Tick).unwrap();
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    let waits = format!(
        "nobody ({NARROWED}: agent left has not confirmed it); nobody yet: agent left has not \
         confirmed its class"
    );
    assert_eq!(by(&rig), waits, "the commands are under way");
    rig.obey(&out);
    assert_eq!(by(&rig), format!("{NARROWED} {UNSEEN}; agent left, by its class"));
    // Nothing reaches the agent any more.
    rig.now += Span::from_secs(11);
    rig.controller.observe(rig.now, Input::Tick).unwrap();
    rig.controller.decide(&mut Vec::new());
    assert_eq!(rig.cap(1), None);
    let over = "agent left has confirmed nothing for 11 s: its leases may be over";
    assert_eq!(by(&rig), format!("nobody ({NARROWED}: {over}); nobody: {over}"));
}

#[test]
fn what_fails_says_nothing_of_what_stands() {
    let mut rig = Rig::with_a_flow();
    rig.refuses = true;
    let limit = Some(Rate::from_mbps(5));
    rig.decided([Directive::Pace { flow: FLOW, limit }, window(Some(FLOW), Some(NARROW))]);
    assert_eq!(by(&rig), format!("nobody ({NARROWED}: no room); agent left, by pacing"));
    // The cap of all fails, which is not that of the flow.
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    rig.refuses = true;
    rig.decided([window(None, Some(WIDE))]);
    assert_eq!((rig.cap(1), by(&rig)), (Some(NARROW), format!("{NARROWED} {UNSEEN}")));
}

/// Two windows fail and one failure is kept: the other window is not shown to stand.
#[test]
fn a_window_whose_failure_is_not_kept_is_not_confirmed() {
    let mut rig = Rig::with_a_flow();
    let limits = Some(Limits { flows: 1, ..Limits::default() });
    rig.controller.reconfigure(rig.now, Change { limits, ..Change::default() });
    rig.refuses = true;
    rig.decided([window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))]);
    assert_eq!(rig.cap(1), None);
    assert_eq!(by(&rig), format!("nobody ({NARROWED}: agent left has not confirmed it)"));
}

/// An agent leaves the windows of a connection alone whose SYNs it missed.
#[test]
fn a_window_counts_without_condition_where_the_agent_was_there_when_its_connection_opened() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    assert_eq!(by(&rig), format!("{NARROWED} {UNSEEN}"));
    let connection = connection(1);
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection }));
    assert_eq!(by(&rig), NARROWED);
    // Another process knows nothing of what the one before has seen.
    rig.told(Input::AgentGone(rig.channel));
    rig.now += Span::from_secs(1);
    rig.connect();
    assert_eq!(by(&rig), format!("{NARROWED} {UNSEEN}"));
}

#[test]
fn a_cap_of_which_only_the_floor_changes_is_told() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    let lower = Some(Cap { floor_segments: 1, ..NARROW });
    let commands = rig.decided([window(Some(FLOW), lower)]);
    assert_eq!((commands, rig.cap(1)), (vec![windowed(Some(connection(1)), lower)], lower));
}

/// The agent can't change or end what it has capped: that stands, and is told as standing.
#[test]
fn a_window_whose_change_or_end_fails_is_told_as_it_stands() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(WIDE))]);
    let by = |rig: &Rig| {
        rig.controller.at(rig.now).explain_flow("app", "sort", "1").expect("it is declared")
    };
    let stands = "; a window of 9 kB at s0 of before still stands and is renewed with the lease, its end is tried \
                  again: agent left failed: no room";
    rig.refuses = true;
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    assert_eq!(rig.cap(1), Some(WIDE));
    assert_eq!(by(&rig).by, format!("nobody ({NARROWED}: no room){stands}"));
    let act = Act { at_s: 1, by: "operator me".into(), order: Order::Freeze { reason: None } };
    rig.told(Input::Ordered { act: &act, again: false });
    assert_eq!(by(&rig).by, format!("nobody: decisions are frozen by operator me{stands}"));
    let frozen = &rig.controller.at(rig.now).status().problems[0];
    assert!(frozen.contains("1 of before still stand"), "{frozen}");
    let [told] = &problems(&rig)[..] else { panic!("{:?}", problems(&rig)) };
    assert!(told.contains("a window at s0 eth0 still stands (9 kB)"), "{told}");
    // Nor where all is told anew.
    rig.replace();
    assert_eq!(rig.cap(1), Some(WIDE));
    assert_eq!(by(&rig).by, format!("nobody: decisions are frozen by operator me{stands}"));
    rig.refuses = false;
    for _ in 0..2 {
        rig.now += Span::from_secs(4);
        rig.told(Input::Tick);
    }
    assert_eq!(rig.cap(1), None);
    assert_eq!(by(&rig).by, "nobody: decisions are frozen by operator me");
    assert_eq!(problems(&rig), [""; 0]);
}

/// Its end failed, and it is wanted again: to say so fails, too, and it is there all the same.
#[test]
fn a_window_that_stands_as_it_is_wanted_is_told_as_standing_whatever_failed() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(WIDE))]);
    rig.refuses = true;
    rig.decided([window(Some(FLOW), None)]);
    assert!(by(&rig).contains("a window of 9 kB at s0 of before still stands"), "{}", by(&rig));
    rig.decided([window(Some(FLOW), Some(WIDE))]);
    assert_eq!(rig.cap(1), Some(WIDE));
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    let stands = format!("a window of 9 kB at s0 {UNSEEN}");
    assert_eq!((why.by, why.flow.failed), (stands, None));
    let told = "agent left: a window at s0 eth0 stands as it shall (9 kB), but to say so again failed and is tried \
                again: no room";
    assert_eq!(problems(&rig), [told]);
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    assert!(by(&rig).starts_with("nobody (a window of 3 kB at s0: no room)"), "{}", by(&rig));
}

#[test]
fn a_switch_that_is_not_connected_caps_nothing() {
    let policy = Scripted::default();
    let mut config = config("scripted", Box::new(policy.clone()));
    config.switches[0].windows = true;
    let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
    let (job, connection) = (|| String::from("sort"), connection(1));
    for declaration in [
        Declaration::JobStart { job: job() },
        Declaration::FlowRequest {
            job: job(),
            flow: "1".into(),
            connection,
            processes: Processes::default(),
            bytes: None,
        },
    ] {
        let input = Input::Declared { application: "app", declaration: &declaration };
        controller.observe(Time::ZERO, input).unwrap();
    }
    policy.0.lock().unwrap().1 = [window(Some(FLOW), Some(NARROW))].into();
    controller.decide(&mut Vec::new());
    let why = controller.at(Time::ZERO).explain_flow("app", "sort", "1").unwrap();
    assert_eq!(why.by, format!("nobody ({NARROWED}: it is not connected)"));
}

/// Windows, classes and times between acknowledgements that an agent may still hold whose connection is lost are told
/// as its rates are: until the lease ends, or another agent says what stands.
#[test]
fn what_a_lost_agent_may_hold_beside_rates_is_told_until_its_lease_ends() {
    const MAY: &str = "of the last one may stand until its lease ends";
    let lost = || {
        let mut rig = Rig::with_a_flow();
        rig.decided([
            window(Some(FLOW), Some(NARROW)),
            Directive::Prioritize { flow: FLOW, priority: 2 },
            space(Some(Span::from_micros(120))),
        ]);
        assert!(!by(&rig).contains(MAY), "{}", by(&rig));
        rig.told(Input::AgentGone(rig.channel));
        rig
    };
    let may_stand = |rig: &Rig| {
        let former = rig.controller.at(rig.now).status().former_agents;
        former.iter().map(|agent| agent.may_stand).sum::<usize>()
    };
    let freeze = |rig: &mut Rig| {
        let act = Act { at_s: 1, by: "me".into(), order: Order::Freeze { reason: None } };
        rig.told(Input::Ordered { act: &act, again: false });
        rig.controller.at(rig.now).status().problems.swap_remove(0)
    };
    let mut rig = lost();
    for what in [NARROWED, "class 2", "acknowledgements 120 us apart at s0"] {
        assert!(by(&rig).contains(&format!("{what} {MAY}")), "{what}: {}", by(&rig));
    }
    assert_eq!(may_stand(&rig), 3);
    let problem = freeze(&mut rig);
    assert!(problem.contains("but 3 of before still stand"), "{problem}");
    for what in [NARROWED, "class 2", "acknowledgements 120 us apart at s0"] {
        assert!(by(&rig).contains(&format!("{what} of before, until")), "{what}: {}", by(&rig));
    }
    rig.now += Span::from_secs(11);
    rig.told(Input::Tick);
    assert!(!by(&rig).contains("of before"), "{}", by(&rig));
    assert_eq!(may_stand(&rig), 0);
    // The next agent has confirmed what stands.
    let mut rig = lost();
    rig.connect();
    assert!(!by(&rig).contains(MAY), "{}", by(&rig));
    let problem = freeze(&mut rig);
    assert!(problem.contains("no limit is in force"), "{problem}");
    // One that leaves holds none of it.
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    let left = Input::Reported(rig.channel, &Report::Left {});
    rig.controller.observe(rig.now, left).unwrap();
    assert_eq!(may_stand(&rig), 0);
    assert!(by(&rig).contains("has left, and holds nothing"), "{}", by(&rig));
}
