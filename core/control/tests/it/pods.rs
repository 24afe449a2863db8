//! Which pods of Kubernetes have the ends of a flow, as agents tell, and flows that name them.

use crate::in_memory::{Rig, SECOND, Shape, connection};
use protocol::agent::{ConnectionReport, Report};
use protocol::application::Declaration;
use protocol::{Connection, Process, Processes};
use units::{Bytes, Span};
use watermaster_control::{ChannelId, Input, Refusal};

/// Two racks of a host each, and the agents of both.
fn rig() -> (Rig, [ChannelId; 2]) {
    let shape = Shape::racks(1);
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    let config = shape.config("smsf", policy, true);
    let mut rig = Rig::new(&shape, config, 1);
    let agents = [rig.agent("a", &[0]), rig.agent("b", &[1])];
    (rig, agents)
}

/// A sample later: a connection, and the pods that are said to have its source.
fn sample(
    rig: &mut Rig,
    agent: ChannelId,
    connection: Connection,
    pods: &[&str],
) -> Result<(), Refusal> {
    rig.pass(SECOND);
    let one = ConnectionReport {
        connection,
        delivered_bytes: Bytes::ZERO,
        unsent_bytes: Bytes::new(1),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: pods.iter().map(|pod| Process::Pod((*pod).into())).collect(),
    };
    let report = Report::Connections { sampled_ns: rig.now, connections: vec![one] };
    let taken = rig.input(Input::Reported(agent, &report));
    rig.pass(Span::ZERO);
    taken
}

fn pods(rig: &Rig) -> [Option<String>; 2] {
    let flow = rig.why("app", "job", 1).flow;
    [flow.source_pod, flow.destination_pod]
}

#[test]
fn the_pods_at_both_ends_of_a_flow_are_shown() {
    let (mut rig, [a, b]) = rig();
    let there = connection(0, 1, 7);
    let back = Connection { source: there.destination, destination: there.source };
    rig.start("app", "job");
    rig.flow("app", "job", 1, there, Some(1_000_000)).unwrap();
    assert_eq!(pods(&rig), [None, None]);
    sample(&mut rig, a, there, &["default/mapper-0"]).unwrap();
    sample(&mut rig, b, back, &["default/reducer-0"]).unwrap();
    let known = ["default/mapper-0", "default/reducer-0"].map(|pod| Some(pod.to_owned()));
    assert_eq!(pods(&rig), known);
    let agents = rig.controller.at(rig.now).status().agents;
    assert_eq!(agents.iter().map(|agent| agent.pods).collect::<Vec<_>>(), [1, 1]);
    // The socket is handed to who is in no pod.
    sample(&mut rig, a, there, &[]).unwrap();
    assert_eq!(pods(&rig)[0], None);
}

#[test]
fn what_no_pod_is_called_is_refused_and_shown_to_nobody() {
    let (mut rig, [a, _]) = rig();
    let there = connection(0, 1, 7);
    rig.start("app", "job");
    rig.flow("app", "job", 1, there, Some(1_000_000)).unwrap();
    let long = format!("default/{}", "a".repeat(254));
    for wrong in ["", "mapper", "default/\u{1b}[2J", "default/a\nb", "Default/a", &*long] {
        let refusal = sample(&mut rig, a, there, &[wrong]).unwrap_err();
        assert_eq!(refusal.field, "connections.processes", "{wrong:?}");
        assert_eq!(pods(&rig), [None, None]);
    }
}

/// Agents tell the pods of all connections: they aren't asked to look for any.
#[test]
fn a_flow_is_carried_by_the_connection_of_the_pod_that_it_names() {
    let (mut rig, [a, _]) = rig();
    rig.start("app", "job");
    let seen = connection(0, 1, 7);
    let mut packets = seen;
    packets.source.set_port(0);
    let request = |pod: &str| Declaration::FlowRequest {
        job: "job".into(),
        flow: "1".into(),
        connection: packets,
        processes: Processes { source: Some(Process::Pod(pod.into())), ..Processes::default() },
        bytes: None,
    };
    let refusal = rig.declare("app", request("default")).unwrap_err();
    assert_eq!(refusal.field, "processes.source");
    rig.declare("app", request("default/mapper-0")).unwrap();
    rig.pass(Span::ZERO);
    assert_eq!(rig.agents[&a].machine.identified(), []);
    sample(&mut rig, a, seen, &["default/mapper-1"]).unwrap();
    assert_eq!(rig.why("app", "job", 1).flow.carriers, []);
    sample(&mut rig, a, seen, &["default/mapper-0"]).unwrap();
    assert_eq!(rig.why("app", "job", 1).flow.carriers, [seen]);
}
