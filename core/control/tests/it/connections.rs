//! What the controller makes of the connections that agents see: what the policy is told, and what is forgotten when.

use crate::scripted::{
    FLOW, FROM, NARROW, PORT, Rig, TO, config, connection, space, waiting, window,
};
use agent::{Actuator, Failure, Happening, Kernel, Operation};
use model::{Declared, FlowId, JobId, Measured, Observation};
use protocol::agent::{Command, ConnectionReport, Host, Report};
use protocol::application::Declaration;
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Span, Time};
use watermaster_control::{Change, ChannelId, Controller, Input, Limits};

/// The round trips of a flow's connections that its sender's kernel has; none before its first
/// acknowledgement, and none while acknowledgements wait for their turn.
#[test]
fn what_agents_sample_of_round_trips_is_told() {
    let mut rig = Rig::with_a_flow();
    let told = |rig: &mut Rig, us: u64| {
        rig.policy.0.lock().unwrap().0.clear();
        let report = ConnectionReport {
            connection: connection(1),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::ZERO,
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::from_micros(us),
            processes: Vec::new(),
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.told(Input::Reported(rig.channel, &report));
        let heard = rig.policy.0.lock().unwrap().0.clone();
        let timed = heard.into_iter().filter_map(|observation| match observation {
            Observation::Measured(Measured::RoundTrips(flows)) => Some(flows),
            _ => None,
        });
        timed.collect::<Vec<_>>()
    };
    let timed = |us| [[(FLOW, Span::from_micros(us))]];
    assert_eq!(told(&mut rig, 0), Vec::<Vec<_>>::new());
    assert_eq!(told(&mut rig, 140), timed(140));
    rig.decided([space(Some(Span::from_micros(120)))]);
    assert_eq!(told(&mut rig, 260), Vec::<Vec<_>>::new());
    rig.decided([space(None)]);
    assert_eq!(told(&mut rig, 150), timed(150));
}

/// A flow that is declared completes, another's last packet is seen.
#[test]
fn flows_that_are_forgotten_are_closed() {
    let mut rig = Rig::with_a_flow();
    for port in [1, 2] {
        let opened = Report::Opened { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &opened));
    }
    rig.policy.0.lock().unwrap().0.clear();
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(1) }));
    let declaration = Declaration::FlowComplete { job: "sort".into(), flow: "1".into() };
    rig.told(Input::Declared { application: "app", declaration: &declaration });
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(2) }));
    let expected: [Observation; 3] = [
        Measured::Closed { flow: FLOW }.into(),
        Declared::FlowComplete { job: JobId(0), flow: FLOW }.into(),
        Measured::Closed { flow: FlowId(1) }.into(),
    ];
    assert_eq!(rig.policy.0.lock().unwrap().0, expected);
}

/// A shuffle keeps its connections: one flow after another, or several at once.
#[test]
fn a_connection_that_carries_one_flow_after_another_stays_open_for_the_policy() {
    let mut rig = Rig::with_a_flow();
    let flow = |flow: &str| Declaration::FlowRequest {
        job: "sort".into(),
        flow: flow.into(),
        connection: connection(1),
        processes: Processes::default(),
        bytes: None,
    };
    let declare = |rig: &mut Rig, declaration| {
        rig.told(Input::Declared { application: "app", declaration: &declaration });
    };
    let complete = |flow: &str| Declaration::FlowComplete { job: "sort".into(), flow: flow.into() };
    opens(&mut rig, 1);
    // Numbers are given again.
    assert_eq!(comings(&rig), [came(0)]);
    // Nothing is declared for a while.
    declare(&mut rig, complete("1"));
    assert_eq!(comings(&rig), [went(0), came(1)]);
    declare(&mut rig, flow("2"));
    assert_eq!(comings(&rig), [went(1), came(0)]);
    assert_eq!(rig.decided([window(Some(FlowId(0)), Some(NARROW))]).len(), 1);
    assert_eq!(rig.cap(1), Some(NARROW));
    // Another before the first ends.
    declare(&mut rig, flow("3"));
    assert_eq!(comings(&rig), []);
    declare(&mut rig, complete("2"));
    assert_eq!(comings(&rig), [went(0), came(1)]);
    assert_eq!(rig.decided([window(Some(FlowId(1)), Some(NARROW))]).len(), 1);
    assert_eq!(rig.cap(1), Some(NARROW));
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(1) }));
    assert_eq!(comings(&rig), [went(1)]);
    declare(&mut rig, complete("3"));
    assert_eq!(comings(&rig), []);
}

