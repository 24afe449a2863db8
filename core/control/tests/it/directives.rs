//! What the controller makes of each directive, by hand: the commands to an agent, what then stands in
//! its kernel, and what has nobody to obey.

use std::sync::Arc;

use crate::scripted::{
    FLOW, FROM, LINK, NARROW, PORT, Rig, Scripted, TO, WIDE, by, config, connection, paced,
    problems, space, waiting, window, windowed,
};
use model::{
    Caps, Declared, Directive, Directives, FlowId, JobId, MOST_RATE, Measured, Network, Request,
};
use policy::{DirectiveKind, Policy};
use protocol::Processes;
use protocol::agent::{Command, Commands, ConnectionReport, Report};
use protocol::application::Declaration;
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, Controller, Input, Output};

#[test]
fn each_directive_becomes_its_command_and_stands() {
    let mut rig = Rig::with_a_flow();
    let priority = |priority| Command::Prioritize { connection: connection(1), priority };
    let limit = Some(Rate::from_mbps(5));
    let pace = |limit| Directive::Pace { flow: FLOW, limit };
    assert_eq!(rig.decided([pace(limit)]), [paced(1, limit)]);
    let directive = Directive::Prioritize { flow: FLOW, priority: 2 };
    assert_eq!(rig.decided([directive]), [priority(2)]);
    let both = [window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))];
    let commands = [windowed(None, Some(WIDE)), windowed(Some(connection(1)), Some(NARROW))];
    assert_eq!(rig.decided(both), commands);
    assert_eq!(rig.kernel.limit(rig.now, &connection(1)), limit);
    assert_eq!(rig.kernel.class(rig.now, PORT, &connection(1)), Some(2));
    assert_eq!((rig.cap(1), rig.cap(2)), (Some(NARROW), Some(WIDE)));
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!((why.flow.intended_bps, why.flow.enforced_bps), (limit, limit));
    // What ends: the cap of all ends those of single flows, which are told first.
    let ends = [pace(None), Directive::Prioritize { flow: FLOW, priority: 0 }, window(None, None)];
    let commands = [windowed(Some(connection(1)), None), windowed(None, None)];
    assert_eq!(rig.decided(ends), [&commands[..], &[paced(1, None), priority(0)]].concat());
    assert_eq!(rig.kernel.limits(rig.now).count() + rig.kernel.classes(rig.now, PORT).count(), 0);
    assert_eq!((rig.cap(1), rig.cap(2)), (None, None));
    let counters = rig.controller.counters();
    assert_eq!((counters.directives, counters.directives_unenforced), (7, 0));
}

/// Without an agent, at a switch that caps none: what is lifted is nothing that somebody must do.
#[test]
fn what_has_nobody_to_obey_is_counted() {
    let mut rig = Rig::new();
    let unenforced = |rig: &mut Rig, directive: Directive| {
        let before = rig.controller.counters().directives_unenforced;
        rig.policy.0.lock().unwrap().1 = [directive].into();
        rig.controller.observe(rig.now, Input::Tick).unwrap();
        rig.controller.decide(&mut Vec::new());
        rig.controller.counters().directives_unenforced - before
    };
    rig.declares_a_flow();
    let pace = |limit| Directive::Pace { flow: FLOW, limit };
    for _ in 0..2 {
        for (directive, count) in [
            (window(None, Some(WIDE)), 1),
            (window(Some(FLOW), Some(NARROW)), 1),
            (window(Some(FLOW), None), 0),
            (window(None, None), 0),
            (space(Some(Span::from_secs(1))), 1),
            (space(None), 0),
            (pace(Some(Rate::from_mbps(5))), 1),
            (pace(None), 0),
            (Directive::Prioritize { flow: FLOW, priority: 2 }, 1),
            (Directive::Prioritize { flow: FLOW, priority: 0 }, 0),
        ] {
            assert_eq!(unenforced(&mut rig, directive.clone()), count, "{directive:?}");
        }
        // An agent that was there is gone.
        rig.connect();
        for directive in [window(None, Some(WIDE)), pace(Some(Rate::from_mbps(5)))] {
            assert_eq!(unenforced(&mut rig, directive.clone()), 0, "{directive:?}");
        }
        rig.told(Input::AgentGone(rig.channel));
    }
}

