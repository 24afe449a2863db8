//! `sdtcp`: when a switch queue fills, background flows get smaller windows, so that bursts fit.
//!
//! Source: SDTCP, section 3: flows are background or burst flows by their volume and age (3.3), and
//! each congestion notification sets the windows of the port's flows (3.4), equations 3 to 8.
//! Windows are octets of payload, as in the text, which counts no headers. What they divide, pipe and queue, is
//! of frames: all together let more than that into the network, by the part that headers are of a packet.
//!
//! Where the text is silent: a flow that opens while its port is congested gets its window with the
//! next notification, if one comes, or at once (`late`); the round trip of a port's flows, which "could be gained" by
//! measuring, is the mean over their paths with empty queues.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::{
    Cap, Caps, Directive, Directives, FlowId, LinkId, Measured, Network, Observation, Severity,
    Thresholds,
};
use units::{Bytes, Rate, Span, Time};

use crate::connections::{Connections, Port};
use crate::parameter::{LONGEST, SHORTEST};
use crate::watch::Watch;
use crate::{
    Descriptor, DirectiveKind, Given, HEADER, Kind, Need, Parameter, Policy, PolicyError, Share,
    Value,
};

/// The classes of flows, as positions of their lists.
const BURST: usize = 0;
const BACKGROUND: usize = 1;

/// Packets in the queue of a port. Simulated buffers may hold so many; a live port's queue counts at
/// most [`Thresholds::MOST_LIVE`], which its agent checks.
const PACKETS: Kind = Kind::Integer(1, 1_000_000);

pub(crate) const LOW: Parameter = Parameter::new(
    "low",
    PACKETS,
    Value::Integer(30),
    "packets in a port's queue at which it is congested (L)",
);

pub(crate) const MEDIUM: Parameter = Parameter::new(
    "medium",
    PACKETS,
    Value::Integer(60),
    "packets at which it is congested more severely (M)",
);

pub(crate) const HIGH: Parameter = Parameter::new(
    "high",
    PACKETS,
    Value::Integer(85),
    "packets at which it is congested most severely (H); live at most 4095",
);

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

/// Algorithm 1 sends nothing while a port stays in its state, and 3.4 gives windows when something
/// is sent: who comes between has none. Equations 3 to 8 hold for the flows that there are, too.
const LATE: Parameter = Parameter::new(
    "late",
    Kind::Choice(&[UNCAPPED, CAPPED]),
    Value::Choice(UNCAPPED),
    "a flow that opens while its port is congested: has no window before the next notification, or gets \
     one at once, and the others theirs anew",
);

const UNCAPPED: &str = "uncapped";
const CAPPED: &str = "capped";

/// The text's switch has no entry for a new connection, and asks the controller for one. Live, our
/// switches forward by destination.
const SYN: Parameter = Parameter::new(
    "syn",
    Kind::Choice(&[PASSES, HELD]),
    Value::Choice(PASSES),
    "what a SYN does at its first switch: goes on, or in simulated ones waits for the controller's entry, as \
     in section 3.3",
);

const PASSES: &str = "passes";
const HELD: &str = "held";

/// Of policies whose windows hold always: those of a congested port end soon after it.
pub(crate) const SHORT_RECOVERY: Parameter = Parameter::new(
    "recovery",
    Kind::Span(SHORTEST, LONGEST),
    Value::Span(Span::from_millis(10)),
    "how long the queue must stay below low to have recovered, where windows are prepared",
);

/// Whether windows are told when a port has told how congested it is, as in the text, or said before.
pub(crate) const WINDOWS: Parameter = Parameter::new(
    "windows",
    Kind::Choice(&[TOLD, PREPARED]),
    Value::Choice(TOLD),
    "windows are told when a port has told how congested it is, or prepared: said before, with each SYN and FIN, \
     and the port itself changes to them at its thresholds; late flows have them at once then",
);

pub(crate) const TOLD: &str = "told";
pub(crate) const PREPARED: &str = "prepared";

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
        LOW.published("section 5.1"),
        MEDIUM.published("section 5.1"),
        HIGH.published("section 5.1"),
        RECOVERY,
        BACKGROUND_SIZE,
        BACKGROUND_AGE,
        LOW_SHARE,
        MEDIUM_SHARE,
        LATE,
        WINDOWS,
        SYN,
        FLOOR.published("section 3.4"),
        STATISTICS,
    ],
    needs: &[Need::Handshakes, Need::PortReports],
    directives: &[DirectiveKind::Window, DirectiveKind::Prepare],
    is_max_min: false,
    build: |given| {
        let settings = Settings::from_given(given)?;
        Ok(Box::new(Sdtcp {
            settings,
            connections: Connections::default(),
            notices: Vec::new(),
            prepared: (given.get::<&str>(WINDOWS.name) == PREPARED).then(BTreeMap::new),
            congested: (given.get::<&str>(LATE.name) == CAPPED).then(BTreeMap::new),
            changed: BTreeMap::new(),
        }))
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    thresholds: Thresholds,
    background_size: Bytes,
    background_age: Span,
    low_share: Share,
    medium_share: Share,
    segment: Bytes,
    floor_segments: u32,
    statistics: Span,
    holds_syns: bool,
}

