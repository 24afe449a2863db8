//! Switch meters: a token bucket that drops what exceeds its rate (OpenFlow 1.3, section 5.7,
//! meter band type drop).

use crate::link;

/// A token bucket, kept as the time at which it will be full again (the virtual scheduling form).
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    cost: u64,
    /// Depth, as the time that the rate takes to fill it, ns.
    depth: u64,
    full_at: u64,
}

impl Meter {
    /// A full bucket at `bps` with `burst` octets of depth.
    pub(crate) fn new(bps: u64, burst: u64) -> Self {
        let cost = link::cost(bps);
        // A bucket shallower than one packet would pass nothing at all.
        let depth =
            link::span(burst.clamp(u64::from(u16::MAX) >> 4, u64::from(u32::MAX) >> 8), cost);
        Self { cost, depth, full_at: 0 }
    }

    /// Whether a packet of `size` octets conforms at `now`.
    pub(crate) fn admits(&mut self, now: u64, size: u16) -> bool {
        let full_at = self.full_at.max(now) + link::span(u64::from(size), self.cost);
        let conforms = full_at - now <= self.depth;
        if conforms {
            self.full_at = full_at;
        }
        conforms
    }
}
