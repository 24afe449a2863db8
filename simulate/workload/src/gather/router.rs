//! The router whose queue the policy asks for.

use model::{Buffer, HEADER, LinkId, LinkSpec, Network, NodeId, NodeKind};
use units::{Bytes, Span};

/// The aggregation router's port towards the rack of a front end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) link: LinkId,
    /// Its buffer.
    pub(super) room: Bytes,
    /// How long a question to the router takes.
    pub(super) away: Span,
}

/// That of `front`, where it has room for a number of octets.
pub(super) fn port(network: &Network, front: NodeId) -> Option<Port> {
    let topology = network.topology();
    let first = topology.link(*topology.out(front).first()?);
    let edge = first.to;
    let mut above = topology.out(edge).iter().map(|link| topology.link(*link));
    let up = above.find(|link| topology.nodes()[link.to.index()].kind == NodeKind::Switch)?;
    let link = topology.link_between(up.to, edge)?;
    let away = |spec: &LinkSpec| spec.delay + spec.capacity.time_for(HEADER);
    let away = away(&first.spec) + away(&up.spec);
    match topology.link(link).spec.buffer {
        Buffer::Bytes(room) => Some(Port { link, room, away }),
        _ => None,
    }
}
