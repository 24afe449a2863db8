//! The global-view table (SDTCP, section 3.3): every open connection, the ports that it passes, and
//! its class. From SYN, FIN and flow statistics alone; what the two classes are, the policy says.
//!
//! Each port keeps its flows in two plain lists, so that a decision about a port reads nothing else.
//!
//! The round trip over empty queues of what passes the same ports is the least that was measured of any of
//! it: a handshake that met a full queue says nothing about another. Until one is measured it is that of the
//! delays that the topology is given.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::{FlowId, LinkId, Network, NodeId, NodeKind};
use units::{Bytes, Span, Time};

use crate::roster::exists;

/// A connection that no statistics have listed for so long is forgotten: its FIN was lost.
const FORGOTTEN: Span = Span::from_secs(60);

/// A switch port and the flows through it.
#[derive(Debug, Default)]
pub(crate) struct Port {
    /// The flows of each class; every flow starts in the first.
    pub(crate) flows: [Vec<FlowId>; 2],
    /// Sum of the flows' round trips, ns.
    round_trips: u128,
}

/// The connections that pass the same ports.
#[derive(Debug, Default)]
struct Way {
    count: u64,
    /// Sum of their round trips by the delays of the topology, ns.
    configured: u128,
    /// The least that was measured.
    least: Option<Span>,
}

impl Way {
    /// Sum of their round trips, ns.
    fn round_trips(&self) -> u128 {
        let measured =
            self.least.map(|least| u128::from(least.as_nanos()) * u128::from(self.count));
        measured.unwrap_or(self.configured)
    }
}

impl Port {
    /// Number of flows.
    pub(crate) fn count(&self) -> u64 {
        (self.flows[0].len() + self.flows[1].len()) as u64
    }

    /// Mean round trip of its flows over empty queues.
    pub(crate) fn round_trip(&self) -> Span {
        let mean = self.round_trips.checked_div(u128::from(self.count())).unwrap_or(0);
        Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

#[derive(Debug)]
struct Connection {
    ends: (NodeId, NodeId),
    opened: Time,
    /// Frame bytes so far, and when statistics last listed it.
    carried: Bytes,
    listed: Time,
    class: usize,
    /// By the delays of the topology.
    round_trip: Span,
    /// The ports, and its place in the list of each.
    ports: Vec<(LinkId, usize)>,
}

/// What statistics say of a connection.
pub(crate) struct ConnectionStats {
    /// Time since its SYN.
    pub(crate) age: Span,
    /// Frame bytes so far.
    pub(crate) carried: Bytes,
    /// Whether they are more than at the statistics before.
    pub(crate) grew: bool,
}

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    flows: BTreeMap<FlowId, Connection>,
    ports: BTreeMap<LinkId, Port>,
    /// By the ports, as long as a connection passes them.
    ways: BTreeMap<Vec<LinkId>, Way>,
}

impl Connections {
    /// A SYN. Returns the ports of the connection; none when a number is unknown or in use.
    pub(crate) fn open(
        &mut self,
        now: Time,
        network: &Network,
        flow: FlowId,
        ends: (NodeId, NodeId),
        segment: Bytes,
    ) -> Vec<LinkId> {
        let known = exists(network, ends.0) && exists(network, ends.1);
        if !known || self.flows.contains_key(&flow) {
            return Vec::new();
        }
        let connection = Connection {
            ends,
            opened: now,
            carried: Bytes::ZERO,
            listed: now,
            class: 0,
            round_trip: Span::ZERO,
            ports: Vec::new(),
        };
        self.flows.insert(flow, connection);
        self.enter(network, flow, segment)
    }

    /// Puts a connection back into the first class, and returns its ports if that changed.
    pub(crate) fn wake(&mut self, flow: FlowId) -> Vec<LinkId> {
        let Some(connection) = self.flows.get(&flow).filter(|connection| connection.class != 0)
        else {
            return Vec::new();
        };
        let links = connection.ports.iter().map(|(link, _)| *link).collect();
        self.reclassify(flow, 0);
        links
    }

    /// A FIN: the connection is forgotten. Returns the ports it was at.
    pub(crate) fn close(&mut self, flow: FlowId) -> Vec<LinkId> {
        let links = self.exit(flow);
        self.flows.remove(&flow);
        links
    }

    /// A link failed or returned: connections are at the ports of their new paths. Returns the
    /// ports with changes, perhaps more than once.
    pub(crate) fn reroute(&mut self, network: &Network, segment: Bytes) -> Vec<LinkId> {
        let mut changed = Vec::new();
        let flows: Vec<FlowId> = self.flows.keys().copied().collect();
        for flow in flows {
            changed.extend(self.exit(flow));
            changed.extend(self.enter(network, flow, segment));
        }
        changed
    }