/// The end of a rate fails, so that the rate still stands, and nothing is wanted of the connection any more. Then
/// its agent goes, and the next one is told to hold nothing.
#[test]
fn a_rate_whose_end_failed_is_not_shown_for_the_agent_that_comes_after() {
    let mut rig = Rig::with_a_flow();
    let limit = Some(Rate::from_mbps(5));
    rig.decided([Directive::Pace { flow: FLOW, limit }]);
    rig.policy.0.lock().unwrap().1 = [Directive::Pace { flow: FLOW, limit: None }].into();
    rig.controller.observe(rig.now, Input::Tick).unwrap();
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    let [Output::Agent(_, Commands { epoch, sequence, .. })] = out[..] else { panic!("{out:?}") };
    let (command, reason) = (paced(1, None), String::from("no"));
    for report in
        [Report::Failed { epoch, sequence, command, reason }, Report::Applied { epoch, sequence }]
    {
        rig.controller.observe(rig.now, Input::Reported(rig.channel, &report)).unwrap();
    }
    let enforced = |rig: &Rig| rig.controller.at(rig.now).flows(1)[0].enforced_bps;
    assert_eq!(enforced(&rig), limit, "as before");
    rig.told(Input::AgentGone(rig.channel));
    assert_eq!(enforced(&rig), limit, "until its lease ends");
    rig.connect();
    assert_eq!(rig.kernel.limit(rig.now, &connection(1)), None);
    assert_eq!((enforced(&rig), &*by(&rig)), (None, "nobody: there is nothing to enforce"));
}

/// Two flows on one connection, which gets the sum of their rates and none while one has no limit.
#[test]
fn a_flow_beside_one_without_a_limit_on_its_connection_is_held_by_nobody() {
    let mut rig = Rig::with_a_flow();
    let request = Declaration::FlowRequest {
        job: "sort".into(),
        flow: "2".into(),
        connection: connection(1),
        processes: Processes::default(),
        bytes: None,
    };
    rig.told(Input::Declared { application: "app", declaration: &request });
    let pace = |flow, mbps| Directive::Pace { flow, limit: Some(Rate::from_mbps(mbps)) };
    assert_eq!(rig.decided([pace(FLOW, 5)]), []);
    assert_eq!(by(&rig), "nobody: another flow of its connection has no limit");
    let other = rig.controller.at(rig.now).explain_flow("app", "sort", "2").unwrap().by;
    assert_eq!(other, "nobody: there is nothing to enforce");
    assert_eq!(rig.decided([pace(FlowId(1), 3)]), [paced(1, Some(Rate::from_mbps(8)))]);
    assert_eq!(by(&rig), "agent left, by pacing its connection, which 2 flows share");
}

/// It would refuse more, and a lower limit of before would stand for good.
#[test]
fn no_agent_is_told_more_than_it_takes() {
    let mut rig = Rig::with_a_flow();
    let pace = |mbps| Directive::Pace { flow: FLOW, limit: Some(Rate::from_mbps(mbps)) };
    rig.decided([pace(10_000)]);
    let most = Some(MOST_RATE);
    assert_eq!(rig.decided([pace(100_000)]), [paced(1, most)]);
    assert_eq!(rig.kernel.limit(rig.now, &connection(1)), most);
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!(why.flow.intended_bps, Some(Rate::from_mbps(100_000)));
    assert_eq!((why.flow.enforced_bps, why.flow.failed), (most, None));
    assert!(why.why.contains("100 Gbit/s"), "{}", why.why);
    // An agent that comes back is told the same.
    rig.told(Input::AgentGone(rig.channel));
    assert!(rig.connect().contains(&paced(1, most)));
    // So is what a pair of hosts gives.
    rig.decided([Directive::Pace { flow: FLOW, limit: None }]);
    waiting(&mut rig, &[(1, 1)]);
    let pair = Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_mbps(40_000) };
    assert_eq!(rig.decided([pair]), [paced(1, most)]);
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!(
        (why.flow.intended_bps, why.flow.enforced_bps),
        (Some(Rate::from_mbps(40_000)), most)
    );
    assert!(why.why.contains("40 Gbit/s"), "{}", why.why);
}

