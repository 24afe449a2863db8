//! The plan of a lab for a topology: namespaces, cables with queues at both ends, addresses,
//! routes. Nothing here changes the machine.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use model::{Buffer, LinkId, NodeId, NodeKind, Topology};
use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use crate::Error;

/// What forwards between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switches {
    /// Bridges of the kernel, a namespace for each; where the topology has loops, the kernel's
    /// routing with equal-cost paths in their place.
    #[default]
    Bridge,
    /// Open vSwitch on its user-space datapath, all its bridges in one namespace.
    Ovs,
}

/// How packets are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    Bridged,
    Routed,
    Ovs,
}

/// One end of a cable.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub node: NodeId,
    /// The interface there.
    pub interface: String,
    /// The directed link that leaves by it.
    pub link: LinkId,
    pub mac: String,
}

/// Where a cable with a delay is cut in two, in the namespace of its first end.
#[derive(Clone, Debug)]
pub(crate) struct Splice {
    pub node: NodeId,
    /// What joins the halves unless a run delays what passes.
    pub bridge: String,
    /// The inner ends, by the end of the cable that they belong to.
    pub halves: [String; 2],
    /// Of what comes in at each of them.
    pub delays: [Span; 2],
}

/// The least delay of a link that a lab has: a packet's way through user space takes some 50 µs more.
pub(crate) const LEAST_DELAY: Span = Span::from_micros(200);

impl Splice {
    /// Commands for `ip -batch`: nothing waits.
    pub(crate) fn joined(&self) -> Vec<String> {
        let bridge = &self.bridge;
        self.halves.iter().map(|half| format!("link set {half} master {bridge}")).collect()
    }

    /// The kernel passes nothing on.
    pub(crate) fn parted(&self) -> Vec<String> {
        self.halves.iter().map(|half| format!("link set {half} nomaster")).collect()
    }
}

/// The plan.
#[derive(Clone, Debug)]
pub struct Blueprint {
    pub(crate) forwarding: Forwarding,
    pub(crate) topology: Topology,
    pub(crate) cables: Vec<[End; 2]>,
    /// By node; hosts behind bridges share a network, routers have one each.
    pub(crate) addresses: Vec<Ipv4Addr>,
    /// Whether hosts use segmentation offload.
    pub(crate) segmentation: bool,
    /// Strict priorities at ports of the kernel's switches; one: FIFO.
    pub(crate) levels: u8,
}

/// Most nodes that a lab has: each host knows every other by a static entry.
pub const MOST_NODES: usize = 600;

/// Octets of the Ethernet header, which the kernel's shaper counts and scenarios don't.
pub const ETHERNET: u64 = 14;

impl Blueprint {
    /// Plans `topology`.
    ///
    /// # Errors [`Error::Topology`]: not possible with cables.
    pub fn new(topology: &Topology, switches: Switches) -> Result<Self, Error> {
        let refuse = |what: String| Err(Error::Topology(what));
        let count = topology.nodes().len();
        if count > MOST_NODES {
            return refuse(format!(
                "{count} hosts and switches are too many for one machine; use at most {MOST_NODES}"
            ));
        }
        let cables = cables(topology)?;
        for host in topology.hosts() {
            let at = cables.iter().flatten().filter(|end| end.node == host).count();
            if at != 1 {
                let name = &topology.nodes()[host.index()].name;
                return refuse(format!("host {name} has {at} cables; in the lab each has one"));
            }
        }
        let forwarding = match (switches, has_loop(count, &cables)) {
            (Switches::Bridge, false) => Forwarding::Bridged,
            (Switches::Bridge, true) => Forwarding::Routed,
            (Switches::Ovs, false) => Forwarding::Ovs,
            (Switches::Ovs, true) => {
                return refuse(
                    "the switches form a loop, in which Open vSwitch by itself would flood for \
                     ever; use --switches bridge, which routes, or a single spine"
                        .into(),
                );
            }
        };
        let addresses = topology.nodes().iter().zip(0u32..).map(|(node, number)| {
            // Hosts count from 10.0.0.1, routers from 10.128.0.1.
            let base = if node.kind == NodeKind::Host { 0x0a00_0001 } else { 0x0a80_0001 };
            Ipv4Addr::from(base + number)
        });
        let addresses = addresses.collect();
        let (segmentation, levels) = (false, 1);
        let topology = topology.clone();
        Ok(Self { forwarding, topology, cables, addresses, segmentation, levels })
    }

