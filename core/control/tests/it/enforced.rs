//! What `status` and `explain` call enforced is what stands in the kernel.

use crate::in_memory::{Rig, SECOND, Shape, address, connection};
use protocol::agent::{
    Capability, Command, Commands, ConnectionReport, EndedConnection, Host, PortCount, Report,
};
use protocol::application::Declaration;
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span};
use watermaster_control::{Change, ChannelId, FlowExplanation, Input, Output};

fn fixed(mbps: u64) -> Box<dyn policy::Policy + Send> {
    let parameters = policy::Parameters::default().with("rates", vec![Rate::from_mbps(mbps)]);
    policy::by_name("static", &parameters).unwrap()
}

/// The first flow will be held to 5 Mbit/s by the agent of its host.
fn rig() -> (Rig, ChannelId) {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("static", fixed(5), true), 1);
    let agent = rig.agent("h0", &[0]);
    rig.start("app", "job");
    (rig, agent)
}

pub fn held() -> (Rig, ChannelId) {
    let (mut rig, agent) = rig();
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    assert_eq!(rig.paced().len(), 1);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    (rig, agent)
}

pub fn shown(rig: &Rig) -> FlowExplanation {
    rig.why("app", "job", 1)
}

/// What the status says of agents.
fn problem(rig: &Rig) -> Option<String> {
    let problems = rig.controller.at(rig.now).status().problems;
    problems.into_iter().find(|problem| problem.contains("agent"))
}

fn reload(rig: &mut Rig, name: &str, policy: Box<dyn policy::Policy + Send>) {
    rig.reload(Change { policy: Some((name.into(), policy)), ..Change::default() });
}

#[test]
fn another_policy_lifts_what_the_one_before_had_enforced() {
    let (mut rig, _) = held();
    let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    reload(&mut rig, "tcp", tcp);
    assert!(rig.paced().is_empty());
    let shown = shown(&rig);
    assert_eq!(shown.flow.enforced_bps, None);
    assert_eq!(shown.by, "nobody: there is nothing to enforce");
    assert_eq!(rig.controller.at(rig.now).status().agents[0].paced, 0);
}

#[test]
fn a_rate_that_fails_among_all_leaves_none() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().failing = 1;
    reload(&mut rig, "static", fixed(7));
    assert!(rig.paced().is_empty(), "complete commands ended the old rate");
    let why = shown(&rig);
    assert_eq!((why.flow.enforced_bps, why.flow.failed.is_some()), (None, true));
    assert_eq!(why.by, "nobody: agent h0 failed: the kernel refuses");
    // There is room again.
    rig.pass(SECOND * 4);
    let why = shown(&rig);
    assert_eq!((why.flow.enforced_bps, why.flow.failed), (Some(Rate::from_mbps(7)), None));
    assert_eq!(problem(&rig), None);
}

/// A rate fails, and the policy that comes wants none: there is nothing left to fail.
#[test]
fn failures_end_with_the_policy_that_wanted_what_failed() {
    let (mut rig, agent) = rig();
    rig.agents.get_mut(&agent).unwrap().failing = 1;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    assert!(problem(&rig).is_some() && shown(&rig).flow.failed.is_some());
    reload(&mut rig, "tcp", policy::by_name("tcp", &policy::Parameters::default()).unwrap());
    assert_eq!((problem(&rig), shown(&rig).flow.failed), (None, None));
}

/// The policy that comes wants the class that the one before wanted, and no rate.
#[test]
fn a_rate_is_over_where_only_the_class_stays() {
    let levels = policy::Parameters::default().with("levels", vec![3_u8]);
    let both = levels.clone().with("rates", vec![Rate::from_mbps(5)]);
    let [levels, both] = [levels, both].map(|p| policy::by_name("static", &p).unwrap());
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("static", both, true), 1);
    rig.agent("h0", &[0]);
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    reload(&mut rig, "static", levels);
    rig.pass(Span::ZERO);
    assert!(rig.paced().is_empty());
    let shown = shown(&rig);
    assert_eq!((shown.flow.enforced_bps, shown.by.as_str()), (None, "agent h0, by its class"));
    assert_eq!(rig.controller.at(rig.now).status().agents[0].paced, 0);
}

#[test]
fn what_a_silent_agent_held_is_over_with_its_lease() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.pass(SECOND * 5);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    rig.pass(SECOND * 9);
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, None);
    assert!(why.by.starts_with("nobody: agent h0 has confirmed nothing for"), "{}", why.by);
    assert_eq!(rig.controller.at(rig.now).status().agents[0].paced, 0);
    assert!(problem(&rig).unwrap().starts_with("agent h0 has confirmed nothing for 14 s"));
}

/// Nothing is wanted any more, but the agent has not said that it let go.
#[test]
fn a_limit_of_before_is_told_until_its_end_is_confirmed() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    reload(&mut rig, "tcp", tcp);
    rig.pass(SECOND);
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, Some(Rate::from_mbps(5)));
    assert_eq!(why.by, "5 Mbit/s of before, until its end is confirmed or its lease is over");
    rig.pass(SECOND * 13);
    assert_eq!(shown(&rig).by, "nobody: there is nothing to enforce");
}

/// What the controller sends is lost on the way; what the agent says arrives.
#[test]
fn reports_of_an_agent_that_hears_nothing_keep_nothing_enforced() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    for _ in 0..14 {
        rig.pass(SECOND);
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![] };
        rig.input(Input::Reported(agent, &report)).unwrap();
    }
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, None);
    assert!(why.by.starts_with("nobody: agent h0 has confirmed nothing for"), "{}", why.by);
    assert_eq!(rig.controller.at(rig.now).status().agents[0].paced, 0);
}

