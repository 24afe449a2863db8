//! A meter as a token bucket for each band (5.7).

use alloc::vec::Vec;

use units::Time;

use crate::meter::{Band, BandKind, MeterFlags};
use crate::multipart::BandStats;
use crate::wire::List;

use super::table::read;

const NS_PER_S: u128 = 1_000_000_000;

/// A meter.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub flags: MeterFlags,
    /// As on the wire.
    pub bands: Vec<u8>,
    buckets: Vec<Bucket>,
    pub counts: Vec<BandStats>,
    pub packets: u64,
    pub frame_bytes: u64,
    pub made: Time,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bits (or packets) a second.
    rate: u128,
    /// The most that it holds: bits (or packets) times 10⁹.
    size: u128,
    level: u128,
    at: Time,
}

/// What a meter does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Drop,
    /// Raise the drop precedence by so many levels.
    Remark(u8),
}

impl Meter {
    pub fn new(now: Time, flags: MeterFlags, bands: &List<'_, Band<'_>>) -> Self {
        let mut bytes = Vec::new();
        bands.encode(&mut bytes);
        let unit = if flags.0 & MeterFlags::PACKETS.0 != 0 { 1 } else { 1000 };
        let bucket = |band: Band<'_>| {
            let rate = u128::from(band.rate) * unit;
            let stated = flags.0 & MeterFlags::BURST.0 != 0 && band.burst > 0;
            // Without a burst, a second of credit, as Open vSwitch gives.
            let burst = if stated { u128::from(band.burst) * unit } else { rate };
            let size = burst * NS_PER_S;
            Bucket { rate, size, level: size, at: now }
        };
        let buckets: Vec<Bucket> = bands.iter().map(bucket).collect();
        let counts = buckets.iter().map(|_| BandStats { packets: 0, frame_bytes: 0 }).collect();
        Self { flags, bands: bytes, buckets, counts, packets: 0, frame_bytes: 0, made: now }
    }

    pub fn bands(&self) -> List<'_, Band<'_>> {
        read(&self.bands)
    }

    /// Measures a frame. Of the bands whose rate is exceeded, the highest acts.
    pub fn measure(&mut self, now: Time, frame_bytes: u64) -> Verdict {
        self.packets += 1;
        self.frame_bytes += frame_bytes;
        let packets = self.flags.0 & MeterFlags::PACKETS.0 != 0;
        let cost = if packets { 1 } else { u128::from(frame_bytes) * 8 } * NS_PER_S;
        let mut acting = None;
        for (index, bucket) in self.buckets.iter_mut().enumerate() {
            let gained = u128::from(now.since(bucket.at).as_nanos()) * bucket.rate;
            bucket.level = (bucket.level + gained).min(bucket.size);
            bucket.at = now;
            match bucket.level.checked_sub(cost) {
                Some(level) => bucket.level = level,
                None => acting = acting.max(Some((bucket.rate, index))),
            }
        }
        let Some((_, index)) = acting else {
            return Verdict::Pass;
        };
        self.counts[index].packets += 1;
        self.counts[index].frame_bytes += frame_bytes;
        match self.bands().iter().nth(index).map(|band| band.kind) {
            Some(BandKind::Drop) => Verdict::Drop,
            Some(BandKind::Remark(levels)) => Verdict::Remark(levels),
            _ => Verdict::Pass,
        }
    }
}