/// Neither of a stream nor of a flow whose size is declared.
#[test]
fn what_is_measured_of_flows_of_a_drained_host_is_not_told() {
    for has_size in [false, true] {
        let mut rig = if has_size { Rig::new() } else { Rig::with_a_flow() };
        if has_size {
            rig.connect();
            rig.declares_a_flow();
        }
        let order = Order::Drain { host: "h1".into(), reason: None };
        let act = Act { at_s: 1, by: "me".into(), order };
        rig.told(Input::Ordered { act: &act, again: false });
        rig.policy.0.lock().unwrap().0.clear();
        waiting(&mut rig, &[(1, 10)]);
        assert_eq!(rig.policy.0.lock().unwrap().0, [], "with a size: {has_size}");
    }
}

/// A policy's statistics may be rare: what the controller looks at itself isn't.
#[test]
fn samples_are_as_frequent_as_policy_and_controller_need() {
    for (sample, every) in [(400, 400), (1000, 1000), (3000, 1000)] {
        let mut rig = Rig::new();
        let mut config = config("scripted", Box::new(rig.policy.clone()));
        config.sample = Span::from_millis(sample);
        rig.controller = Controller::new(config, 1, Time::ZERO).unwrap();
        assert_eq!(rig.connect()[0], Command::Sample { every_ns: Span::from_millis(every) });
    }
}

/// Who declares what is open already, by its ports or without, has what stood for it until then: one flow, which
/// the policy is told of as open.
#[test]
fn what_is_declared_after_it_was_seen_is_one_flow() {
    let agent_saw = |rig: &mut Rig| {
        let opened = Report::Opened { connection: connection(7) };
        rig.told(Input::Reported(rig.channel, &opened));
        let seen = Measured::Opened { flow: FlowId(1), src: FROM, dst: TO };
        assert_eq!(rig.policy.0.lock().unwrap().0.pop(), Some(seen.into()));
        assert_eq!(rig.decided([window(Some(FlowId(1)), Some(NARROW))]).len(), 1);
        assert_eq!(rig.cap(7), Some(NARROW));
        rig.policy.0.lock().unwrap().0.clear();
    };
    for declared in [connection(7), connection(0)] {
        let mut rig = Rig::with_a_flow();
        agent_saw(&mut rig);
        let (job, flow) = (String::from("sort"), String::from("2"));
        let processes = Processes::default();
        let request =
            Declaration::FlowRequest { job, flow, connection: declared, processes, bytes: None };
        rig.told(Input::Declared { application: "app", declaration: &request });
        if declared.source.port() == 0 {
            let connections = vec![ConnectionReport {
                connection: connection(7),
                delivered_bytes: Bytes::ZERO,
                unsent_bytes: Bytes::new(1),
                in_flight_bytes: Bytes::ZERO,
                rtt_ns: Span::ZERO,
                processes: vec![],
            }];
            let sample = Report::Connections { sampled_ns: rig.now, connections };
            rig.told(Input::Reported(rig.channel, &sample));
        }
        let observed = rig.policy.0.lock().unwrap().0.clone();
        let opened = observed.iter().filter_map(|observation| match observation {
            Observation::Measured(Measured::Opened { flow, .. }) => Some(*flow),
            _ => None,
        });
        assert_eq!(opened.collect::<Vec<_>>(), [FlowId(2)], "{observed:?}");
        assert!(observed.contains(&Measured::Closed { flow: FlowId(1) }.into()), "{observed:?}");
        assert_eq!(rig.cap(7), None);
        rig.decided([window(Some(FlowId(2)), Some(NARROW))]);
        assert_eq!(rig.cap(7), Some(NARROW));
        assert_eq!(rig.controller.at(rig.now).status().applications[0].flows, 2);
        // Its end is the flow's.
        rig.policy.0.lock().unwrap().0.clear();
        rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(7) }));
        let closed = Measured::Closed { flow: FlowId(2) };
        assert!(rig.policy.0.lock().unwrap().0.contains(&closed.into()));
    }
}

