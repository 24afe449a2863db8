//! The results of a run, in the same form for every world.

use model::{FlowId, LinkId};
use units::{Bytes, Rate, Span, Time};

use crate::Completions;
use crate::records::{FlowRecord, JobRecord, Records};

/// Everything measured in one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The names of the applications; empty if there is one without a name.
    pub applications: Vec<String>,
    /// One record per flow, by [`FlowId`].
    pub flows: Records<FlowRecord>,
    /// One record per job, by arrival.
    pub jobs: Records<JobRecord>,
    /// One record per directed link, by [`LinkId`].
    pub links: Vec<LinkRecord>,
    /// One record per watched queue.
    pub queues: Vec<QueueRecord>,
    /// Achieved rates by flow number, of flows that had a rate; empty unless recorded.
    pub rates: Vec<RateRecord>,
    /// Measurements of packets that waited in host queues; empty if none did.
    pub host_queues: HostQueueRecord,
    /// What the application completed besides jobs, such as tuples; one entry per kind.
    pub completions: Vec<Completions>,
    /// Payload that endless flows had delivered whenever a flow with an end began or ended.
    pub background: Vec<(Time, Bytes)>,
    /// The flows without an end.
    pub endless: Vec<FlowId>,
    /// The flows of datagrams, of which some may be lost.
    pub datagrams: Vec<FlowId>,
    /// Control delays: from each measurement that led to directives until these took effect.
    pub reactions: Vec<Span>,
    /// When the run ended: its last event or its horizon.
    pub end: Time,
    /// Packets moved over a link, data and acknowledgements alike.
    pub hops: u64,
    /// Events that the world handled.
    pub events: u64,
    /// Notes to readers of the figures, in sentences.
    pub notes: Vec<String>,
}

/// One directed link of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    /// The link.
    pub link: LinkId,
    /// Frame bytes sent.
    pub bytes: Bytes,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped because the buffer was full.
    pub dropped: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// Packets dropped by a meter before this link.
    pub metered: u64,
    /// Most packets in the queue at once, the one in transmission included.
    pub peak: u32,
}

/// A queue watched during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRecord {
    /// The directed link that it feeds.
    pub link: LinkId,
    /// Time between samples; the first is one interval after the start.
    pub interval: Span,
    /// Packets in the queue, the one in transmission included.
    pub packets: Vec<u32>,
}

/// Measurements of packets that wait in queues at their hosts until they are released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostQueueRecord {
    /// By [`FlowId`]: the flow's completion time in an otherwise empty network.
    pub ideal: Vec<Span>,
    /// The same where each packet waits for a timeslot of its own, in which its host's link carries a
    /// full one.
    pub slotted: Vec<Span>,
    /// Whether timeslots were granted.
    pub granted: bool,
    /// Of each packet that arrived: time since it left its host queue.
    pub latency: Vec<Span>,
}

/// The achieved rate of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRecord {
    /// The flow.
    pub flow: FlowId,
    /// Time with a limit.
    pub limited: Span,
    /// The part of that which counts: the limit was constant, and there was enough to send.
    pub counted: Span,
    /// The mean of its rates over the time that counts, frame bytes.
    pub rate: Rate,
    /// The same in payload: the expected goodput.
    pub expected: Rate,
    /// Payload delivered in the time that counts.
    pub delivered: Bytes,
}

impl RateRecord {
    /// Payload rate achieved in the time that counts.
    pub fn goodput(&self) -> Option<Rate> {
        (self.counted > Span::ZERO).then(|| Rate::of(self.delivered, self.counted))
    }

    /// Goodput over the expected rate; `None` when too little was to be sent to tell.
    pub fn ratio(&self) -> Option<f64> {
        // Below this, one or two packets more or less make a percent.
        const ENOUGH: Bytes = Bytes::new(300_000);
        let goodput = self.goodput()?;
        let enough = self.expected.bytes_in(self.counted) >= ENOUGH;
        enough.then(|| goodput.as_bps() as f64 / self.expected.as_bps() as f64)
    }
}
