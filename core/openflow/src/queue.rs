//! Queues of a port (7.2.2, 7.3.6).

use alloc::vec::Vec;

use crate::port::PortNo;
use crate::wire::{Item, List, Malformed, Part, Plain, Reader, code, pad, put, sized};

code! {
    /// A queue of a port.
    QueueId(u32) {
        /// Every queue of the port, in requests.
        ALL = 0xffff_ffff;
    }
}

/// A queue and what it is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue<'a> {
    /// Its number at its port.
    pub queue: QueueId,
    /// Its port.
    pub port: PortNo,
    /// What it is set to.
    pub properties: List<'a, QueueProperty<'a>>,
}

impl<'a> Item<'a> for Queue<'a> {
    const PART: Part = Part::Queue;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut from = from.part(Part::Queue).sized(8, 16, 8)?;
        let (queue, port) = (QueueId::get(&mut from)?, PortNo::get(&mut from)?);
        from.skip(8)?;
        Ok(Self { queue, port, properties: List::decode(&mut from)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 8, 8, true, |out| {
            put!(out, self.queue, self.port);
            pad(out, 8);
            self.properties.encode(out);
        });
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
