//! Which connection is whose: flows that were declared without a port, and the connections seen of them.

use crate::in_memory::{Rig, SECOND, Shape, connection, even};
use protocol::agent::{ConnectionReport, Report};
use protocol::application::Declaration;
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span};
use watermaster_control::{ChannelId, FlowExplanation, Input};

const UNSEEN: &str = "nobody yet: no agent has seen a connection of it yet";

fn mbps(mbps: u64) -> Rate {
    Rate::from_mbps(mbps)
}

/// The first flow will be held to 6 Mbit/s, the second to 2, by the agent of their host.
fn rig() -> (Rig, ChannelId) {
    let parameters = policy::Parameters::default().with("rates", vec![mbps(6), mbps(2)]);
    under(policy::by_name("static", &parameters).unwrap())
}

fn under(policy: Box<dyn policy::Policy + Send>) -> (Rig, ChannelId) {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("policy", policy, true), 1);
    let agent = rig.agent("h0", &[0]);
    rig.start("app", "job");
    (rig, agent)
}

/// From host 0 to host 2: `connection` has 5000 as its destination's port.
fn from(port: u16) -> Connection {
    connection(0, 2, port)
}

fn standing(connection: Connection, delivered: u64, unsent: u64) -> ConnectionReport {
    ConnectionReport {
        connection,
        delivered_bytes: Bytes::new(delivered),
        unsent_bytes: Bytes::new(unsent),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    }
}

/// A second passes, and the agent samples.
fn sample(rig: &mut Rig, agent: ChannelId, connections: Vec<ConnectionReport>) {
    rig.pass(SECOND);
    let report = Report::Connections { sampled_ns: rig.now, connections };
    rig.input(Input::Reported(agent, &report)).unwrap();
    rig.pass(Span::ZERO);
}

fn shown(rig: &Rig) -> FlowExplanation {
    rig.why("app", "job", 1)
}

fn complete(rig: &mut Rig, flow: &str) {
    let done = Declaration::FlowComplete { job: "job".into(), flow: flow.into() };
    rig.declare("app", done).unwrap();
    rig.pass(Span::ZERO);
}

#[test]
fn a_flow_whose_port_nobody_knows_is_not_enforced_until_a_connection_is_seen() {
    let (mut rig, agent) = rig();
    let unenforced = |rig: &Rig| rig.controller.counters().directives_unenforced;
    rig.flow("app", "job", 1, from(0), None).unwrap();
    let why = shown(&rig);
    assert_eq!((why.by.as_str(), why.flow.enforced_bps), (UNSEEN, None));
    assert_eq!(unenforced(&rig), 1);
    assert_eq!((why.flow.carriers, why.flow.failed), (vec![], None));
    assert!(rig.paced().is_empty());

    sample(&mut rig, agent, vec![standing(from(40_000), 0, 1_000)]);
    let why = shown(&rig);
    assert_eq!(why.by, "agent h0, by pacing");
    assert_eq!((why.flow.carriers, why.flow.enforced_bps), (vec![from(40_000)], Some(mbps(6))));
    assert_eq!(rig.paced(), [(from(40_000), mbps(6))].into());

    complete(&mut rig, "1");
    assert!(rig.paced().is_empty());
    assert_eq!(unenforced(&rig), 1);
}

#[test]
fn those_that_send_share_the_rate_and_get_it_back() {
    let (mut rig, agent) = rig();
    rig.flow("app", "job", 1, from(0), None).unwrap();
    let both = |delivered, unsent| {
        vec![standing(from(1), delivered, 1_000), standing(from(2), 10, unsent)]
    };
    sample(&mut rig, agent, both(0, 1_000));
    assert_eq!(rig.paced(), [(from(1), mbps(3)), (from(2), mbps(3))].into());
    assert_eq!(shown(&rig).flow.enforced_bps, Some(mbps(6)));
    // One has nothing to send any more.
    for second in 1..5 {
        sample(&mut rig, agent, both(second * 100, 0));
    }
    assert_eq!(rig.paced()[&from(1)], mbps(6));
    // It is gone.
    for second in 5..10 {
        sample(&mut rig, agent, vec![standing(from(1), second * 100, 1_000)]);
    }
    assert_eq!(rig.paced(), [(from(1), mbps(6))].into());
    // Another one comes, and its agent tells that the first has ended.
    rig.input(Input::Reported(agent, &Report::Closed { connection: from(1) })).unwrap();
    sample(&mut rig, agent, vec![standing(from(3), 0, 1_000)]);
    assert_eq!(rig.paced(), [(from(3), mbps(6))].into());
    assert_eq!(shown(&rig).flow.carriers, [from(3)]);
}