/// Samples go on after their command was confirmed, and may fail then.
#[test]
fn samples_that_fail_later_are_told_until_they_come_again() {
    let (mut rig, agent) = held();
    rig.pass(SECOND * 4);
    assert_eq!((problem(&rig), shown(&rig).by.as_str()), (None, "agent h0, by pacing"));
    let command = Command::Sample { every_ns: SECOND };
    let report = Report::Failed { epoch: 1, sequence: 1, command, reason: "no files".into() };
    rig.input(Input::Reported(agent, &report)).unwrap();
    let why = "agent h0, by pacing; nobody measures it: agent h0: no files";
    assert_eq!(shown(&rig).by, why);
    let problem_of = problem(&rig).unwrap();
    let told = "samples of connections can't be had, and are tried again: no files";
    assert!(problem_of.contains(told), "{problem_of}");
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)), "what stands stands");
    // They are asked for once more with the next renewal, and the agent says nothing against it.
    rig.pass(SECOND * 4);
    assert_eq!((problem(&rig), shown(&rig).by.as_str()), (None, "agent h0, by pacing"));
}

#[test]
fn what_an_agent_held_is_doubted_once_it_obeys_another_controller() {
    let (mut rig, agent) = held();
    rig.input(Input::Reported(agent, &Report::Stale { epoch: 1, obeys: 2 })).unwrap();
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, None);
    assert_eq!(why.by, "nobody: agent h0 obeys a controller of epoch 2");
}

/// A lease counts from when the commands were sent that gave it, however late they are answered: of
/// three renewals that were sent 3.3 s apart the first or the second is answered after 9 s.
#[test]
fn what_is_confirmed_late_stands_for_a_lease_since_it_was_sent() {
    for (sequence, stands) in [(3, 13), (4, 16)] {
        let (mut rig, agent) = held();
        rig.agents.get_mut(&agent).unwrap().frozen = true;
        rig.pass(SECOND * 9);
        rig.input(Input::Reported(agent, &Report::Applied { epoch: 1, sequence })).unwrap();
        rig.now += SECOND * (stands - 9);
        assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
        rig.now += SECOND;
        assert_eq!(shown(&rig).flow.enforced_bps, None);
    }
}

#[test]
fn measures_grow_old_and_a_connection_that_nobody_has_is_told() {
    let (mut rig, agent) = held();
    let report = |sampled_ns, delivered| Report::Connections {
        sampled_ns,
        connections: vec![ConnectionReport {
            connection: connection(0, 2, 7),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::ZERO,
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        }],
    };
    for second in 1..9 {
        rig.pass(SECOND);
        rig.input(Input::Reported(agent, &report(rig.now, second * 600_000))).unwrap();
    }
    let why = shown(&rig);
    assert_eq!(why.flow.measured_bps, Some(Rate::from_bps(4_800_000)));
    assert_eq!(why.by, "agent h0, by pacing");
    rig.pass(SECOND);
    rig.input(Input::Reported(agent, &report(rig.now, 5_600_000))).unwrap();
    let why = shown(&rig);
    let undone = "; but 6400 kbit/s were measured: something undoes it";
    assert!(why.by.ends_with(undone), "{}", why.by);
    // Who doesn't sample says nothing of what stands.
    rig.pass(SECOND * 9);
    let why = shown(&rig);
    assert_eq!((why.flow.measured_bps, why.flow.enforced_bps), (None, Some(Rate::from_mbps(5))));
    // The first is whole once another has followed.
    for _ in 0..2 {
        rig.pass(SECOND);
        let nothing = Report::Connections { sampled_ns: rig.now, connections: vec![] };
        rig.input(Input::Reported(agent, &nothing)).unwrap();
    }
    let why = shown(&rig);
    assert!(why.by.contains("sees no such connection"), "{}", why.by);
    assert_eq!(why.flow.enforced_bps, None);
}