    /// The address of a node.
    pub fn address(&self, node: NodeId) -> Ipv4Addr {
        self.addresses[node.index()]
    }

    /// Nodes by the name of the namespace that they are in, without the lab's prefix.
    pub(crate) fn rooms(&self) -> BTreeMap<String, Vec<NodeId>> {
        let mut rooms: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
        for number in 0..self.addresses.len() {
            let node = NodeId(u32::try_from(number).unwrap_or(u32::MAX));
            rooms.entry(self.room(node).to_owned()).or_default().push(node);
        }
        rooms
    }

    /// The namespace that a node is in, without the lab's prefix.
    pub(crate) fn room(&self, node: NodeId) -> &str {
        let node = &self.topology.nodes()[node.index()];
        if node.kind == NodeKind::Switch && self.forwarding == Forwarding::Ovs {
            return "ovs";
        }
        &node.name
    }

    /// Of a path: its lowest rate, and of its delays those that the lab leaves out.
    pub(crate) fn bottleneck(&self, path: &[LinkId]) -> (Rate, Span) {
        let specs = path.iter().map(|link| self.topology.link(*link).spec);
        let rate = specs.clone().map(|spec| spec.capacity).min().unwrap_or(Rate::MAX);
        let short = specs.map(|spec| spec.delay).filter(|delay| *delay < LEAST_DELAY);
        (rate, short.fold(Span::ZERO, |sum, delay| sum + delay))
    }

    /// The cables with a delay, where they are cut.
    pub(crate) fn splices(&self) -> impl Iterator<Item = Splice> {
        self.cables.iter().enumerate().filter_map(|(number, ends)| self.splice(number, ends))
    }

    fn splice(&self, number: usize, ends: &[End; 2]) -> Option<Splice> {
        let delays = [&ends[0], &ends[1]].map(|end| self.topology.link(end.link).spec.delay);
        let halves = ["a", "b"].map(|half| format!("delay{number}{half}"));
        let bridge = format!("delay{number}");
        let is_long = delays.iter().any(|delay| *delay >= LEAST_DELAY);
        is_long.then_some(Splice { node: ends[0].node, bridge, halves, delays })
    }

    /// Commands for `ip -batch` in no namespace: the cables.
    pub(crate) fn cable_lines(&self, namespace: impl Fn(&str) -> String, mtu: u32) -> Vec<String> {
        let end = |end: &End| {
            let (interface, mac) = (&end.interface, &end.mac);
            format!("{interface} mtu {mtu} address {mac} netns {}", namespace(self.room(end.node)))
        };
        let lines = |(number, ends): (usize, &[End; 2])| {
            let [a, b] = [&ends[0], &ends[1]].map(end);
            let Some(splice) = self.splice(number, ends) else {
                return vec![format!("link add {a} type veth peer name {b}")];
            };
            let room = namespace(self.room(splice.node));
            let cut = [a, b].into_iter().zip(&splice.halves).map(|(end, half)| {
                format!("link add {end} type veth peer name {half} mtu {mtu} netns {room}")
            });
            cut.collect()
        };
        self.cables.iter().enumerate().flat_map(lines).collect()
    }

