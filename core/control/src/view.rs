//! What the controller knows of the network: names, addresses and ports on one side, the numbers of
//! the model on the other. Declared and discovered become one topology; where they contradict each
//! other, what is declared wins and the contradiction is told.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use model::{Buffer, FlowId, LinkId, LinkSpec, Network, NodeId, NodeKind, Severity};
use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

use crate::config::{Config, ConfigError, Limits};
use crate::contradictions::Contradictions;
use crate::message::ChannelId;
use crate::status::CongestionStatus;

/// Addresses that may be learnt, for each host that may be, and of one host.
const ADDRESSES: usize = 16;
const ADDRESSES_OF_ONE: usize = 1_023;

/// What is learnt at a full port takes the place of what was silent there for so long.
const STAY: Span = Span::from_secs(30);

/// It is looked for hosts that no agent acts for at most so often.
const LOOK: Span = Span::from_secs(1);

/// What a host shows of itself at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shown {
    Address(IpAddr),
    Ethernet([u8; 6]),
}

impl Shown {
    const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Address(_), Self::Address(_)) | (Self::Ethernet(_), Self::Ethernet(_))
        )
    }
}

/// What became of what a host shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// It was known, or is another host's.
    Known,
    /// It is learnt.
    New,
    /// There is no room for it.
    Full,
}

/// How the network has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// A link is up, or down.
    State(LinkId, bool),
    /// A cable was found; both directions of it are up.
    Found([LinkId; 2]),
}

/// What the network is to be brought in line with.
enum Unsettled {
    /// What is known of a link.
    Link(LinkId),
    /// A cable that was found.
    Cable { from: (NodeId, u32), to: (NodeId, Option<u32>), spec: LinkSpec, guessed: bool },
}

/// The network and its names.
pub(crate) struct View {
    network: Network,
    names: BTreeMap<String, NodeId>,
    /// By the address's number.
    addresses: Addresses,
    /// The same, by host.
    addressed: BTreeSet<(NodeId, IpAddr)>,
    ethernet: BTreeMap<[u8; 6], NodeId>,
    datapaths: BTreeMap<u64, NodeId>,
    /// The link that leaves a switch by a port.
    ports: BTreeMap<(NodeId, u32), LinkId>,
    interfaces: BTreeMap<(NodeId, String), LinkId>,
    /// By [`LinkId`].
    links: Vec<LinkView>,
    /// Hosts that were learnt.
    learnt: usize,
    /// How many nodes the configuration names; they come first.
    declared: usize,
    /// Switches that were learnt.
    learnt_switches: usize,
    /// Addresses that were learnt from agents, of all hosts.
    learnt_addresses: usize,
    /// What hosts have shown of themselves at their ports, and when last.
    shown: BTreeMap<NodeId, BTreeMap<Shown, Time>>,
    /// How much that is.
    shown_in_all: usize,
    /// Hosts that agents have named, which agent's, and when it last acted for them.
    named_by: BTreeMap<NodeId, (String, Time)>,
    /// When it was last looked for whom none acts.
    looked: Time,
    /// Nodes that were such hosts, or switches that nobody declared, and are nobody now.
    vacant: Vec<NodeId>,
    /// What was seen of links since [`View::settle`] had nothing more to do.
    unsettled: VecDeque<Unsettled>,
    /// Of what was seen in the network.
    contradictions: Contradictions<1000>,
}

/// What is known of a link beside its capacity.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkView {
    pub(crate) declared: bool,
    /// Its capacity is a guess: neither was it declared nor did the port tell it.
    pub(crate) guessed: bool,
    /// The OpenFlow port that it leaves by.
    pub(crate) port: Option<u32>,
    pub(crate) interface: String,
    /// The other direction of its cable.
    pub(crate) back: Option<LinkId>,
    /// When a probe or a host was last seen on it.
    pub(crate) seen: Option<Time>,
    /// What its port says.
    pub(crate) port_down: bool,
    /// What was discovered and isn't seen any more.
    pub(crate) lost: bool,
    /// What was last said of its queue, and by which agent, where not by its switch.
    pub(crate) congested: Option<CongestionStatus>,
    pub(crate) told_by: Option<ChannelId>,
}

