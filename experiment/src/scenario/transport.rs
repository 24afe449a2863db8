//! `[transport]`: the hosts' protocol; `[queues]`: queueing disciplines.

use document::DocumentError;
use document::fields::{Value, between};
use packet::{Discipline, Lengths, Protocol, Transport};
use units::{Bytes, Span};

/// In which order output queues are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Those of hosts.
    pub host: Discipline,
    /// Those of switches.
    pub switch: Discipline,
    /// How often the length of every queue is recorded; `None`: never.
    pub sample: Option<Span>,
}

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("newreno", Protocol::NewReno),
    ("cubic", Protocol::Cubic),
    ("dctcp", Protocol::Dctcp),
    ("granted", Protocol::Granted),
    ("datagram", Protocol::Datagram),
];

const LENGTHS: &[(&str, Lengths)] = &[
    ("full", Lengths::Full),
    ("bimodal", Lengths::Bimodal),
    ("web", Lengths::Web),
    ("web-shortest", Lengths::WebShortest),
    ("web-longer", Lengths::WebLonger),
    ("alternating", Lengths::Alternating),
];

const LARGEST_PACKET: u32 = 65_535;

/// `base` with the table's changes.
pub(super) fn read(value: &Value<'_>, base: Transport) -> Result<Transport, DocumentError> {
    let mut fields = value.fields()?;
    let transport = Transport {
        protocol: fields.or("protocol", base.protocol, |v| v.choice(PROTOCOLS))?,
        mss: fields.or("mss", base.mss, |v| v.integer(64..=65_000))?,
        header: fields.or("header", base.header, |v| v.integer(20..=1_000))?,
        initial_window: fields
            .or("initial_window", base.initial_window, |v| v.integer(1..=1_000))?,
        min_rto: fields.or("min_rto", base.min_rto, |v| {
            between(v, Span::from_micros(10), Span::from_secs(60))
        })?,
        // RFC 5681, section 4.2: an acknowledgement waits at most 500 ms.
        delayed_ack: fields.or("delayed_ack", base.delayed_ack, |v| {
            if v.text() == Ok("off") {
                return Ok(None);
            }
            between(v, Span::from_micros(1), Span::from_millis(500)).map(Some)
        })?,
        receive_window: fields.or("receive_window", base.receive_window, |v| {
            between(v, Bytes::new(1_000), Bytes::new(1 << 30))
        })?,
        small_queue: fields.or("small_queue", base.small_queue, |v| {
            if v.text() == Ok("off") {
                return Ok(None);
            }
            between(v, Bytes::new(1), Bytes::new(1 << 30)).map(Some)
        })?,
        sack: fields.or("sack", base.sack, Value::flag)?,
        limited_transmit: fields.or("limited_transmit", base.limited_transmit, Value::flag)?,
        rack: fields.or("rack", base.rack, Value::flag)?,
        tail_loss_probe: fields.or("tail_loss_probe", base.tail_loss_probe, Value::flag)?,
        prr: fields.or("prr", base.prr, Value::flag)?,
        frto: fields.or("frto", base.frto, Value::flag)?,
        tick: fields.or("tick", base.tick, |v| between(v, Span::ZERO, Span::from_millis(100)))?,
        held: fields.or("held", base.held, Value::flag)?,
        leaves_first: fields.or("leaves_first", base.leaves_first, Value::flag)?,
        lengths: fields.or("lengths", base.lengths, |v| v.choice(LENGTHS))?,
        handshake: fields.or("handshake", base.handshake, Value::flag)?,
        ictcp: fields.or("ictcp", base.ictcp, Value::flag)?,
    };
    fields.done()?;
    let packet = packet(&transport);
    if packet > LARGEST_PACKET {
        return Err(value.error(format_args!(
            "mss and header make packets of {packet} B; an IP packet has at most {LARGEST_PACKET} B"
        )));
    }
    // The packet world checks combinations.
    transport.check().map_err(|error| value.error(error))?;
    if transport.receive_window < Bytes::new(u64::from(transport.mss)) {
        return Err(value.error("receive_window is smaller than mss; write at least one segment"));
    }
    Ok(transport)
}

/// Octets of a full packet.
pub(super) fn packet(transport: &Transport) -> u32 {
    u32::from(transport.mss) + u32::from(transport.header)
}

const DISCIPLINES: &[(&str, Discipline)] = &[
    ("fifo", Discipline::Fifo),
    ("strict-priority", Discipline::StrictPriority),
    ("per-flow", Discipline::PerFlow),
    ("per-destination", Discipline::PerDestination),
];

pub(super) fn read_queues(value: &Value<'_>) -> Result<Queues, DocumentError> {
    let mut fields = value.fields()?;
    let queues = Queues {
        host: fields.or("host", Discipline::Fifo, |v| v.choice(DISCIPLINES))?,
        switch: fields.or("switch", Discipline::Fifo, |v| v.choice(DISCIPLINES))?,
        sample: fields
            .optional("sample", |v| between(v, Span::from_micros(1), Span::from_secs(3600)))?,
    };
    fields.done()?;
    Ok(queues)
}
