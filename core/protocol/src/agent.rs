//! What agents report, and what they are told to do.
//!
//! An agent obeys the highest epoch it has heard of, and refuses commands of lower ones. What it is
//! told holds for a lease, counted from when it arrives; [`Commands`] of the same epoch, even empty
//! ones, renew all that stands. When the lease runs out, the traffic is plain TCP again.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use model::{Cap, Caps, PortWatch, Severity};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use units::{Bytes, Rate, Span, Time};

use crate::{Connection, Process};

/// The highest epoch that a controller may have: one start a millisecond comes there in 8900 years.
pub const MOST_EPOCH: u64 = 1 << 48;

/// The longest lease that a controller may give: what is held outlives whoever dies by no more.
pub const MOST_LEASE: Span = Span::from_secs(3_600);

/// The longest time between two acknowledgements that an agent spaces; one that had to wait longer for its turn passes
/// at once.
pub const MOST_GAP: Span = Span::from_secs(1);

/// An agent or a controller that says nothing for so long is taken for dead: both give signs of life more often.
pub const SILENCE: Span = Span::from_secs(30);

/// From an agent to the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Report {
    /// The first message of a connection.
    Hello {
        /// The hosts that the agent acts for: one on a real machine, several in a virtual cluster.
        hosts: Vec<Host>,
        /// What it can do.
        capabilities: Vec<Capability>,
        /// The highest epoch it has obeyed; 0 before the first.
        epoch: u64,
    },
    /// How connections stand, all of them sampled at the same moment.
    Connections {
        /// When, by a clock of the agent's own that never goes backwards.
        sampled_ns: Time,
        /// The connections.
        connections: Vec<ConnectionReport>,
    },
    /// Connections that have ended since the sample or the report of this kind before. Comes before a sample of the
    /// same moment, which has none of them.
    Ended {
        /// When they were gathered, by the clock of the samples.
        sampled_ns: Time,
        /// The connections, without those that sent nothing. Those between the same ends are one.
        connections: Vec<EndedConnection>,
        /// How many more ended, of which the agent had no room to note anything.
        lost: u64,
    },
    /// The first packet of a connection was seen, or the first since the watch began.
    Opened {
        /// The connection.
        connection: Connection,
    },
    /// The last packet of a connection was seen.
    Closed {
        /// The connection.
        connection: Connection,
    },
    /// A watched queue passed a threshold, or recovered (SDTCP, section 3.2).
    Congested {
        /// The host or switch.
        node: String,
        /// Its interface.
        interface: String,
        /// How much.
        severity: Severity,
        /// Frame bytes in the queue.
        queue_bytes: Bytes,
    },
    /// What interfaces have sent since they began to count, whoever's it is.
    Ports {
        /// The interfaces, of hosts and switches that the agent acts for.
        ports: Vec<PortCount>,
    },
    /// A command was not carried out, or a priority not on every interface. What stood before stands, but
    /// where the commands are complete: they end what the same epoch granted and they didn't renew. An end
    /// of that kind that fails is told of too, by a command that nobody sent. Comes before
    /// [`Report::Applied`] of the same number. Samples and counters that fail from some moment on are told of later, with
    /// the number of the last commands, and once more whenever they are asked for until they don't.
    Failed {
        /// Its epoch.
        epoch: u64,
        /// The number of the commands that it came with.
        sequence: u64,
        /// The command.
        command: Command,
        /// Why, for people.
        reason: String,
    },
    /// Commands were carried out, but for those that were reported as [`Report::Failed`].
    Applied {
        /// Their epoch.
        epoch: u64,
        /// Their number.
        sequence: u64,
    },
    /// Commands were not carried out: they are of an epoch that is over.
    Stale {
        /// Their epoch.
        epoch: u64,
        /// The epoch that the agent obeys.
        obeys: u64,
    },
    /// The agent ends in order and has let go of all that it was told to hold; a connection that is idle goes
    /// unheld with its next acknowledgement. Its last word: the controller closes the connection.
    Left {},
}