/// Between its agents a connection goes free: the next sample tells of that, and nothing undoes what stands again.
#[test]
fn what_went_free_while_no_agent_was_there_accuses_nobody() {
    let (mut rig, mut agent) = held();
    let mut delivered = 0;
    let mut sample = |rig: &mut Rig, agent, more| {
        delivered += more;
        rig.pass(SECOND);
        let report = ConnectionReport {
            connection: connection(0, 2, 7),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.input(Input::Reported(agent, &report)).unwrap();
        shown(rig).by
    };
    for _ in 0..9 {
        sample(&mut rig, agent, 600_000);
    }
    rig.agents.remove(&agent);
    rig.input(Input::AgentGone(agent)).unwrap();
    rig.pass(SECOND * 3);
    agent = rig.agent("h0", &[0]);
    assert_eq!(sample(&mut rig, agent, 30_000_000), "agent h0, by pacing");
    for _ in 0..9 {
        assert_eq!(sample(&mut rig, agent, 600_000), "agent h0, by pacing");
    }
    assert!(sample(&mut rig, agent, 900_000).contains("something undoes it"));
    // Nor does what went during a freeze.
    freeze(&mut rig);
    sample(&mut rig, agent, 30_000_000);
    let thaw = Act { at_s: 2, by: "operator me".into(), order: Order::Thaw {} };
    rig.input(Input::Ordered { act: &thaw, again: false }).unwrap();
    assert_eq!(shown(&rig).by, "agent h0, by pacing");
}

/// Loopback, or the network that agent and controller speak over.
#[test]
fn connections_of_addresses_that_no_host_has_are_nobodys_fault() {
    let (mut rig, agent) = held();
    for source in ["127.0.0.1:5", "[::1]:5", "192.168.7.7:5", "10.0.0.1:7"] {
        rig.pass(SECOND);
        let Connection { destination, .. } = connection(0, 2, 7);
        let report = ConnectionReport {
            connection: Connection { source: source.parse().unwrap(), destination },
            delivered_bytes: Bytes::new(9),
            unsent_bytes: Bytes::ZERO,
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.input(Input::Reported(agent, &report)).unwrap();
    }
    assert_eq!((problem(&rig), rig.controller.counters().reports_refused), (None, 0));
}

#[test]
fn a_limit_counts_once_a_sample_has_its_connection() {
    let (mut rig, agent) = held();
    let sample = |rig: &mut Rig, connections| {
        rig.pass(SECOND);
        let report = Report::Connections { sampled_ns: rig.now, connections };
        rig.input(Input::Reported(agent, &report)).unwrap();
        (shown(rig).flow.enforced_bps, shown(rig).by)
    };
    let (enforced, by) = sample(&mut rig, vec![]);
    assert_eq!((enforced, &*by), (None, "nobody yet: agent h0 has not seen its connection"));
    let counted = |rig: &Rig| {
        let status = rig.controller.at(rig.now).status();
        let out = status.links.iter().find(|link| link.from == "h0").unwrap();
        let agent = &status.agents[0];
        (agent.paced, agent.unseen, out.limited_bps, out.enforced_bps)
    };
    let five = Rate::from_mbps(5);
    assert_eq!(counted(&rig), (0, 1, five, Rate::ZERO));
    // A flow may be declared before it begins.
    assert_eq!(problem(&rig), None);
    for _ in 0..4 {
        sample(&mut rig, vec![]);
    }
    let told = problem(&rig).unwrap();
    assert!(told.contains("of 1 rates that stand it sees no connection, such as 10."), "{told}");
    let report = ConnectionReport {
        connection: connection(0, 2, 7),
        delivered_bytes: Bytes::new(9),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    };
    let (enforced, by) = sample(&mut rig, vec![report]);
    assert_eq!((enforced, &*by), (Some(five), "agent h0, by pacing"));
    assert_eq!(counted(&rig), (1, 0, five, five));
    assert_eq!(problem(&rig), None);
}

/// A sample of very many connections comes in parts, for longer than samples should be apart, and than what isn't seen is
/// waited for: what is in one of its parts is there, and what is in none is gone.
#[test]
fn what_comes_late_in_a_long_sample_is_there() {
    let (mut rig, agent) = held();
    let sampled = |rig: &mut Rig, since, port| {
        let report = ConnectionReport {
            connection: connection(0, 2, port),
            delivered_bytes: Bytes::new(rig.now.as_nanos() / 1_000),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        };
        let report = Report::Connections { sampled_ns: since, connections: vec![report] };
        rig.input(Input::Reported(agent, &report)).unwrap();
    };
    let long = |rig: &mut Rig, with| {
        let since = rig.now;
        for part in 0..15 {
            rig.pass(SECOND);
            sampled(rig, since, if part == 7 && with { 7 } else { 100 + part });
            if with {
                let status = rig.controller.at(rig.now).status();
                let unseen =
                    status.problems.iter().find(|what| what.contains("sees no connection"));
                assert_eq!((status.agents[0].paced, unseen), (1, None), "part {part}");
                assert_eq!(shown(rig).flow.enforced_bps, Some(Rate::from_mbps(5)), "{part}");
            }
        }
    };
    let now = rig.now;
    sampled(&mut rig, now, 7);
    rig.pass(SECOND);
    (0..3).for_each(|_| long(&mut rig, true));
    assert_eq!(rig.controller.counters().flows_vanished, 0);
    (0..2).for_each(|_| long(&mut rig, false));
    rig.pass(SECOND);
    let now = rig.now;
    sampled(&mut rig, now, 100);
    assert_eq!(rig.controller.counters().flows_vanished, 1);
}

/// An agent that samples and doesn't see a connection: what it has confirmed of it counts as unseen, and that only.
#[test]
fn what_does_not_stand_is_not_counted_as_unseen() {
    let (mut rig, agent) = rig();
    let sample = |rig: &mut Rig| {
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![] };
        rig.input(Input::Reported(agent, &report)).unwrap();
        let agents = rig.controller.at(rig.now).status().agents;
        (agents[0].paced, agents[0].unseen)
    };
    let unseen = |rig: &Rig| problem(rig).is_some_and(|told| told.contains("sees no connection"));
    // Its rate is under way.
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    assert_eq!(sample(&mut rig), (0, 0));
    rig.pass(SECOND * 5);
    assert_eq!((sample(&mut rig), unseen(&rig)), ((0, 0), false));
    rig.input(Input::Reported(agent, &Report::Applied { epoch: 1, sequence: 2 })).unwrap();
    rig.pass(SECOND);
    assert_eq!((sample(&mut rig), unseen(&rig)), ((0, 1), true));
    // Nothing is confirmed any more, and its lease ends.
    rig.pass(SECOND * 11);
    assert_eq!((sample(&mut rig), unseen(&rig)), ((0, 0), false));
}

/// One connection that isn't the agent's doesn't silence it.
#[test]
fn foreign_connections_in_a_report_are_left_out_and_told() {
    let (mut rig, agent) = held();
    let reports = [connection(1, 2, 7), connection(0, 2, 7)].map(|connection| ConnectionReport {
        connection,
        delivered_bytes: Bytes::new(9),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    });
    for _ in 0..2 {
        rig.pass(SECOND);
        let report = Report::Connections { sampled_ns: rig.now, connections: reports.to_vec() };
        let refused = rig.input(Input::Reported(agent, &report)).unwrap_err();
        assert_eq!(refused.field, "connection.source");
    }
    assert!(shown(&rig).flow.measured_bps.is_some());
    assert!(
        problem(&rig)
            .unwrap()
            .contains("refused: connection.source: 10.0.0.2 is not of the agent's hosts; add it")
    );
}

/// Also where it has gone; and however much one says that can't be, another's is told.
#[test]
fn what_an_agent_said_is_told_for_ten_minutes() {
    let (mut rig, _) = held();
    let wrong = rig.agent("h1", &[1]);
    let host = |of: u32| Host { name: format!("learnt-{of}"), addresses: vec![address(of)] };
    let hosts = (10..1_500).map(host).collect();
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    let owner = rig.peer();
    rig.input(Input::AgentConnected { channel: owner, identity: "owner" }).unwrap();
    rig.input(Input::Reported(owner, &hello)).unwrap();
    for from in 10..1_500 {
        let reports = [ConnectionReport {
            connection: connection(from, 0, 7),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::ZERO,
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        }];
        let report = Report::Connections { sampled_ns: rig.now, connections: reports.to_vec() };
        rig.pass(Span::from_millis(10));
        rig.input(Input::Reported(wrong, &report)).unwrap_err();
    }
    let hosts = vec![Host { name: "h2".into(), addresses: vec![address(3)] }];
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    let other = rig.peer();
    rig.input(Input::AgentConnected { channel: other, identity: "h2" }).unwrap();
    rig.input(Input::Reported(other, &hello)).unwrap();
    let told = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems.into_iter();
        problems.filter(|problem| problem.starts_with("agent h")).collect::<Vec<_>>()
    };
    let address = "agent h2: 10.0.0.4 is not h2's";
    assert_eq!(told(&rig).len(), 17);
    assert!(told(&rig).iter().any(|problem| problem == address), "{:?}", told(&rig));
    rig.input(Input::AgentGone(wrong)).unwrap();
    assert_eq!(told(&rig).len(), 17, "who misreports and goes is told of too");
    rig.input(Input::AgentGone(other)).unwrap();
    assert!(!told(&rig).iter().any(|problem| problem == address));
    rig.pass(SECOND * 601);
    assert_eq!(told(&rig), [""; 0]);
}

