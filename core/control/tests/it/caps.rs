//! Who caps the window of a connection at a switch, and as which of its flows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use model::{Cap, Directive, Directives, FlowId, LinkId, Network, Observation};
use openflow::Action;
use policy::{Policy, Watch};
use protocol::agent::{Capability, Host, Report};
use protocol::application::Declaration;
use units::{Bytes, Time};
use watermaster_control::{Config, Input};

use crate::in_memory::{Rig, SECOND, Shape, connection, segment};
use crate::prepared::acting;
use crate::switches::accept;

/// From the first switch to the second.
const LINK: LinkId = LinkId(0);
const FIRST: FlowId = FlowId(0);
const SECOND_FLOW: FlowId = FlowId(1);

/// Says what the test wants, and watches connections.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Directives>>);

impl Policy for Scripted {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.0.lock().unwrap());
    }

    fn watch(&self) -> Option<Watch> {
        Some(Watch::default())
    }
}

/// Two racks of switches that cap windows, and as many flows on one connection between them, which is open.
fn shared_by(flows: u64, change: impl FnOnce(&mut Config)) -> (Rig, Scripted) {
    let (shape, policy) = (Shape::racks(3), Scripted::default());
    let mut config = shape.config("scripted", Box::new(policy.clone()), true);
    change(&mut config);
    let mut rig = Rig::new(&shape, config, 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    for flow in 1..=flows {
        rig.flow("app", "job", flow, connection(0, 3, 1000), None).unwrap();
    }
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    (rig, policy)
}

/// The policy caps windows from the first switch to the second, of a flow or of all; how many of these directives
/// nobody obeys.
fn cap(rig: &mut Rig, policy: &Scripted, flow: Option<FlowId>, bytes: Option<u64>) -> u64 {
    let before = rig.controller.counters().directives_unenforced;
    let cap = bytes.map(|bytes| Cap { bytes: Bytes::new(bytes), floor_segments: 1 });
    *policy.0.lock().unwrap() = vec![Directive::Window { link: LINK, flow, cap }];
    rig.input(Input::Tick).unwrap();
    rig.controller.counters().directives_unenforced - before
}

/// The windows that the first switch caps, by the port that their connection comes from.
fn capped(rig: &Rig) -> BTreeMap<u128, u32> {
    acting(rig, 0, |action| match action {
        Action::CapWindow(cap) => Some(cap.window_bytes),
        _ => None,
    })
}

/// An agent of a switch begins.
fn connect(rig: &mut Rig, name: &str, capabilities: &[Capability]) {
    let channel = rig.peer();
    rig.agents.insert(channel, crate::in_memory::Host::default());
    rig.input(Input::AgentConnected { channel, identity: name }).unwrap();
    let hosts = vec![Host { name: name.into(), addresses: Vec::new() }];
    let hello = Report::Hello { hosts, capabilities: capabilities.to_vec(), epoch: 0 };
    rig.input(Input::Reported(channel, &hello)).unwrap();
    rig.pass(SECOND);
}

fn complete(rig: &mut Rig, flow: &str) {
    let done = Declaration::FlowComplete { job: "job".into(), flow: flow.into() };
    rig.declare("app", done).unwrap();
}

/// It is found by probes, and named when its port changes next. The model of an agent's machine has no interfaces.
#[test]
fn a_switch_caps_until_its_agent_can_be_told_at_which_interface() {
    let (mut rig, policy) = shared_by(1, |config| {
        config.ports[..2].iter_mut().for_each(|cable| cable.port = None);
        config.ports[0].interface.clear();
    });
    connect(&mut rig, "s0", &Capability::ALL);
    assert_eq!(cap(&mut rig, &policy, Some(FIRST), Some(3_000)), 0);
    let stands = |rig: &Rig| {
        assert_eq!(capped(rig), BTreeMap::from([(1000, 3_000)]));
        assert_eq!(rig.why("app", "job", 1).by, "a window of 3 kB at s0");
    };
    stands(&rig);
    connect(&mut rig, "s1", &[Capability::Watching]);
    stands(&rig);
    rig.set_port(0, 1, true);
    rig.pass(SECOND);
    assert_eq!(capped(&rig), BTreeMap::new());
    let failed = rig.why("app", "job", 1).flow.failed;
    assert_eq!(failed.as_deref(), Some("no interface p1 of s0 is configured here"));
}

/// A header counts in units of 128 octets here, of which 3 kB have 23.
#[test]
fn people_are_told_the_window_that_a_switch_writes() {
    let (mut rig, policy) = shared_by(1, |_| ());
    let mut scaled = segment(3, 0, 5000, 18, 4);
    scaled[36..38].copy_from_slice(&1000_u16.to_be_bytes());
    // A header of six words, the last of which offers a scale.
    scaled[46] = 0x60;
    scaled[54..58].copy_from_slice(&[3, 3, 7, 0]);
    rig.send(3, scaled);
    assert_eq!(cap(&mut rig, &policy, Some(FIRST), Some(3_000)), 0);
    assert_eq!(capped(&rig), BTreeMap::from([(1000, 2_944)]));
    assert_eq!(rig.why("app", "job", 1).by, "a window of 2944 B at s0");
}

/// A tenant that declares its connection once more, or lets that flow end, takes no cap from it; nor does a new plan.
#[test]
fn a_connection_has_the_window_of_the_first_of_its_flows() {
    let (mut rig, policy) = shared_by(2, |_| ());
    let port_of = |bytes| BTreeMap::from([(1000, bytes)]);
    assert_eq!(cap(&mut rig, &policy, Some(FIRST), Some(3_000)), 0);
    assert_eq!(capped(&rig), port_of(3_000));
    connect(&mut rig, "s1", &[Capability::Watching]);
    assert_eq!(capped(&rig), port_of(3_000));
    for flow in [1, 2] {
        assert_eq!(rig.why("app", "job", flow).by, "a window of 3 kB at s0", "flow {flow}");
    }
    // What is wanted of the other has nobody to obey, and lifting it lifts nothing.
    assert_eq!(cap(&mut rig, &policy, Some(SECOND_FLOW), Some(9_000)), 1);
    assert_eq!(capped(&rig), port_of(3_000));
    assert_eq!(cap(&mut rig, &policy, Some(SECOND_FLOW), None), 0);
    assert_eq!(capped(&rig), port_of(3_000));
    complete(&mut rig, "2");
    assert_eq!(capped(&rig), port_of(3_000));
    // It has its own once it is the first.
    rig.flow("app", "job", 2, connection(0, 3, 1000), None).unwrap();
    assert_eq!(cap(&mut rig, &policy, Some(SECOND_FLOW), Some(9_000)), 1);
    complete(&mut rig, "1");
    assert_eq!(capped(&rig), port_of(9_000));
    // Then what is for all, also of a connection that goes on and that nobody declares any more.
    assert_eq!(cap(&mut rig, &policy, None, Some(20_000)), 0);
    assert_eq!(capped(&rig), port_of(9_000));
    assert_eq!(cap(&mut rig, &policy, Some(SECOND_FLOW), None), 0);
    assert_eq!(capped(&rig), port_of(20_000));
    complete(&mut rig, "2");
    assert_eq!(capped(&rig), port_of(20_000));
    rig.send(0, segment(0, 3, 1000, 17, 0));
    assert_eq!(capped(&rig), BTreeMap::new());
}