    /// Flow statistics: each connection listed is of the class that `classify` says. What has long
    /// not been listed is closed. Returns the ports with changes, perhaps more than once.
    pub(crate) fn carried(
        &mut self,
        now: Time,
        flows: &[(FlowId, Bytes)],
        classify: impl Fn(&ConnectionStats) -> usize,
    ) -> Vec<LinkId> {
        let mut changed = Vec::new();
        for &(flow, bytes) in flows {
            let Some(connection) = self.flows.get_mut(&flow) else {
                continue;
            };
            let grew = bytes > connection.carried;
            connection.carried = connection.carried.max(bytes);
            connection.listed = now;
            let age = now.since(connection.opened);
            let class =
                classify(&ConnectionStats { age, carried: connection.carried, grew }).min(1);
            if class != connection.class {
                self.reclassify(flow, class);
                changed.extend(self.flows[&flow].ports.iter().map(|(link, _)| *link));
            }
        }
        let forgotten = |connection: &Connection| now.since(connection.listed) > FORGOTTEN;
        let forgotten: Vec<FlowId> =
            self.flows.iter().filter(|(_, c)| forgotten(c)).map(|(flow, _)| *flow).collect();
        for flow in forgotten {
            changed.extend(self.close(flow));
        }
        changed
    }

    /// Round trips were measured. Returns the ports where the mean has changed, perhaps more than once.
    pub(crate) fn timed(&mut self, flows: &[(FlowId, Span)]) -> Vec<LinkId> {
        let mut changed = Vec::new();
        for &(flow, took) in flows.iter().filter(|(_, took)| *took > Span::ZERO) {
            let Some(connection) = self.flows.get(&flow) else {
                continue;
            };
            let links: Vec<LinkId> = connection.ports.iter().map(|(link, _)| *link).collect();
            let way = self.ways.get(&links);
            if way.is_some_and(|way| way.least.is_none_or(|least| took < least)) {
                self.pass(&links, |way| way.least = Some(took));
                changed.extend(links);
            }
        }
        changed
    }

    /// Changes what passes the same ports, and so the round trips of each.
    fn pass(&mut self, links: &[LinkId], change: impl FnOnce(&mut Way)) {
        let way = self.ways.entry(links.into()).or_default();
        let before = way.round_trips();
        change(way);
        let after = way.round_trips();
        if way.count == 0 {
            self.ways.remove(links);
        }
        for link in links {
            if let Some(port) = self.ports.get_mut(link) {
                port.round_trips = port.round_trips - before + after;
            }
        }
    }

    /// A port with flows.
    pub(crate) fn port(&self, link: LinkId) -> Option<&Port> {
        self.ports.get(&link)
    }

    /// Moves a connection to the lists of another class.
    fn reclassify(&mut self, flow: FlowId, class: usize) {
        let Some(connection) = self.flows.get_mut(&flow) else {
            return;
        };
        let was = core::mem::replace(&mut connection.class, class);
        let mut ports = core::mem::take(&mut connection.ports);
        for (link, place) in &mut ports {
            self.leave(*link, was, *place);
            if let Some(port) = self.ports.get_mut(link) {
                *place = port.flows[class].len();
                port.flows[class].push(flow);
            }
        }
        if let Some(connection) = self.flows.get_mut(&flow) {
            connection.ports = ports;
        }
    }

    /// Enters a connection at the ports of its path, if there is one.
    fn enter(&mut self, network: &Network, flow: FlowId, segment: Bytes) -> Vec<LinkId> {
        let Some(connection) = self.flows.get_mut(&flow) else {
            return Vec::new();
        };
        let (src, dst) = connection.ends;
        let mut links = Vec::new();
        network.path(src, dst, u64::from(flow.0), &mut links);
        let topology = network.topology();
        let crossing = |link: &LinkId| {
            let spec = topology.link(*link).spec;
            spec.delay + spec.delay + spec.capacity.time_for(segment)
        };
        connection.round_trip = links.iter().map(crossing).fold(Span::ZERO, |sum, one| sum + one);
        let is_port = |link: LinkId| {
            topology.nodes()[topology.link(link).from.index()].kind == NodeKind::Switch
        };
        links.retain(|link| is_port(*link));
        for link in &links {
            let port = self.ports.entry(*link).or_default();
            let list = &mut port.flows[connection.class];
            connection.ports.push((*link, list.len()));
            list.push(flow);
        }
        let round_trip = u128::from(connection.round_trip.as_nanos());
        self.pass(&links, |way| {
            way.count += 1;
            way.configured += round_trip;
        });
        links
    }

    /// Takes a connection off its ports, and returns them.
    fn exit(&mut self, flow: FlowId) -> Vec<LinkId> {
        let Some(connection) = self.flows.get_mut(&flow) else {
            return Vec::new();
        };
        let (class, round_trip) = (connection.class, u128::from(connection.round_trip.as_nanos()));
        let ports = core::mem::take(&mut connection.ports);
        let links: Vec<LinkId> = ports.iter().map(|(link, _)| *link).collect();
        self.pass(&links, |way| {
            way.count -= 1;
            way.configured -= round_trip;
        });
        for (link, place) in &ports {
            self.leave(*link, class, *place);
            if self.ports.get(link).is_some_and(|port| port.count() == 0) {
                self.ports.remove(link);
            }
        }
        links
    }

    /// Takes the flow at `place` off a port's list; the last one moves there.
    fn leave(&mut self, link: LinkId, class: usize, place: usize) {
        let Some(port) = self.ports.get_mut(&link) else {
            return;
        };
        let list = &mut port.flows[class];
        list.swap_remove(place);
        let Some(moved) = list.get(place) else {
            return;
        };
        let moved = self.flows.get_mut(moved);
        let ports = moved.into_iter().flat_map(|moved| &mut moved.ports);
        for (_, position) in ports.filter(|(at, _)| *at == link) {
            *position = place;
        }
    }
}