#[test]
fn what_an_agent_says_again_when_it_is_back_is_told_once() {
    let (mut rig, mut agent) = held();
    let told = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems.into_iter();
        problems.filter(|problem| problem.contains("what it reports is refused")).count()
    };
    let ports =
        vec![PortCount { node: "none".into(), interface: "eth0".into(), sent_bytes: Bytes::ZERO }];
    let wrong = Report::Ports { ports };
    for _ in 0..2 {
        rig.input(Input::Reported(agent, &wrong)).unwrap_err();
        assert_eq!(told(&rig), 1, "where it is there");
        rig.input(Input::AgentGone(agent)).unwrap();
        assert_eq!(told(&rig), 1, "where it is gone");
        agent = rig.agent("h0", &[0]);
    }
}

#[test]
fn nothing_is_confirmed_ahead() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    reload(&mut rig, "static", fixed(7));
    let ahead = Report::Applied { epoch: 1, sequence: 1_000 };
    assert_eq!(rig.input(Input::Reported(agent, &ahead)).unwrap_err().field, "sequence");
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, Some(Rate::from_mbps(5)), "as it was confirmed");
    assert_eq!(why.by, "nobody yet: agent h0 has not confirmed it; 5 Mbit/s of before stands");
}

/// Its end failed, and it is wanted again: to say so fails, too, and it is there all the same.
#[test]
fn a_rate_that_stands_as_it_is_wanted_is_told_as_standing_whatever_failed() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().failing = 1_000;
    freeze(&mut rig);
    let thaw = Act { at_s: 2, by: "operator me".into(), order: Order::Thaw {} };
    rig.input(Input::Ordered { act: &thaw, again: false }).unwrap();
    let why = shown(&rig);
    assert_eq!((why.flow.enforced_bps, why.flow.failed), (Some(Rate::from_mbps(5)), None));
    assert_eq!(why.by, "agent h0, by pacing");
    let told = problem(&rig).unwrap();
    assert!(told.contains("stands as it shall (5 Mbit/s)"), "{told}");
    reload(&mut rig, "static", fixed(7));
    let why = shown(&rig);
    assert!(why.by.starts_with("nobody: agent h0 failed: the kernel refuses"), "{}", why.by);
}

/// Commands that were never sent, or that another controller sent.
#[test]
fn nothing_fails_that_an_agent_was_not_asked() {
    let (mut rig, agent) = held();
    for (epoch, sequence, is_taken) in [(1, 1_000, false), (0, 3, true)] {
        let command = Command::Pace { connection: connection(0, 2, 7), rate_bps: None };
        let failed = Report::Failed { epoch, sequence, command, reason: "no".into() };
        assert_eq!(rig.input(Input::Reported(agent, &failed)).is_ok(), is_taken);
        let flow = shown(&rig).flow;
        assert_eq!((flow.enforced_bps, flow.failed), (Some(Rate::from_mbps(5)), None));
    }
    assert_eq!(rig.controller.counters().commands_failed, 0);
    let said = problem(&rig).unwrap();
    assert!(said.contains("sequence: no such commands were sent"), "{said}");
}

