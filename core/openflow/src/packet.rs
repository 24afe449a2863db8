//! Packets between switch and controller (7.3.7, 7.4.1).

use alloc::vec::Vec;

use crate::action::Action;
use crate::flow::TableId;
use crate::oxm::Match;
use crate::port::PortNo;
use crate::wire::{Fault, List, Malformed, Part, Plain, Reader, code, pad, put};

code! {
    /// A packet that the switch keeps.
    BufferId(u32) {
        /// None: the message holds all of the packet.
        NONE = 0xffff_ffff;
    }
}

code! {
    /// Why a packet came to the controller. [`sdtcp`](crate::sdtcp) has four more.
    PacketInReason(u8) {
        /// No entry, or the entry of the lowest priority without fields, matched it.
        NO_MATCH = 0;
        /// An action sent it.
        ACTION = 1;
        /// Its time to live is over.
        INVALID_TTL = 2;
    }
}

/// A packet that a switch hands to its controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketIn<'a> {
    /// Where the switch keeps it.
    pub buffer: BufferId,
    /// The length of the frame.
    pub total_len: u16,
    /// Why it came.
    pub reason: PacketInReason,
    /// The table that sent it.
    pub table: TableId,
    /// The cookie of the entry that sent it; all ones for none.
    pub cookie: u64,
    /// What isn't in the packet itself: the port it came by, metadata.
    pub fields: Match<'a>,
    /// The frame, or its beginning.
    pub data: &'a [u8],
}

impl<'a> PacketIn<'a> {
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            buffer: BufferId::get(from)?,
            total_len: from.u16()?,
            reason: PacketInReason::get(from)?,
            table: TableId::get(from)?,
            cookie: from.u64()?,
            fields: Match::decode_match(from)?,
            data: {
                from.skip(2)?;
                from.rest()
            },
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.buffer, self.total_len, self.reason, self.table, self.cookie);
        self.fields.encode_match(out);
        pad(out, 2);
        out.extend_from_slice(self.data);
    }

    /// The port that it came by.
    pub fn in_port(&self) -> Option<PortNo> {
        let field = self.fields.field(crate::Kind::InPort)?;
        u32::try_from(field.value).ok().map(PortNo)
    }
}

/// A packet that the controller has a switch send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOut<'a> {
    /// The packet, if the switch keeps it.
    pub buffer: BufferId,
    /// The port it is taken to have come by; [`PortNo::CONTROLLER`] for none.
    pub in_port: PortNo,
    /// What is done to it.
    pub actions: List<'a, Action<'a>>,
    /// The frame, if the switch doesn't keep it.
    pub data: &'a [u8],
}

impl<'a> PacketOut<'a> {
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (buffer, in_port) = (BufferId::get(from)?, PortNo::get(from)?);
        let length = usize::from(from.u16()?);
        from.skip(6)?;
        if length > from.len() {
            return Err(from.fault(Fault::Length));
        }
        let actions = List::decode(&mut Reader::new(from.take(length)?, Part::Action))?;
        Ok(Self { buffer, in_port, actions, data: from.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.buffer, self.in_port);
        let start = out.len();
        pad(out, 8);
        self.actions.encode(out);
        // Actions that don't fit are in a message that doesn't fit, which is refused.
        let length = u16::try_from(out.len() - start - 8).unwrap_or(u16::MAX);
        out[start..start + 2].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.data);
    }
}