impl View {
    pub(crate) fn new(config: &mut Config) -> Result<Self, ConfigError> {
        let topology = core::mem::take(&mut config.topology);
        let error = |field: String, reason: &str| Err(ConfigError { field, reason: reason.into() });
        let mut names = BTreeMap::new();
        for (number, node) in (0u32..).zip(topology.nodes()) {
            if names.insert(node.name.clone(), NodeId(number)).is_some() {
                return error(
                    format!("topology.{}", node.name),
                    "the name is taken; choose another",
                );
            }
        }
        let kind = |node: NodeId| topology.nodes().get(node.index()).map(|node| node.kind);
        let (mut addresses, mut addressed) = (BTreeMap::<_, NodeId>::new(), BTreeSet::new());
        let mut ethernet = BTreeMap::new();
        for (i, host) in config.hosts.iter().enumerate() {
            if kind(host.node) != Some(NodeKind::Host) {
                return error(format!("hosts[{i}].node"), "is no host of the topology; name one");
            }
            let at =
                |key: &str| format!("[[host]] {}, {key}", topology.nodes()[host.node.index()].name);
            for address in &host.addresses {
                if !is_unicast(*address) {
                    let reason = format!("{address} is no host's; give it one of its own");
                    return error(at("addresses"), &reason);
                }
                addressed.insert((host.node, *address));
                if let Some(before) = addresses.insert(number(*address), host.node) {
                    let other = &topology.nodes()[before.index()].name;
                    let reason = format!("{address} is an address of {other}; give each its own");
                    return error(at("addresses"), &reason);
                }
            }
            for address in &host.ethernet {
                if ethernet.insert(*address, host.node).is_some() {
                    let reason = "an address belongs to two hosts; give each its own";
                    return error(at("ethernet"), reason);
                }
            }
        }
        let mut datapaths = BTreeMap::new();
        for (i, switch) in config.switches.iter().enumerate() {
            if kind(switch.node) != Some(NodeKind::Switch) {
                return error(format!("switches[{i}].node"), "is no switch of the topology");
            }
            if datapaths.insert(switch.datapath_id, switch.node).is_some() {
                let reason = "another switch has this number; give each its own";
                return error(format!("switches[{i}].datapath_id"), reason);
            }
            let name = topology.nodes().get(switch.node.index()).map_or("", |node| &node.name);
            if numbered(name).is_some_and(|number| number != switch.datapath_id) {
                let reason = format!(
                    "{name} is what a switch of another number is called that nobody declared; \
                     choose another name"
                );
                return error(format!("switches[{i}].node"), &reason);
            }
        }
        let mut links = Vec::new();
        links.resize_with(topology.links().len(), || LinkView {
            declared: true,
            ..LinkView::default()
        });
        pair(&topology, &mut links);
        let mut view = Self {
            declared: topology.nodes().len(),
            network: Network::new(topology),
            names,
            addressed,
            addresses: Addresses {
                declared: addresses.into_iter().collect(),
                learnt: BTreeMap::new(),
            },
            ethernet,
            datapaths,
            ports: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            links,
            learnt: 0,
            learnt_switches: 0,
            learnt_addresses: 0,
            shown: BTreeMap::new(),
            shown_in_all: 0,
            named_by: BTreeMap::new(),
            looked: Time::ZERO,
            vacant: Vec::new(),
            unsettled: VecDeque::new(),
            contradictions: Contradictions::default(),
        };
        for (i, port) in config.ports.iter().enumerate() {
            let Some(link) = view.network.topology().links().get(port.link.index()) else {
                return error(format!("ports[{i}].link"), "is no link of the topology");
            };
            let from = link.from;
            if let Some(number) = port.port
                && view.ports.insert((from, number), port.link).is_some()
            {
                let reason = "another link leaves by this port; give each its own";
                return error(format!("ports[{i}].port"), reason);
            }
            if !port.interface.is_empty() {
                let taken = view.interfaces.insert((from, port.interface.clone()), port.link);
                if taken.is_some() {
                    let reason = "another link leaves by this interface; give each its own";
                    return error(format!("ports[{i}].interface"), reason);
                }
            }
            let known = &mut view.links[port.link.index()];
            known.port = port.port;
            known.interface.clone_from(&port.interface);
        }
        Ok(view)
    }

