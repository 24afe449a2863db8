//! What operators order, and what of it stands.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::Rate;

/// An operator's order. Whatever begins something stands until another order ends it, or its time is over, also over
/// restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// A job ends, with all its flows and their limits. Its application may declare it again.
    Cancel {
        /// Whose it is.
        application: String,
        /// The job.
        job: String,
    },
    /// All that an application has declared ends, with all limits. It may declare again.
    Evict {
        /// The application.
        application: String,
    },
    /// The same, and what it declares from now on is refused.
    Block {
        /// The application, known or not.
        application: String,
        /// Why: it is told so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It may declare again.
    Unblock {
        /// The application.
        application: String,
    },
    /// Nothing that the policy decides is in force: all connections are plain TCP.
    Freeze {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What the policy decides is in force again.
    Thaw {},
    /// No limit holds what a host sends or receives, and the policy doesn't count on it.
    Drain {
        /// The host, by its name in the topology.
        host: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The host is like any other again.
    Undrain {
        /// The host.
        host: String,
    },
    /// No connection of an application, or of a job of it, goes faster, whatever the policy decides.
    Limit {
        /// The application: one that has declared something, or a tenant of the configuration.
        application: String,
        /// The job; all of them where none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<String>,
        /// Most that each connection sends, in bit/s of frames.
        rate_bps: Rate,
        /// For how long, in seconds from the time of the order, 1 to 2592000 (30 days); where nothing is said, until
        /// `unlimit`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasts_s: Option<u64>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What the policy decides holds its connections again.
    Unlimit {
        /// The application.
        application: String,
        /// The job, as it was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<String>,
    },
}

impl Order {
    /// Why, where an operator has said so.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Block { reason, .. }
            | Self::Freeze { reason }
            | Self::Drain { reason, .. }
            | Self::Limit { reason, .. } => reason.as_deref(),
            Self::Cancel { .. }
            | Self::Evict { .. }
            | Self::Unblock { .. }
            | Self::Thaw {}
            | Self::Undrain { .. }
            | Self::Unlimit { .. } => None,
        }
    }

    /// The order that ends it, where it stands until then.
    pub fn ends_by(&self) -> Option<Self> {
        match self {
            Self::Block { application, .. } => {
                Some(Self::Unblock { application: application.clone() })
            }
            Self::Freeze { .. } => Some(Self::Thaw {}),
            Self::Drain { host, .. } => Some(Self::Undrain { host: host.clone() }),
            Self::Limit { application, job, .. } => {
                Some(Self::Unlimit { application: application.clone(), job: job.clone() })
            }
            Self::Cancel { .. }
            | Self::Evict { .. }
            | Self::Unblock { .. }
            | Self::Thaw {}
            | Self::Undrain { .. }
            | Self::Unlimit { .. } => None,
        }
    }
}

/// The longest that a limit may be given for, in seconds: 30 days.
pub const MOST_LASTS: u64 = 30 * 86_400;

/// An order that was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// When, in seconds since 1970 by the clock of the controller's machine.
    pub at_s: u64,
    /// By whom.
    pub by: String,
    /// What.
    pub order: Order,
}

impl Act {
    /// When it ends by itself, if it does, by the same clock.
    pub fn ends_s(&self) -> Option<u64> {
        match &self.order {
            Order::Limit { lasts_s, .. } => Some(self.at_s.saturating_add((*lasts_s)?)),
            Order::Cancel { .. }
            | Order::Evict { .. }
            | Order::Block { .. }
            | Order::Unblock { .. }
            | Order::Freeze { .. }
            | Order::Thaw {}
            | Order::Drain { .. }
            | Order::Undrain { .. }
            | Order::Unlimit { .. } => None,
        }
    }
}

/// The answer to an order, and to who asks what stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// The orders that stand.
    pub standing: Vec<Act>,
    /// What was done all the same, and not written down: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}
