//! `sab`: each port divides its buffer evenly among its flows, as their windows.
//!
//! Source: Zhang, Ren, Yue, Shu, "Sharing Bandwidth by Allocating Switch Buffer in Data Center
//! Networks", as SDTCP (sections 2.1 and 5.1) describes and runs it: the window of each of N flows
//! is (C·RTT + ε·B) / N, with ε = 0.5 of the buffer B. With segments of fixed size it is at least
//! one segment. The switches decide by themselves, at each SYN and FIN.

use alloc::boxed::Box;
use alloc::vec::Vec;

use model::{Buffer, Cap, Directive, Directives, LinkId, Measured, Network, Observation};
use units::{Bytes, Time};

use crate::connections::Connections;
use crate::sdtcp::FLOOR;
use crate::watch::Watch;
use crate::{Descriptor, DirectiveKind, HEADER, Kind, Need, Parameter, Policy, Share, Value};

/// ε, as SDTCP's text has it.
const BUFFER_SHARE: Parameter = Parameter::new(
    "buffer_share",
    Kind::Share,
    Value::Share(Share::literal(500_000)),
    "the part of a port's buffer that its flows share (epsilon)",
)
.published("SDTCP, section 5.1");

/// What `sab` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sab",
    summary: "each port divides its buffer evenly among its flows, as their windows",
    source: "Sharing Bandwidth by Allocating Switch Buffer, as in SDTCP, sections 2.1 and 5.1",
    parameters: &[BUFFER_SHARE, FLOOR],
    needs: &[Need::Handshakes],
    directives: &[DirectiveKind::Window],
    is_max_min: false,
    build: |given| {
        let buffer_share = given.get(BUFFER_SHARE.name);
        let floor_segments = given.get(FLOOR.name);
        let parameters = Parameters { buffer_share, segment: given.segment(), floor_segments };
        Ok(Box::new(Sab { parameters, connections: Connections::default(), changed: Vec::new() }))
    },
};

#[derive(Clone, Copy, Debug)]
struct Parameters {
    buffer_share: Share,
    segment: Bytes,
    floor_segments: u32,
}

/// The policy's state: what is open.
#[derive(Debug)]
struct Sab {
    parameters: Parameters,
    connections: Connections,
    /// Ports to divide anew.
    changed: Vec<LinkId>,
}

impl Policy for Sab {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Measured(Measured::Opened { flow, src, dst }) => {
                let segment = self.parameters.segment;
                let ends = (*src, *dst);
                self.changed.extend(self.connections.open(now, network, *flow, ends, segment));
            }
            Observation::Measured(Measured::Closed { flow }) => {
                self.changed.extend(self.connections.close(*flow));
            }
            Observation::Measured(Measured::LinkState { .. }) => {
                let segment = self.parameters.segment;
                self.changed.extend(self.connections.reroute(network, segment));
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, network: &Network, out: &mut Directives) {
        for link in self.changed.drain(..) {
            out.push(divide(&self.parameters, &self.connections, network, link));
        }
    }

    fn watch(&self) -> Option<Watch> {
        Some(Watch { local: true, ..Watch::default() })
    }
}

fn divide(
    parameters: &Parameters,
    connections: &Connections,
    network: &Network,
    link: LinkId,
) -> Directive {
    let Parameters { buffer_share, segment, floor_segments } = *parameters;
    let cap = connections.port(link).map(|port| {
        let spec = network.topology().link(link).spec;
        let pipe = spec.capacity.bytes_in(port.round_trip());
        let buffer = match spec.buffer {
            Buffer::Packets(packets) => (segment + HEADER) * u64::from(packets),
            Buffer::Bytes(bytes) => bytes,
            // No part of an endless buffer would do; half of this keeps the link busy.
            Buffer::Unlimited => pipe * 2,
        };
        let total = pipe + buffer_share.of(buffer);
        let bytes = Bytes::new(total.get() / port.count().max(1)).max(segment);
        Cap { bytes, floor_segments }
    });
    Directive::Window { link, flow: None, cap }
}