/// What no link can have carried counts for nobody, and the others of the report do.
#[test]
fn what_no_link_carries_is_refused() {
    let (mut rig, agent) = held();
    let sample = |rig: &mut Rig, delivered: [u64; 2]| {
        rig.pass(SECOND);
        let of = |(port, delivered)| ConnectionReport {
            connection: connection(0, 2, port),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        };
        let connections = [7, 8].into_iter().zip(delivered).map(of).collect();
        let report = Report::Connections { sampled_ns: rig.now, connections };
        rig.input(Input::Reported(agent, &report))
    };
    let of = |rig: &Rig, flow| rig.why("app", "job", flow).flow;
    rig.flow("app", "job", 2, connection(0, 2, 8), Some(1_000_000)).unwrap();
    for delivered in [0, 500_000] {
        sample(&mut rig, [delivered; 2]).unwrap();
    }
    let refused = sample(&mut rig, [1_000_000, u64::MAX]).unwrap_err();
    assert_eq!(refused.field, "connections.delivered_bytes");
    let told = problem(&rig).unwrap();
    assert!(
        told.contains("is refused: connections.delivered_bytes: more than a link of"),
        "{told}"
    );
    let flow = of(&rig, 2);
    assert_eq!((flow.delivered_bytes.get(), flow.contradicted.is_none()), (500_000, true));
    assert_eq!(of(&rig, 1).delivered_bytes.get(), 1_000_000);
    sample(&mut rig, [1_500_000, 900_000]).unwrap();
    assert_eq!(of(&rig, 2).delivered_bytes.get(), 900_000, "it goes on");
    // What ended can't have sent it either.
    let one = EndedConnection {
        connection: connection(0, 2, 8),
        sent_bytes: Bytes::MAX,
        processes: Vec::new(),
    };
    let report = Report::Ended { sampled_ns: rig.now, connections: vec![one], lost: 0 };
    rig.input(Input::Reported(agent, &report)).unwrap_err();
    assert!(of(&rig, 2).contradicted.is_none());
}

