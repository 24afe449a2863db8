//! Congestion of a port by the length of its queue (SDTCP, section 3.2). Messages, policies, switches
//! and agents share these types; the names of fields in messages tell the unit.

use core::fmt;

use serde::{Deserialize, Serialize};
use units::Span;

/// How congested a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// CR: not congested for some time.
    Recovered,
    /// CN-L.
    Low,
    /// CN-M.
    Medium,
    /// CN-H.
    High,
}

impl Severity {
    /// All of them, as they rise.
    pub const ALL: [Self; 4] = [Self::Recovered, Self::Low, Self::Medium, Self::High];
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recovered => "recovered",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// When a port counts as congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// L: CN-L at or above so many packets in the queue.
    #[serde(rename = "low_packets")]
    pub low: u32,
    /// M: CN-M at or above.
    #[serde(rename = "medium_packets")]
    pub medium: u32,
    /// H: CN-H at or above.
    #[serde(rename = "high_packets")]
    pub high: u32,
    /// CR once the queue has stayed below L for so long.
    #[serde(rename = "recovery_ns")]
    pub recovery: Span,
}

/// What is asked of a switch port: that it tells of connections whose first and last packets pass it, and
/// with thresholds how congested it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PortWatch {
    /// When its queue counts as congested; nothing: its queue isn't watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
}

impl Thresholds {
    /// Most packets that a live port's queue counts, and so the highest H that an agent can watch.
    pub const MOST_LIVE: u32 = 4095;

    /// Whether they rise from above zero.
    pub const fn rise(&self) -> bool {
        0 < self.low && self.low < self.medium && self.medium < self.high
    }

    /// The severity of a queue of so many packets; [`Severity::Recovered`] below L.
    pub const fn severity(&self, packets: u32) -> Severity {
        if packets >= self.high {
            Severity::High
        } else if packets >= self.medium {
            Severity::Medium
        } else if packets >= self.low {
            Severity::Low
        } else {
            Severity::Recovered
        }
    }
}
