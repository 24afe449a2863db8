//! `sdtcp`: when a switch queue fills, background flows get smaller windows, so that bursts fit.
//!
//! Source: SDTCP, section 3: flows are background or burst flows by their volume and age (3.3), and
//! each congestion notification sets the windows of the port's flows (3.4), equations 3 to 8.
//! Windows are octets of payload, as in the text, which counts no headers.
//!
//! Where the text is silent: a flow that opens while its port is congested gets its window with the
//! next notification, if one comes; the round trip of a port's flows, which "could be gained" by
//! measuring, is the mean over their paths with empty queues.

use alloc::boxed::Box;
use alloc::vec::Vec;

use model::{
    Cap, Directive, Directives, LinkId, Measured, Network, Observation, Severity, Thresholds,
};
use units::{Bytes, Span, Time};

use crate::connections::Connections;
use crate::parameter::{LONGEST, SHORTEST};
use crate::watch::Watch;
use crate::{
    Descriptor, DirectiveKind, Given, Kind, Need, Parameter, Policy, PolicyError, Share, Value,
};

/// The classes of flows, as positions of their lists.
const BURST: usize = 0;
const BACKGROUND: usize = 1;

/// Packets in the queue of a port. Simulated buffers may hold so many; a live port's queue counts at
/// most [`Thresholds::MOST_LIVE`], which its agent checks.
const PACKETS: Kind = Kind::Integer(1, 1_000_000);

const LOW: Parameter = Parameter::new(
    "low",
    PACKETS,
    Value::Integer(30),
    "packets in a port's queue at which it is congested (L)",
)
.published("section 5.1");

const MEDIUM: Parameter = Parameter::new(
    "medium",
    PACKETS,
    Value::Integer(60),
    "packets at which it is congested more severely (M)",
)
.published("section 5.1");

const HIGH: Parameter = Parameter::new(
    "high",
    PACKETS,
    Value::Integer(85),
    "packets at which it is congested most severely (H); live at most 4095",
)
.published("section 5.1");

const RECOVERY: Parameter = Parameter::new(
    "recovery",
    Kind::Span(SHORTEST, LONGEST),
    Value::Span(Span::from_secs(1)),
    "how long the queue must stay below low to have recovered",
)
.published("section 3.2");

const BACKGROUND_SIZE: Parameter = Parameter::new(
    "background_size",
    Kind::Bytes(Bytes::ZERO, Bytes::new(1 << 50)),
    Value::Bytes(Bytes::new(1_000_000)),
    "a background flow has carried more than this",
)
.published("section 3.3");

const BACKGROUND_AGE: Parameter = Parameter::new(
    "background_age",
    Kind::Span(Span::ZERO, LONGEST),
    Value::Span(Span::from_secs(1)),
    "a background flow is also older than this",
)
.published("section 3.3");

const LOW_SHARE: Parameter = Parameter::new(
    "low_share",
    Kind::Share,
    Value::Share(Share::literal(666_667)),
    "the part of its fair window that a background flow keeps at low congestion (mu)",
)
.published("section 3.4");

const MEDIUM_SHARE: Parameter = Parameter::new(
    "medium_share",
    Kind::Share,
    Value::Share(Share::literal(500_000)),
    "the part that it keeps at medium congestion (mu)",
)
.published("section 3.4");

/// The least window, in whole segments. Where receivers delay the acknowledgement of a single
/// segment, as Linux does, one segment costs that delay for each.
pub(crate) const FLOOR: Parameter = Parameter::new(
    "floor_segments",
    Kind::Integer(1, 1_000),
    Value::Integer(1),
    "no window goes below so many segments",
);

/// The text gives none.
pub(crate) const STATISTICS: Parameter = Parameter::new(
    "statistics",
    Kind::Span(SHORTEST, LONGEST),
    Value::Span(Span::from_millis(100)),
    "time between two flow statistics",
);

/// What `sdtcp` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sdtcp",
    summary: "when a switch queue fills, background flows get smaller windows",
    source: "SDTCP, section 3",
    parameters: &[
        LOW,
        MEDIUM,
        HIGH,
        RECOVERY,
        BACKGROUND_SIZE,
        BACKGROUND_AGE,
        LOW_SHARE,
        MEDIUM_SHARE,
        FLOOR.published("section 3.4"),
        STATISTICS,
    ],
    needs: &[Need::Handshakes, Need::PortReports],
    directives: &[DirectiveKind::Window],
    is_max_min: false,
    build: |given| {
        let parameters = Parameters::from_given(given);
        if !parameters.thresholds.rise() {
            let range = "above 0, below medium, and medium below high";
            return Err(PolicyError::OutOfRange { parameter: "low", range });
        }
        let connections = Connections::default();
        Ok(Box::new(Sdtcp { parameters, connections, notices: Vec::new() }))
    },
};

