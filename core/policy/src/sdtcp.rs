//! `sdtcp`: when a switch queue fills, background flows get smaller windows, so that bursts fit.
//!
//! Source: SDTCP, section 3: flows are background or burst flows by their volume and age (3.3), and
//! each congestion notification sets the windows of the port's flows (3.4), equations 3 to 8.
//! Windows are octets of payload, as in the text, which counts no headers.
//!
//! Where the text is silent: a flow that opens while its port is congested gets its window with the
//! next notification, if one comes; the round trip of a port's flows is the mean over their paths
//! with empty queues.

use alloc::vec::Vec;

use model::{
    Cap, Directive, Directives, LinkId, Measured, Network, Observation, Severity, Thresholds,
};
use units::{Bytes, Span, Time};

use crate::connections::Connections;
use crate::watch::Watch;
use crate::{LEASE, Policy, PolicyError, Share};

/// The classes of flows, as positions of their lists.
const BURST: usize = 0;
const BACKGROUND: usize = 1;

/// SDTCP's parameters. [`Default`] gives the published values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// When a port is congested.
    pub thresholds: Thresholds,
    /// A background flow has carried more than this; published: 1 MB.
    pub background_size: Bytes,
    /// And is older than this; published: 1 s.
    pub background_age: Span,
    /// μ at CN-L: the part of its fair share that a background flow keeps; published: 2/3.
    pub low_share: Share,
    /// μ at CN-M; published: 1/2.
    pub medium_share: Share,
    /// Payload of a full segment; published: 1460 B.
    pub segment: Bytes,
    /// Below so many segments no window goes; published: 1.
    pub floor_segments: u32,
    /// Time between two flow statistics. The text gives none.
    pub statistics: Span,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            background_size: Bytes::new(1_000_000),
            background_age: Span::from_secs(1),
            low_share: Share::literal(666_667),
            medium_share: Share::literal(500_000),
            segment: Bytes::new(1460),
            floor_segments: 1,
            statistics: Span::from_millis(100),
        }
    }
}

/// The policy.
///
/// # Errors
/// [`PolicyError::OutOfRange`]: thresholds that don't rise, an empty segment, statistics without
/// pause.
pub fn new(parameters: Parameters) -> Result<Sdtcp, PolicyError> {
    let out = |parameter, range| Err(PolicyError::OutOfRange { parameter, range });
    if !parameters.thresholds.rise() {
        return out("low", "above 0, below medium, and medium below high");
    }
    if parameters.thresholds.recovery == Span::ZERO {
        return out("recovery", "above 0 s");
    }
    if parameters.segment == Bytes::ZERO {
        return out("segment", "above 0 B");
    }
    if parameters.floor_segments == 0 {
        return out("floor_segments", "at least 1");
    }
    if parameters.statistics == Span::ZERO {
        return out("statistics", "above 0 s");
    }
    Ok(Sdtcp { parameters, connections: Connections::default(), notices: Vec::new() })
}

/// The policy's state: what is open.
#[derive(Debug)]
pub struct Sdtcp {
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
        out.push(Directive::Window { link, flow: None, cap: None, lease: LEASE });
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
    let background_cap = match severity {
        Severity::Low => low_share.of(fair).max(segment),
        Severity::Medium => medium_share.of(fair).max(segment),
        Severity::High | Severity::Recovered => segment,
    };
    let entry = |flow, bytes| {
        let cap = Some(Cap { bytes, floor_segments });
        Directive::Window { link, flow: Some(flow), cap, lease: LEASE }
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
