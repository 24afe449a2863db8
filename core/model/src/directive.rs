//! What a policy wants to change: intentions that know nothing of the actuator.

use alloc::sync::Arc;
use alloc::vec::Vec;

use units::{Rate, Span};

use crate::{FlowId, JobId, Order};

/// One intention. It stands until another for the same flow replaces it or the flow ends, as long
/// as the controller renews its lease; when the lease runs out the flow is plain TCP again.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Tell the application that gathers a request how to. Without a word from the controller it
    /// goes on as it was told last: a gathering ends by itself.
    Gather {
        /// The request.
        request: JobId,
        /// What to do.
        order: Arc<Order>,
    },
}

/// The caller's buffer that policies append to.
pub type Directives = Vec<Directive>;
