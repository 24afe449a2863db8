//! A network on which flows run, as the driver and the applications see it.

use model::{Caps, FlowId, LinkId, Measured, Network, NodeId};
use units::{Bytes, Rate, Span, Time};

use crate::outcome::Outcome;

/// A network on which flows run, as the driver sees it.
pub trait World {
    /// Why a run can't go on.
    type Error;

    /// The simulated time.
    fn now(&self) -> Time;

    /// Runs events up to `limit`, or until there is something to report.
    fn run(&mut self, limit: Time) -> Notice;

    /// Moves the clock to `time`; no event is left before it.
    fn advance(&mut self, time: Time);

    /// Starts a flow now; identifiers count up from 0.
    ///
    /// # Errors
    /// A flow that the world can't carry.
    fn start(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, Self::Error>;

    /// Sets or lifts the limit of a flow. A flow that is gone is ignored.
    fn limit(&mut self, flow: FlowId, limit: Option<Rate>);

    /// Sets the priority of a flow, where the world serves priorities; 0 goes first.
    fn prioritize(&mut self, flow: FlowId, priority: u8);

    /// Releases one packet of a pair ([`model::Directive::Grant`]). No effect in worlds whose packets
    /// don't wait for it.
    fn grant(&mut self, network: &Network, src: NodeId, dst: NodeId, via: Option<NodeId>) {
        let _ = (network, src, dst, via);
    }

    /// Sets the rate of a pair ([`model::Directive::PacePair`]). No effect in worlds whose packets don't
    /// wait for it.
    fn pace_pair(&mut self, src: NodeId, dst: NodeId, rate: Rate) {
        let _ = (src, dst, rate);
    }

    /// Caps the window of a flow, or of all flows through a link, at the switch before it
    /// ([`model::Directive::Window`], [`model::Directive::Prepare`]). No effect in worlds without windows.
    fn cap(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        let _ = (link, flow, caps);
    }

    /// Lets the SYN of a flow go on that waits at its first switch. No effect where none do.
    fn admit(&mut self, flow: FlowId) {
        let _ = flow;
    }

    /// Spaces the acknowledgements of the flows through a link ([`model::Directive::Space`]).
    fn space(&mut self, link: LinkId, gap: Option<Span>) {
        let _ = (link, gap);
    }

    /// The measurements of switches and hosts since the last call; see [`Notice::Measured`].
    fn measured(&mut self) -> Vec<Measured> {
        Vec::new()
    }

    /// What each link has sent since the run began, frame bytes; nothing in worlds that don't count it.
    fn ports(&mut self) -> Vec<(LinkId, Bytes)> {
        Vec::new()
    }

    /// The state of a flow; `None` once it is gone.
    fn state(&self, flow: FlowId) -> Option<FlowState>;

    /// The rate limit of a flow, and its progress. `None` of one without a limit, and where that
    /// isn't known.
    fn limited_flow(&self, flow: FlowId) -> Option<LimitedFlow> {
        let _ = flow;
        None
    }

    /// Packets in the queue of a link now.
    fn queue_length(&mut self, link: LinkId) -> u32;

    /// Frame bytes in the queue of a link now.
    fn queued(&mut self, link: LinkId) -> Bytes;

    /// Called when the world paused; reports faults outside the simulation.
    ///
    /// # Errors
    /// The fault.
    fn check(&mut self) -> Result<(), Self::Error>;

    /// Audits the run that has ended and adds to `outcome` its links and its counts of events.
    ///
    /// # Errors
    /// A law of the world that was broken, or a fault outside the simulation.
    fn finish(self, outcome: &mut Outcome) -> Result<(), Self::Error>;
}

/// A world whose flows can grow while they run.
pub trait Streams: World {
    /// Opens a connection for [`Streams::write`]; numbered as by [`World::start`].
    ///
    /// # Errors
    /// A flow that the world can't carry.
    fn open(&mut self, network: &Network, src: NodeId, dst: NodeId) -> Result<FlowId, Self::Error>;

    /// Writes `more` to a connection; returns whether it is still open.
    fn write(&mut self, flow: FlowId, more: Bytes) -> bool;

    /// Says that nothing more will be written. The flow ends when all has arrived.
    fn close(&mut self, flow: FlowId);

    /// Begins a flow of datagrams, each of which [`Streams::send`] sends at once; none is acknowledged or sent
    /// again, and the flow never ends. Numbered as by [`World::start`].
    ///
    /// # Errors
    /// A flow that the world can't carry.
    fn open_datagrams(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
    ) -> Result<FlowId, Self::Error>;

    /// Sends a datagram with so much payload. One that finds no room on its way is lost.
    fn send(&mut self, flow: FlowId, payload: Bytes);

    /// Asks for [`Notice::Reached`] once when the receiver has the first `at` bytes.
    fn mark(&mut self, flow: FlowId, at: Bytes);

    /// From now on the receiving application reads only by [`Streams::consume`]; unread data fills
    /// the receive buffer and slows the sender.
    fn pause_reading(&mut self, flow: FlowId);

    /// The receiving application of a flow whose reading is paused reads `bytes`, or all that there
    /// is.
    fn consume(&mut self, flow: FlowId, bytes: Bytes);
}

/// Why [`World::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The flow's last byte was delivered; its retransmissions and timeouts.
    Ended(FlowId, FlowState),
    /// The receiver of the flow has this much, which reaches the mark.
    Reached(FlowId, Bytes),
    /// Switches or hosts have measurements ([`World::measured`]).
    Measured,
    /// Many events passed: a chance to show progress.
    Pause,
    /// Nothing more happens up to the limit.
    Limit,
}

/// What a flow has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Payload sent at least once.
    pub sent: Bytes,
    /// Payload that reached the receiving host in order.
    pub delivered: Bytes,
    /// Of that, what its application has not read; zero where it reads at once.
    pub unread: Bytes,
    /// Packets sent again.
    pub retransmissions: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
}

/// A sample of a flow that has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedFlow {
    /// The rate, frame bytes.
    pub rate: Rate,
    /// What full packets carry of it, payload.
    pub payload: Rate,
    /// Payload that the application has written and that was never sent.
    pub unsent: Bytes,
    /// Payload that has reached the receiving host, in order.
    pub delivered: Bytes,
}
