//! What ports tell.

use model::Congestion;
use protocol::Connection;
use units::{Bytes, Time};

use crate::PortNumber;
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

/// What can happen at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The queue passed a threshold, or has recovered (SDTCP, section 3.2).
    Congested {
        /// Which.
        level: Congestion,
        /// Frame bytes in the queue.
        queue: Bytes,
    },
    /// A SYN passed, in either direction; the connection is named as data leaves through the port.
    Opened(Connection),
    /// The first FIN or RST of a connection passed, in either direction.
    Closed(Connection),
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
        let congested = |level| Happening::Congested { level, queue };
        let happening = match kind {
            0 => congested(Congestion::Recovered),
            1 => congested(Congestion::Low),
            2 => congested(Congestion::Medium),
            3 => congested(Congestion::High),
            4 => Happening::Opened(connection),
            5 => Happening::Closed(connection),
            _ => return None,
        };
        Some(Self { at, port, happening })
    }
}
