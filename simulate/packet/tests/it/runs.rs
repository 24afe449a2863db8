//! Small runs for the tests. Every run is audited by the simulator itself: a broken invariant is an
//! error that `run` returns.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses its part; a test may panic

use model::{
    Buffer, Declared, Directive, Directives, FlowId, Job, LinkSpec, Network, NodeId, Observation,
    Topology,
};
use testing::network;
pub use testing::network::{access, host};
pub use testing::packet::outcome;
use units::{Rate, Time};
use watermaster_packet::{Jobs, Setup, Transport};

/// A link of `mbps` with `delay_us` and a buffer of `packets`.
pub fn link(mbps: u64, delay_us: u64, packets: u32) -> LinkSpec {
    network::link(mbps, delay_us, Buffer::Packets(packets))
}

/// `senders` hosts, h0 onwards, fast enough to fill the one link to the last host.
pub fn incast(senders: u32, bottleneck: LinkSpec) -> Topology {
    let fast = LinkSpec { capacity: Rate::from_mbps(100_000), ..bottleneck };
    let mut topology = network::hosts(senders.max(2), fast);
    let receiver = topology.add_node("receiver".into(), model::NodeKind::Host).unwrap();
    let switch = topology.node_named("s0").unwrap();
    let uplink = LinkSpec { buffer: Buffer::Unlimited, mark: None, ..bottleneck };
    topology.connect(receiver, switch, uplink, bottleneck).unwrap();
    topology
}

/// A job of one flow that arrives at `at`.
pub fn job(id: u32, at: Time, src: NodeId, dst: NodeId, size: u64) -> Job {
    network::job(id, at, &[(src, dst, size)])
}

/// A setup without policy.
pub fn setup(topology: Topology, transport: Transport, jobs: Vec<Job>) -> Setup<'static> {
    testing::packet::setup(topology, transport, Box::new(Jobs::new(jobs.into_iter())))
}

/// A policy that says for each announced flow what `answer` does.
pub fn per_flow(answer: impl FnMut(Time, FlowId, &mut Directives)) -> impl policy::Policy {
    PerFlow { answer, directives: Directives::new() }
}

struct PerFlow<F> {
    answer: F,
    directives: Directives,
}

impl<F: FnMut(Time, FlowId, &mut Directives)> policy::Policy for PerFlow<F> {
    fn observe(&mut self, now: Time, _: &Network, observation: &Observation) {
        if let Observation::Declared(Declared::FlowRequest { flow, .. }) = observation {
            (self.answer)(now, *flow, &mut self.directives);
        }
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.directives);
    }
}

/// A limit on a flow, or none.
pub fn pace(flow: FlowId, limit: Option<Rate>) -> Directive {
    Directive::Pace { flow, limit }
}
