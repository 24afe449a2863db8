//! Fan-out requests: front ends ask for many small objects, each held by several servers, one
//! request after the other (SICC, section 4). Streams: `objects-N` and `overload-N` of the front end N.
//!
//! The policy decides how a request is gathered ([`model::HubOrder`]), and [`front`] carries it out as [`model::gather`] says:
//! every query and answer is a flow of its own, and each hub has a connection to its parent.

mod active;
mod front;
mod hub;
mod router;
mod servers;

use std::sync::Arc;

use engine::random::Stream;
use engine::{Application, Streams};
use model::{JobId, NodeId, Request};
use rand::RngExt;
use units::{Rate, Span};

use crate::ParameterError;
use crate::error::require;
use servers::Servers;

/// Fan-out requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// The front ends; the other hosts hold objects too.
    pub fronts: Vec<NodeId>,
    /// Requests of each front end, the next when the one before has all its objects.
    pub requests: u32,
    /// Objects of a request.
    pub objects: u32,
    /// Payload of an object: evenly distributed between these, octets, both ends included.
    pub sizes: (u32, u32),
    /// Servers that hold each object, drawn from all but the front end.
    pub copies: u32,
    /// Octets by which a query names an object.
    pub query: u32,
    /// Octets by which a hub is told its speed or its parent; of none it is told at once.
    pub order: u32,
    /// Time between two samples that a front end takes of hubs and switch.
    pub period: Span,
    /// Servers that can't keep up.
    pub overload: Option<Overload>,
    /// A hub that dies.
    pub death: Option<Death>,
}

/// Servers that can't keep up, whoever asks them (SICC, section 4.4, has hubs that can't).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// The probability that a server is overloaded, drawn anew for each request.
    pub probability: f64,
    /// How fast such a server sends, frame bytes.
    pub rate: Rate,
    /// Whether front ends know as a request begins.
    pub known: bool,
}

/// The death of a hub in each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which hub, by its place among the hubs.
    pub hub: u32,
    /// How long after the request began.
    pub after: Span,
    /// How long until the front end knows.
    pub detection: Span,
}

impl Gather {
    /// Most objects of a request.
    pub const MOST_OBJECTS: u32 = 1 << 20;

    /// Checks that the parameters go together for these hosts.
    ///
    /// # Errors
    /// The parameter that doesn't, and why.
    pub fn check(&self, hosts: &[NodeId]) -> Result<(), ParameterError> {
        let servers = hosts.len().saturating_sub(1);
        let all = self.fronts.iter().all(|front| hosts.contains(front));
        require(all && !self.fronts.is_empty(), "fronts", || {
            "they are not all among the hosts, or none; name at least one host".to_owned()
        })?;
        require(self.requests > 0, "requests", || "0; there must be at least 1".to_owned())?;
        require((1..=Self::MOST_OBJECTS).contains(&self.objects), "objects", || {
            format!("{} is out of range; write 1 to {}", self.objects, Self::MOST_OBJECTS)
        })?;
        require(self.sizes.0 > 0 && self.sizes.0 <= self.sizes.1, "smallest", || {
            format!("{} B is zero or above the largest, {} B", self.sizes.0, self.sizes.1)
        })?;
        require((1..=servers).contains(&(self.copies as usize)), "copies", || {
            format!("{} copies don't fit {servers} servers", self.copies)
        })?;
        require(self.period > Span::ZERO, "period", || "0; it must be above zero".to_owned())
    }

    /// What runs on `hosts`.
    pub fn application<'a, W: Streams + 'a>(
        &self,
        hosts: &[NodeId],
        seed: u64,
    ) -> Box<dyn Application<W> + 'a> {
        Box::new(front::Fronts::new(self.clone(), hosts.to_vec(), seed))
    }

    /// The next request of a front end.
    fn draw(&self, id: JobId, front: NodeId, hosts: &[NodeId], random: &mut Stream) -> Request {
        let objects = self.objects as usize;
        let copies = self.copies as usize;
        let mut sizes = Vec::with_capacity(objects);
        let mut holders: Vec<NodeId> = Vec::with_capacity(objects * copies);
        for _ in 0..objects {
            sizes.push(random.random_range(self.sizes.0..=self.sizes.1));
            let start = holders.len();
            while holders.len() < start + copies {
                let server = hosts[random.random_range(0..hosts.len())];
                if server != front && !holders[start..].contains(&server) {
                    holders.push(server);
                }
            }
        }
        Request { id, front, sizes, holders, copies, spare: Vec::new() }
    }
}

/// A front end between requests.
struct Asker {
    node: NodeId,
    left: u32,
    random: Stream,
    overload: Stream,
}

impl Asker {
    /// The next request, and what its servers can send.
    fn next(
        &mut self,
        plan: &Gather,
        hosts: &[NodeId],
        id: JobId,
    ) -> Option<(Arc<Request>, Servers)> {
        self.left = self.left.checked_sub(1)?;
        let mut request = plan.draw(id, self.node, hosts, &mut self.random);
        let mut servers = Servers::new(plan.overload, self.overload.random());
        if plan.overload.is_some_and(|overload| overload.known) {
            request.spare = servers.known(&request.holders);
        }
        Some((Arc::new(request), servers))
    }
}