impl Settings {
    fn from_given(given: &Given<'_>) -> Result<Self, PolicyError> {
        Ok(Self {
            thresholds: thresholds(given)?,
            background_size: given.get(BACKGROUND_SIZE.name),
            background_age: given.get(BACKGROUND_AGE.name),
            low_share: given.get(LOW_SHARE.name),
            medium_share: given.get(MEDIUM_SHARE.name),
            segment: given.segment(),
            floor_segments: given.get(FLOOR.name),
            statistics: given.get(STATISTICS.name),
            holds_syns: given.get::<&str>(SYN.name) == HELD,
        })
    }
}

/// The policy's state: what is open.
#[derive(Debug)]
struct Sdtcp {
    settings: Settings,
    connections: Connections,
    /// Congestion that was notified and not yet decided about.
    notices: Vec<(LinkId, Severity, Bytes)>,
    /// What was notified of ports and has not ended, where late flows are capped, and what was said then.
    congested: Option<BTreeMap<LinkId, Congested>>,
    /// What was said of ports before anything was notified, where windows are prepared.
    prepared: Option<BTreeMap<LinkId, Prepared>>,
    /// Ports whose flows have changed since, and whether flows have become background flows or come as such.
    /// Each once, however many flows: what is said of a port is said of all its background flows.
    changed: BTreeMap<LinkId, bool>,
}

/// A port that is congested.
#[derive(Clone, Copy, Debug)]
struct Congested {
    severity: Severity,
    queue: Bytes,
    said: Windows,
}

/// What was prepared at a port: for each of its background flows, and for all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Prepared {
    background: Caps,
    burst: Caps,
}

/// The windows of a port's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Windows {
    /// None: that of their receivers.
    burst: Option<Bytes>,
    background: Option<Bytes>,
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
                let segment = self.settings.segment;
                let links = self.connections.open(now, network, *flow, (*src, *dst), segment);
                self.note(links, false);
            }
            Measured::Closed { flow } => {
                let links = self.connections.close(*flow);
                self.note(links, false);
            }
            Measured::RoundTrips(flows) => {
                let links = self.connections.timed(flows);
                self.note(links, false);
            }
            Measured::LinkState { .. } => {
                let links = self.connections.reroute(network, self.settings.segment);
                self.note(links, true);
            }
            Measured::Carried { flows } => {
                let Settings { background_size, background_age, .. } = self.settings;
                let links = self.connections.carried(now, flows, |flow| {
                    if flow.carried > background_size && flow.age > background_age {
                        BACKGROUND
                    } else {
                        BURST
                    }
                });
                self.note(links, true);
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, network: &Network, out: &mut Directives) {
        if self.prepared.is_some() {
            self.notices.clear(); // the port has done what there was to do
            for (link, is_new) in core::mem::take(&mut self.changed) {
                self.prepare(network, link, is_new, out);
            }
            return;
        }
        let mut notices = core::mem::take(&mut self.notices);
        notices.drain(..).for_each(|notice| self.notified(network, notice, out));
        self.notices = notices; // its room
        for (link, is_new) in core::mem::take(&mut self.changed) {
            self.divide_anew(network, link, is_new, out);
        }
    }

    fn watch(&self) -> Option<Watch> {
        let Settings { thresholds, statistics, holds_syns, .. } = self.settings;
        let (congestion, statistics) = (Some(thresholds), Some(statistics));
        Some(Watch { congestion, statistics, holds_syns, ..Watch::default() })
    }
}

impl Sdtcp {
    fn note(&mut self, links: Vec<LinkId>, is_new: bool) {
        if self.congested.is_some() || self.prepared.is_some() {
            links.into_iter().for_each(|link| *self.changed.entry(link).or_default() |= is_new);
        }
    }

    /// Says what is to apply at each severity of a port, as far as it has changed: a message for all flows, and one
    /// for each background flow. `is_new`: a background flow may have none yet.
    fn prepare(&mut self, network: &Network, link: LinkId, is_new: bool, out: &mut Directives) {
        let Some(prepared) = &mut self.prepared else {
            return;
        };
        let Some(port) = self.connections.port(link) else {
            if prepared.remove(&link).is_some() {
                out.push(Directive::Window { link, flow: None, cap: None });
            }
            return;
        };
        let capacity = network.topology().link(link).spec.capacity;
        let now = self.settings.prepared(port, capacity);
        let said = prepared.insert(link, now).unwrap_or_default();
        if is_new || now.background != said.background {
            let flows = port.flows[BACKGROUND].iter();
            let caps = now.background;
            out.extend(flows.map(|flow| Directive::Prepare { link, flow: Some(*flow), caps }));
        }
        if now.burst != said.burst {
            out.push(Directive::Prepare { link, flow: None, caps: now.burst });
        }
    }