/// Of a switch that only agents act for, or nobody, no connection is expected.
#[test]
fn a_switch_is_missed_only_where_it_is_expected_by_openflow() {
    for is_expected in [true, false] {
        let mut config = config("scripted", Box::new(Scripted::default()));
        if !is_expected {
            config.switches.clear();
        }
        let controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let status = controller.at(Time::ZERO).status();
        assert_eq!(status.switches[0].is_missing(), is_expected);
        let missed = [String::from("switch s0 is not connected")];
        assert_eq!(status.problems, if is_expected { &missed[..] } else { &[] });
    }
}

/// Two connections of a pair send, a third only receives: the two have half of the pair's rate each,
/// and a flow no more than its own.
#[test]
fn the_rate_of_a_pair_is_divided_among_those_that_send() {
    let mut rig = Rig::with_a_flow();
    assert_eq!(waiting(&mut rig, &[(1, 10), (2, 10), (3, 0)]), []);
    let offered = Measured::Offered { src: FROM, dst: TO, rate: Rate::from_mbps(100) };
    assert!(rig.policy.0.lock().unwrap().0.contains(&offered.into()));
    let pair = |mbps| Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_mbps(mbps) };
    let rate = |mbps| Some(Rate::from_mbps(mbps));
    assert_eq!(rig.decided([pair(6)]), [paced(1, rate(3)), paced(2, rate(3))]);
    // Its share is what is wanted of a flow, where the policy wants nothing of the flow itself.
    let answers = rig.controller.at(rig.now);
    let flows = answers.flows(9);
    let wanted: Vec<_> = flows.iter().map(|flow| flow.intended_bps).collect();
    assert_eq!(wanted, vec![rate(3); flows.len()]);
    let links = answers.status().links;
    let most = links.iter().map(|link| link.limited_bps).max();
    assert_eq!(most, Some(Rate::from_mbps(3 * flows.len() as u64)));
    let pace = Directive::Pace { flow: FLOW, limit: rate(5) };
    assert_eq!(rig.decided([pace, pair(20)]), [paced(1, rate(5)), paced(2, rate(10))]);
    // Not even a small share stops a connection, nor a limit that no agent would hold.
    let least = model::LEAST_RATE;
    let slow = Directive::Pace { flow: FLOW, limit: Some(Rate::from_bps(1)) };
    assert_eq!(rig.decided([slow]), [paced(1, Some(least))]);
    let free = Directive::Pace { flow: FLOW, limit: None };
    assert_eq!(rig.decided([free]), [paced(1, rate(10))]);
    let pair = Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_bps(1_000) };
    assert_eq!(rig.decided([pair]), [paced(1, Some(least)), paced(2, Some(least))]);
}

/// What one policy of a front end says of a request.
fn gathered() -> Directive {
    let id = JobId(0);
    let (sizes, holders) = (vec![100], vec![TO]);
    let request = Request { id, front: FROM, sizes, holders, copies: 1, spare: Vec::new() };
    let rig = Rig::new();
    let network = Network::new(config("", Box::new(rig.policy)).topology);
    let mut policy = policy::by_name("one-all", &policy::Parameters::default()).unwrap();
    let declared = Declared::Gather(Arc::new(request));
    policy.observe(Time::ZERO, &network, &declared.into());
    let mut out = Directives::new();
    policy.decide(Time::ZERO, &network, &mut out);
    out.swap_remove(0)
}