    /// Commands for `ip -batch` in the namespace of `nodes`.
    pub(crate) fn address_lines(&self, nodes: &[NodeId]) -> Vec<String> {
        let mut lines = Vec::new();
        for &node in nodes {
            let is_host = self.topology.nodes()[node.index()].kind == NodeKind::Host;
            let bridged = !is_host && self.forwarding == Forwarding::Bridged;
            if bridged {
                lines.push("link add br0 type bridge stp_state 0 mcast_snooping 0".to_owned());
            }
            for end in self.ends(node) {
                let port = &end.interface;
                if !self.segmentation {
                    // A "packet" of the shaper is one of the wire, not 64 KB that are cut up later.
                    lines.push(format!("link set {port} gso_max_segs 1"));
                }
                if bridged {
                    lines.push(format!("link set {port} master br0"));
                }
                lines.push(format!("link set {port} up"));
            }
            match (is_host, self.forwarding) {
                (true, Forwarding::Routed) => self.routed_host(node, &mut lines),
                (true, _) => self.bridged_host(node, &mut lines),
                (false, Forwarding::Bridged) => lines.push("link set br0 up".to_owned()),
                (false, Forwarding::Routed) => self.router(node, &mut lines),
                (false, Forwarding::Ovs) => {}
            }
        }
        for splice in self.splices().filter(|splice| nodes.contains(&splice.node)) {
            let bridge = &splice.bridge;
            lines.push(format!("link add {bridge} type bridge stp_state 0 mcast_snooping 0"));
            lines.extend(splice.joined());
            let ports = splice.halves.iter().chain([bridge]);
            lines.extend(ports.map(|port| format!("link set {port} up")));
        }
        lines
    }

    /// Commands for `ip -batch` in the namespace of `nodes`: cables carry packets of `mtu` octets.
    pub(crate) fn mtu_lines(&self, nodes: &[NodeId], mtu: u32) -> Vec<String> {
        let ends = nodes.iter().flat_map(|node| self.ends(*node)).map(|end| end.interface.clone());
        let splices = self.splices().filter(|splice| nodes.contains(&splice.node));
        let ports = ends.chain(splices.flat_map(|splice| splice.halves));
        ports.map(|port| format!("link set {port} mtu {mtu}")).collect()
    }

    pub(crate) fn ends(&self, node: NodeId) -> impl Iterator<Item = &End> {
        self.cables.iter().flatten().filter(move |end| end.node == node)
    }

    /// The two ends of the cables at `node`, the near one first.
    fn neighbours(&self, node: NodeId) -> impl Iterator<Item = (&End, &End)> {
        self.cables.iter().filter_map(move |[a, b]| match node {
            _ if a.node == node => Some((a, b)),
            _ if b.node == node => Some((b, a)),
            _ => None,
        })
    }

    fn bridged_host(&self, host: NodeId, lines: &mut Vec<String>) {
        lines.push(format!("address add {}/32 dev eth0", self.address(host)));
        for other in self.topology.hosts().filter(|other| *other != host) {
            for end in self.ends(other) {
                let (address, mac) = (self.address(other), &end.mac);
                lines.push(format!("neigh add {address} lladdr {mac} dev eth0 nud permanent"));
            }
        }
    }

    fn routed_host(&self, host: NodeId, lines: &mut Vec<String>) {
        lines.push(format!("address add {}/32 dev eth0", self.address(host)));
        for (_, far) in self.neighbours(host) {
            let gateway = self.address(far.node);
            lines.push(format!("neigh add {gateway} lladdr {} dev eth0 nud permanent", far.mac));
        }
    }

    /// The command for `ip -batch` by which a host reaches all others, with `metrics` of TCP.
    pub(crate) fn route_line(&self, host: NodeId, metrics: &str) -> String {
        let via = match self.forwarding {
            Forwarding::Routed => self.neighbours(host).next().map(|(_, far)| far.node),
            _ => None,
        };
        let via = via.map(|gateway| format!("via {} onlink ", self.address(gateway)));
        let (via, own) = (via.unwrap_or_default(), self.address(host));
        format!("route replace 10.0.0.0/8 {via}dev eth0 src {own} {metrics}")
    }

    fn router(&self, router: NodeId, lines: &mut Vec<String>) {
        lines.push(format!("address add {}/32 dev lo", self.address(router)));
        lines.push("link set lo up".to_owned());
        for (near, far) in self.neighbours(router) {
            let (address, port) = (self.address(far.node), &near.interface);
            lines.push(format!("neigh add {address} lladdr {} dev {port} nud permanent", far.mac));
        }
        for host in self.topology.hosts() {
            let far = self.distances(host);
            let here = far[router.index()];
            let mut line = format!("route add {}/32", self.address(host));
            for (near, next) in self.neighbours(router) {
                if far[next.node.index()].checked_add(1) == Some(here) {
                    let (address, port) = (self.address(next.node), &near.interface);
                    line += &format!(" nexthop via {address} dev {port} onlink");
                }
            }
            if here != u32::MAX {
                lines.push(line);
            }
        }
    }

