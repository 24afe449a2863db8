//! Links, hosts and flows in short.

use model::build::{Access, star};
use model::{Buffer, Flow, Job, JobId, LinkSpec, NodeId, TaskId, Terms, Topology};
use units::{Bytes, Rate, Span, Time};

/// A link of so many Mbit/s that marks nothing.
#[must_use]
pub fn link(mbps: u64, delay_us: u64, buffer: Buffer) -> LinkSpec {
    let capacity = Rate::from_mbps(mbps);
    LinkSpec { capacity, delay: Span::from_micros(delay_us), buffer, mark: None }
}

/// Hosts whose own queue is endless, so that only switches drop.
#[must_use]
pub const fn access(link: LinkSpec) -> Access {
    Access { link, nic: Buffer::Unlimited }
}

/// Hosts `h0` onwards on a switch.
#[must_use]
pub fn hosts(count: u32, link: LinkSpec) -> Topology {
    star(count, &access(link)).unwrap()
}

/// The host of that name.
#[must_use]
pub fn host(topology: &Topology, name: &str) -> NodeId {
    topology.node_named(name).unwrap()
}

/// A job of flows, all at its arrival: sender, receiver and bytes of each. A host is a task.
#[must_use]
pub fn job(id: u32, arrival: Time, flows: &[(NodeId, NodeId, u64)]) -> Job {
    let flow = |&(src, dst, size): &(NodeId, NodeId, u64)| Flow {
        src,
        dst,
        from: TaskId(src.0),
        to: TaskId(dst.0),
        size: Bytes::new(size),
        offset: Span::ZERO,
    };
    Job {
        id: JobId(id),
        arrival,
        class: None,
        terms: Terms::default(),
        flows: flows.iter().map(flow).collect(),
    }
}
