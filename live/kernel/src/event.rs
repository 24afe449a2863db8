//! What ports tell.

use agent::{Happening, PortNumber};
use model::Severity;
use units::{Bytes, Time};

use crate::layout::{self, Fields};

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
            layout::OPENED => Happening::Opened(connection),
            layout::CLOSED_FLOW => Happening::Closed(connection),
            _ => Happening::Congested { severity: severity_of(kind)?, queue },
        };
        Some(Self { at, port, happening })
    }
}

/// The severity that a number stands for.
pub(crate) const fn severity_of(number: u32) -> Option<Severity> {
    Some(match number {
        layout::RECOVERED => Severity::Recovered,
        layout::LOW => Severity::Low,
        layout::MEDIUM => Severity::Medium,
        layout::HIGH => Severity::High,
        _ => return None,
    })
}
