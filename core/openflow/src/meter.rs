//! Meters: measured rates, and what happens above them (7.3.4.4).

use alloc::vec::Vec;

use crate::wire::{Fault, Item, Malformed, Part, Reader, code, growing, pad, put, sized};

code! {
    /// A meter.
    MeterId(u32) {
        /// The meter of everything that goes to controllers.
        CONTROLLER = 0xffff_fffe;
        /// Every meter, in a deletion or request.
        ALL = 0xffff_ffff;
    }
}

code! {
    /// What a meter modification does.
    MeterCommand(u16) {
        /// Adds a meter.
        ADD = 0;
        /// Changes one that is there.
        MODIFY = 1;
        /// Deletes a meter and the flow entries that use it.
        DELETE = 2;
    }
}

code! {
    /// What a meter counts.
    MeterFlags(u16) {
        /// Rates are in kbit/s, bursts in kbit.
        KBPS = 1;
        /// Rates are in packets a second, bursts in packets.
        PACKETS = 2;
        /// The burst of each band counts.
        BURST = 4;
        /// Keep statistics.
        STATS = 8;
    }
}

/// A rate, and what happens to packets above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band<'a> {
    /// The rate from which it acts: kbit/s of frames, or packets a second, as the flags say.
    pub rate: u32,
    /// How much may pass at once: kbit, or packets.
    pub burst: u32,
    /// What it does.
    pub kind: BandKind<'a>,
}

/// What a band does with the packets above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind<'a> {
    /// Drops them.
    Drop,
    /// Makes them more willing to be dropped elsewhere, by so many levels.
    Remark(u8),
    /// Something of somebody else's.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// What; padded to a multiple of 8 bytes when written.
        body: &'a [u8],
    },
}

impl<'a> Item<'a> for Band<'a> {
    const PART: Part = Part::Band;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut from = from.part(Part::Band).sized(2, 16, 8)?;
        let kind = from.u16()?;
        from.skip(2)?;
        let (rate, burst) = (from.u32()?, from.u32()?);
        let kind = match kind {
            1 => BandKind::Drop,
            2 => BandKind::Remark(from.u8()?),
            0xffff => BandKind::Experimenter { experimenter: from.u32()?, body: from.rest() },
            _ => return Err(from.fault(Fault::Type)),
        };
        Ok(Self { rate, burst, kind })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, true, |out| {
            let kind: u16 = match self.kind {
                BandKind::Drop => 1,
                BandKind::Remark(_) => 2,
                BandKind::Experimenter { .. } => 0xffff,
            };
            put!(out, kind, 0u16, self.rate, self.burst);
            match self.kind {
                BandKind::Drop => pad(out, 4),
                BandKind::Remark(levels) => put!(out, levels),
                BandKind::Experimenter { experimenter, body } => {
                    put!(out, experimenter);
                    out.extend_from_slice(body);
                }
            }
        });
    }
}

growing! {
    /// Adds, changes or deletes a meter.
    MeterMod {
        /// What to do.
        command: MeterCommand;
        /// What it counts.
        flags: MeterFlags;
        /// Which meter.
        meter: MeterId;
    } list {
        /// Its bands.
        bands: Band<'a>;
    }
}
