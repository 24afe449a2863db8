//! What SDTCP adds to OpenFlow 1.3, within the places that the standard leaves to experimenters.
//!
//! Source: the SDTCP text, 3.2 (notice of congestion, its figure 4) and 3.5 (window regulation,
//! equation 9). Byte layouts: `docs/openflow.md`.
//!
//! - A notice of congestion is a Packet-In without a packet, with reasons of its own, whose match
//!   holds the port and the length of its queue.
//! - A flow entry caps the window that TCP acknowledgements advertise: an experimenter action. A second
//!   one has a cap for each severity, among which the switch itself changes.
//! - A flow entry tells SYN, FIN and ACK apart: [`Kind::TcpFlags`].

use alloc::vec::Vec;

use model::{Cap, Severity};
use units::Bytes;

use crate::flow::TableId;
use crate::oxm::{Field, Kind, Oxm};
use crate::packet::{BufferId, PacketIn, PacketInReason};
use crate::port::PortNo;
use crate::wire::{Fault, List, Malformed, Plain, Reader, put};

/// The experimenter number: an OUI with the bit for locally administered addresses, "WM" in ASCII.
/// No vendor can be assigned it.
pub const WATERMASTER: u32 = 0x0002_574d;

/// The action that caps a window.
pub(crate) const CAP_WINDOW: u16 = 1;
/// The action that caps a window by how congested a port is.
pub(crate) const PREPARE_WINDOW: u16 = 2;

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
    /// The header field of an acknowledgement that advertised `field`. A switch knows no segments: the controller
    /// has raised the cap to their floor.
    pub fn cap(&self, field: u16) -> u16 {
        let cap = Cap { bytes: Bytes::new(self.window_bytes.into()), floor_segments: 0 };
        cap.rewritten(field, self.shift, Bytes::ZERO)
    }

    /// What follows the subtype.
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        check_length(from, 6)?;
        let shift = from.u8()?;
        from.skip(1)?;
        Ok(Self { window_bytes: from.u32()?, shift })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, CAP_WINDOW, self.shift, 0u8, self.window_bytes);
    }
}

/// Caps the window that a TCP acknowledgement advertises by how congested a port of the switch is when
/// the acknowledgement passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrepareWindow {
    /// The port whose queue it follows.
    pub port: PortNo,
    /// The most bytes that may be under way at each of [`Severity::ALL`]; [`PrepareWindow::NONE`] for no cap.
    pub window_bytes: [u32; 4],
    /// As that of [`CapWindow`].
    pub shift: u8,
}

impl PrepareWindow {
    /// No cap: whatever the shift, no header can say more.
    pub const NONE: u32 = u32::MAX;

    /// What it does at a severity.
    pub const fn at(&self, severity: Severity) -> CapWindow {
        CapWindow { window_bytes: self.window_bytes[severity as usize], shift: self.shift }
    }

    /// What follows the subtype.
    pub(crate) fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        check_length(from, 22)?;
        let shift = from.u8()?;
        from.skip(1)?;
        let port = PortNo::get(from)?;
        let window_bytes = [from.u32()?, from.u32()?, from.u32()?, from.u32()?];
        Ok(Self { port, window_bytes, shift })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let [recovered, low, medium, high] = self.window_bytes;
        put!(out, PREPARE_WINDOW, self.shift, 0u8, self.port, recovered, low, medium, high);
    }
}

/// That so many bytes are left, as an action of ours has after its subtype.
fn check_length(from: &Reader<'_>, bytes: usize) -> Result<(), Malformed> {
    if from.len() == bytes { Ok(()) } else { Err(from.fault(Fault::Length)) }
}