    /// Hops from each node to `host`; other hosts forward nothing.
    fn distances(&self, host: NodeId) -> Vec<u32> {
        let mut far = vec![u32::MAX; self.addresses.len()];
        far[host.index()] = 0;
        let mut queue = VecDeque::from([host]);
        while let Some(at) = queue.pop_front() {
            if at != host && self.topology.nodes()[at.index()].kind == NodeKind::Host {
                continue;
            }
            for (_, next) in self.neighbours(at) {
                if far[next.node.index()] == u32::MAX {
                    far[next.node.index()] = far[at.index()] + 1;
                    queue.push_back(next.node);
                }
            }
        }
        far
    }

    /// Commands for `tc -batch` in the namespace of `nodes`: each link's rate and queue at the end
    /// that it leaves by. With `lane`, SYNs don't wait behind data, for scenarios whose connections
    /// exist from the start.
    pub(crate) fn shape_lines(&self, nodes: &[NodeId], mtu: u32, lane: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for end in nodes.iter().flat_map(|node| self.ends(*node)) {
            let spec = self.topology.link(end.link).spec;
            let dev = &end.interface;
            let frame = u64::from(mtu) + ETHERNET;
            let rate = spec.capacity.fraction(frame, mtu.into());
            // The burst makes up for timers half a millisecond late. It passes at once after a
            // pause, beside the buffer, so it is no larger; at slow links it is less than a packet,
            // so packets go singly.
            let burst = rate.bytes_in(Span::from_micros(500)).get().max(1);
            let class = |parent: &str, own: &str, rate: Rate, ceil: Rate, priority: u8| {
                let (rate, ceil) = (rate.as_bps(), ceil.as_bps());
                format!(
                    "class add dev {dev} parent {parent} classid {own} htb rate {rate}bit ceil \
                     {ceil}bit burst {burst}b cburst {burst}b quantum {frame} prio {priority}"
                )
            };
            let buffer = match spec.buffer {
                Buffer::Packets(packets) => format!("pfifo limit {packets}"),
                Buffer::Bytes(bytes) => format!("bfifo limit {}", bytes.get()),
                Buffer::Unlimited => "pfifo limit 1000000".to_owned(),
            };
            let levels = self.classes(end);
            let default = levels.first().map_or("1:2", String::as_str);
            let number = default.trim_start_matches("1:");
            lines.push(format!("qdisc replace dev {dev} root handle 1: htb default {number}"));
            let least = rate.fraction(1, 100);
            let mut rest = rate;
            if lane || !levels.is_empty() {
                lines.push(class("1:", "1:1", rate, rate, 0));
            }
            if lane {
                rest = Rate::from_bps(rate.as_bps() - least.as_bps());
                lines.push(class("1:1", "1:3", least, rate, 0));
                lines.push(format!("qdisc add dev {dev} parent 1:3 handle 30: pfifo limit 1000"));
                lines.push(format!(
                    "filter add dev {dev} parent 1: protocol ip prio 1 u32 match ip protocol 6 \
                     0xff match u8 0x02 0x02 at 33 classid 1:3"
                ));
            }
            if levels.is_empty() {
                let parent = if lane { "1:1" } else { "1:" };
                lines.push(class(parent, "1:2", rest, rate, u8::from(lane)));
                lines.push(format!("qdisc add dev {dev} parent 1:2 handle 20: {buffer}"));
            }
            // All but a thousandth of the rate is borrowed, first by the highest priority.
            for (priority, own) in (1..).zip(&levels) {
                lines.push(class("1:1", own, rate.fraction(1, 1000), rate, priority));
                let handle = 0x40 + priority;
                lines.push(format!("qdisc add dev {dev} parent {own} handle {handle:x}: {buffer}"));
            }
        }
        lines
    }

