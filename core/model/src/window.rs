//! The window field of a TCP header (RFC 7323, section 2): how a switch writes a cap into it.

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::Severity;

/// Payload of a full TCP segment on Ethernet, where nothing else is said.
pub const MSS: Bytes = Bytes::new(1460);

/// The largest window scale; a larger one counts as this (RFC 7323, section 2.3).
pub const MAX_SCALE: u8 = 14;

/// The scale that the options of a SYN offer: 0 where they offer none, the last where they offer several. `None`: the
/// list breaks off. It says nothing then, as hosts too drop what they can't read.
pub fn offered_scale(options: &[u8]) -> Option<u8> {
    let (mut rest, mut scale) = (options, 0);
    loop {
        rest = match *rest {
            // RFC 9293, section 3.1: the end of the list, and no operation.
            [] | [0, ..] => return Some(scale),
            [1, ref after @ ..] => after,
            [_, length, ..] if length > 1 => {
                let (option, after) = rest.split_at_checked(usize::from(length))?;
                if let [3, 3, shift] = *option {
                    scale = shift.min(MAX_SCALE);
                }
                after
            }
            _ => return None,
        };
    }
}

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
    /// The field for a window under this cap, on a connection with this `scale` and full segments of
    /// `segment`, where the receiver wrote `field`.
    ///
    /// It never grows, and is rounded down to what the scale can say, but never below the floor: a
    /// sender without room for a segment would send nothing until its persist timer ends. Nor is it ever
    /// less than a unit of the scale: a closed window would stop the flow.
    pub fn rewritten(&self, field: u16, scale: u8, segment: Bytes) -> u16 {
        let scale = u32::from(scale.min(MAX_SCALE));
        let floor = segment * u64::from(self.floor_segments);
        let down = self.bytes.get() >> scale;
        let units = down.max(floor.get().div_ceil(1 << scale)).max(1);
        field.min(u16::try_from(units).unwrap_or(u16::MAX))
    }

    /// The window under this cap, on a connection with full segments of `segment` whose receiver allows more: as
    /// [`Cap::rewritten`] says it with this `scale`, or before it is rounded to one that isn't known.
    pub fn window(&self, scale: Option<u8>, segment: Bytes) -> Bytes {
        match scale.map(|scale| scale.min(MAX_SCALE)) {
            Some(scale) => Bytes::new(u64::from(self.rewritten(u16::MAX, scale, segment)) << scale),
            None => self.bytes.max(segment * u64::from(self.floor_segments)),
        }
    }
}

/// What a port caps a window to by how congested it is: it changes by itself, with the next packet after its queue
/// has passed a threshold. Where nothing is said for a severity, there is no cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// While the port is not congested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Cap>,
    /// From CN-L on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Cap>,
    /// From CN-M on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<Cap>,
    /// From CN-H on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Cap>,
}

impl Caps {
    /// The cap at a severity.
    pub const fn at(&self, severity: Severity) -> Option<Cap> {
        match severity {
            Severity::Recovered => self.recovered,
            Severity::Low => self.low,
            Severity::Medium => self.medium,
            Severity::High => self.high,
        }
    }

    /// The cap that holds however congested the port is, if it is one.
    pub fn constant(&self) -> Option<Cap> {
        let is_same = Severity::ALL.iter().all(|severity| self.at(*severity) == self.recovered);
        self.recovered.filter(|_| is_same)
    }
}

impl From<Cap> for Caps {
    /// The same however congested the port is.
    fn from(cap: Cap) -> Self {
        let cap = Some(cap);
        Self { recovered: cap, low: cap, medium: cap, high: cap }
    }
}