/// What a policy's descriptor says of a kind of directive, the controller does and its page tells.
#[test]
fn what_has_an_actuator_is_enforced_and_nothing_else() {
    let page = include_str!("../../../../docs/control.md");
    let nobody = page.lines().find(|line| line.contains("counted in `directives_unenforced`"));
    for kind in policy::POLICIES.iter().flat_map(|policy| policy.directives) {
        let rate = Rate::from_mbps(5);
        let directive = match kind {
            DirectiveKind::Pace => Directive::Pace { flow: FLOW, limit: Some(rate) },
            DirectiveKind::Prioritize => Directive::Prioritize { flow: FLOW, priority: 2 },
            DirectiveKind::Window => window(Some(FLOW), Some(NARROW)),
            DirectiveKind::Prepare => {
                let caps = Caps { high: Some(NARROW), ..Caps::default() };
                Directive::Prepare { link: LINK, flow: Some(FLOW), caps }
            }
            DirectiveKind::Space => Directive::Space { link: LINK, gap: Some(Span::from_secs(1)) },
            DirectiveKind::Grant => {
                Directive::Grant { src: FROM, dst: TO, slot: Time::ZERO, via: None }
            }
            DirectiveKind::PacePair => Directive::PacePair { src: FROM, dst: TO, rate },
            DirectiveKind::Gather => gathered(),
        };
        assert_eq!(DirectiveKind::from(&directive), *kind);
        let mut rig = Rig::with_a_flow();
        waiting(&mut rig, &[(1, 10)]);
        let is_told = !rig.decided([directive]).is_empty();
        let unenforced = rig.controller.counters().directives_unenforced;
        let is_live = kind.live_actuator().is_some();
        assert_eq!((is_told, unenforced), (is_live, u64::from(!is_live)), "{kind:?}");
        let is_nobodys = nobody.unwrap().contains(&format!("`{kind:?}`"));
        assert_eq!(is_nobodys, !is_live, "docs/control.md: {kind:?}");
    }
}

/// A policy that wants nothing takes the place of one whose window failed, or fails only then.
#[test]
fn failures_end_with_what_was_wanted() {
    for is_late in [false, true] {
        let mut rig = Rig::with_a_flow();
        rig.refuses = true;
        rig.policy.0.lock().unwrap().1 = [window(Some(FLOW), Some(NARROW))].into();
        let (mut wanted, mut nothing) = (Vec::new(), Vec::new());
        rig.controller.observe(rig.now, Input::Tick).unwrap();
        rig.controller.decide(&mut wanted);
        if !is_late {
            rig.obey(&wanted);
            assert_eq!(problems(&rig).len(), 1);
        }
        let policy: Box<dyn Policy + Send> = Box::new(Scripted::default());
        let policy = Some(("scripted".into(), policy));
        rig.controller.reconfigure(rig.now, Change { policy, ..Change::default() });
        rig.controller.decide(&mut nothing);
        if is_late {
            rig.obey(&wanted);
        }
        rig.obey(&nothing);
        assert_eq!(problems(&rig), [""; 0], "late: {is_late}");
    }
}

/// A flow whose declared size was false ends for the policy and enters again: a rate of the one that
/// ended is nothing that the policy wants of the other.
#[test]
fn a_flow_that_enters_again_is_held_to_nothing() {
    let mut rig = Rig::with_a_flow();
    let (job, connection) = ("sort".into(), connection(2));
    let bytes = Some(Bytes::new(1_000_000));
    let declaration = Declaration::FlowRequest {
        job,
        flow: "2".into(),
        connection,
        processes: Processes::default(),
        bytes,
    };
    rig.told(Input::Declared { application: "app", declaration: &declaration });
    let (flow, limit) = (FlowId(1), Some(Rate::from_mbps(5)));
    assert_eq!(rig.decided([Directive::Pace { flow, limit }]), [paced(2, limit)]);
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection }));
    let connections = vec![ConnectionReport {
        connection,
        delivered_bytes: Bytes::new(10_000_000),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    }];
    let report = Report::Connections { sampled_ns: rig.now, connections };
    let commands = rig.told(Input::Reported(rig.channel, &report));
    let ended = Declared::FlowComplete { job: JobId(0), flow };
    assert!(rig.policy.0.lock().unwrap().0.contains(&ended.into()));
    assert_eq!(commands, [paced(2, None)]);
}
