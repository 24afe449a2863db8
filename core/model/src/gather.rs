//! Fan-out requests: a front end wants many small objects at once, each of which several servers
//! hold. Objects are numbered within their request, as they stand in it.

mod course;
mod queue;

use alloc::vec::Vec;

use units::{Bytes, Rate, Span};

use crate::{JobId, MSS, NodeId};

pub use course::{Course, Step};
pub use queue::Queue;

/// IP and TCP header of a packet, octets.
pub const HEADER: Bytes = Bytes::new(40);

/// The frame bytes of a stream's `payload`, in full segments and the rest; nothing for nothing.
pub fn frames(payload: Bytes) -> Bytes {
    payload + HEADER * payload.get().div_ceil(MSS.get())
}

/// What a front end wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The request, which is a job like others.
    pub id: JobId,
    /// The front end.
    pub front: NodeId,
    /// Payload of each object, octets.
    pub sizes: Vec<u32>,
    /// The servers that hold each object, [`copies`](Self::copies) of them in turn. The first of an
    /// object is the one that is asked unless there is a reason to ask another.
    pub holders: Vec<NodeId>,
    /// How many servers hold each object.
    pub copies: usize,
    /// What servers can send, frame bytes, where the front end knows that it is less than their link
    /// carries; in order of servers.
    pub spare: Vec<(NodeId, Rate)>,
}

impl Request {
    /// The servers that hold `object`; none when there is no such object.
    pub fn holders(&self, object: usize) -> &[NodeId] {
        let start = object.saturating_mul(self.copies);
        self.holders.get(start..start.saturating_add(self.copies)).unwrap_or(&[])
    }

    /// Payload of `object`; nothing when there is no such object.
    pub fn size(&self, object: usize) -> Bytes {
        self.sizes.get(object).map_or(Bytes::ZERO, |size| Bytes::new(u64::from(*size)))
    }
}

/// A server that collects the objects of a swarm and passes them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hub {
    /// Where it runs.
    pub node: NodeId,
    /// The hub that it sends to; `None` is the front end. Never itself or one below it.
    pub parent: Option<u32>,
    /// The speed that it begins at, frame bytes. Never zero.
    pub speed: Rate,
}

/// How an object comes to the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The server that is asked for it.
    pub holder: NodeId,
    /// The hub, by its place among the hubs, that asks for it; `None`: the front end itself.
    pub hub: Option<u32>,
}

/// How a request is gathered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gathering {
    /// The hubs; those without a parent send to the front end.
    pub hubs: Vec<Hub>,
    /// The way of each object.
    pub ways: Vec<Way>,
    /// Whether a hub puts several objects into a packet.
    pub packed: bool,
}

/// What a policy wants of the application that gathers a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HubOrder {
    /// Gather it so.
    Gather(Gathering),
    /// Have at most so many queries of the front end unanswered; without this order, any number.
    Outstanding(u32),
    /// The speed of each hub from now on, frame bytes. Never zero.
    Speeds(Vec<Rate>),
    /// These objects come another way from now on.
    Redirect(Vec<(u32, Way)>),
    /// A hub died. The node takes its place and asks for what it had to get, and its children send
    /// again. Without a node they send to its parent, and a [`Redirect`](Self::Redirect) says how all
    /// comes that it had to get: this order asks nobody.
    Replace {
        /// The hub, by its place among the hubs.
        hub: u32,
        /// Who takes its place.
        node: Option<NodeId>,
    },
}

/// How far the gathering of a request has come, as its front end measured it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time since the last sample, or since the request began.
    pub span: Span,
    /// Objects that reached the front end meanwhile.
    pub arrived: Vec<u32>,
    /// Frame bytes that each hub sent meanwhile.
    pub received: Vec<Bytes>,
    /// Frame bytes queued at the aggregation router's port towards the front end's rack.
    pub queued: Bytes,
    /// Room at that port.
    pub buffer: Bytes,
}