    /// The classes of the priorities at the port of `end`, as `tc` writes them, highest first; none
    /// for FIFO.
    pub(crate) fn classes(&self, end: &End) -> Vec<String> {
        let is_switch = self.topology.nodes()[end.node.index()].kind == NodeKind::Switch;
        if self.levels < 2 || !is_switch || self.forwarding == Forwarding::Ovs {
            return Vec::new();
        }
        (0..self.levels).map(|level| format!("1:{:x}", 0x10 + level)).collect()
    }
}

/// Pairs links with their reverse links.
fn cables(topology: &Topology) -> Result<Vec<[End; 2]>, Error> {
    let mut open: BTreeMap<(NodeId, NodeId), VecDeque<LinkId>> = BTreeMap::new();
    for number in 0..topology.links().len() {
        let id = LinkId(u32::try_from(number).unwrap_or(u32::MAX));
        let link = topology.link(id);
        open.entry((link.from, link.to)).or_default().push_back(id);
    }
    let mut cables: Vec<[End; 2]> = Vec::new();
    let keys: Vec<_> = open.keys().copied().filter(|(from, to)| from < to).collect();
    let name = |node: NodeId| topology.nodes()[node.index()].name.as_str();
    for (from, to) in keys {
        let there = open.remove(&(from, to)).unwrap_or_default();
        let back = open.remove(&(to, from)).unwrap_or_default();
        if there.len() != back.len() {
            return Err(one_way(name(from), name(to)));
        }
        for (there, back) in there.into_iter().zip(back) {
            let number = cables.len();
            let end = |node: NodeId, link: LinkId, side: char| {
                let is_host = topology.nodes()[node.index()].kind == NodeKind::Host;
                let interface =
                    if is_host { "eth0".to_owned() } else { format!("c{number}{side}") };
                let [low, high] = [number & 0xff, number >> 8];
                let mac = format!("02:57:4d:{high:02x}:{low:02x}:0{side}");
                End { node, interface, link, mac }
            };
            cables.push([end(from, there, 'a'), end(to, back, 'b')]);
        }
    }
    if let Some(((from, to), _)) = open.into_iter().next() {
        return Err(one_way(name(from), name(to)));
    }
    Ok(cables)
}

fn one_way(from: &str, to: &str) -> Error {
    Error::Topology(format!(
        "between {from} and {to} a link goes one way only; a cable needs one each way"
    ))
}

/// Whether the cables have a loop.
fn has_loop(nodes: usize, cables: &[[End; 2]]) -> bool {
    let mut parent: Vec<usize> = (0..nodes).collect();
    let root = |parent: &[usize], mut at: usize| {
        while parent[at] != at {
            at = parent[at];
        }
        at
    };
    cables.iter().any(|[a, b]| {
        let (a, b) = (root(&parent, a.node.index()), root(&parent, b.node.index()));
        parent[a] = b;
        a == b
    })
}

#[cfg(test)]
mod tests {
    use model::LinkSpec;
    use model::build::{Access, leaf_spine, star};
    use units::Bytes;

    use super::*;

    fn spec(buffer: Buffer) -> LinkSpec {
        let capacity = Rate::from_mbps(100);
        LinkSpec { capacity, delay: Span::from_micros(1), buffer, mark: None }
    }

    fn access() -> Access {
        Access { link: spec(Buffer::Packets(100)), nic: Buffer::Unlimited }
    }

