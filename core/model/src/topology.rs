//! Hosts, switches and the directed links between them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use units::{Bytes, Rate, Span};

use crate::{LinkId, NodeId};

/// What a node does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Sends and receives; never forwards.
    Host,
    /// Forwards.
    Switch,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name shown to people, unique in the topology, such as `h3` or `leaf0`.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
}

/// How much an output queue holds, the packet in transmission included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// So many packets of whatever size.
    Packets(u32),
    /// So many frame bytes.
    Bytes(Bytes),
    /// Never full.
    Unlimited,
}

impl fmt::Display for Buffer {
    /// As configurations write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(bytes) => write!(f, "{} B", bytes.get()),
            Self::Unlimited => write!(f, "unlimited"),
        }
    }
}

/// The properties of a link with the output queue that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Frame bytes per second.
    pub capacity: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Room in the output queue.
    pub buffer: Buffer,
    /// A packet of an ECN-capable flow that finds at least so many packets queued is marked CE
    /// (DCTCP's K; RFC 8257, section 3.1).
    pub mark: Option<u32>,
}

/// A directed link and its output queue at `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Sending end.
    pub from: NodeId,
    /// Receiving end.
    pub to: NodeId,
    /// Capacity, delay, queue.
    pub spec: LinkSpec,
}

/// Nodes and links. It only grows; failures are a matter of the [`Network`](crate::Network).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
    links: Vec<Link>,
    out: Vec<Vec<LinkId>>,
}

/// Why a node or link can't be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// A node number beyond those that exist.
    NoSuchNode(NodeId),
    /// A link from a node to itself.
    Loop(NodeId),
    /// A link that could never carry anything.
    NoCapacity(NodeId, NodeId),
    /// More than [`Topology::MOST`] nodes or links.
    TooLarge,
    /// A builder's parameter is outside the shape's range; the text names it and the range.
    Shape(&'static str),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode(node) => write!(f, "there is no node {}", node.0),
            Self::Loop(node) => write!(f, "node {} can't be linked to itself", node.0),
            Self::NoCapacity(from, to) => write!(
                f,
                "the link from node {} to node {} has no capacity; give it one above zero",
                from.0, to.0
            ),
            Self::TooLarge => {
                write!(f, "a topology has at most {} nodes and as many links", Topology::MOST)
            }
            Self::Shape(rule) => f.write_str(rule),
        }
    }
}

impl core::error::Error for TopologyError {}

impl Topology {
    /// Most nodes, and most directed links, that a topology holds.
    pub const MOST: usize = 1 << 22;

    /// An empty topology.
    pub const fn new() -> Self {
        Self { nodes: Vec::new(), links: Vec::new(), out: Vec::new() }
    }

    /// A node that nothing hangs on becomes another of its kind.
    pub fn rename_node(&mut self, id: NodeId, name: String) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.name = name;
        }
    }

    /// Adds a node.
    ///
    /// # Errors
    /// [`TopologyError::TooLarge`].
    pub fn add_node(&mut self, name: String, kind: NodeKind) -> Result<NodeId, TopologyError> {
        let id = number(self.nodes.len()).map(NodeId)?;
        self.nodes.push(Node { name, kind });
        self.out.push(Vec::new());
        Ok(id)
    }

    /// Adds a directed link.
    ///
    /// # Errors
    /// An end that doesn't exist, a loop, a link without capacity, too many links.
    pub fn add_link(
        &mut self,
        from: NodeId,
        to: NodeId,
        spec: LinkSpec,
    ) -> Result<LinkId, TopologyError> {
        for node in [from, to] {
            if node.index() >= self.nodes.len() {
                return Err(TopologyError::NoSuchNode(node));
            }
        }
        if from == to {
            return Err(TopologyError::Loop(from));
        }
        if spec.capacity == Rate::ZERO {
            return Err(TopologyError::NoCapacity(from, to));
        }
        let id = number(self.links.len()).map(LinkId)?;
        self.links.push(Link { from, to, spec });
        self.out[from.index()].push(id);
        Ok(id)
    }

    /// Adds a cable, or nothing: a link each way, `there` from `a` to `b` and `back` from `b` to `a`.
    ///
    /// # Errors
    /// As [`Topology::add_link`].
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        there: LinkSpec,
        back: LinkSpec,
    ) -> Result<(LinkId, LinkId), TopologyError> {
        let first = self.add_link(a, b, there)?;
        let second = self.add_link(b, a, back);
        if second.is_err() {
            self.links.pop();
            self.out[a.index()].pop();
        }
        Ok((first, second?))
    }

    /// Gives a link another capacity, above zero. A link that doesn't exist is left alone.
    pub(crate) fn set_capacity(&mut self, link: LinkId, capacity: Rate) {
        if let Some(link) = self.links.get_mut(link.index()) {
            link.spec.capacity = capacity.max(Rate::from_bps(1));
        }
    }

    /// All nodes; a [`NodeId`] is a position here.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All links; a [`LinkId`] is a position here.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The name of the node `id`; `node N` when it is not of this topology.
    pub fn node_name(&self, id: NodeId) -> Cow<'_, str> {
        match self.nodes.get(id.index()) {
            Some(node) => Cow::Borrowed(&node.name),
            None => Cow::Owned(format!("node {}", id.0)),
        }
    }

    /// The link `id`.
    ///
    /// # Panics
    /// When `id` is not of this topology.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// Links that leave `node`, in order of creation.
    pub fn out(&self, node: NodeId) -> &[LinkId] {
        self.out.get(node.index()).map_or(&[], Vec::as_slice)
    }

    /// Hosts in order of creation.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0u32..)
            .zip(&self.nodes)
            .filter(|(_, node)| node.kind == NodeKind::Host)
            .map(|(number, _)| NodeId(number))
    }

    /// The node of that name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        (0u32..).zip(&self.nodes).find(|(_, node)| node.name == name).map(|(n, _)| NodeId(n))
    }

    /// The first link from one node to the other.
    pub fn link_between(&self, from: NodeId, to: NodeId) -> Option<LinkId> {
        self.out(from).iter().copied().find(|&id| self.link(id).to == to)
    }
}

fn number(len: usize) -> Result<u32, TopologyError> {
    match u32::try_from(len) {
        Ok(number) if len < Topology::MOST => Ok(number),
        _ => Err(TopologyError::TooLarge),
    }
}
