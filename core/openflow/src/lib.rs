//! OpenFlow 1.3 for controllers, and a switch to test them against.
//!
//! - The codec: [`Message`] is one message. Decoding borrows from the bytes and allocates nothing;
//!   encoding appends to the caller's buffer. Bytes of any kind give a message or [`Malformed`].
//! - The session: [`Session`] is one connection without its socket: framing, version negotiation,
//!   keep-alive, requests and their replies, limits.
//! - The extension that SDTCP needs, in experimenter fields: [`sdtcp`].
//! - The switch model: [`switch::Switch`], a test double with tables, groups and meters.
//!
//! Sources: "OpenFlow Switch Specification", version 1.3.5 (wire protocol 0x04), whose section
//! numbers stand beside the structures; for TCP flags the ONF extension EXT-109. Byte layouts of
//! the extension: `docs/openflow.md`. Rates and sizes on the wire carry their unit in the name.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod error;
mod flow;
mod group;
mod hello;
mod message;
mod meter;
mod multipart;
mod oxm;
mod packet;
mod port;
mod queue;
pub mod sdtcp;
mod session;
pub mod switch;
mod wire;

pub use action::{Action, Instruction};
pub use error::{ErrorCode, ErrorMessage};
pub use flow::{FlowCommand, FlowFlags, FlowMod, FlowRemoved, RemovedReason, TableId};
pub use group::{Bucket, GroupCommand, GroupId, GroupKind, GroupMod};
pub use hello::{Hello, HelloElement};
pub use message::{
    AsyncConfig, Experimenter, Features, Message, MessageType, Role, RoleMessage, SwitchConfig,
    TableMod, TooLong,
};
pub use meter::{Band, BandKind, MeterCommand, MeterFlags, MeterId, MeterMod};
pub use multipart::{
    Aggregate, BandStats, BucketStats, Description, FlowSelect, FlowStats, GroupDesc,
    GroupFeatures, GroupStats, MeterConfig, MeterFeatures, MeterStats, MultipartKind, PortStats,
    QueueSelect, QueueStats, Reply, Request, TableFeature, TableFeatures, TableStats,
};
pub use oxm::{Field, Kind, Match, Opaque, Oxm, tcp_flags};
pub use packet::{BufferId, PacketIn, PacketInReason, PacketOut};
pub use port::{Port, PortMod, PortNo, PortReason, PortStatus};
pub use queue::{Queue, QueueId, QueueProperty};
pub use session::{Closed, Config, Event, Failure, Refused, Session, Side};
pub use wire::{Fault, Item, Iter, List, Malformed, Part};

/// The version byte of OpenFlow 1.3.
pub const VERSION: u8 = 0x04;

/// The length of the header that opens every message (7.1).
pub const HEADER_BYTES: usize = 8;