#[test]
fn a_flow_of_two_connections_closes_with_the_last() {
    let mut rig = Rig::with_two_flows();
    for port in [7, 8] {
        let opened = Report::Opened { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &opened));
    }
    for (port, ends) in [(7, false), (8, true)] {
        let closed = Report::Closed { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &closed));
        let closed = Measured::Closed { flow: FlowId(1) }.into();
        assert_eq!(rig.policy.0.lock().unwrap().0.contains(&closed), ends, "{port}");
    }
}

/// An agent that comes back tells of what goes on, when that sends again; of what ended meanwhile it says nothing.
#[test]
fn what_an_agent_told_is_forgotten_a_grace_after_it_has_gone() {
    let mut rig = Rig::with_a_flow();
    let opened = |port| Report::Opened { connection: connection(port) };
    let flows = |rig: &Rig| rig.controller.at(rig.now).flows(9).len();
    for port in [1, 7, 8] {
        rig.told(Input::Reported(rig.channel, &opened(port)));
    }
    assert_eq!(flows(&rig), 3);
    rig.told(Input::AgentGone(rig.channel));
    rig.now += Span::from_secs(5);
    rig.connect();
    rig.policy.0.lock().unwrap().0.clear();
    rig.told(Input::Reported(rig.channel, &opened(8)));
    let due = rig.controller.deadline().unwrap();
    assert!(due <= rig.now + Span::from_secs(6), "{due:?}");
    rig.now += Span::from_secs(4);
    rig.told(Input::Tick);
    assert_eq!(flows(&rig), 3, "not before the grace has passed");
    rig.now += Span::from_secs(2);
    rig.told(Input::Tick);
    let observed = rig.policy.0.lock().unwrap().0.clone();
    // The one that it told of again never stopped, and one that is declared has its application.
    assert_eq!(observed, [Measured::Closed { flow: FlowId(1) }.into()]);
    assert_eq!(flows(&rig), 2);
}

/// Somebody began to watch while it went on: what it had delivered is not of a flow that was declared since.
#[test]
fn what_a_connection_delivered_before_its_flow_is_not_the_flows() {
    let mut rig = Rig::new();
    rig.connect();
    let sample = |rig: &mut Rig, delivered| {
        rig.now += Span::from_secs(1);
        let report = ConnectionReport {
            connection: connection(1),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.told(Input::Reported(rig.channel, &report));
    };
    sample(&mut rig, 5_000_000);
    rig.declares_a_flow();
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection: connection(1) }));
    for delivered in [5_100_000, 5_300_000] {
        sample(&mut rig, delivered);
    }
    let flow = rig.controller.at(rig.now).flows(1).remove(0);
    assert_eq!((flow.delivered_bytes, flow.contradicted), (Bytes::new(200_000), None));
}

/// A kernel with connections.
struct Sampled<'a>(&'a mut Kernel, &'a [ConnectionReport]);

impl Actuator for Sampled<'_> {
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        self.0.execute(now, operation)
    }

    fn sample(&mut self, _: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        Ok(self.1.to_vec())
    }
}

