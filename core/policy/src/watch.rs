//! What a policy wants switches to report.

use model::Thresholds;
use units::Span;

/// The instruments that a policy decides from. Each world sees to it that its switches report as
/// asked; where a policy asks for none, switches do nothing but forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Congestion notifications of every port ([`model::Measured::Congested`]).
    pub congestion: Option<Thresholds>,
    /// Time between two flow statistics ([`model::Measured::Carried`], [`model::Measured::RoundTrips`]).
    pub statistics: Option<Span>,
    /// Time between two reports of the queues that are not empty, and of each once when it has
    /// become so ([`model::Measured::QueueLength`]).
    pub queues: Option<Span>,
    /// A SYN waits at the first switch of its path until the controller has answered it. Simulated
    /// switches do so; live ones tell of it and pass it on.
    pub holds_syns: bool,
    /// The decisions are the switch's own: nothing is sent anywhere, and no time passes. The packet
    /// world does so; a live controller decides itself, over its channels.
    pub local: bool,
}