    /// A port has told how congested it is.
    fn notified(
        &mut self,
        network: &Network,
        (link, severity, queue): (LinkId, Severity, Bytes),
        out: &mut Directives,
    ) {
        if severity == Severity::Recovered {
            out.push(Directive::Window { link, flow: None, cap: None });
            if let Some(congested) = &mut self.congested {
                congested.remove(&link);
            }
            return;
        }
        if let Some(congested) = &mut self.congested {
            let said = congested.remove(&link).map(|before| before.said).unwrap_or_default();
            congested.insert(link, Congested { severity, queue, said });
            self.divide_anew(network, link, false, out);
            return;
        }
        let Some(port) = self.connections.port(link) else {
            return;
        };
        let capacity = network.topology().link(link).spec.capacity;
        let Windows { burst, background } = self.settings.windows(port, capacity, severity, queue);
        let floor_segments = self.settings.floor_segments;
        for (flows, bytes) in [(&port.flows[BACKGROUND], background), (&port.flows[BURST], burst)] {
            let Some(bytes) = bytes else {
                continue;
            };
            let cap = Some(Cap { bytes, floor_segments });
            out.extend(flows.iter().map(|flow| Directive::Window { link, flow: Some(*flow), cap }));
        }
    }

    /// Says what has changed of the windows of a port that is congested: of its background flows each, and
    /// of all others together, so that a SYN costs a message and not one for each. `is_new`: a background
    /// flow may have none yet.
    fn divide_anew(&mut self, network: &Network, link: LinkId, is_new: bool, out: &mut Directives) {
        let congested = self.congested.as_mut().and_then(|congested| congested.get_mut(&link));
        let (Some(congested), Some(port)) = (congested, self.connections.port(link)) else {
            return;
        };
        let Congested { severity, queue, said } = *congested;
        let capacity = network.topology().link(link).spec.capacity;
        let windows = self.settings.windows(port, capacity, severity, queue);
        if let Some(bytes) =
            windows.background.filter(|_| is_new || windows.background != said.background)
        {
            let flows = port.flows[BACKGROUND].iter();
            out.extend(flows.map(|flow| self.settings.cap(link, Some(*flow), bytes)));
        }
        if let Some(bytes) = windows.burst.filter(|_| windows.burst != said.burst) {
            out.push(self.settings.cap(link, None, bytes));
        }
        congested.said = windows;
    }
}

impl Settings {
    fn cap(&self, link: LinkId, flow: Option<FlowId>, bytes: Bytes) -> Directive {
        let cap = Some(Cap { bytes, floor_segments: self.floor_segments });
        Directive::Window { link, flow, cap }
    }

    /// The windows of all severities. A port tells of a threshold with as many full packets in its queue.
    fn prepared(&self, port: &Port, capacity: Rate) -> Prepared {
        let Thresholds { low, medium, high, .. } = self.thresholds;
        let [low, medium, high] =
            [(Severity::Low, low), (Severity::Medium, medium), (Severity::High, high)].map(
                |(severity, packets)| {
                    let queue = (self.segment + HEADER) * u64::from(packets);
                    self.windows(port, capacity, severity, queue)
                },
            );
        let cap = |bytes: Option<Bytes>| {
            bytes.map(|bytes| Cap { bytes, floor_segments: self.floor_segments })
        };
        let by_class = |class: fn(&Windows) -> Option<Bytes>| Caps {
            recovered: None,
            low: cap(class(&low)),
            medium: cap(class(&medium)),
            high: cap(class(&high)),
        };
        Prepared { background: by_class(|of| of.background), burst: by_class(|of| of.burst) }
    }

    /// Equations 3 to 8.
    fn windows(&self, port: &Port, capacity: Rate, severity: Severity, queue: Bytes) -> Windows {
        let Self { low_share, medium_share, segment, .. } = *self;
        // Equation 2: what all flows together have in flight.
        let total = capacity.bytes_in(port.round_trip()) + queue;
        let [burst, background] = &port.flows;
        let (some, many) = (burst.len() as u64, background.len() as u64);
        let fair = share(total, port.count());
        // At least a segment (equations 5, 6 and 8). Actuators see to `floor_segments` themselves; here it
        // makes caps below a segment equal, and an equal cap costs no message.
        let (background, burst) = match severity {
            Severity::Low => (low_share.of(fair).max(segment), None),
            Severity::Medium => (medium_share.of(fair).max(segment), None),
            Severity::High | Severity::Recovered => {
                (segment, Some(share(total - segment * many, some).max(segment)))
            }
        };
        Windows { burst, background: Some(background) }
    }
}

/// When a port is congested, by these parameters.
///
/// # Errors
/// They don't rise.
pub(crate) fn thresholds(given: &Given<'_>) -> Result<Thresholds, PolicyError> {
    let thresholds = Thresholds {
        low: given.get(LOW.name),
        medium: given.get(MEDIUM.name),
        high: given.get(HIGH.name),
        recovery: given.get(RECOVERY.name),
    };
    let range = "above 0, below medium, and medium below high";
    let falls = PolicyError::OutOfRange { parameter: LOW.name, range };
    if thresholds.rise() { Ok(thresholds) } else { Err(falls) }
}

/// An equal part of `total` for each of `count`; everything when there is none.
fn share(total: Bytes, count: u64) -> Bytes {
    Bytes::new(total.get() / count.max(1))
}