#[test]
fn what_is_declared_with_more_ports_goes_first() {
    let (mut rig, agent) = rig();
    let any = |mut connection: Connection| {
        connection.destination.set_port(0);
        connection
    };
    rig.flow("app", "job", 1, any(from(0)), None).unwrap();
    sample(&mut rig, agent, vec![standing(from(7), 0, 1), standing(from(8), 0, 1)]);
    assert_eq!(shown(&rig).flow.carriers.len(), 2);
    // Flow 2 has the source's port: it takes connection 7 with the next sample.
    rig.flow("app", "job", 2, any(from(7)), None).unwrap();
    sample(&mut rig, agent, vec![standing(from(7), 0, 1), standing(from(8), 0, 1)]);
    assert_eq!(rig.paced(), [(from(7), mbps(2)), (from(8), mbps(6))].into());
    // And flow 3 has both, and no limit.
    rig.flow("app", "job", 3, from(8), None).unwrap();
    sample(&mut rig, agent, vec![standing(from(7), 0, 1), standing(from(8), 0, 1)]);
    assert_eq!(rig.paced(), [(from(7), mbps(2))].into());
    assert_eq!(shown(&rig).by, UNSEEN);
    // What fits less well is taken again when the better has ended.
    complete(&mut rig, "2");
    assert!(rig.paced().is_empty());
    sample(&mut rig, agent, vec![standing(from(7), 0, 1)]);
    assert_eq!(rig.paced(), [(from(7), mbps(6))].into());
}

#[test]
fn several_flows_of_one_connection_get_the_sum() {
    let (mut rig, agent) = rig();
    rig.flow("app", "job", 1, from(0), None).unwrap();
    sample(&mut rig, agent, vec![standing(from(7), 0, 1)]);
    rig.flow("app", "job", 2, from(0), None).unwrap();
    assert_eq!(rig.paced(), [(from(7), mbps(8))].into());
    complete(&mut rig, "2");
    assert_eq!(rig.paced(), [(from(7), mbps(6))].into());
}

/// Whose bytes those of a shared connection are nobody knows: they correct no size and contradict none.
#[test]
fn bytes_of_a_connection_of_several_flows_are_nobodys() {
    let (mut rig, agent) = rig();
    for flow in [1, 2] {
        rig.flow("app", "job", flow, from(0), Some(1_000)).unwrap();
    }
    sample(&mut rig, agent, vec![standing(from(7), 0, 1)]);
    sample(&mut rig, agent, vec![standing(from(7), 50_000, 1)]);
    for flow in [1, 2] {
        let shown = rig.why("app", "job", flow).flow;
        assert_eq!((shown.delivered_bytes, shown.contradicted), (Bytes::ZERO, None), "{flow}");
    }
    complete(&mut rig, "2");
    sample(&mut rig, agent, vec![standing(from(7), 90_000, 1)]);
    let left = shown(&rig).flow;
    assert_eq!(left.delivered_bytes, Bytes::new(40_000), "what it alone carried");
}

