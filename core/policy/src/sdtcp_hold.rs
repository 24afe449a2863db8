//! `sdtcp-hold`: a variant of [`sdtcp`](crate::sdtcp) that holds the queue of every port at a target,
//! from the first SYN on, however many flows there are.
//!
//! Ours, for what the original leaves: its windows come only once a queue has filled, step by step,
//! and stay a second too long; and no window says less than a segment, so that more flows than the
//! pipe and the buffer have places must lose packets.
//!
//! * The N active flows of a port get a window of (C·RTT + target) / N each, at each SYN and FIN.
//!   As senders use whole segments, they have in flight at least half of the total: with a target of
//!   C·RTT, the default, the link is never idle.
//! * When that is less than a segment, the window is one segment and the switch spaces the port's
//!   acknowledgements: each lets go one segment, so that data comes at the pace of the spacing. It
//!   is the link's own, corrected by the distance of the queue from the target.
//! * Acknowledgements of two flows and more are never closer than four fifths of that, so that the
//!   SYN-ACKs of a burst don't let go all their first windows at once.
//! * With `windows = "prepared"` ports have the windows for a congested port before it is: from L on the total
//!   doesn't exceed C·RTT + target, from M on idle flows count, because they may have woken.
//! * Flows that statistics show to be idle don't count, until the queue exceeds twice its target: then
//!   they may have woken, and all count. Flows held up elsewhere are made up for: while the link has
//!   time left, the total grows.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::{
    Buffer, Cap, Caps, Directive, Directives, LinkId, Measured, Network, Observation, Thresholds,
};
use units::{Bytes, Span, Time};

use crate::connections::{Connections, Port};
use crate::parameter::{LONGEST, SHORTEST};
use crate::sdtcp::{
    FLOOR, HIGH, LOW, MEDIUM, PREPARED, SHORT_RECOVERY, STATISTICS, TOLD, thresholds,
};
use crate::watch::Watch;
use crate::{Descriptor, DirectiveKind, HEADER, Kind, Need, Parameter, Policy, Share, Value};

/// The classes of flows, as positions of their lists.
const ACTIVE: usize = 0;
const IDLE: usize = 1;

/// The total over C·RTT + target, in percent: it grows by a step a report up to the most, while the
/// link is used for less than the part that counts as busy.
const WHOLE: u64 = 100;
const STEP: u64 = 5;
const MOST: u64 = 300;
const BUSY: u64 = 95;

/// A distance of the queue from its target is made up for in so many periods of the reports, by
/// spacing that differs from the link's by a quarter at most.
const CORRECTION: u64 = 8;

const TARGET: Parameter = Parameter::new(
    "target",
    Kind::Share,
    Value::Share(Share::ALL),
    "length at which queues are held, as a part of C*RTT; at most a quarter of the buffer",
);

const QUEUES: Parameter = Parameter::new(
    "queues",
    Kind::Span(SHORTEST, LONGEST),
    Value::Span(Span::from_millis(1)),
    "time between two reports of the ports",
);

const WINDOWS: Parameter = Parameter::new(
    "windows",
    Kind::Choice(&[TOLD, PREPARED]),
    Value::Choice(TOLD),
    "windows are told as reports of the ports come, or prepared: those for a congested port (low, medium, high) are \
     said before, and the port itself changes to them",
);

/// What `sdtcp-hold` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sdtcp-hold",
    summary: "the queue of every port is held at a target, however many flows there are",
    source: "ours, a variant of sdtcp",
    parameters: &[TARGET, QUEUES, FLOOR, STATISTICS, WINDOWS, LOW, MEDIUM, HIGH, SHORT_RECOVERY],
    needs: &[Need::Handshakes, Need::PortReports],
    directives: &[DirectiveKind::Window, DirectiveKind::Prepare, DirectiveKind::Space],
    is_max_min: false,
    build: |given| {
        let settings = Settings {
            target: given.get(TARGET.name),
            segment: given.segment(),
            floor_segments: given.get(FLOOR.name),
            queues: given.get(QUEUES.name),
            statistics: given.get(STATISTICS.name),
            prepared: match given.get::<&str>(WINDOWS.name) {
                PREPARED => Some(thresholds(given)?),
                _ => None,
            },
        };
        let connections = Connections::default();
        let (ports, changed) = (BTreeMap::new(), Vec::new());
        Ok(Box::new(Hold { settings, connections, ports, changed }))
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    target: Share,
    segment: Bytes,
    floor_segments: u32,
    queues: Span,
    statistics: Span,
    /// When ports change to what was prepared, if it is.
    prepared: Option<Thresholds>,
}

/// The policy's state: what is open, and what it said last about each port.
#[derive(Debug)]
struct Hold {
    settings: Settings,
    connections: Connections,
    ports: BTreeMap<LinkId, Held>,
    /// Ports to decide about; of a queue that was reported its length and what it took in.
    changed: Vec<(LinkId, Option<(Bytes, Bytes)>)>,
}

/// What was said about a port.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The total in percent.
    total: u64,
    /// Idle flows count until the next statistics.
    woken: bool,
    /// Windows of a port that is not congested, from L on and from M on.
    windows: Option<[Bytes; 3]>,
    gap: Option<Span>,
}

