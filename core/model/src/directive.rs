//! What a policy wants to change: intentions that know nothing of the actuator.

use alloc::vec::Vec;

use units::{Bytes, Rate, Span};

use crate::{FlowId, LinkId};

/// One intention. It stands until another for the same flow replaces it or the flow ends, as long
/// as the controller renews its lease; when the lease runs out the flow is plain TCP again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Hold a flow to a rate, or let it go.
    Pace {
        /// The flow.
        flow: FlowId,
        /// Most frame bytes per second that the flow may send; `None` lifts the limit. Never zero.
        limit: Option<Rate>,
        /// How long an actuator may obey without hearing from the controller again.
        lease: Span,
    },
    /// Give a flow its place at ports that serve strict priorities.
    Prioritize {
        /// The flow.
        flow: FlowId,
        /// 0 is served first, and is where every flow starts.
        level: u8,
        /// As for [`Directive::Pace`].
        lease: Span,
    },
    /// Cap the window in acknowledgements, at the switch that they pass on their way back and that
    /// the data left by `link`.
    Window {
        /// The directed link that the data takes.
        link: LinkId,
        /// One flow, whose entry goes before that of the link; `None`: every flow through the link.
        flow: Option<FlowId>,
        /// Most octets of payload in flight. `None` removes the entry; without a flow, all entries
        /// of the link, those of single flows too.
        cap: Option<Bytes>,
        /// As for [`Directive::Pace`].
        lease: Span,
    },
    /// Space the acknowledgements of the flows through a link at the switch before it.
    Space {
        /// The directed link that the data takes.
        link: LinkId,
        /// Least time between two; `None` lets them pass as they come.
        gap: Option<Span>,
        /// As for [`Directive::Pace`].
        lease: Span,
    },
}

/// The caller's buffer that policies append to.
pub type Directives = Vec<Directive>;
