//! What ports tell.

use agent::{Happening, PortNumber};
use model::Severity;
use units::{Bytes, Time};

use crate::layout::Fields;

/// Something that a port told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the clock of [`crate::now`].
    pub at: Time,
    /// Which port.
    pub port: PortNumber,
    /// What.
    pub happening: Happening,
}

impl Event {
    pub(crate) const RECORD: usize = 64;

    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        if record.len() != Self::RECORD {
            return None;
        }
        let mut fields = Fields(record);
        let at = Time::from_nanos(fields.u64());
        let queue = Bytes::new(fields.u64());
        let port = PortNumber(fields.u32());
        let kind = fields.u32();
        let connection = fields.connection();
        let happening = match kind {
            4 => Happening::Opened(connection),
            5 => Happening::Closed(connection),
            _ => Happening::Congested { severity: severity_of(kind)?, queue },
        };
        Some(Self { at, port, happening })
    }
}

/// The severity of `WM_RECOVERED` to `WM_HIGH`.
pub(crate) const fn severity_of(number: u32) -> Option<Severity> {
    Some(match number {
        0 => Severity::Recovered,
        1 => Severity::Low,
        2 => Severity::Medium,
        3 => Severity::High,
        _ => return None,
    })
}