impl Policy for Hold {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        let Observation::Measured(measured) = observation else {
            return;
        };
        match measured {
            Measured::Opened { flow, src, dst } => {
                // A SYN that was lost once has come again.
                let mut links = self.connections.wake(*flow);
                let segment = self.settings.segment;
                links.extend(self.connections.open(now, network, *flow, (*src, *dst), segment));
                self.note(links);
            }
            Measured::Closed { flow } => {
                let changed = self.connections.close(*flow);
                self.note(changed);
            }
            Measured::Carried { flows } => {
                let class = |grew| if grew { ACTIVE } else { IDLE };
                let changed = self.connections.carried(now, flows, |flow| class(flow.grew));
                self.ports.values_mut().for_each(|held| held.woken = false);
                self.note(changed);
            }
            Measured::RoundTrips(flows) => {
                let changed = self.connections.timed(flows);
                self.note(changed);
            }
            Measured::LinkState { .. } => {
                let changed = self.connections.reroute(network, self.settings.segment);
                self.note(changed);
            }
            Measured::QueueLength { link, queue, sent } => {
                self.changed.push((*link, Some((*queue, *sent))));
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, network: &Network, out: &mut Directives) {
        let mut changed = core::mem::take(&mut self.changed);
        for (link, report) in changed.drain(..) {
            self.decide_port(network, link, report, out);
        }
        self.changed = changed;
    }

    fn watch(&self) -> Option<Watch> {
        let Settings { queues, statistics, prepared: congestion, .. } = self.settings;
        let (queues, statistics) = (Some(queues), Some(statistics));
        Some(Watch { congestion, queues, statistics, ..Watch::default() })
    }
}

impl Hold {
    fn note(&mut self, links: Vec<LinkId>) {
        self.changed.extend(links.into_iter().map(|link| (link, None)));
    }

    /// Says what is new for a port, whose queue, and what it took in, was perhaps just reported.
    fn decide_port(
        &mut self,
        network: &Network,
        link: LinkId,
        report: Option<(Bytes, Bytes)>,
        out: &mut Directives,
    ) {
        let Some(port) = self.connections.port(link) else {
            if self.ports.remove(&link).is_some() {
                out.push(Directive::Window { link, flow: None, cap: None });
                out.push(Directive::Space { link, gap: None });
            }
            return;
        };
        let said = self.ports.entry(link).or_insert(Held {
            total: WHOLE,
            woken: false,
            windows: None,
            gap: None,
        });
        let now = self.settings.port(network, link, port, report, said);
        if let Some(windows) = now.windows.filter(|windows| Some(*windows) != said.windows) {
            let floor_segments = self.settings.floor_segments;
            let [recovered, low, high] = windows.map(|bytes| Some(Cap { bytes, floor_segments }));
            out.push(if self.settings.prepared.is_some() {
                let caps = Caps { recovered, low, medium: high, high };
                Directive::Prepare { link, flow: None, caps }
            } else {
                Directive::Window { link, flow: None, cap: recovered }
            });
        }
        if now.gap != said.gap {
            out.push(Directive::Space { link, gap: now.gap });
        }
        *said = now;
    }
}

impl Settings {
    fn port(
        &self,
        network: &Network,
        link: LinkId,
        port: &Port,
        report: Option<(Bytes, Bytes)>,
        said: &Held,
    ) -> Held {
        let spec = network.topology().link(link).spec;
        let frame = self.segment + HEADER;
        let pipe = spec.capacity.bytes_in(port.round_trip());
        let room = match spec.buffer {
            Buffer::Packets(packets) => frame * u64::from(packets),
            Buffer::Bytes(bytes) => bytes,
            Buffer::Unlimited => Bytes::MAX,
        };
        let target = self.target.of(pipe).min(Bytes::new(room.get() / 4)).max(frame);
        let woken = said.woken || report.is_some_and(|(queue, _)| queue > target * 2);
        let counted = if woken { port.count() } else { port.flows[ACTIVE].len() as u64 };
        let active = counted.max(1);
        let even = spec.capacity.time_for(frame);
        let whole = pipe + target;
        if whole >= self.segment * active {
            let possible = spec.capacity.bytes_in(self.queues);
            let is_busy = |sent: Bytes| sent * WHOLE >= possible * BUSY;
            let total = match report {
                Some((queue, _)) if queue > target => said.total.saturating_sub(STEP).max(WHOLE),
                Some((_, sent)) if !is_busy(sent) => (said.total + STEP).min(MOST),
                _ => said.total,
            };
            let fair = |total: u64, among: u64| Bytes::new((whole * total).get() / WHOLE / among);
            let gap = (active > 1).then(|| Span::from_nanos(even.as_nanos() / 5 * 4));
            let windows = if self.prepared.is_some() {
                let all = fair(WHOLE, port.count().max(1)).max(self.segment);
                [fair(total, active), fair(WHOLE, active), all]
            } else {
                [fair(total, active); 3]
            };
            return Held { total, woken, windows: Some(windows), gap };
        }
        let gap = match report {
            None => said.gap.filter(|_| said.windows == Some([self.segment; 3])).unwrap_or(even),
            Some((queue, _)) => {
                // What the link sends until the queue shall be where it belongs, 1 at the least.
                let sent = spec.capacity.bytes_in(self.queues).get().saturating_mul(CORRECTION);
                let sent = sent.max(1);
                let (short, long) = ((target - queue).get(), (queue - target).get());
                let part = |bytes: u64| u128::from(bytes.min(sent / 4));
                let even = u128::from(even.as_nanos());
                // Data at the rate of the link, more or less what is missing or too much.
                let ns = even * u128::from(sent) / (u128::from(sent) + part(short) - part(long));
                Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
            }
        };
        Held { total: WHOLE, woken, windows: Some([self.segment; 3]), gap: Some(gap) }
    }
}
