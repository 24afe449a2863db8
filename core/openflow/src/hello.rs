//! The first message of each side, and the version that follows from them (6.3.1, 7.5.1).

use alloc::vec::Vec;

use crate::VERSION;
use crate::wire::{Item, List, Malformed, Part, Reader, pad, put, sized};

/// `OFPHET_VERSIONBITMAP`.
const VERSION_BITMAP: u16 = 1;

/// Which versions a side speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The version of its header: the highest that it speaks.
    pub version: u8,
    /// What it says beyond.
    pub elements: List<'a, HelloElement<'a>>,
}

/// An element of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloElement<'a> {
    /// Its type; 1 is a bitmap of versions.
    pub kind: u16,
    /// Its content.
    pub body: &'a [u8],
}

impl Hello<'static> {
    /// Speaks 1.3 and nothing else.
    pub const ONLY_1_3: Self = Self {
        version: VERSION,
        elements: List::of(&[HelloElement {
            kind: VERSION_BITMAP,
            body: &[0, 0, 0, 1 << VERSION],
        }]),
    };
}

impl Hello<'_> {
    /// True when a peer that speaks 1.3 alone can talk with the sender of this.
    pub fn speaks_1_3(&self) -> bool {
        let bitmap = self.elements.iter().find(|element| element.kind == VERSION_BITMAP);
        // The first word of the bitmap has the versions from 0 to 31.
        match bitmap.and_then(|element| element.body.first_chunk()) {
            Some(word) => u32::from_be_bytes(*word) & 1 << VERSION != 0,
            None => self.version >= VERSION,
        }
    }
}

impl<'a> Item<'a> for HelloElement<'a> {
    const PART: Part = Part::Hello;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut body = from.part(Part::Hello).sized(2, 4, 1)?;
        let length = body.len();
        // The padding after the last element may be missing: Open vSwitch leaves it out.
        from.skip((length.next_multiple_of(8) - length).min(from.len()))?;
        let kind = body.u16()?;
        body.skip(2)?;
        Ok(Self { kind, body: body.rest() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, false, |out| {
            put!(out, self.kind);
            pad(out, 2);
            out.extend_from_slice(self.body);
        });
    }
}
