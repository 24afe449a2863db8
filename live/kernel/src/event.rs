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
        let congested = |severity| Happening::Congested { severity, queue };
        let happening = match kind {
            0 => congested(Severity::Recovered),
            1 => congested(Severity::Low),
            2 => congested(Severity::Medium),
            3 => congested(Severity::High),
            4 => Happening::Opened(connection),
            5 => Happening::Closed(connection),
            _ => return None,
        };
        Some(Self { at, port, happening })
    }
}
