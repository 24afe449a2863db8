//! The window field of a TCP header (RFC 7323, section 2): how a switch writes a cap into it.

use serde::{Deserialize, Serialize};
use units::Bytes;

/// Payload of a full TCP segment on Ethernet, where nothing else is said.
pub const MSS: Bytes = Bytes::new(1460);

/// A cap on windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// Most octets of payload in flight.
    pub bytes: Bytes,
    /// So many full segments always fit, whatever `bytes` says. SDTCP, section 3.4, goes down to one.
    /// Hosts with Linux need two: their receivers delay the acknowledgement of a single segment.
    pub floor_segments: u32,
}

impl Cap {
    /// What it leaves a connection with full segments of `segment`.
    pub fn least(&self, segment: Bytes) -> Bytes {
        self.bytes.max(segment * u64::from(self.floor_segments))
    }

    /// The field for a window under this cap, on a connection with this `scale` and full segments of
    /// `segment`, where the receiver wrote `field`.
    ///
    /// It never grows, and is rounded down to what the scale can say, but never below the floor: a
    /// sender without room for a segment would send nothing until its persist timer ends.
    pub fn rewritten(&self, field: u16, scale: u8, segment: Bytes) -> u16 {
        let scale = u32::from(scale.min(14)); // RFC 7323, section 2.3
        let floor = segment * u64::from(self.floor_segments);
        let down = self.bytes.get() >> scale;
        let units = down.max(floor.get().div_ceil(1 << scale));
        field.min(u16::try_from(units).unwrap_or(u16::MAX))
    }
}