/// Each controller is new to a connection that is kept alive, and its application says again what it carries now.
#[test]
fn what_an_agent_samples_first_says_what_goes_on_when_its_ports_tell_of_it() {
    let mut rig = Rig::new();
    rig.now += Span::from_secs(10);
    let mut delivered = 1_000_000_000;
    let mut attend = |rig: &mut Rig, opens: bool| {
        delivered += 100_000;
        let open = ConnectionReport {
            connection: connection(1),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        };
        let mut reports = Vec::new();
        rig.agent.tick(rig.now, &mut Sampled(&mut rig.kernel, &[open]), &mut reports).unwrap();
        if opens {
            rig.agent.hear(PORT, &Happening::Opened(connection(1)), &mut reports);
            assert!(matches!(reports.last(), Some(Report::Opened { .. })), "it is not watched");
        }
        for report in reports {
            rig.told(Input::Reported(rig.channel, &report));
        }
    };
    for epoch in [1, 2] {
        let policy = policy::by_name("sdtcp", &policy::Parameters::default()).unwrap();
        rig.controller = Controller::new(config("sdtcp", policy), epoch, rig.now).unwrap();
        rig.declares_a_flow();
        rig.connect();
        attend(&mut rig, true);
        for _ in 0..3 {
            rig.now += Span::from_secs(1);
            attend(&mut rig, false);
        }
        let flow = rig.controller.at(rig.now).flows(1).remove(0);
        let stands = (flow.delivered_bytes, flow.contradicted);
        assert_eq!(stands, (Bytes::new(300_000), None), "epoch {epoch}");
        // Sooner than the next sample would have come.
        rig.agent.disconnected();
        rig.now += Span::from_millis(1);
    }
}

/// An agent tells that a connection opens.
fn opens(rig: &mut Rig, port: u16) {
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection: connection(port) }));
}

/// A second later it has sampled these.
fn samples(rig: &mut Rig, connections: &[Connection]) {
    rig.now += Span::from_secs(1);
    let report = |connection: &Connection| ConnectionReport {
        connection: *connection,
        delivered_bytes: Bytes::new(1),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: vec![],
    };
    let connections = connections.iter().map(report).collect();
    let report = Report::Connections { sampled_ns: rig.now, connections };
    rig.told(Input::Reported(rig.channel, &report));
}

/// What the policy was told of flows that opened and closed since this was asked.
fn comings(rig: &Rig) -> Vec<Observation> {
    let mut observed = core::mem::take(&mut rig.policy.0.lock().unwrap().0);
    observed.retain(|observation| {
        let of_flows =
            |m: &Measured| matches!(m, Measured::Opened { .. } | Measured::Closed { .. });
        matches!(observation, Observation::Measured(measured) if of_flows(measured))
    });
    observed
}

fn came(flow: u32) -> Observation {
    Measured::Opened { flow: FlowId(flow), src: FROM, dst: TO }.into()
}

fn went(flow: u32) -> Observation {
    Measured::Closed { flow: FlowId(flow) }.into()
}

/// A host that loses power sends no FIN.
#[test]
fn a_connection_whose_end_nobody_saw_is_forgotten_a_grace_after_its_last_sample() {
    let mut rig = Rig::new();
    rig.connect();
    for port in 1..=4 {
        opens(&mut rig, port);
    }
    assert_eq!(comings(&rig), [0, 1, 2, 3].map(came));
    let Connection { source, destination } = connection(3);
    // Of the third only the receiver speaks, of the fourth nobody ever does.
    let alive = [connection(2), Connection { source: destination, destination: source }];
    samples(&mut rig, &[connection(1), alive[0], alive[1]]);
    for second in 0..9 {
        samples(&mut rig, &alive);
        assert_eq!(comings(&rig), [], "after {second} s");
    }
    for _ in 0..3 {
        samples(&mut rig, &alive);
    }
    assert_eq!(comings(&rig), [went(0), went(3)]);
    assert_eq!(rig.controller.counters().flows_vanished, 2);
    // The same ports are governed again.
    opens(&mut rig, 1);
    assert_eq!(comings(&rig).len(), 1);
}

/// What is idle sends nothing, and an agent that is new or silent says nothing of what isn't there.
#[test]
fn where_nobody_samples_nothing_is_forgotten() {
    let mut rig = Rig::new();
    rig.connect();
    opens(&mut rig, 1);
    for _ in 0..60 {
        rig.now += Span::from_secs(1);
        rig.told(Input::Tick);
    }
    samples(&mut rig, &[]);
    assert_eq!(comings(&rig), [came(0)]);
}