    /// The network, by numbers.
    pub(crate) const fn network(&self) -> &Network {
        &self.network
    }

    /// What is known of a link.
    pub(crate) fn link(&self, link: LinkId) -> &LinkView {
        &self.links[link.index()]
    }

    /// The same of all, by [`LinkId`].
    pub(crate) fn links(&self) -> &[LinkView] {
        &self.links
    }

    /// How many hosts were learnt.
    pub(crate) const fn learnt(&self) -> usize {
        self.learnt
    }

    /// What was seen in the network that contradicts what is known.
    pub(crate) const fn contradictions(&self) -> &Contradictions<1000> {
        &self.contradictions
    }

    /// Something was seen that contradicts what is known.
    pub(crate) fn contradict(&mut self, now: Time, what: String) {
        self.contradictions.note(now, what);
    }

    pub(crate) fn node_name(&self, node: NodeId) -> &str {
        self.network.topology().nodes().get(node.index()).map_or("?", |node| node.name.as_str())
    }

    pub(crate) fn link_name(&self, link: LinkId) -> String {
        let link = self.network.topology().link(link);
        format!("{} -> {}", self.node_name(link.from), self.node_name(link.to))
    }

    pub(crate) fn kind(&self, node: NodeId) -> Option<NodeKind> {
        self.network.topology().nodes().get(node.index()).map(|node| node.kind)
    }

    pub(crate) fn is_switch(&self, node: NodeId) -> bool {
        self.kind(node) == Some(NodeKind::Switch)
    }

    /// The node that a link leaves.
    pub(crate) fn start(&self, link: LinkId) -> NodeId {
        self.network.topology().link(link).from
    }

    /// The hosts of a connection.
    pub(crate) fn ends(&self, connection: &Connection) -> Option<(NodeId, NodeId)> {
        let src = self.host_at(connection.source.ip())?;
        Some((src, self.host_at(connection.destination.ip())?))
    }

    /// The links between two nodes; of several shortest paths, `key` chooses one.
    pub(crate) fn path(&self, (from, to): (NodeId, NodeId), key: u64) -> Vec<LinkId> {
        let mut path = Vec::new();
        self.network.path(from, to, key, &mut path);
        path
    }

    /// The links of a flow's path, and what each carries.
    pub(crate) fn capacities(&self, ends: (NodeId, NodeId), flow: FlowId) -> Vec<(LinkId, Rate)> {
        let path = self.path(ends, u64::from(flow.0)).into_iter();
        path.map(|link| (link, self.network.topology().link(link).spec.capacity)).collect()
    }

    /// The first switch of a path.
    pub(crate) fn entrance(&self, ends: (NodeId, NodeId), key: u64) -> Option<NodeId> {
        let mut nodes = self.path(ends, key).into_iter().map(|link| self.start(link));
        nodes.find(|node| self.is_switch(*node))
    }

    pub(crate) fn named(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    pub(crate) fn host_at(&self, address: IpAddr) -> Option<NodeId> {
        self.addresses.get(number(address))
    }

    pub(crate) fn host_with(&self, ethernet: [u8; 6]) -> Option<NodeId> {
        self.ethernet.get(&ethernet).copied()
    }

    pub(crate) fn switch_of(&self, datapath_id: u64) -> Option<NodeId> {
        self.datapaths.get(&datapath_id).copied()
    }

    pub(crate) fn datapath_of(&self, node: NodeId) -> Option<u64> {
        self.datapaths.iter().find(|(_, known)| **known == node).map(|(number, _)| *number)
    }

    pub(crate) fn link_at(&self, switch: NodeId, port: u32) -> Option<LinkId> {
        self.ports.get(&(switch, port)).copied()
    }

    pub(crate) fn link_by(&self, node: NodeId, interface: &str) -> Option<LinkId> {
        self.interfaces.get(&(node, interface.into())).copied()
    }

    /// All addresses and whose they are.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (IpAddr, NodeId)> + '_ {
        self.addressed.iter().map(|(node, address)| (*address, *node))
    }