/// What comes late is taken, all that a link carried meanwhile at once; and what an agent is late with it is late with
/// once, also where the other end is no known host's.
#[test]
fn what_a_link_carried_is_taken_however_late_it_is_told() {
    /// Octets of a second of the link, of 100 Mbit/s.
    const CARRIES: u64 = 12_500_000;
    const HOUR: u64 = 3_600;
    let tell = |rig: &mut Rig, agent, connection, seconds: u64| {
        let report = ConnectionReport {
            connection,
            delivered_bytes: Bytes::new(CARRIES * seconds),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.input(Input::Reported(agent, &report))
    };
    let (mut rig, agent) = held();
    let own = connection(0, 2, 7);
    // Nobody knows since when it has been there.
    let since = 100 * 24 * HOUR;
    tell(&mut rig, agent, own, since).unwrap();
    // Its agent was slow.
    rig.now += SECOND;
    tell(&mut rig, agent, own, since + HOUR / 2).unwrap();
    rig.now += SECOND;
    let refused = tell(&mut rig, agent, own, since + 2 * HOUR).unwrap_err();
    assert_eq!(refused.field, "connections.delivered_bytes");
    tell(&mut rig, agent, own, since + HOUR).unwrap();
    // It comes back after a while, and so does the controller.
    rig.input(Input::AgentGone(agent)).unwrap();
    rig.now += SECOND * (2 * HOUR);
    let agent = rig.agent("h0", &[0]);
    tell(&mut rig, agent, own, since + 3 * HOUR).unwrap();
    let shape = Shape::racks(2);
    rig.replace(shape.config("static", fixed(5), true), 2);
    let agent = rig.agent("h0", &[0]);
    tell(&mut rig, agent, own, since + 3 * HOUR).unwrap();
    // To somewhere else.
    let destination = "192.0.2.1:80".parse().unwrap();
    let outside = Connection { destination, ..own };
    rig.now += SECOND;
    tell(&mut rig, agent, outside, since).unwrap();
    rig.now += SECOND;
    tell(&mut rig, agent, outside, 20 * 365 * 24 * HOUR).unwrap_err();
}

/// However much one that lies counts on, it is told of once.
#[test]
fn a_lie_that_grows_is_one_problem() {
    let (mut rig, agent) = held();
    for (nth, port) in (0..).zip(100..130) {
        rig.pass(SECOND);
        let report = EndedConnection {
            connection: connection(0, 2, port),
            sent_bytes: Bytes::new(u64::MAX - nth),
            processes: Vec::new(),
        };
        let report = Report::Ended { sampled_ns: rig.now, connections: vec![report], lost: 0 };
        rig.input(Input::Reported(agent, &report)).unwrap_err();
    }
    let problems = rig.controller.at(rig.now).status().problems;
    let told = problems.iter().filter(|problem| problem.contains("is refused")).count();
    assert_eq!(told, 1, "{problems:?}");
}

/// One of its two words is wrong: that is told, and whether the rate stands is asked once more.
#[test]
fn a_rate_that_fails_after_it_was_confirmed_is_doubted() {
    let (mut rig, agent) = held();
    let rate_bps = Some(Rate::from_mbps(5));
    let command = Command::Pace { connection: connection(0, 2, 7), rate_bps };
    let failed = Report::Failed { epoch: 1, sequence: 2, command, reason: "no".into() };
    assert_eq!(rig.input(Input::Reported(agent, &failed)).unwrap_err().field, "sequence");
    let flow = shown(&rig).flow;
    assert_eq!((flow.enforced_bps, flow.failed.as_deref()), (None, Some("no")));
    assert_eq!(rig.controller.counters().reports_refused, 1);
    let problems = rig.controller.at(rig.now).status().problems.join("\n");
    assert!(
        problems.contains("is refused: sequence: commands were confirmed before"),
        "{problems}"
    );
    rig.pass(SECOND * 4);
    let flow = shown(&rig).flow;
    assert_eq!((flow.enforced_bps, flow.failed), (rate_bps, None));
}

/// Nor is anything sent to it that it alone has named.
#[test]
fn what_an_agent_made_up_is_refused() {
    let (mut rig, agent) = rig();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    let Connection { source: own, destination } = connection(0, 2, 7);
    let mapped = Connection { source: "[::ffff:10.0.0.1]:78".parse().unwrap(), destination };
    let rate_bps = Some(Rate::from_mbps(1));
    let (node, interface) = (|| String::from("h0"), || String::from("eth9"));
    for command in [
        Command::Pace { connection: mapped, rate_bps },
        Command::Pace { connection: connection(0, 2, 8), rate_bps },
        Command::Prioritize { connection: Connection { source: own, destination }, priority: 3 },
        Command::Space { node: node(), interface: interface(), gap_ns: Some(SECOND) },
        Command::Watch { node: node(), interface: interface(), watch: None },
        Command::Count { every_ns: Span::from_nanos(5) },
        Command::Identify { processes: vec![Process::Pid(1)] },
    ] {
        let failed = Report::Failed { epoch: 1, sequence: 2, command, reason: "made up".into() };
        let refused = rig.input(Input::Reported(agent, &failed)).unwrap_err();
        assert_eq!(refused.field, "command", "{failed:?}");
    }
    assert_eq!(rig.controller.counters().commands_failed, 0);
    let problems = rig.controller.at(rig.now).status().problems.join("\n");
    assert!(!problems.contains("made up"), "{problems}");
    assert!(problems.contains("is refused: command: no such command was sent"), "{problems}");
    rig.now += SECOND * 4;
    let mut out = Vec::new();
    rig.controller.step(rig.now, Input::Tick, &mut out).unwrap();
    let renewals: Vec<_> = out.iter().filter(|out| matches!(out, Output::Agent(..))).collect();
    let [Output::Agent(_, Commands { commands, .. })] = renewals[..] else { panic!("{out:?}") };
    assert_eq!(*commands, []);
}

/// Nor among the first commands, which end what they don't name.
#[test]
fn an_end_that_an_agent_made_up_is_refused() {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("static", fixed(5), true), 1);
    let (agent, mut out) = (rig.peer(), Vec::new());
    let hosts = vec![Host { name: "h0".into(), addresses: vec![address(0)] }];
    let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
    let connected = Input::AgentConnected { channel: agent, identity: "h0" };
    for input in [connected, Input::Reported(agent, &hello)] {
        rig.controller.step(rig.now, input, &mut out).unwrap();
    }
    let told = out.iter().find_map(|out| match out {
        Output::Agent(_, commands) => Some((commands.complete, commands.sequence)),
        _ => None,
    });
    assert_eq!(told, Some((true, 1)));
    let mut made_up = vec![Command::Identify { processes: Vec::new() }];
    // No node, a node of others, and no interface.
    for (node, interface) in [("made up", "eth0"), ("h1", "eth0"), ("h0", "eth9")] {
        let at = || (String::from(node), String::from(interface));
        let (node, interface) = at();
        made_up.push(Command::Watch { node, interface, watch: None });
        let (node, interface) = at();
        made_up.push(Command::Window { node, interface, connection: None, cap: None });
        let (node, interface) = at();
        made_up.push(Command::Space { node, interface, gap_ns: None });
    }
    for command in made_up {
        let failed = Report::Failed { epoch: 1, sequence: 1, command, reason: "made up".into() };
        let refused = rig.controller.step(rig.now, Input::Reported(agent, &failed), &mut out);
        assert_eq!(refused.unwrap_err().field, "command", "{failed:?}");
    }
    assert_eq!(rig.controller.counters().commands_failed, 0);
    out.clear();
    rig.now += SECOND * 4;
    rig.controller.step(rig.now, Input::Tick, &mut out).unwrap();
    let renewals: Vec<_> = out.iter().filter(|out| matches!(out, Output::Agent(..))).collect();
    let [Output::Agent(_, Commands { commands, .. })] = renewals[..] else { panic!("{out:?}") };
    assert_eq!(*commands, []);
}

/// An end that fails of what no agent can hold leaves nothing to end.
#[test]
fn the_end_of_what_can_not_stand_is_no_problem() {
    let (mut rig, agent) = rig();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    reload(&mut rig, "static", fixed(7));
    let Connection { destination, .. } = connection(0, 2, 7);
    let source = "[::ffff:10.0.0.1]:78".parse().unwrap();
    let command = Command::Pace { connection: Connection { source, destination }, rate_bps: None };
    let failed = Report::Failed { epoch: 1, sequence: 2, command, reason: "no".into() };
    rig.input(Input::Reported(agent, &failed)).unwrap();
    assert_eq!(problem(&rig), None);
}

/// Priorities and windows are explained, too, and what fails of them.
#[test]
fn classes_that_fail_are_explained() {
    let shape = Shape::racks(2);
    let parameters = policy::Parameters::default().with("levels", vec![3_u8]);
    let policy = policy::by_name("static", &parameters).unwrap();
    let mut rig = Rig::new(&shape, shape.config("static", policy, true), 1);
    let agent = rig.agent("h0", &[0]);
    rig.start("app", "job");
    rig.agents.get_mut(&agent).unwrap().failing = 1;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    let why = shown(&rig);
    assert_eq!(why.by, "nobody: agent h0 failed: the kernel refuses");
    assert!(why.why.contains("class 3") && why.flow.failed.is_some(), "{}", why.why);
    rig.pass(SECOND * 4);
    assert_eq!(shown(&rig).by, "agent h0, by its class");
}