/// A host and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name, as in the controller's topology.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// How a connection stands, seen by the kernel at its sender. All amounts are payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConnectionReport {
    /// The connection.
    pub connection: Connection,
    /// What its receiver has acknowledged since it began.
    pub delivered_bytes: Bytes,
    /// What its application has written and has not been sent.
    pub unsent_bytes: Bytes,
    /// What is on its way.
    pub in_flight_bytes: Bytes,
    /// Smoothed round-trip time.
    pub rtt_ns: Span,
    /// Who has its source: of those that the controller asked for, and its pod, asked for or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
}

/// What a connection had sent when it ended, seen by the kernel at its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EndedConnection {
    /// The connection.
    pub connection: Connection,
    /// Payload that left since it began, whether or not it was acknowledged; what was sent again counts once.
    pub sent_bytes: Bytes,
    /// Control groups that its source was made in, of those that the controller asked for, and its pod, asked for or
    /// not. A process by its number is not among them: it may be gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
}

/// A counter of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PortCount {
    /// The host or switch.
    pub node: String,
    /// Its interface.
    pub interface: String,
    /// Frame bytes.
    pub sent_bytes: Bytes,
}

/// Connections, or ports, in one report of an agent: every controller takes as many.
pub const MOST_REPORTED: usize = 1_000;

/// Processes that an agent looks for, those of all its hosts together.
pub const MOST_IDENTIFIED: usize = 256;

/// Of the processes that share an end of a connection so many count: those that were named first.
pub const MOST_HOLDERS: usize = 8;

/// What an agent can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Hold connections to rates at their sender.
    Pacing,
    /// Report how connections stand.
    Statistics,
    /// Watch queues of interfaces, and connections that open and close there.
    Watching,
    /// Cap the windows of acknowledgements at interfaces.
    Windows,
    /// Put connections into classes of strict priority.
    Priorities,
    /// Hold prepared caps: change windows by itself when a watched queue passes a threshold.
    Prepared,
    /// Space acknowledgements at interfaces.
    Spacing,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pacing,
        Self::Statistics,
        Self::Watching,
        Self::Windows,
        Self::Priorities,
        Self::Prepared,
        Self::Spacing,
    ];

    /// Its name, as in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pacing => "pacing",
            Self::Statistics => "statistics",
            Self::Watching => "watching",
            Self::Windows => "windows",
            Self::Priorities => "priorities",
            Self::Prepared => "prepared",
            Self::Spacing => "spacing",
        }
    }
}

/// A line from the controller to an agent: an object or a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Said {
    /// What to do.
    Commands(Commands),
    /// Why the controller closes the connection, for people. Its last word. An agent that doesn't know it takes it for a
    /// line that it can't read, and ends the connection as well.
    Closing(String),
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Said;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("commands, or why the connection is closed")
            }

            fn visit_str<E: de::Error>(self, why: &str) -> Result<Said, E> {
                Ok(Said::Closing(why.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Said, A::Error> {
                Commands::deserialize(MapAccessDeserializer::new(map)).map(Said::Commands)
            }
        }

        // What the first octet says already is not tried one after the other: commands can be long.
        deserializer.deserialize_any(Either)
    }
}