    pub(crate) fn addresses_of(&self, node: NodeId) -> impl Iterator<Item = IpAddr> + '_ {
        let least = (node, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let all = self.addressed.range(least..).take_while(move |(of, _)| *of == node);
        all.map(|(_, address)| *address)
    }

    /// All Ethernet addresses and whose they are.
    pub(crate) fn ethernet(&self) -> impl Iterator<Item = ([u8; 6], NodeId)> + '_ {
        self.ethernet.iter().map(|(address, node)| (*address, *node))
    }

    /// What the switch of this number is called, which is what its certificate must name.
    pub(crate) fn switch_name(&self, datapath_id: u64) -> String {
        match self.switch_of(datapath_id) {
            Some(node) => self.node_name(node).into(),
            None => format!("{NUMBERED}{datapath_id:x}"),
        }
    }

    /// The switch of this number. One that isn't declared is added, or is the switch of the topology
    /// that bears its name and has no number.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn add_switch(&mut self, datapath_id: u64, most: usize) -> Result<NodeId, String> {
        if let Some(node) = self.switch_of(datapath_id) {
            return Ok(node);
        }
        let name = self.switch_name(datapath_id);
        let node = match self.named(&name) {
            Some(node) if self.lacks_datapath(node) => node,
            Some(_) => return Err(format!("{name} is another's name; declare the switch")),
            None if self.learnt_switches >= most => {
                return Err(format!("{most} switches are known that nobody declared; declare it"));
            }
            None => {
                self.learnt_switches += 1;
                let added = self.add_node(name, NodeKind::Switch);
                added.ok_or("there is no room for another node; declare it")?
            }
        };
        self.datapaths.insert(datapath_id, node);
        Ok(node)
    }

    /// Whether it is a switch whose number is not known.
    pub(crate) fn lacks_datapath(&self, node: NodeId) -> bool {
        self.is_switch(node) && self.datapath_of(node).is_none()
    }

    /// Whether the configuration names the node.
    pub(crate) const fn is_declared(&self, node: NodeId) -> bool {
        node.index() < self.declared
    }

    /// A host of this name; one that isn't known is added without a link.
    pub(crate) fn add_host(&mut self, name: &str) -> Option<NodeId> {
        if let Some(node) = self.named(name) {
            return Some(node);
        }
        self.learnt += 1;
        self.add_node(name.into(), NodeKind::Host)
    }

    /// The same for a host that an agent names.
    pub(crate) fn add_host_of(&mut self, name: &str, agent: &str, now: Time) -> Option<NodeId> {
        let node = self.add_host(name)?;
        self.named_by.insert(node, (agent.into(), now));
        Some(node)
    }

    /// How many hosts are known because this agent has named them.
    pub(crate) fn named_by(&self, agent: &str) -> usize {
        self.named_by.values().filter(|(by, _)| by == agent).count()
    }

    /// Forgets hosts that agents named, that were never seen at a port, and for which none `acts` for so long; not those
    /// that are `in_use`, for their numbers are given again. Those that are forgotten.
    pub(crate) fn forget_named(
        &mut self,
        now: Time,
        memory: Span,
        acts: impl Fn(NodeId) -> bool,
        in_use: impl FnOnce() -> BTreeSet<NodeId>,
    ) -> Vec<NodeId> {
        let mut forgotten = Vec::new();
        if now.since(self.looked) < LOOK {
            return forgotten;
        }
        self.looked = now;
        let mut over = Vec::new();
        for (node, (_, at)) in &mut self.named_by {
            if acts(*node) {
                *at = now;
            } else if now.since(*at) > memory {
                over.push(*node);
            }
        }
        if over.is_empty() {
            return forgotten;
        }
        let in_use = in_use();
        over.retain(|node| !in_use.contains(node));
        for node in over {
            self.named_by.remove(&node);
            if !self.network.topology().out(node).is_empty() {
                continue;
            }
            let addresses: Vec<_> = self.addresses_of(node).collect();
            self.learnt_addresses = self.learnt_addresses.saturating_sub(addresses.len());
            for address in addresses {
                self.addresses.learnt.remove(&number(address));
                self.addressed.remove(&(node, address));
            }
            self.learnt -= 1;
            self.vacate(node);
            forgotten.push(node);
        }
        forgotten
    }

    /// Forgets a switch that nobody declared, and whether it did: one with a link stays.
    pub(crate) fn forget_switch(&mut self, node: NodeId) -> bool {
        let Some(datapath_id) = self.datapath_of(node) else { return false };
        if self.is_declared(node) || !self.network.topology().out(node).is_empty() {
            return false;
        }
        self.datapaths.remove(&datapath_id);
        self.learnt_switches -= 1;
        self.vacate(node);
        true
    }

    /// A node is nobody any more.
    fn vacate(&mut self, node: NodeId) {
        let name = String::from(self.node_name(node));
        self.names.remove(&name);
        self.vacant.push(node);
    }

    fn add_node(&mut self, name: String, kind: NodeKind) -> Option<NodeId> {
        let vacant = self.vacant.iter().rposition(|node| self.kind(*node) == Some(kind));
        let node = match vacant.map(|place| self.vacant.swap_remove(place)) {
            Some(node) => {
                self.network.rename_node(node, name.clone());
                node
            }
            None => self.network.add_node(name.clone(), kind).ok()?,
        };
        self.names.insert(name, node);
        Some(node)
    }

    /// A cable was found: from a switch's port to another switch's, or to a host. Its capacity may be `guessed`.
    pub(crate) fn note_cable(
        &mut self,
        from: (NodeId, u32),
        to: (NodeId, Option<u32>),
        spec: LinkSpec,
        guessed: bool,
    ) {
        self.unsettled.push_back(Unsettled::Cable { from, to, spec, guessed });
    }

    /// Adds both directions of a cable, where there is room.
    fn add_cable(
        &mut self,
        from: (NodeId, u32),
        to: (NodeId, Option<u32>),
        spec: LinkSpec,
    ) -> Option<[LinkId; 2]> {
        let back = LinkSpec { buffer: Buffer::Unlimited, ..spec };
        let (there, back) = self.network.connect(from.0, to.0, spec, back).ok()?;
        self.links.resize_with(back.index() + 1, LinkView::default);
        self.links[there.index()].back = Some(back);
        self.links[back.index()].back = Some(there);
        self.set_port(there, from.1);
        if let Some(port) = to.1 {
            self.set_port(back, port);
        }
        Some([there, back])
    }

    /// A link leaves by this port.
    pub(crate) fn set_port(&mut self, link: LinkId, port: u32) {
        let from = self.network.topology().link(link).from;
        if let Some(old) = self.links[link.index()].port.replace(port)
            && self.link_at(from, old) == Some(link)
        {
            self.ports.remove(&(from, old));
        }
        self.ports.insert((from, port), link);
    }

    /// How many links were discovered. They come after all that are declared.
    pub(crate) fn discovered(&self) -> usize {
        self.links.len() - self.links.partition_point(|link| link.declared)
    }

    /// No link leaves by this port any more.
    pub(crate) fn clear_port(&mut self, switch: NodeId, port: u32) {
        if let Some(link) = self.ports.remove(&(switch, port)) {
            self.links[link.index()].port = None;
        }
    }

    /// An interface has this name; whether that is new. One that is declared stays.
    pub(crate) fn set_interface(&mut self, link: LinkId, interface: &str) -> bool {
        let known = &mut self.links[link.index()].interface;
        let is_new = known.is_empty() && !interface.is_empty();
        if is_new {
            known.push_str(interface);
            let from = self.network.topology().link(link).from;
            self.interfaces.insert((from, interface.into()), link);
        }
        is_new
    }

    /// An address is a host's, which a report or a packet says. One that is another host's stays there, and
    /// there is room for so many of each of as many hosts as may be learnt; whether it is this host's.
    pub(crate) fn learn_address(&mut self, address: IpAddr, host: NodeId, limits: &Limits) -> bool {
        if let Some(owner) = self.host_at(address) {
            // An agent's word holds longer than what was seen.
            if owner == host
                && self
                    .shown
                    .get_mut(&host)
                    .is_some_and(|shown| shown.remove(&Shown::Address(address)).is_some())
            {
                self.shown_in_all -= 1;
                self.learnt_addresses += 1;
            }
            return owner == host;
        }
        if self.learnt_addresses >= limits.hosts.saturating_mul(ADDRESSES)
            || self.addresses_of(host).nth(ADDRESSES_OF_ONE).is_some()
        {
            return false;
        }
        self.learnt_addresses += 1;
        self.addresses.learnt.insert(number(address), host);
        self.addressed.insert((host, address));
        true
    }

    /// A host shows something of itself at its port, which `owner` is known to have. There is room for so much at
    /// each port, and in all.
    pub(crate) fn welcome(
        &mut self,
        now: Time,
        (what, owner): (Shown, Option<NodeId>),
        host: NodeId,
        limits: &Limits,
    ) -> Welcome {
        if owner.is_some() {
            let shown = self.shown.get_mut(&host).and_then(|shown| shown.get_mut(&what));
            shown.into_iter().for_each(|at| *at = now);
            return Welcome::Known;
        }
        let shown = self.shown.get(&host).into_iter().flatten();
        let alike = shown.filter(|(other, _)| other.is_like(what));
        if alike.clone().count() >= limits.hosts_per_port {
            let oldest = alike.min_by_key(|(_, at)| **at).map(|(other, at)| (*other, *at));
            match oldest.filter(|(_, at)| now.since(*at) >= STAY) {
                Some((other, _)) => self.forget_shown(host, other),
                None => return Welcome::Full,
            }
        }
        if self.shown_in_all >= limits.hosts.saturating_mul(2) {
            return Welcome::Full;
        }
        match what {
            Shown::Address(address) => {
                self.addresses.learnt.insert(number(address), host);
                self.addressed.insert((host, address));
            }
            Shown::Ethernet(address) => {
                self.ethernet.insert(address, host);
            }
        }
        self.shown.entry(host).or_default().insert(what, now);
        self.shown_in_all += 1;
        Welcome::New
    }

    fn forget_shown(&mut self, host: NodeId, what: Shown) {
        if self.shown.get_mut(&host).is_none_or(|shown| shown.remove(&what).is_none()) {
            return;
        }
        self.shown_in_all -= 1;
        match what {
            Shown::Address(address) => {
                self.addresses.learnt.remove(&number(address));
                self.addressed.remove(&(host, address));
            }
            Shown::Ethernet(address) => {
                self.ethernet.remove(&address);
            }
        }
    }

    /// Forgets what was silent for `memory`, and whether there was any; `ask` gets the hosts of which something
    /// will be forgotten within `notice`.
    pub(crate) fn forget_silent(
        &mut self,
        now: Time,
        (memory, notice): (Span, Span),
        ask: &mut Vec<NodeId>,
    ) -> bool {
        let mut over = Vec::new();
        for (host, shown) in &self.shown {
            let silent = |at: &Time| now.since(*at);
            over.extend(
                shown.iter().filter(|(_, at)| silent(at) > memory).map(|(what, _)| (*host, *what)),
            );
            if shown.values().any(|at| silent(at) <= memory && silent(at) + notice > memory) {
                ask.push(*host);
            }
        }
        for (host, what) in &over {
            self.forget_shown(*host, *what);
        }
        !over.is_empty()
    }

    /// A probe or a host is seen on a link now.
    pub(crate) fn note_seen(&mut self, now: Time, link: LinkId) {
        self.links[link.index()].seen = Some(now);
    }

    /// The port of a link says that it is up, or down.
    pub(crate) fn set_port_up(&mut self, link: LinkId, up: bool) {
        self.links[link.index()].port_down = !up;
        self.unsettle(link);
    }

    /// A link that was discovered isn't seen any more.
    pub(crate) fn lose(&mut self, link: LinkId) {
        self.links[link.index()].lost = true;
        self.unsettle(link);
    }

    /// It is seen again.
    pub(crate) fn regain(&mut self, link: LinkId) {
        if core::mem::take(&mut self.links[link.index()].lost) {
            self.unsettle(link);
        }
    }

    /// Both directions of a cable may be up or down by what is known of one.
    fn unsettle(&mut self, link: LinkId) {
        let back = self.links[link.index()].back;
        let both = [Some(link), back].into_iter().flatten();
        self.unsettled.extend(both.map(Unsettled::Link));
    }

    /// Brings the network in line with the next of what was seen of links that changes it; `None` when nothing is left.
    pub(crate) fn settle(&mut self, now: Time) -> Option<Changed> {
        while let Some(next) = self.unsettled.pop_front() {
            match next {
                Unsettled::Link(link) => {
                    if let Some(up) = self.refresh(link) {
                        return Some(Changed::State(link, up));
                    }
                }
                Unsettled::Cable { from, to, spec, guessed } => {
                    if let Some(both) = self.add_cable(from, to, spec) {
                        for link in both {
                            self.links[link.index()].guessed = guessed;
                            self.note_seen(now, link);
                        }
                        return Some(Changed::Found(both));
                    }
                }
            }
        }
        None
    }

    /// The queue of a link is said to be so congested, by an agent or by the switch itself.
    pub(crate) fn note_congestion(
        &mut self,
        now: Time,
        link: LinkId,
        (severity, queue_bytes): (Severity, Bytes),
        told_by: Option<ChannelId>,
    ) {
        let known = &mut self.links[link.index()];
        let notices = 1 + known.congested.map_or(0, |before| before.notices);
        known.congested = Some(CongestionStatus { at_ns: now, severity, queue_bytes, notices });
        known.told_by = told_by;
    }

    /// An agent is gone: a link's queue that it told of counts as recovered. Whether that is new.
    pub(crate) fn forget_congestion(
        &mut self,
        now: Time,
        link: LinkId,
        told_by: ChannelId,
    ) -> bool {
        let known = &mut self.links[link.index()];
        if known.told_by.take_if(|by| *by == told_by).is_none() {
            return false;
        }
        let said = known.congested.as_mut().filter(|said| said.severity > Severity::Recovered);
        let Some(said) = said else {
            return false;
        };
        (said.at_ns, said.severity, said.queue_bytes) = (now, Severity::Recovered, Bytes::ZERO);
        true
    }

    /// Brings the network in line with what is known of a link. Its new state if it has changed.
    fn refresh(&mut self, link: LinkId) -> Option<bool> {
        let known = &self.links[link.index()];
        let back = known.back.map(|back| &self.links[back.index()]);
        let is_down = known.port_down || known.lost || back.is_some_and(|b| b.port_down || b.lost);
        if self.network.is_up(link) != is_down {
            return None;
        }
        self.network.set_up(link, !is_down);
        Some(!is_down)
    }

    /// The capacity that a host sends into the network with.
    pub(crate) fn access(&self, host: NodeId) -> Option<Rate> {
        let out = self.network.topology().out(host).iter();
        let up = out.filter(|link| self.network.is_up(**link));
        up.map(|link| self.network.topology().link(*link).spec.capacity).max()
    }
}

