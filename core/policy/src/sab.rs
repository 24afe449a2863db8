//! `sab`: each port divides its buffer evenly among its flows, as their windows.
//!
//! Source: Zhang, Ren, Yue, Shu, "Sharing Bandwidth by Allocating Switch Buffer in Data Center
//! Networks", as SDTCP (sections 2.1 and 5.1) describes and runs it: the window of each of N flows
//! is (C·RTT + ε·B) / N, with ε = 0.5 of the buffer B. With segments of fixed size it is at least
//! one segment. The switches decide by themselves, at each SYN and FIN.

use alloc::vec::Vec;

use model::{Buffer, Cap, Directive, Directives, LinkId, Measured, Network, Observation};
use units::{Bytes, Time};

use crate::connections::Connections;
use crate::watch::Watch;
use crate::{HEADER, LEASE, Policy, PolicyError, Share};

/// SAB's parameters. [`Default`] gives those that SDTCP's text compares with (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// ε: the part of a buffer that is divided; published: 0.5.
    pub buffer_share: Share,
    /// Payload of a full segment.
    pub segment: Bytes,
    /// Below so many segments no window goes; published: 1.
    pub floor_segments: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        let segment = Bytes::new(1460);
        Self { buffer_share: Share::literal(500_000), segment, floor_segments: 1 }
    }
}

/// The policy.
///
/// # Errors
/// [`PolicyError::OutOfRange`]: an empty segment, no floor.
pub fn new(parameters: Parameters) -> Result<Sab, PolicyError> {
    if parameters.segment == Bytes::ZERO {
        return Err(PolicyError::OutOfRange { parameter: "segment", range: "above 0 B" });
    }
    if parameters.floor_segments == 0 {
        return Err(PolicyError::OutOfRange { parameter: "floor_segments", range: "at least 1" });
    }
    Ok(Sab { parameters, connections: Connections::default(), changed: Vec::new() })
}

/// The policy's state: what is open.
#[derive(Debug)]
pub struct Sab {
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
    Directive::Window { link, flow: None, cap, lease: LEASE }
}
