//! What a policy wants to change: intentions that know nothing of the actuator.

use alloc::sync::Arc;
use alloc::vec::Vec;

use units::{Rate, Span, Time};

use crate::{Cap, Caps, FlowId, HubOrder, JobId, LinkId, NodeId};

/// No flow is held below 12 kbit/s, a full segment of Ethernet a second. A flow at zero could never finish
/// nor tell that it is alive; and a kernel paces no slower: what waits there for its turn is not reached
/// by the end of a lease.
pub const LEAST_RATE: Rate = Rate::from_bps(12_000);

/// No agent holds a flow to more, 34.3 Gbit/s: kernels keep rates in whole octets a second, of 32 bits, all of which
/// together say that there is no limit.
pub const MOST_RATE: Rate = Rate::from_bps((u32::MAX as u64 - 1) * 8);

/// One intention. It stands until another for the same flow replaces it or the flow ends, as long
/// as the controller lives: actuators obey under its lease, and when that runs out the flow is plain
/// TCP again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Directive {
    /// Hold a flow to a rate, or let it go.
    Pace {
        /// The flow.
        flow: FlowId,
        /// Most frame bytes per second that the flow may send, [`LEAST_RATE`] or more; `None` lifts the limit.
        limit: Option<Rate>,
    },
    /// Give a flow its place at ports that serve strict priorities.
    Prioritize {
        /// The flow.
        flow: FlowId,
        /// 0 is served first, and is where every flow starts.
        priority: u8,
    },
    /// Cap the window in acknowledgements, at the switch that they pass on their way back and that
    /// the data left by `link`.
    Window {
        /// The directed link that the data takes.
        link: LinkId,
        /// One flow, whose entry goes before that of the link; `None`: every flow through the link.
        flow: Option<FlowId>,
        /// `None` removes the entry; without a flow, all entries of the link, those of single flows
        /// too.
        cap: Option<Cap>,
    },
    /// Prepare caps at a switch, which changes between them by itself as the port of `link` passes thresholds. It
    /// takes the place of a [`Directive::Window`] for the same flow or link, and the other way round; one without
    /// a cap ends it too. The policy has to watch congestion, else the port is never congested.
    Prepare {
        /// The directed link that the data takes.
        link: LinkId,
        /// One flow, whose entry goes before that of the link, also at severities at which it caps nothing;
        /// `None`: every flow through the link.
        flow: Option<FlowId>,
        /// What is to apply at each severity.
        caps: Caps,
    },
    /// Space the acknowledgements of the flows through a link at the switch before it.
    Space {
        /// The directed link that the data takes.
        link: LinkId,
        /// Least time between two; `None` lets them pass as they come.
        gap: Option<Span>,
    },
    /// Let one packet go that waits at `src` for `dst`, in one timeslot.
    Grant {
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
        /// When the timeslot begins.
        slot: Time,
        /// The switch that the packet crosses on its way; `None` leaves the path to the network.
        via: Option<NodeId>,
    },
    /// Hold all that waits at `src` for `dst` to a rate, each packet leaving a bucket that leaks.
    PacePair {
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
        /// Frame bytes per second. Never zero.
        rate: Rate,
    },
    /// Tell the application that gathers a request how to. Without a word from the controller it
    /// goes on as it was told last: a gathering ends by itself.
    Gather {
        /// The request.
        request: JobId,
        /// What to do.
        order: Arc<HubOrder>,
    },
}

/// The caller's buffer that policies append to.
pub type Directives = Vec<Directive>;
