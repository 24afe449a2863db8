//! Queues of a port (7.2.2, 7.3.6).

use alloc::vec::Vec;

use crate::port::PortNo;
use crate::wire::{Item, Malformed, Part, Reader, code, growing, put, sized};

code! {
    /// A queue of a port.
    QueueId(u32) {
        /// Every queue of the port, in requests.
        ALL = 0xffff_ffff;
    }
}

growing! {
    /// A queue and what it is set to.
    Queue in Queue, length at 8, least 16, lead 0 {
        /// Its number at its port.
        queue: QueueId;
        /// Its port.
        port: PortNo, pad 8;
    } list {
        /// What it is set to.
        properties: QueueProperty<'a>;
    }
}

/// A property of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueProperty<'a> {
    /// It gets at least this many thousandths of the port's rate; above 1000 for no promise.
    MinRate(u16),
    /// It gets at most this many thousandths; above 1000 for no limit.
    MaxRate(u16),
    /// Anything else.
    Other {
        /// Its type.
        kind: u16,
        /// What follows type, length and four bytes of padding; padded to a multiple of 8 bytes.
        body: &'a [u8],
    },
}

impl<'a> Item<'a> for QueueProperty<'a> {
    const PART: Part = Part::Queue;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut from = from.part(Part::Queue).sized(2, 8, 8)?;
        let kind = from.u16()?;
        from.skip(6)?;
        Ok(match kind {
            1 => Self::MinRate(from.u16()?),
            2 => Self::MaxRate(from.u16()?),
            _ => Self::Other { kind, body: from.rest() },
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, true, |out| match *self {
            Self::MinRate(rate) => put!(out, 1u16, [0; 6], rate),
            Self::MaxRate(rate) => put!(out, 2u16, [0; 6], rate),
            Self::Other { kind, body } => {
                put!(out, kind, [0; 6]);
                out.extend_from_slice(body);
            }
        });
    }
}
