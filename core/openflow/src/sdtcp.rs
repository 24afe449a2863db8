//! What SDTCP adds to OpenFlow 1.3, within the places that the standard leaves to experimenters.
//!
//! Source: the SDTCP text, 3.2 (notice of congestion, its figure 4) and 3.5 (window regulation,
//! equation 9). Byte layouts: `docs/openflow.md`.
//!
//! - A notice of congestion is a Packet-In without a packet, with reasons of its own, whose match
//!   holds the port and the length of its queue.
//! - A flow entry caps the window that TCP acknowledgements advertise: an experimenter action.
//! - A flow entry tells SYN, FIN and ACK apart: [`Kind::TcpFlags`].

use alloc::vec::Vec;

use model::Severity;

use crate::flow::TableId;
use crate::oxm::{Field, Kind, Oxm};
use crate::packet::{BufferId, PacketIn, PacketInReason};
use crate::port::PortNo;
use crate::wire::{List, Part, Plain, Reader, put};

/// The experimenter number: an OUI with the bit for locally administered addresses, "WM" in ASCII.
/// No vendor can be assigned it.
pub const WATERMASTER: u32 = 0x0002_574d;

/// The action that caps a window.
const CAP_WINDOW: u16 = 1;
/// The largest shift that TCP knows (RFC 7323, 2.3).
const MAX_SHIFT: u8 = 14;

/// Every severity with its reason. The reasons lie below 32, so that the masks of asynchronous
/// configuration (7.3.10) reach them, and above all that later versions use.
const REASONS: [(Severity, PacketInReason); 4] = [
    (Severity::Recovered, PacketInReason(24)),
    (Severity::Low, PacketInReason(25)),
    (Severity::Medium, PacketInReason(26)),
    (Severity::High, PacketInReason(27)),
];

/// A switch says that the queue of a port has passed a threshold, or recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which threshold.
    pub severity: Severity,
    /// The port whose queue it is.
    pub port: PortNo,
    /// Bytes in the queue.
    pub queue_bytes: u32,
}

impl Notice {
    /// The reason of its Packet-In.
    pub fn reason(&self) -> PacketInReason {
        let entry = REASONS.iter().find(|(severity, _)| *severity == self.severity);
        entry.expect("every severity has a reason").1
    }

    /// The match that carries the notice.
    pub fn fields(&self) -> [Oxm<'static>; 2] {
        [
            Field::exact(Kind::InPort, self.port.0).into(),
            Field::exact(Kind::QueueBytes, self.queue_bytes).into(),
        ]
    }

    /// The notice as a Packet-In; `fields` are its [`fields`](Self::fields).
    pub fn packet_in<'a>(&self, fields: &'a [Oxm<'a>]) -> PacketIn<'a> {
        PacketIn {
            buffer: BufferId::NONE,
            total_len: 0,
            reason: self.reason(),
            table: TableId(0),
            cookie: u64::MAX,
            fields: List::of(fields),
            data: &[],
        }
    }

    /// The notice in a Packet-In, if it is one.
    pub fn of(packet: &PacketIn<'_>) -> Option<Self> {
        let (severity, _) = *REASONS.iter().find(|(_, reason)| *reason == packet.reason)?;
        let number = |kind| u32::try_from(packet.fields.field(kind)?.value).ok();
        let (port, queue_bytes) = (PortNo(number(Kind::InPort)?), number(Kind::QueueBytes)?);
        Some(Self { severity, port, queue_bytes })
    }
}

/// Caps the window that a TCP acknowledgement advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapWindow {
    /// The most bytes that may be under way.
    pub window_bytes: u32,
    /// The scale that the receiver's SYN offered: the header counts in units of 2^shift bytes.
    pub shift: u8,
}

impl CapWindow {
    /// The header field of an acknowledgement that advertised `field`: never more than before, and
    /// never zero where it was not, since that would stop the flow and start its probing.
    pub fn cap(&self, field: u16) -> u16 {
        let units = self.window_bytes >> self.shift.min(MAX_SHIFT);
        field.min(u16::try_from(units).unwrap_or(u16::MAX).max(1))
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let mut body = Reader::new(body, Part::Action);
        if body.u16().ok()? != CAP_WINDOW {
            return None;
        }
        let shift = u8::get(&mut body).ok()?;
        body.skip(1).ok()?;
        let window_bytes = body.u32().ok()?;
        (body.len() == 0).then_some(Self { window_bytes, shift })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, CAP_WINDOW, self.shift, 0u8, self.window_bytes);
    }
}
