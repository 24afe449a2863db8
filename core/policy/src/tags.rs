//! What hosts write into their packets by themselves under a policy, and what ports make of it.

use alloc::vec::Vec;

use units::{Bytes, Span};

/// How hosts tag data packets, and how every port, of hosts and of switches, serves them by their tags.
/// Acknowledgements and what opens or closes a connection come before data, datagrams after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    /// What the flow has left, octets that are not acknowledged; the flow with the least is served first
    /// and its packets in order of arrival, and the packet with the most makes room.
    Left(LineRate),
    /// A priority by how much the flow has sent before: the first, and one lower from each of these sizes
    /// on, which rise. Ports serve strictly by priority.
    Sent(Vec<Bytes>),
    /// A priority by the size of the flow for what needs no grant, and below these that which its grant
    /// says. Ports of switches serve strictly by priority, hosts the flow that has least left.
    Granted(Granting),
}

/// The transport of hosts whose receivers grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granting {
    /// Segments that need no grant, and that are granted beyond what has arrived.
    pub ahead: u32,
    /// Flows above each of these sizes, which rise, have the next lower priority for what needs no grant.
    pub cutoffs: Vec<Bytes>,
    /// Priorities of what is granted.
    pub priorities: u32,
    /// Flows, each of another host, that a receiver grants to at once.
    pub overcommitment: u32,
    /// The least timeout.
    pub timeout: Span,
}

/// The transport that hosts speak where ports sort flows by what they have left: it begins at the rate of
/// the link, and a fixed timeout alone tells of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRate {
    /// Room of every port.
    pub buffer: Bytes,
    /// First window, segments.
    pub first_window: u32,
    /// Largest window, segments.
    pub largest_window: u32,
    /// The timeout.
    pub timeout: Span,
    /// Timeouts in a row after which one octet at a time probes the path.
    pub timeouts: u32,
}