#[derive(Clone, Copy, Debug)]
struct Parameters {
    thresholds: Thresholds,
    background_size: Bytes,
    background_age: Span,
    low_share: Share,
    medium_share: Share,
    segment: Bytes,
    floor_segments: u32,
    statistics: Span,
}

impl Parameters {
    fn from_given(given: &Given<'_>) -> Self {
        Self {
            thresholds: Thresholds {
                low: given.get(LOW.name),
                medium: given.get(MEDIUM.name),
                high: given.get(HIGH.name),
                recovery: given.get(RECOVERY.name),
            },
            background_size: given.get(BACKGROUND_SIZE.name),
            background_age: given.get(BACKGROUND_AGE.name),
            low_share: given.get(LOW_SHARE.name),
            medium_share: given.get(MEDIUM_SHARE.name),
            segment: given.segment(),
            floor_segments: given.get(FLOOR.name),
            statistics: given.get(STATISTICS.name),
        }
    }
}

/// The policy's state: what is open.
#[derive(Debug)]
struct Sdtcp {
    parameters: Parameters,
    connections: Connections,
    /// Congestion that was notified and not yet decided about.
    notices: Vec<(LinkId, Severity, Bytes)>,
}

impl Policy for Sdtcp {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        let Observation::Measured(measured) = observation else {
            return;
        };
        match measured {
            Measured::Congested { link, severity, queue } => {
                self.notices.push((*link, *severity, *queue));
            }
            Measured::Opened { flow, src, dst } => {
                self.connections.open(now, network, *flow, (*src, *dst), self.parameters.segment);
            }
            Measured::Closed { flow } => {
                self.connections.close(*flow);
            }
            Measured::RoundTrips(flows) => {
                self.connections.timed(flows);
            }
            Measured::LinkState { .. } => {
                self.connections.reroute(network, self.parameters.segment);
            }
            Measured::Carried { flows } => {
                let Parameters { background_size, background_age, .. } = self.parameters;
                self.connections.carried(now, flows, |flow| {
                    if flow.carried > background_size && flow.age > background_age {
                        BACKGROUND
                    } else {
                        BURST
                    }
                });
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, network: &Network, out: &mut Directives) {
        for notice in self.notices.drain(..) {
            congested(&self.parameters, &self.connections, network, notice, out);
        }
    }

    fn watch(&self) -> Option<Watch> {
        let Parameters { thresholds, statistics, .. } = self.parameters;
        let (congestion, statistics) = (Some(thresholds), Some(statistics));
        Some(Watch { congestion, statistics, ..Watch::default() })
    }
}

fn congested(
    parameters: &Parameters,
    connections: &Connections,
    network: &Network,
    (link, severity, queue): (LinkId, Severity, Bytes),
    out: &mut Directives,
) {
    if severity == Severity::Recovered {
        out.push(Directive::Window { link, flow: None, cap: None });
        return;
    }
    let Some(port) = connections.port(link) else {
        return;
    };
    let Parameters { low_share, medium_share, segment, floor_segments, .. } = *parameters;
    let capacity = network.topology().link(link).spec.capacity;
    // Equation 2: what all flows together have in flight.
    let total = capacity.bytes_in(port.round_trip()) + queue;
    let [burst, background] = &port.flows;
    let (some, many) = (burst.len() as u64, background.len() as u64);
    let fair = share(total, port.count());
    // At least a segment (equations 5, 6 and 8). Actuators see to `floor_segments` themselves; here it
    // makes caps below a segment equal, and an equal cap costs no message.
    let background_cap = match severity {
        Severity::Low => low_share.of(fair).max(segment),
        Severity::Medium => medium_share.of(fair).max(segment),
        Severity::High | Severity::Recovered => segment,
    };
    let entry = |flow, bytes| {
        let cap = Some(Cap { bytes, floor_segments });
        Directive::Window { link, flow: Some(flow), cap }
    };
    out.extend(background.iter().map(|flow| entry(*flow, background_cap)));
    if severity == Severity::High {
        let cap = share(total - segment * many, some).max(segment);
        out.extend(burst.iter().map(|flow| entry(*flow, cap)));
    }
}

/// An equal part of `total` for each of `count`; everything when there is none.
fn share(total: Bytes, count: u64) -> Bytes {
    Bytes::new(total.get() / count.max(1))
}