    #[test]
    fn a_star_is_bridged_and_two_spines_are_routed() {
        let star = star(3, &access()).unwrap();
        let plan = Blueprint::new(&star, Switches::Bridge).unwrap();
        assert_eq!(plan.forwarding, Forwarding::Bridged);
        assert_eq!(plan.rooms().into_keys().collect::<Vec<_>>(), ["h0", "h1", "h2", "s0"]);
        let plan = Blueprint::new(&star, Switches::Ovs).unwrap();
        assert_eq!(plan.rooms().into_keys().collect::<Vec<_>>(), ["h0", "h1", "h2", "ovs"]);

        let fabric = spec(Buffer::Bytes(Bytes::new(30_000)));
        let fabric = leaf_spine(2, 2, 1, &access(), &fabric).unwrap();
        let plan = Blueprint::new(&fabric, Switches::Bridge).unwrap();
        assert_eq!(plan.forwarding, Forwarding::Routed);
        let leaf = fabric.node_named("leaf0").unwrap();
        let far = fabric.node_named("h1").unwrap();
        let lines = plan.address_lines(&[leaf]);
        let route = format!("route add {}/32", plan.address(far));
        let route = lines.iter().find(|line| line.starts_with(&route)).unwrap();
        assert_eq!(route.matches("nexthop").count(), 2, "both spines are as near: {route}");
        let refused = Blueprint::new(&fabric, Switches::Ovs).unwrap_err().to_string();
        assert!(refused.contains("--switches bridge"), "{refused}");
    }

    #[test]
    fn a_link_is_shaped_as_the_scenario_counts() {
        let star = star(2, &access()).unwrap();
        let plan = Blueprint::new(&star, Switches::Bridge).unwrap();
        let switch = star.node_named("s0").unwrap();
        let lines = plan.shape_lines(&[switch], 1500, false).join("\n");
        // 100 Mbit/s of 1500-byte packets, each 14 octets longer where HTB counts.
        assert!(lines.contains("rate 100933333bit ceil 100933333bit burst 6308b"), "{lines}");
        assert!(lines.contains("parent 1:2 handle 20: pfifo limit 100"), "{lines}");
        let host = plan.shape_lines(&[star.node_named("h0").unwrap()], 1500, true).join("\n");
        assert!(host.contains("dev eth0 parent 1:2 handle 20: pfifo limit 1000000"), "{host}");
        assert!(host.contains("match u8 0x02 0x02 at 33 classid 1:3"), "{host}");
    }

    #[test]
    fn a_switch_serves_priorities_and_a_host_does_not() {
        let star = star(2, &access()).unwrap();
        let mut plan = Blueprint::new(&star, Switches::Bridge).unwrap();
        plan.levels = 3;
        let of = |plan: &Blueprint, name: &str| {
            plan.shape_lines(&[star.node_named(name).unwrap()], 1500, false).join("\n")
        };
        let switch = of(&plan, "s0");
        assert!(switch.contains("root handle 1: htb default 10"), "{switch}");
        for (class, priority, handle) in
            [("1:10", 1, "41:"), ("1:11", 2, "42:"), ("1:12", 3, "43:")]
        {
            let own = format!("parent 1:1 classid {class} htb rate 100933bit ceil 100933333bit");
            let line = switch.lines().find(|line| line.contains(&own)).unwrap();
            assert!(line.ends_with(&format!("prio {priority}")), "{line}");
            let queue = format!("parent {class} handle {handle} pfifo limit 100");
            assert_eq!(switch.matches(&queue).count(), 2, "{switch}");
        }
        assert!(!of(&plan, "h0").contains("classid 1:10"));
        let mut plan = Blueprint::new(&star, Switches::Ovs).unwrap();
        plan.levels = 3;
        assert!(!of(&plan, "s0").contains("classid 1:10"));
    }

    #[test]
    fn what_cables_cannot_do_is_refused() {
        let mut topology = Topology::new();
        let a = topology.add_node("a".into(), NodeKind::Host).unwrap();
        let b = topology.add_node("b".into(), NodeKind::Host).unwrap();
        topology.add_link(a, b, spec(Buffer::Unlimited)).unwrap();
        let refused = Blueprint::new(&topology, Switches::Bridge).unwrap_err().to_string();
        assert!(refused.contains("between a and b a link goes one way only"), "{refused}");
        topology.add_link(b, a, spec(Buffer::Unlimited)).unwrap();
        topology.connect(a, b, spec(Buffer::Unlimited), spec(Buffer::Unlimited)).unwrap();
        let refused = Blueprint::new(&topology, Switches::Bridge).unwrap_err().to_string();
        assert!(refused.contains("host a has 2 cables"), "{refused}");
    }
}
