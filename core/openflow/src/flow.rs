//! Flow entries: changing them, and hearing of their end (7.3.4.1, 7.4.2).

use alloc::vec::Vec;

use units::Span;

use crate::action::Instruction;
use crate::group::GroupId;
use crate::oxm::Match;
use crate::packet::BufferId;
use crate::port::PortNo;
use crate::wire::{List, Malformed, Plain, Reader, code, pad, put};

code! {
    /// A flow table.
    TableId(u8) {
        /// Every table, in a request or deletion.
        ALL = 0xff;
    }
}

code! {
    /// What a flow modification does.
    FlowCommand(u8) {
        /// Adds an entry; one of equal match and priority makes way.
        ADD = 0;
        /// Changes the instructions of every entry within the match.
        MODIFY = 1;
        /// Changes those of the entry of equal match and priority.
        MODIFY_STRICT = 2;
        /// Deletes every entry within the match.
        DELETE = 3;
        /// Deletes the entry of equal match and priority.
        DELETE_STRICT = 4;
    }
}

code! {
    /// Flags of a flow entry.
    FlowFlags(u16) {
        /// Tell the controllers when the entry goes.
        SEND_FLOW_REMOVED = 1;
        /// Refuse an entry that overlaps another of equal priority.
        CHECK_OVERLAP = 2;
        /// Set its counters to zero.
        RESET_COUNTS = 4;
        /// Don't count packets.
        NO_PACKET_COUNTS = 8;
        /// Don't count bytes.
        NO_BYTE_COUNTS = 16;
    }
}

impl FlowFlags {
    /// True when all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

code! {
    /// Why a flow entry went.
    RemovedReason(u8) {
        /// Nothing matched it for its idle timeout.
        IDLE_TIMEOUT = 0;
        /// Its hard timeout is over.
        HARD_TIMEOUT = 1;
        /// It was deleted.
        DELETE = 2;
        /// A group that it used was deleted.
        GROUP_DELETE = 3;
    }
}

/// Adds, changes or deletes flow entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowMod<'a> {
    /// A number of the controller's own.
    pub cookie: u64,
    /// The bits of the cookie that entries must share to be changed or deleted.
    pub cookie_mask: u64,
    /// The table.
    pub table: TableId,
    /// What to do.
    pub command: FlowCommand,
    /// Seconds without a packet until the entry goes; 0 for never.
    pub idle_timeout_s: u16,
    /// Seconds until the entry goes; 0 for never.
    pub hard_timeout_s: u16,
    /// The highest that matches wins.
    pub priority: u16,
    /// A packet to put through the new entry.
    pub buffer: BufferId,
    /// Deletes only entries that send to this port, unless [`PortNo::ANY`].
    pub out_port: PortNo,
    /// Deletes only entries that use this group, unless [`GroupId::ANY`].
    pub out_group: GroupId,
    /// Flags.
    pub flags: FlowFlags,
    /// The packets that the entry takes.
    pub fields: Match<'a>,
    /// What it does with them; nothing drops them.
    pub instructions: List<'a, Instruction<'a>>,
}

impl FlowMod<'_> {
    /// Adds to table 0, at priority 0x8000, an entry for every packet that drops it. A start for
    /// `FlowMod { fields, instructions, ..FlowMod::ADD }`.
    pub const ADD: Self = Self {
        cookie: 0,
        cookie_mask: 0,
        table: TableId(0),
        command: FlowCommand::ADD,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 0x8000,
        buffer: BufferId::NONE,
        out_port: PortNo::ANY,
        out_group: GroupId::ANY,
        flags: FlowFlags(0),
        fields: List::EMPTY,
        instructions: List::EMPTY,
    };
}

impl<'a> FlowMod<'a> {
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            cookie: from.u64()?,
            cookie_mask: from.u64()?,
            table: TableId::get(from)?,
            command: FlowCommand::get(from)?,
            idle_timeout_s: from.u16()?,
            hard_timeout_s: from.u16()?,
            priority: from.u16()?,
            buffer: BufferId::get(from)?,
            out_port: PortNo::get(from)?,
            out_group: GroupId::get(from)?,
            flags: {
                let flags = FlowFlags::get(from)?;
                from.skip(2)?;
                flags
            },
            fields: Match::decode_match(from)?,
            instructions: List::decode(from)?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.cookie, self.cookie_mask, self.table, self.command);
        put!(out, self.idle_timeout_s, self.hard_timeout_s, self.priority, self.buffer);
        put!(out, self.out_port, self.out_group, self.flags);
        pad(out, 2);
        self.fields.encode_match(out);
        self.instructions.encode(out);
    }
}

/// A flow entry has gone, and these are its last figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRemoved<'a> {
    /// The controller's number.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why it went.
    pub reason: RemovedReason,
    /// Its table.
    pub table: TableId,
    /// How long it lived.
    pub duration: Span,
    /// Its idle timeout in seconds.
    pub idle_timeout_s: u16,
    /// Its hard timeout in seconds.
    pub hard_timeout_s: u16,
    /// Packets that it took.
    pub packets: u64,
    /// Bytes of frames that it took.
    pub frame_bytes: u64,
    /// The packets that it was for.
    pub fields: Match<'a>,
}

impl<'a> FlowRemoved<'a> {
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            cookie: from.u64()?,
            priority: from.u16()?,
            reason: RemovedReason::get(from)?,
            table: TableId::get(from)?,
            duration: Span::get(from)?,
            idle_timeout_s: from.u16()?,
            hard_timeout_s: from.u16()?,
            packets: from.u64()?,
            frame_bytes: from.u64()?,
            fields: Match::decode_match(from)?,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.cookie, self.priority, self.reason, self.table, self.duration);
        put!(out, self.idle_timeout_s, self.hard_timeout_s, self.packets, self.frame_bytes);
        self.fields.encode_match(out);
    }
}