/// From the controller to an agent: what to do from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// The controller's epoch, higher than that of every controller before it.
    pub epoch: u64,
    /// Counts up within an epoch.
    pub sequence: u64,
    /// How long all that stands holds without hearing from the controller again.
    pub lease_ns: Span,
    /// These are all: once they stand, whatever else stood of this epoch ends, and all watching.
    /// Otherwise they come in addition. What an earlier epoch granted ends with its lease.
    pub complete: bool,
    /// One after another.
    pub commands: Vec<Command>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Hold a connection to a rate, or let it go.
    Pace {
        /// The connection.
        connection: Connection,
        /// Most frame bytes that it may send, in bit/s, [`LEAST_RATE`](model::LEAST_RATE) to
        /// [`MOST_RATE`](model::MOST_RATE); nothing lifts the limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_bps: Option<Rate>,
    },
    /// Put a connection into a class of strict priority, at all ports with classes of the agent that acts for its
    /// sender.
    Prioritize {
        /// The connection.
        connection: Connection,
        /// 0 is served first.
        priority: u8,
    },
    /// Cap the window in acknowledgements that come back through an interface.
    Window {
        /// The host or switch.
        node: String,
        /// The interface that the data leaves by.
        interface: String,
        /// One connection, whose entry goes before that of the interface; nothing: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection: Option<Connection>,
        /// The cap; nothing removes the entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<Cap>,
    },
    /// Prepare caps at an interface, which changes between them by itself as its queue passes thresholds. They take
    /// the place of [`Command::Window`] for the same connection or interface, and the other way round.
    Prepare {
        /// The host or switch.
        node: String,
        /// The interface that the data leaves by.
        interface: String,
        /// One connection, whose entry goes before that of the interface; nothing: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection: Option<Connection>,
        /// What is to apply at each severity.
        caps: Caps,
    },
    /// Space the acknowledgements that come back through an interface, those of all connections together. What carries
    /// payload, and the SYN of a connection that the receiver opens, passes at once.
    Space {
        /// The host or switch.
        node: String,
        /// The interface that the data leaves by.
        interface: String,
        /// Least time between two, above 0 and up to [`MOST_GAP`]; nothing lets them pass as they come.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap_ns: Option<Span>,
    },
    /// Watch an interface, or stop.
    Watch {
        /// The host or switch.
        node: String,
        /// The interface.
        interface: String,
        /// What to report; nothing stops.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        watch: Option<PortWatch>,
    },
    /// Report connections regularly.
    Sample {
        /// Time between two reports.
        every_ns: Span,
    },
    /// Report counters of all interfaces regularly.
    Count {
        /// Time between two reports.
        every_ns: Span,
    },
    /// Tell in reports which connections these have, and no others.
    Identify {
        /// At most [`MOST_IDENTIFIED`].
        processes: Vec<Process>,
    },
}

impl Command {
    /// What an agent must be able to do for it.
    pub const fn needs(&self) -> Capability {
        match self {
            Self::Pace { .. } => Capability::Pacing,
            Self::Prioritize { .. } => Capability::Priorities,
            Self::Window { .. } => Capability::Windows,
            Self::Prepare { .. } => Capability::Prepared,
            Self::Space { .. } => Capability::Spacing,
            Self::Watch { .. } => Capability::Watching,
            Self::Sample { .. } | Self::Count { .. } | Self::Identify { .. } => {
                Capability::Statistics
            }
        }
    }

    /// The connection that it is about; `None`: a port, or the whole host.
    pub const fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Pace { connection, .. } | Self::Prioritize { connection, .. } => Some(connection),
            Self::Window { connection, .. } | Self::Prepare { connection, .. } => {
                connection.as_ref()
            }
            Self::Space { .. }
            | Self::Watch { .. }
            | Self::Sample { .. }
            | Self::Count { .. }
            | Self::Identify { .. } => None,
        }
    }

    /// Whether it only ends what stands.
    pub const fn ends(&self) -> bool {
        match self {
            Self::Pace { rate_bps, .. } => rate_bps.is_none(),
            Self::Prioritize { priority, .. } => *priority == 0,
            Self::Window { cap, .. } => cap.is_none(),
            Self::Space { gap_ns, .. } => gap_ns.is_none(),
            Self::Watch { watch, .. } => watch.is_none(),
            Self::Identify { processes } => processes.is_empty(),
            Self::Prepare { .. } | Self::Sample { .. } | Self::Count { .. } => false,
        }
    }
}