/// More ends than are kept until they are confirmed: of what was held before nothing is left.
#[test]
fn what_ended_in_a_burst_is_not_enforced_when_it_comes_again() {
    const MANY: u16 = 300;
    let shape = Shape::racks(2);
    let rates = vec![Rate::from_mbps(1); MANY.into()];
    let parameters = policy::Parameters::default().with("rates", rates);
    let policy = policy::by_name("static", &parameters).unwrap();
    let mut rig = Rig::new(&shape, shape.config("static", policy, true), 1);
    rig.agent("h0", &[0]);
    for (job, held) in [("first", MANY.into()), ("second", 0)] {
        rig.start("app", job);
        for flow in 0..MANY {
            let connection = connection(0, 2, 1000 + flow);
            rig.flow("app", job, flow.into(), connection, None).unwrap();
        }
        assert_eq!(rig.paced().len(), held);
        let shown = rig.controller.at(rig.now).flows(usize::MAX);
        assert_eq!(shown.iter().filter(|flow| flow.enforced_bps.is_some()).count(), held);
        rig.declare("app", Declaration::JobComplete { job: job.into() }).unwrap();
    }
}

/// A rate fails, and before the agent says so, everything is told anew.
#[test]
fn a_rate_that_fails_before_all_is_told_anew_is_not_enforced() {
    let (mut rig, agent) = rig();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    reload(&mut rig, "static", fixed(7));
    let command = Command::Pace { connection: connection(0, 2, 7), rate_bps: None };
    let failed = Report::Failed { epoch: 1, sequence: 2, command, reason: "no".into() };
    for report in [failed, Report::Applied { epoch: 1, sequence: 2 }] {
        rig.input(Input::Reported(agent, &report)).unwrap();
    }
    assert_eq!(shown(&rig).flow.enforced_bps, None);
    rig.input(Input::Reported(agent, &Report::Applied { epoch: 1, sequence: 3 })).unwrap();
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(7)));
}

/// A rate fails and is sent again before the commands that it failed with are confirmed.
#[test]
fn a_rate_that_fails_is_told_until_it_was_tried_again() {
    let (mut rig, agent) = rig();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    let rate_bps = Some(Rate::from_mbps(5));
    let command = Command::Pace { connection: connection(0, 2, 7), rate_bps };
    let failed =
        Report::Failed { epoch: 1, sequence: 2, command, reason: "no\u{1b}[2J\u{202e}".into() };
    rig.input(Input::Reported(agent, &failed)).unwrap();
    rig.pass(SECOND * 4);
    for (sequence, expected) in [(2, (None, Some("no [2J "))), (3, (rate_bps, None))] {
        rig.input(Input::Reported(agent, &Report::Applied { epoch: 1, sequence })).unwrap();
        let flow = shown(&rig).flow;
        assert_eq!((flow.enforced_bps, flow.failed.as_deref()), expected, "{sequence}");
    }
}

#[test]
fn a_failure_without_a_reason_is_told_as_one() {
    for reason in ["", " \u{a0}\u{200b}\n"] {
        let (mut rig, agent) = rig();
        rig.agents.get_mut(&agent).unwrap().frozen = true;
        rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
        let command = Command::Pace { connection: connection(0, 2, 7), rate_bps: None };
        let reason = reason.into();
        let failed = Report::Failed { epoch: 1, sequence: 2, command, reason };
        rig.input(Input::Reported(agent, &failed)).unwrap();
        assert_eq!(shown(&rig).flow.failed.as_deref(), Some("it gives no reason"));
    }
}

/// A longer lease is for what is granted from then on.
#[test]
fn a_longer_lease_keeps_nothing_enforced_that_a_shorter_one_held() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.reload(Change { lease: Some(SECOND * 3600), ..Change::default() });
    rig.pass(SECOND * 11);
    rig.input(Input::Tick).unwrap();
    assert_eq!((rig.paced().len(), shown(&rig).flow.enforced_bps), (0, None));
    assert!(problem(&rig).unwrap().starts_with("agent h0 has confirmed nothing for 11 s"));
}

/// A shorter lease may have reached the agent, although it has not said so.
#[test]
fn a_shorter_lease_that_is_not_confirmed_may_be_over() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.reload(Change { lease: Some(SECOND * 3), ..Change::default() });
    rig.pass(SECOND * 3);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    rig.pass(SECOND);
    let over = "agent h0 has confirmed nothing for 4 s: its leases may be over";
    assert_eq!((shown(&rig).flow.enforced_bps, shown(&rig).by), (None, format!("nobody: {over}")));
    assert_eq!(problem(&rig).as_deref(), Some(over));
}

pub fn freeze(rig: &mut Rig) {
    let order = Order::Freeze { reason: None };
    let act = Act { at_s: 1, by: "operator me".into(), order };
    rig.input(Input::Ordered { act: &act, again: false }).unwrap();
}

