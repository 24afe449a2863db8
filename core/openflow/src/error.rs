//! Errors that a peer reports (`ofp_error_msg`), and those that we report of its messages.

use alloc::vec::Vec;
use core::fmt;

use crate::wire::{Fault, Malformed, Part, Plain, Reader, plain, put};

plain! {
    /// What went wrong: `ofp_error_type` and the code within it.
    ErrorCode in Message {
        /// The kind of request that failed.
        kind: u16;
        /// Why.
        code: u16;
    }
}

macro_rules! errors {
    ($(#[doc = $doc:literal] $name:ident = $kind:literal, $code:literal;)*) => {
        impl ErrorCode {
            $(#[doc = $doc] pub const $name: Self = Self { kind: $kind, code: $code };)*

            /// What it means, as a sentence, where it is one of those above.
            fn meaning(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($doc.trim_ascii()),)*
                    _ => None,
                }
            }
        }
    };
}

errors! {
    /// No version in common.
    INCOMPATIBLE = 0, 0;
    /// The version of the header isn't the one agreed on.
    BAD_VERSION = 1, 0;
    /// The message type is unknown.
    BAD_TYPE = 1, 1;
    /// The multipart type is unknown.
    BAD_MULTIPART = 1, 2;
    /// The experimenter is unknown.
    BAD_EXPERIMENTER = 1, 3;
    /// The message has a wrong length.
    BAD_LENGTH = 1, 6;
    /// The buffer is not there.
    BUFFER_UNKNOWN = 1, 8;
    /// The table is not there.
    BAD_TABLE = 1, 9;
    /// The controller may only read.
    IS_SLAVE = 1, 10;
    /// The port is not there.
    BAD_PORT = 1, 11;
    /// The packet of a Packet-Out is none.
    BAD_PACKET = 1, 12;
    /// The action is unknown.
    ACTION_BAD_TYPE = 2, 0;
    /// The action has a wrong length.
    ACTION_BAD_LENGTH = 2, 1;
    /// The experimenter of the action is unknown.
    ACTION_BAD_EXPERIMENTER = 2, 2;
    /// The port of the action is none that packets can go to.
    ACTION_BAD_OUT_PORT = 2, 4;
    /// An argument of the action is out of range.
    ACTION_BAD_ARGUMENT = 2, 5;
    /// The group of the action is not there.
    ACTION_BAD_OUT_GROUP = 2, 9;
    /// The field to set is unknown.
    ACTION_BAD_SET_TYPE = 2, 13;
    /// The instruction is unknown.
    UNKNOWN_INSTRUCTION = 3, 0;
    /// The instruction is known but not possible here.
    UNSUPPORTED_INSTRUCTION = 3, 1;
    /// The table of a goto is not a later one.
    INSTRUCTION_BAD_TABLE = 3, 2;
    /// The experimenter of the instruction is unknown.
    INSTRUCTION_BAD_EXPERIMENTER = 3, 5;
    /// The instruction has a wrong length.
    INSTRUCTION_BAD_LENGTH = 3, 7;
    /// The match is not an OXM match.
    MATCH_BAD_TYPE = 4, 0;
    /// The match, or a field, has a wrong length.
    MATCH_BAD_LENGTH = 4, 1;
    /// A value has bits where its mask has none.
    MATCH_BAD_WILDCARDS = 4, 5;
    /// The field is unknown.
    MATCH_BAD_FIELD = 4, 6;
    /// A field stands without the one that it presupposes.
    MATCH_BAD_PREREQUISITE = 4, 9;
    /// A field stands twice.
    MATCH_DUPLICATE_FIELD = 4, 10;
    /// The table of flow entries is full.
    TABLE_FULL = 5, 1;
    /// The table of flow entries is not there.
    FLOW_BAD_TABLE = 5, 2;
    /// The entry overlaps another of equal priority.
    OVERLAP = 5, 3;
    /// The command is unknown.
    FLOW_BAD_COMMAND = 5, 6;
    /// The group is there already.
    GROUP_EXISTS = 6, 0;
    /// The group can't be.
    INVALID_GROUP = 6, 1;
    /// The table of groups is full.
    OUT_OF_GROUPS = 6, 3;
    /// Groups can't lead to groups.
    CHAINING_UNSUPPORTED = 6, 5;
    /// The group would lead to itself.
    GROUP_LOOP = 6, 7;
    /// The group to change is not there.
    UNKNOWN_GROUP = 6, 8;
    /// The kind of group is unknown.
    GROUP_BAD_TYPE = 6, 10;
    /// The command is unknown.
    GROUP_BAD_COMMAND = 6, 11;
    /// A bucket is wrong.
    BAD_BUCKET = 6, 12;
    /// The port to change is not there.
    PORT_MOD_BAD_PORT = 7, 0;
    /// The Ethernet address isn't that of the port.
    PORT_MOD_BAD_HW_ADDR = 7, 1;
    /// The port of the queue is not there.
    QUEUE_BAD_PORT = 9, 0;
    /// The queue is not there.
    QUEUE_BAD_QUEUE = 9, 1;
    /// The request for the role is older than one before.
    STALE = 11, 0;
    /// The role is none.
    BAD_ROLE = 11, 2;
    /// The meter is there already.
    METER_EXISTS = 12, 1;
    /// The meter can't be, or is not there.
    INVALID_METER = 12, 2;
    /// The meter is not there.
    UNKNOWN_METER = 12, 3;
    /// The command is unknown.
    METER_BAD_COMMAND = 12, 4;
    /// The flags contradict each other.
    METER_BAD_FLAGS = 12, 5;
    /// The band is unknown.
    METER_BAD_BAND = 12, 8;
    /// The table of meters is full.
    OUT_OF_METERS = 12, 10;
}

impl fmt::Display for ErrorCode {
    /// What it means, in words that can end a sentence, and its numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, code } = self;
        if let Some((first, rest)) = self.meaning().and_then(|meaning| meaning.split_at_checked(1))
        {
            write!(f, "{}{}, ", first.to_ascii_lowercase(), rest.trim_end_matches('.'))?;
        }
        write!(f, "OpenFlow error of type {kind}, code {code}")
    }
}

impl From<Malformed> for ErrorCode {
    /// What to answer to a message that could not be read.
    fn from(malformed: Malformed) -> Self {
        let length = !matches!(malformed.fault, Fault::Type | Fault::Version);
        match malformed.part {
            _ if malformed.fault == Fault::Version => Self::BAD_VERSION,
            Part::Match if length => Self::MATCH_BAD_LENGTH,
            Part::Match => Self::MATCH_BAD_TYPE,
            Part::Action if length => Self::ACTION_BAD_LENGTH,
            Part::Action => Self::ACTION_BAD_TYPE,
            Part::Instruction if length => Self::INSTRUCTION_BAD_LENGTH,
            Part::Instruction => Self::UNKNOWN_INSTRUCTION,
            Part::Band if !length => Self::METER_BAD_BAND,
            Part::Bucket => Self::BAD_BUCKET,
            Part::Multipart if !length => Self::BAD_MULTIPART,
            _ if length => Self::BAD_LENGTH,
            _ => Self::BAD_TYPE,
        }
    }
}

/// A peer says what it could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMessage<'a> {
    /// What went wrong.
    pub error: ErrorCode,
    /// The beginning of the message that it is about.
    pub data: &'a [u8],
}

impl<'a> ErrorMessage<'a> {
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { error: ErrorCode::get(from)?, data: from.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.error);
        out.extend_from_slice(self.data);
    }
}
