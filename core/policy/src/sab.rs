//! `sab`: each port divides its buffer evenly among its flows, as their windows.
//!
//! Source: Zhang, Ren, Yue, Shu, "Sharing Bandwidth by Allocating Switch Buffer in Data Center
//! Networks", as SDTCP describes it (section 2.1: a switch's buffer is allocated to each flow
//! equally, as its advertised window) and runs it (5.1: with segments of fixed size and ε = 0.5 of
//! the buffer). Neither section gives a formula; here the window of each of N flows is
//! (C·RTT + ε·B) / N for the buffer B. The switches decide by themselves, at each SYN and FIN.
//!
//! Deviation: SAB allocates windows of less than one segment too (section 2.1), for which it changes
//! the senders. Here no host is changed, and no window goes below `floor_segments`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use model::{
    Buffer, Cap, Caps, Directive, Directives, LinkId, Measured, Network, Observation, Thresholds,
};
use units::{Bytes, Time};

use crate::connections::Connections;
use crate::sdtcp::{FLOOR, HIGH, LOW, MEDIUM, PREPARED, SHORT_RECOVERY, thresholds};
use crate::watch::Watch;
use crate::{Descriptor, DirectiveKind, HEADER, Kind, Need, Parameter, Policy, Share, Value};

/// ε.
const BUFFER_SHARE: Parameter = Parameter::new(
    "buffer_share",
    Kind::Share,
    Value::Share(Share::literal(500_000)),
    "the part of a port's buffer that its flows share (epsilon)",
)
.published("SDTCP, section 5.1");

const SWITCH: &str = "switch";

/// Ours, for switches that don't decide.
const WINDOWS: Parameter = Parameter::new(
    "windows",
    Kind::Choice(&[SWITCH, PREPARED]),
    Value::Choice(SWITCH),
    "the switch itself divides, or the controller prepares: each port's windows with each SYN and FIN, and beside them \
     the least for more flows than it knows of, to which the port itself changes at high",
);

/// What `sab` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sab",
    summary: "each port divides its buffer evenly among its flows, as their windows",
    source: "Sharing Bandwidth by Allocating Switch Buffer, as in SDTCP, sections 2.1 and 5.1",
    parameters: &[BUFFER_SHARE, FLOOR, WINDOWS, LOW, MEDIUM, HIGH, SHORT_RECOVERY],
    needs: &[Need::Handshakes],
    directives: &[DirectiveKind::Window, DirectiveKind::Prepare],
    is_max_min: false,
    build: |given| {
        let buffer_share = given.get(BUFFER_SHARE.name);
        let floor_segments = given.get(FLOOR.name);
        let prepared = match given.get::<&str>(WINDOWS.name) {
            PREPARED => Some(thresholds(given)?),
            _ => None,
        };
        let segment = given.segment();
        let settings = Settings { buffer_share, segment, floor_segments, prepared };
        Ok(Box::new(Sab { settings, connections: Connections::default(), changed: Vec::new() }))
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    buffer_share: Share,
    segment: Bytes,
    floor_segments: u32,
    /// When ports change to what was prepared, if it is.
    prepared: Option<Thresholds>,
}

/// The policy's state: what is open.
#[derive(Debug)]
struct Sab {
    settings: Settings,
    connections: Connections,
    /// Ports to divide anew.
    changed: Vec<LinkId>,
}

impl Policy for Sab {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Measured(Measured::Opened { flow, src, dst }) => {
                let segment = self.settings.segment;
                let ends = (*src, *dst);
                self.changed.extend(self.connections.open(now, network, *flow, ends, segment));
            }
            Observation::Measured(Measured::Closed { flow }) => {
                self.changed.extend(self.connections.close(*flow));
            }
            Observation::Measured(Measured::RoundTrips(flows)) => {
                self.changed.extend(self.connections.timed(flows));
            }
            Observation::Measured(Measured::LinkState { .. }) => {
                let segment = self.settings.segment;
                self.changed.extend(self.connections.reroute(network, segment));
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, network: &Network, out: &mut Directives) {
        for link in self.changed.drain(..) {
            out.push(divide(&self.settings, &self.connections, network, link));
        }
    }

    fn watch(&self) -> Option<Watch> {
        let congestion = self.settings.prepared;
        Some(Watch { congestion, local: congestion.is_none(), ..Watch::default() })
    }
}

fn divide(
    settings: &Settings,
    connections: &Connections,
    network: &Network,
    link: LinkId,
) -> Directive {
    let Settings { buffer_share, segment, floor_segments, prepared } = *settings;
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
        // Actuators see to `floor_segments` themselves; here caps below a segment become equal, and an
        // equal cap costs no message.
        let bytes = Bytes::new(total.get() / port.count().max(1)).max(segment);
        Cap { bytes, floor_segments }
    });
    match cap.filter(|_| prepared.is_some()) {
        Some(cap) => {
            let caps = Caps { high: Some(Cap { bytes: segment, ..cap }), ..cap.into() };
            Directive::Prepare { link, flow: None, caps }
        }
        None => Directive::Window { link, flow: None, cap },
    }
}