/// How switches are called that nobody declared, before their number in hexadecimal.
const NUMBERED: &str = "s-";

/// The number of the switch that is called so when nobody declares it.
pub(crate) fn numbered(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NUMBERED)?;
    u64::from_str_radix(digits, 16).ok().filter(|number| format!("{number:x}") == digits)
}

/// Whether an address can be a host's.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Whether packets of other machines can come from there.
pub(crate) fn is_on_wires(address: IpAddr) -> bool {
    is_unicast(address) && !address.to_canonical().is_loopback()
}

/// Finds the two directions of each cable: the n-th link each way between two nodes.
fn pair(topology: &model::Topology, links: &mut [LinkView]) {
    let mut open: BTreeMap<(NodeId, NodeId), Vec<LinkId>> = BTreeMap::new();
    for (number, link) in (0u32..).zip(topology.links()) {
        let here = LinkId(number);
        let waiting = open.entry((link.to, link.from)).or_default();
        if waiting.is_empty() {
            open.entry((link.from, link.to)).or_default().push(here);
        } else {
            let there = waiting.remove(0);
            links[here.index()].back = Some(there);
            links[there.index()].back = Some(here);
        }
    }
}

/// Whose addresses are.
struct Addresses {
    /// By number: looked up for nearly every connection, and never changed.
    declared: Vec<(u128, NodeId)>,
    learnt: BTreeMap<u128, NodeId>,
}