/// What a connection delivered before the flow is not the flow's; what one that is gone delivered is.
#[test]
fn what_connections_deliver_one_after_another_adds_up() {
    let (mut rig, agent) = rig();
    sample(&mut rig, agent, vec![standing(from(1), 1_000, 0)]);
    rig.flow("app", "job", 1, from(0), Some(50_000)).unwrap();
    sample(&mut rig, agent, vec![standing(from(1), 4_000, 0)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::new(3_000));
    // Both reports of what has begun meanwhile count from its first octet.
    sample(&mut rig, agent, vec![standing(from(1), 5_000, 0), standing(from(2), 500, 0)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::new(4_500));
    sample(&mut rig, agent, vec![standing(from(3), 2_000, 0)]);
    sample(&mut rig, agent, vec![standing(from(3), 2_500, 0)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::new(7_000));
    assert_eq!(shown(&rig).flow.contradicted, None);
}

/// An agent that comes first knows nothing of what was before.
#[test]
fn of_a_connection_that_nobody_knew_before_only_what_follows_counts() {
    let (mut rig, agent) = rig();
    rig.flow("app", "job", 1, from(0), None).unwrap();
    sample(&mut rig, agent, vec![standing(from(1), 1_000, 0)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::ZERO);
    sample(&mut rig, agent, vec![standing(from(1), 1_700, 0)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::new(700));
}

/// A new agent is told of those that have joined; what one held that is gone stands until then.
#[test]
fn an_agent_that_comes_back_holds_what_had_joined() {
    let (mut rig, agent) = rig();
    rig.flow("app", "job", 1, from(0), None).unwrap();
    sample(&mut rig, agent, vec![standing(from(1), 0, 1)]);
    rig.input(Input::AgentGone(agent)).unwrap();
    assert_eq!(shown(&rig).flow.enforced_bps, Some(mbps(6)));
    rig.agent("h0", &[0]);
    rig.pass(Span::ZERO);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(mbps(6)));
}

fn request(rig: &mut Rig, flow: &str, packets: Connection, processes: Processes) {
    let declaration = Declaration::FlowRequest {
        job: "job".into(),
        flow: flow.into(),
        connection: packets,
        processes,
        bytes: None,
    };
    rig.declare("app", declaration).unwrap();
    rig.pass(Span::ZERO);
}

fn received_by(pid: u32) -> Processes {
    Processes { destination: Some(Process::Pid(pid)), ..Processes::default() }
}

/// What the agent of the receiver samples of a connection: its other direction, and who has it.
fn received(connection: Connection, pid: u32) -> ConnectionReport {
    let Connection { source, destination } = connection;
    let back = Connection { source: destination, destination: source };
    ConnectionReport { processes: vec![Process::Pid(pid)], ..standing(back, 0, 0) }
}

/// Two reduces on one host fetch from one port of another: only the receiver's agent can tell them apart.
#[test]
fn two_processes_of_one_host_are_told_apart_by_the_receivers_agent() {
    let (mut rig, agent) = rig();
    let receiver = rig.agent("h2", &[2]);
    // As of a shuffle: the source's port is known.
    let fetch = |port: u16| {
        let Connection { source, destination } = from(13_562);
        let destination = (destination.ip(), port).into();
        Connection { source, destination }
    };
    request(&mut rig, "1", fetch(0), received_by(71));
    request(&mut rig, "2", fetch(0), received_by(72));
    let asked = rig.agents[&receiver].machine.identified().to_vec();
    assert_eq!(asked, [Process::Pid(71), Process::Pid(72)]);
    let both = || vec![standing(fetch(1), 500, 1), standing(fetch(2), 500, 1)];
    sample(&mut rig, agent, both());
    assert_eq!(shown(&rig).by, UNSEEN);
    assert!(rig.paced().is_empty());
    assert_eq!(rig.controller.counters().directives_unenforced, 2);
    // They are held as soon as the receiver's agent tells whose they are.
    sample(&mut rig, receiver, vec![received(fetch(1), 72), received(fetch(2), 71)]);
    assert_eq!(rig.paced(), [(fetch(1), mbps(2)), (fetch(2), mbps(6))].into());
    assert_eq!(shown(&rig).flow.carriers, [fetch(2)]);
    assert_eq!(rig.controller.counters().directives_unenforced, 2);
    // A third connection is nobody's.
    let mut three = both();
    three.push(standing(fetch(3), 0, 1));
    sample(&mut rig, agent, three);
    assert_eq!(rig.paced().len(), 2);
    // A process that has nothing to do with flows any more isn't asked for.
    complete(&mut rig, "2");
    assert_eq!(rig.agents[&receiver].machine.identified(), [Process::Pid(71)]);
    assert_eq!(rig.paced(), [(fetch(2), mbps(6))].into());
    // It dies without a word: its connection is in no sample any more.
    for _ in 0..4 {
        sample(&mut rig, agent, vec![]);
        sample(&mut rig, receiver, vec![]);
    }
    assert_eq!((rig.paced().len(), shown(&rig).by.as_str()), (0, UNSEEN));
}

/// Who names a process goes before who names a port, and who names nothing takes what is left.
#[test]
fn a_process_says_more_than_a_port() {
    let (mut rig, agent) = rig();
    let any = |mut connection: Connection| {
        connection.destination.set_port(0);
        connection
    };
    request(
        &mut rig,
        "1",
        any(from(0)),
        Processes { source: Some(Process::Pid(7)), ..Processes::default() },
    );
    request(&mut rig, "2", any(from(9)), Processes::default());
    let of_7 = |connection| ConnectionReport {
        processes: vec![Process::Pid(7)],
        ..standing(connection, 0, 1)
    };
    sample(&mut rig, agent, vec![of_7(from(9)), standing(from(8), 0, 1)]);
    assert_eq!(rig.paced(), [(from(9), mbps(6))].into());
    // The socket is handed to another process.
    sample(&mut rig, agent, vec![standing(from(9), 0, 1)]);
    assert_eq!(rig.paced(), [(from(9), mbps(2))].into());
}

/// A socket is handed from process to process: what it delivered until it was reported last is not the next flow's.
#[test]
fn a_connection_that_changes_flows_leaves_each_what_it_delivered_for_it() {
    let (mut rig, agent) = rig();
    sample(&mut rig, agent, vec![]);
    let of_7 = Processes { source: Some(Process::Pid(7)), ..Processes::default() };
    request(&mut rig, "1", from(0), of_7);
    request(&mut rig, "2", from(0), Processes::default());
    for (is_of_7, delivered, expected) in [
        (true, 1_000, [1_000, 0]),
        (false, 5_000, [1_000, 4_000]),
        (false, 5_500, [1_000, 4_500]),
        (true, 6_000, [1_500, 4_500]),
    ] {
        let processes = if is_of_7 { vec![Process::Pid(7)] } else { vec![] };
        let stands = ConnectionReport { processes, ..standing(from(9), delivered, 1) };
        sample(&mut rig, agent, vec![stands]);
        let delivered = [1, 2].map(|flow| rig.why("app", "job", flow).flow.delivered_bytes);
        assert_eq!(delivered, expected.map(Bytes::new));
    }
}

/// Bytes from before anybody knew whose they are, are the flow's if it was declared before.
#[test]
fn a_flow_gets_all_bytes_of_a_connection_that_began_after_it() {
    let (mut rig, agent) = rig();
    let receiver = rig.agent("h2", &[2]);
    sample(&mut rig, agent, vec![]);
    let mut packets = from(0);
    packets.destination.set_port(0);
    request(&mut rig, "1", packets, received_by(71));
    sample(&mut rig, agent, vec![standing(from(1), 700, 1)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::ZERO, "nobody knows whose they are");
    sample(&mut rig, receiver, vec![received(from(1), 71)]);
    sample(&mut rig, agent, vec![standing(from(1), 1_000, 1)]);
    assert_eq!(shown(&rig).flow.delivered_bytes, Bytes::new(1_000));
}

#[test]
fn wrong_processes_are_refused_with_their_field() {
    let (mut rig, _) = rig();
    for path in ["", "x", "/", "/a/../b", "/a//b", &format!("/{}", "a".repeat(1024))] {
        let processes =
            Processes { source: Some(Process::Cgroup(path.into())), ..Processes::default() };
        let flow = Declaration::FlowRequest {
            job: "job".into(),
            flow: "1".into(),
            connection: from(0),
            processes,
            bytes: None,
        };
        let refused = rig.declare("app", flow).unwrap_err();
        assert_eq!(refused.field, "processes.source", "{path}");
    }
    for pid in 0..300 {
        let flow = Declaration::FlowRequest {
            job: "job".into(),
            flow: pid.to_string(),
            connection: from(0),
            processes: Processes { source: Some(Process::Pid(pid)), ..Processes::default() },
            bytes: None,
        };
        let done = rig.declare("app", flow);
        // No process has the number 0.
        assert_eq!(done.is_ok(), (1..=256).contains(&pid), "{pid}: {done:?}");
    }
}

/// Of a killed worker nothing is heard but that its connection is missing. The policy gives its share to
/// another.
#[test]
fn a_flow_whose_connection_is_gone_ends_after_the_grace() {
    let (mut rig, agent) = under(even());
    rig.flow("app", "job", 1, from(1), None).unwrap();
    rig.flow("app", "job", 2, from(2), None).unwrap();
    // Nobody has seen the second yet.
    sample(&mut rig, agent, vec![standing(from(1), 0, 1)]);
    for _ in 0..9 {
        sample(&mut rig, agent, vec![]);
    }
    assert_eq!(rig.paced(), [1, 2].map(|port| (from(port), mbps(50))).into());
    for _ in 0..3 {
        sample(&mut rig, agent, vec![]);
    }
    // The policy doesn't count on what nobody sees: it stays as it was.
    assert_eq!(rig.paced(), [(from(2), mbps(50))].into());
    assert_eq!(rig.controller.counters().flows_vanished, 1);
    assert!(rig.controller.at(rig.now).explain_flow("app", "job", "1").is_none());
    // An agent that is new, or silent, knows nothing of what was before.
    sample(&mut rig, agent, vec![standing(from(2), 0, 1)]);
    rig.pass(SECOND * 30);
    rig.input(Input::AgentGone(agent)).unwrap();
    let agent = rig.agent("h0", &[0]);
    for _ in 0..20 {
        sample(&mut rig, agent, vec![]);
    }
    assert_eq!(rig.controller.counters().flows_vanished, 1);
}
