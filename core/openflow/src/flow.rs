//! Flow entries: changing them, and hearing of their end (7.3.4.1, 7.4.2).

use units::Span;

use crate::action::Instruction;
use crate::group::GroupId;
use crate::packet::BufferId;
use crate::port::PortNo;
use crate::wire::{List, code, growing};

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

growing! {
    /// Adds, changes or deletes flow entries.
    FlowMod {
        /// A number of the controller's own.
        cookie: u64;
        /// The bits of the cookie that entries must share to be changed or deleted.
        cookie_mask: u64;
        /// The table.
        table: TableId;
        /// What to do.
        command: FlowCommand;
        /// Seconds without a packet until the entry goes; 0 for never.
        idle_timeout_s: u16;
        /// Seconds until the entry goes; 0 for never.
        hard_timeout_s: u16;
        /// The highest that matches wins.
        priority: u16;
        /// A packet to put through the new entry.
        buffer: BufferId;
        /// Deletes only entries that send to this port, unless [`PortNo::ANY`].
        out_port: PortNo;
        /// Deletes only entries that use this group, unless [`GroupId::ANY`].
        out_group: GroupId;
        /// Flags.
        flags: FlowFlags, pad 2;
    } match {
        /// The packets that the entry takes.
        fields;
    } list {
        /// What it does with them; nothing drops them.
        instructions: Instruction<'a>;
    }
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

growing! {
    /// A flow entry has gone, and these are its last figures.
    FlowRemoved {
        /// The controller's number.
        cookie: u64;
        /// Its priority.
        priority: u16;
        /// Why it went.
        reason: RemovedReason;
        /// Its table.
        table: TableId;
        /// How long it lived.
        duration: Span;
        /// Its idle timeout in seconds.
        idle_timeout_s: u16;
        /// Its hard timeout in seconds.
        hard_timeout_s: u16;
        /// Packets that it took.
        packets: u64;
        /// Bytes of frames that it took.
        frame_bytes: u64;
    } match {
        /// The packets that it was for.
        fields;
    }
}
