//! Small runs for the tests. Every run is audited by the simulator itself: a broken invariant is an
//! error that `run` returns.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses its part; a test may panic

use model::build::{self, Access};
use model::{
    Buffer, Declared, Directive, Directives, Flow, FlowId, Job, JobId, LinkSpec, Network, NodeId,
    Observation, TaskId, Topology,
};
use units::{Bytes, Rate, Span, Time};
use watermaster_packet::{Discipline, Enforcement, Jobs, Outcome, RunError, Setup, Transport, run};

/// A link of `mbps` with `delay_us` and a buffer of `packets`.
pub fn link(mbps: u64, delay_us: u64, packets: u32) -> LinkSpec {
    LinkSpec {
        capacity: Rate::from_mbps(mbps),
        delay: Span::from_micros(delay_us),
        buffer: Buffer::Packets(packets),
        mark: None,
    }
}

/// Hosts whose own queue is endless, so that only switches drop.
pub fn access(link: LinkSpec) -> Access {
    Access { link, nic: Buffer::Unlimited }
}

/// `senders` hosts, h0 onwards, fast enough to fill the one link to the last host.
pub fn incast(senders: u32, bottleneck: LinkSpec) -> Topology {
    let fast = LinkSpec { capacity: Rate::from_mbps(100_000), ..bottleneck };
    let mut topology = build::star(senders.max(2), &access(fast)).unwrap();
    let receiver = topology.add_node("receiver".into(), model::NodeKind::Host).unwrap();
    let switch = topology.node_named("s0").unwrap();
    let uplink = LinkSpec { buffer: Buffer::Unlimited, mark: None, ..bottleneck };
    topology.connect(receiver, switch, uplink, bottleneck).unwrap();
    topology
}

/// The host of that name.
pub fn host(topology: &Topology, name: &str) -> NodeId {
    topology.node_named(name).unwrap()
}

/// A job of one flow that arrives at `at`.
pub fn job(id: u32, at: Time, src: NodeId, dst: NodeId, size: u64) -> Job {
    let flow = Flow {
        src,
        dst,
        from: TaskId(0),
        to: TaskId(1),
        size: Bytes::new(size),
        offset: Span::ZERO,
    };
    Job { id: JobId(id), arrival: at, class: None, flows: vec![flow] }
}

/// A setup without policy.
pub fn setup(topology: Topology, transport: Transport, jobs: Vec<Job>) -> Setup<'static> {
    Setup {
        network: Network::new(topology),
        transport,
        application: Box::new(Jobs::new(jobs.into_iter())),
        policy: None,
        enforcement: Enforcement::Pacing,
        host_queue: Discipline::Fifo,
        switch_queue: Discipline::Fifo,
        control_delay: Span::ZERO,
        processing: Span::ZERO,
        until: Time::NEVER,
        captures: Vec::new(),
        monitors: Vec::new(),
        rates: None,
    }
}

/// Runs it.
pub fn outcome(setup: Setup<'_>) -> Outcome {
    let outcome: Result<Outcome, RunError> = run(setup, &mut |_| {});
    outcome.unwrap()
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