/// What it doesn't tell of may well be there.
#[test]
fn an_agent_that_samples_no_more_is_not_taken_to_see_all() {
    let mut rig = Rig::new();
    rig.connect();
    opens(&mut rig, 1);
    for _ in 0..15 {
        samples(&mut rig, &[connection(1)]);
    }
    assert_eq!(comings(&rig), [came(0)]);
    // That of a host apart goes on sampling.
    let (channel, identity) = (ChannelId(99), "right");
    let hosts = vec![Host { name: "h9".into(), addresses: vec![] }];
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    rig.controller.observe(rig.now, Input::AgentConnected { channel, identity }).unwrap();
    rig.controller.observe(rig.now, Input::Reported(channel, &hello)).unwrap();
    for _ in 0..30 {
        rig.now += Span::from_secs(1);
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![] };
        rig.controller.observe(rig.now, Input::Reported(channel, &report)).unwrap();
        rig.controller.decide(&mut Vec::new());
    }
    assert_eq!(comings(&rig), []);
    // The other samples again, and the connection is not there.
    rig.controller.observe(rig.now, Input::AgentGone(channel)).unwrap();
    (0..2).for_each(|_| samples(&mut rig, &[]));
    assert_eq!(comings(&rig), [went(0)]);
}

#[test]
fn a_syn_of_ports_that_are_held_open_begins_another_flow() {
    let mut rig = Rig::new();
    rig.connect();
    opens(&mut rig, 1);
    // It is sent again.
    rig.now += Span::from_secs(1);
    opens(&mut rig, 1);
    assert_eq!(comings(&rig), [came(0)]);
    // The controller hears no FIN, and of the next connection a SYN.
    for _ in 0..10 {
        rig.now += Span::from_secs(1);
        rig.told(Input::Tick);
    }
    opens(&mut rig, 1);
    assert_eq!(comings(&rig), [went(0), came(1)]);
    assert_eq!(rig.controller.at(rig.now).flows(9).len(), 1);
    // One that is sampled goes on: an agent has begun to watch.
    for _ in 0..10 {
        samples(&mut rig, &[connection(1)]);
    }
    opens(&mut rig, 1);
    assert_eq!(comings(&rig), []);
}

#[test]
fn a_policy_that_does_not_watch_knows_only_what_is_declared() {
    let mut rig = Rig::with_a_flow();
    for port in [1, 7] {
        opens(&mut rig, port);
    }
    rig.decided([window(Some(FlowId(1)), Some(NARROW))]);
    let policy = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    let policy = Some(("tcp".into(), policy));
    rig.controller.reconfigure(rig.now, Change { policy, ..Change::default() });
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    rig.obey(&out);
    assert_eq!(rig.cap(7), None);
    let flows = rig.controller.at(rig.now).flows(9);
    let left: Vec<_> =
        flows.iter().map(|flow| (flow.connection, flow.application.as_str())).collect();
    assert_eq!(left, [(connection(1), "app")]);
}

#[test]
fn connections_for_which_there_is_no_room_are_counted() {
    let mut rig = Rig::new();
    rig.connect();
    let limits = Limits { flows: 2, ..Limits::default() };
    rig.controller.reconfigure(rig.now, Change { limits: Some(limits), ..Change::default() });
    let problems = |rig: &Rig| rig.controller.at(rig.now).status().problems;
    let before = problems(&rig);
    for port in 1..=4 {
        opens(&mut rig, port);
    }
    assert_eq!(comings(&rig), [came(0), came(1)]);
    assert_eq!(rig.controller.counters().flows_ignored, 2);
    let full =
        "2 connections that nobody declared are open: more are not governed; raise limits.flows";
    assert!(problems(&rig).contains(&full.into()));
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(1) }));
    assert_eq!(problems(&rig), before);
}