/// The kernel keeps a limit that the agent can't lift, and each renewal renews it.
#[test]
fn a_rate_whose_end_fails_is_told_as_standing() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().failing = 1_000;
    freeze(&mut rig);
    rig.pass(SECOND * 16);
    assert_eq!(rig.paced().len(), 1);
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, Some(Rate::from_mbps(5)));
    assert_eq!(
        why.by,
        "nobody: decisions are frozen by operator me; 5 Mbit/s of before still stands and is renewed with the lease, \
         its end is tried again: agent h0 failed: the kernel refuses"
    );
    let status = rig.controller.at(rig.now).status();
    assert_eq!(status.agents[0].paced, 1);
    assert!(status.problems[0].contains("1 of before still stand"), "{}", status.problems[0]);
    let told = problem(&rig).unwrap();
    assert!(told.contains("still stands (5 Mbit/s)") && !told.contains("not enforced"), "{told}");
    // Its flow ends, and it stands still.
    let (job, flow) = ("job".into(), "1".into());
    rig.declare("app", Declaration::FlowComplete { job, flow }).unwrap();
    let enforced = |rig: &Rig| {
        let links = rig.controller.at(rig.now).status().links;
        links.into_iter().find(|link| link.from == "h0").unwrap().enforced_bps
    };
    assert_eq!(enforced(&rig), Rate::from_mbps(5));
    rig.agents.get_mut(&agent).unwrap().failing = 0;
    rig.pass(SECOND * 4);
    assert_eq!((rig.paced().len(), enforced(&rig), problem(&rig)), (0, Rate::ZERO, None));
}

#[test]
fn a_class_whose_end_fails_is_told_as_standing() {
    let shape = Shape::racks(2);
    let parameters = policy::Parameters::default().with("levels", vec![3_u8]);
    let policy = policy::by_name("static", &parameters).unwrap();
    let mut rig = Rig::new(&shape, shape.config("static", policy, true), 1);
    let agent = rig.agent("h0", &[0]);
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    rig.agents.get_mut(&agent).unwrap().failing = 1_000;
    freeze(&mut rig);
    rig.pass(SECOND * 16);
    let by = shown(&rig).by;
    assert!(by.contains("; class 3 of before still stands"), "{by}");
    assert!(by.ends_with("agent h0 failed: the kernel refuses"), "{by}");
    rig.agents.get_mut(&agent).unwrap().failing = 0;
    rig.pass(SECOND * 4);
    assert_eq!(shown(&rig).by, "nobody: decisions are frozen by operator me");
}

#[test]
fn why_a_process_is_not_looked_for_is_told() {
    let (mut rig, agent) = rig();
    let process = Process::Pid(4711);
    let Connection { source, destination } = connection(0, 2, 0);
    let request = Declaration::FlowRequest {
        job: "job".into(),
        flow: "1".into(),
        connection: Connection { source, destination },
        processes: Processes { source: Some(process), destination: None },
        bytes: None,
    };
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.declare("app", request).unwrap();
    let command = Command::Identify { processes: vec![] };
    let failed = Report::Failed { epoch: 1, sequence: 2, command, reason: "no procfs".into() };
    rig.input(Input::Reported(agent, &failed)).unwrap();
    let why = shown(&rig);
    let told = "agent h0 failed to look for its process: no procfs";
    assert!(why.by.ends_with(told), "{}", why.by);
    assert_eq!(why.flow.failed.as_deref(), Some(told));
}

/// Two rates are on their way: the first fails, the second doesn't.
#[test]
fn a_failure_is_over_once_a_later_rate_stands() {
    let (mut rig, agent) = rig();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    freeze(&mut rig);
    let thaw = Act { at_s: 2, by: "operator me".into(), order: Order::Thaw {} };
    rig.input(Input::Ordered { act: &thaw, again: false }).unwrap();
    let rate_bps = Some(Rate::from_mbps(5));
    let command = Command::Pace { connection: connection(0, 2, 7), rate_bps };
    let failed = Report::Failed { epoch: 1, sequence: 2, command, reason: "no".into() };
    rig.input(Input::Reported(agent, &failed)).unwrap();
    for sequence in 2..=4 {
        rig.input(Input::Reported(agent, &Report::Applied { epoch: 1, sequence })).unwrap();
    }
    let why = shown(&rig);
    assert_eq!((why.flow.enforced_bps, why.flow.failed), (rate_bps, None));
    assert_eq!(why.by, "agent h0, by pacing");
}

/// What a link's flows have adds up by connections: one that carries two flows is held once.
#[test]
fn a_link_counts_what_holds_a_connection_once() {
    let (mut rig, _) = held();
    let rates = policy::Parameters::default().with("rates", vec![Rate::from_mbps(5); 2]);
    reload(&mut rig, "static", policy::by_name("static", &rates).unwrap());
    rig.flow("app", "job", 2, connection(0, 2, 7), None).unwrap();
    let links = |rig: &Rig| -> Vec<(Rate, Rate)> {
        let links = rig.controller.at(rig.now).status().links.into_iter();
        let used = links.filter(|link| link.flows > 0);
        used.map(|link| (link.limited_bps, link.enforced_bps)).collect()
    };
    let both = Rate::from_mbps(10);
    assert_eq!(rig.paced()[&connection(0, 2, 7)], both);
    assert!(
        links(&rig).len() > 1 && links(&rig).iter().all(|link| *link == (both, both)),
        "{:?}",
        links(&rig)
    );
    let rate_bps = Rate::from_mbps(3);
    let order = Order::Limit {
        application: "app".into(),
        job: None,
        rate_bps,
        lasts_s: None,
        reason: None,
    };
    let act = Act { at_s: 1, by: "operator me".into(), order };
    rig.input(Input::Ordered { act: &act, again: false }).unwrap();
    assert!(links(&rig).iter().all(|link| *link == (rate_bps, rate_bps)), "{:?}", links(&rig));
}
