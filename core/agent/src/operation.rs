//! What an agent has its kernel do, and what the kernel tells.

use alloc::string::String;
use alloc::vec::Vec;

use model::{Caps, PortWatch, Severity};
use protocol::agent::{ConnectionReport, EndedConnection};
use protocol::{Connection, Process};
use units::{Bytes, Rate, Span, Time};

/// A port of an agent, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

/// One thing to do. Grants are made under the lease that was renewed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make the lease of an epoch last from now on.
    Renew {
        /// The epoch.
        epoch: u64,
        /// How long.
        lease: Span,
    },
    /// Hold a connection to a rate, or let it go.
    Pace {
        /// The connection.
        connection: Connection,
        /// Most frame bytes; `None` lets it go.
        rate: Option<Rate>,
    },
    /// Put a connection into a class of a port, or take it out.
    Classify {
        /// The port.
        port: PortNumber,
        /// The connection.
        connection: Connection,
        /// The class by its place among those of the port; `None` takes it out.
        class: Option<u8>,
    },
    /// Cap windows in the acknowledgements that come back through a port, or no more.
    Cap {
        /// The port.
        port: PortNumber,
        /// One connection, whose cap goes before that of the port; `None`: all.
        connection: Option<Connection>,
        /// What is to apply at each severity of the port, from the next packet on after its queue has passed a
        /// threshold; `None` removes it.
        caps: Option<Caps>,
    },
    /// Space the acknowledgements that come back through a port, or no more.
    Space {
        /// The port.
        port: PortNumber,
        /// Least time between two; one that would wait longer than [`MOST_GAP`](protocol::agent::MOST_GAP) passes at
        /// once. `None` lets all pass as they come.
        gap: Option<Span>,
    },
    /// Watch a port, or stop. Who begins to watch is told of what is open too, of each when it sends again.
    Watch {
        /// The port.
        port: PortNumber,
        /// What it tells; `None` stops.
        watch: Option<PortWatch>,
    },
    /// Remove what has no lease any more, which makes room.
    Sweep,
}

/// Why an operation failed, for people.
pub type Failure = String;

/// Connections that have ended and had sent something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// In the order of their ends.
    pub connections: Vec<EndedConnection>,
    /// How many more there were, for which there was no room.
    pub lost: u64,
}

/// What executes operations: the kernel of a host, or [`Kernel`](crate::Kernel) in its place.
pub trait Actuator {
    /// Executes an operation at `now`.
    ///
    /// # Errors
    /// It failed. What stood before stands.
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure>;

    /// When it is, after what began at `began`. In memory nothing takes time.
    fn now(&self, began: Time) -> Time {
        began
    }

    /// How all open connections stand, and which of them these `processes` have. One that isn't there has
    /// none.
    ///
    /// # Errors
    /// They can't be read.
    fn sample(&mut self, processes: &[Process]) -> Result<Vec<ConnectionReport>, Failure>;

    /// The connections that have ended since this was asked last, and which of them these `processes` had: control
    /// groups alone. None where nothing is sampled.
    ///
    /// # Errors
    /// They can't be read.
    fn ended(&mut self, _processes: &[Process]) -> Result<Ended, Failure> {
        Ok(Ended::default())
    }

    /// Frame bytes that ports have sent since they began to count; none where nothing counts them.
    ///
    /// # Errors
    /// They can't be read.
    fn count(&mut self) -> Result<Vec<(PortNumber, Bytes)>, Failure> {
        Ok(Vec::new())
    }
}

/// What a port tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A watched queue passed a threshold, or recovered (SDTCP, section 3.2).
    Congested {
        /// How much.
        severity: Severity,
        /// What was in the virtual queue, frame bytes.
        queue: Bytes,
    },
    /// A SYN was seen, or payload of a connection that went on when somebody began to watch.
    Opened(Connection),
    /// A FIN or RST was seen.
    Closed(Connection),
}