impl Addresses {
    fn get(&self, number: u128) -> Option<NodeId> {
        match self.declared.binary_search_by_key(&number, |(known, _)| *known) {
            Ok(place) => Some(self.declared[place].1),
            Err(_) => self.learnt.get(&number).copied(),
        }
    }
}

/// An address of either family; numbers are compared faster than addresses are.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use policy::Parameters;

    use super::*;

    #[test]
    fn the_network_follows_what_was_seen_link_by_link() {
        let policy = policy::by_name("tcp", &Parameters::default()).expect("it is known");
        let mut config = Config::new("tcp", policy);
        let spec = config.discovered;
        let mut view = View::new(&mut config).expect("a view");
        let [one, other] = [1, 2].map(|number| view.add_switch(number, 2).expect("there is room"));
        view.note_cable((one, 1), (other, Some(1)), spec, true);
        assert_eq!(view.network().topology().links().len(), 0);
        assert_eq!(view.settle(Time::ZERO), Some(Changed::Found([LinkId(0), LinkId(1)])));
        assert_eq!(view.settle(Time::ZERO), None);
        view.lose(LinkId(0));
        assert!(view.network().is_up(LinkId(0)));
        assert_eq!(view.settle(Time::ZERO), Some(Changed::State(LinkId(0), false)));
        assert!(view.network().is_up(LinkId(1)));
        assert_eq!(view.settle(Time::ZERO), Some(Changed::State(LinkId(1), false)));
        view.regain(LinkId(0));
        view.lose(LinkId(0));
        assert_eq!(view.settle(Time::ZERO), None, "nothing has changed");
    }

    #[test]
    fn what_peers_teach_is_bounded() {
        let policy = policy::by_name("tcp", &Parameters::default()).expect("it is known");
        let mut view = View::new(&mut Config::new("tcp", policy)).expect("a view");
        let first = view.add_switch(1, 2);
        assert!(first.is_ok() && view.add_switch(2, 2).is_ok());
        assert!(view.add_switch(3, 2).is_err());
        assert_eq!(view.add_switch(1, 2), first);
        // Two hosts that may be learnt have 32 addresses between them, and one host no more than 1024.
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for (hosts, room) in [(2, 32), (1_000, 1_024)] {
            let policy = policy::by_name("tcp", &Parameters::default()).expect("it is known");
            let mut view = View::new(&mut Config::new("tcp", policy)).expect("a view");
            let limits = Limits { hosts, ..Limits::default() };
            let host = view.add_host("h").expect("there is room");
            let taken = (0..2_000).filter(|last| view.learn_address(address(*last), host, &limits));
            assert_eq!(taken.count(), room);
            assert!(view.learn_address(address(0), host, &limits), "it is known");
            assert_eq!(view.host_at(address(1_999)), None);
        }
    }
}
