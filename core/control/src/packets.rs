//! Packets that switches send up: probes of links, hosts that show where they are, SYN and FIN, and
//! what no entry knew a way for.

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use model::{LinkId, LinkSpec, Measured, NodeId};
use openflow::{Action, BufferId, List, Message, PacketOut, PortNo, tcp_flags};
use protocol::Connection;
use units::{Rate, Span};

use crate::controller::Controller;
use crate::frame::{self, Content, Frame, Segment};
use crate::message::Peer;

/// Links are not looked for more often.
pub(crate) const PAUSE: Span = Span::from_millis(100);
/// A discovered link that so many probes in a row didn't cross is gone.
const PROBES: u64 = 3;

impl Controller {
    pub(crate) fn packet_in(
        &mut self,
        peer: Peer,
        node: NodeId,
        port: u32,
        table: u8,
        frame: &Frame,
    ) {
        self.counters.packets_in += 1;
        let (now, per_second) = (self.now, self.limits.packets_per_second);
        let line = self.lines.get_mut(&peer);
        if !line.is_some_and(|line| line.budget.take(now, per_second)) {
            self.counters.packets_refused += 1;
            return;
        }
        match frame.content {
            Content::Probe { datapath_id, port: from } => {
                self.probed(datapath_id, from, node, port);
                return;
            }
            Content::Arp { sender } => {
                self.locate(node, port, frame.source, IpAddr::V4(sender));
            }
            Content::Ip { source, tcp, .. } => {
                self.locate(node, port, frame.source, source);
                if let Some(segment) = tcp {
                    self.watched(node, port, &segment);
                }
            }
            Content::Other => {}
        }
        // Table 0 sends copies; the packets themselves are on their way.
        if table > 0 {
            self.forward(node, port, frame);
        }
    }

    /// SYN, SYN-ACK and FIN, seen at the first switch of the path.
    fn watched(&mut self, node: NodeId, port: u32, segment: &Segment) {
        if self.policy.watch().is_none() {
            return;
        }
        let Connection { source, destination } = segment.connection;
        let first = self.view.link_at(node, port).and_then(|link| {
            let ends = self.view.network.topology().link(link);
            Some(ends.to).filter(|to| self.view.host_at(source.ip()) == Some(*to))
        });
        if first.is_none() {
            return;
        }
        let is = |flag: u16| segment.flags & flag != 0;
        if is(tcp_flags::SYN) && is(tcp_flags::ACK) {
            let data = Connection { source: destination, destination: source };
            for id in self.registry.carried_by(&data).to_vec() {
                if let Some(flow) = self.registry.flow_mut(id) {
                    flow.scale = Some(segment.scale.unwrap_or(0));
                }
            }
        } else if is(tcp_flags::SYN) {
            self.opened(segment.connection);
        } else if is(tcp_flags::FIN) {
            self.closed(&segment.connection);
        }
    }

    /// Sends a probe out of every port of a switch.
    pub(crate) fn probe(&mut self, node: NodeId) {
        let now = self.now;
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        let datapath_id = switch.datapath_id;
        let mut ports = Vec::new();
        for (number, port) in switch.ports.iter_mut().filter(|(_, port)| port.up) {
            port.probed.get_or_insert(now);
            ports.push(*number);
        }
        for port in ports {
            let probe = frame::make_probe(datapath_id, port);
            self.send_out(node, port, &probe);
        }
    }

    fn send_out(&mut self, node: NodeId, port: u32, frame: &[u8]) {
        let actions = [Action::output(PortNo(port))];
        let packet = PacketOut {
            buffer: BufferId::NONE,
            in_port: PortNo::CONTROLLER,
            actions: List::of(&actions),
            data: frame,
        };
        self.send(node, &Message::PacketOut(packet));
    }

    /// A probe that left a switch by a port came in at another.
    fn probed(&mut self, datapath_id: u64, from_port: u32, to: NodeId, to_port: u32) {
        let now = self.now;
        let Some(from) = self.view.switch_of(datapath_id).filter(|from| *from != to) else {
            return;
        };
        if self.switches.get(&from).is_none_or(|switch| !switch.ports.contains_key(&from_port)) {
            return;
        }
        let topology = self.view.network.topology();
        let leads = |link: LinkId| topology.link(link).to;
        let known = self.view.link_at(from, from_port);
        let back = self.view.link_at(to, to_port);
        // What is declared wins: a host can make a probe too.
        for (link, end) in [(known, to), (back, from)] {
            if let Some(link) = link.filter(|link| leads(*link) != end)
                && self.view.links[link.index()].declared
            {
                let what = format!(
                    "{} is declared, but a probe went from {} to {} there",
                    self.view.link_name(link),
                    self.view.node_name(from),
                    self.view.node_name(to)
                );
                self.view.contradict(now, what);
                return;
            }
        }
        let unported = || {
            let mut out = topology.out(from).iter().copied();
            out.find(|link| leads(*link) == to && self.view.links[link.index()].port.is_none())
        };
        match known.filter(|link| leads(*link) == to).or_else(unported) {
            Some(link) => {
                let is_changed = self.view.links[link.index()].port != Some(from_port);
                let reverse = self.view.links[link.index()].back;
                if is_changed {
                    self.clear(from, from_port);
                    self.view.set_port(link, from_port);
                }
                if let Some(reverse) = reverse
                    && self.view.links[reverse.index()].port.is_none()
                {
                    self.clear(to, to_port);
                    self.view.set_port(reverse, to_port);
                    self.rollout.is_due = true;
                }
                self.rollout.is_due |= is_changed;
                self.view.links[link.index()].seen = Some(now);
                if core::mem::take(&mut self.view.links[link.index()].lost) {
                    self.refresh(link);
                }
            }
            None => {
                self.clear(from, from_port);
                self.clear(to, to_port);
                self.connect((from, from_port), (to, Some(to_port)));
            }
        }
    }

    /// What was learnt of a port is no more.
    fn clear(&mut self, node: NodeId, port: u32) {
        if let Some(link) = self.view.link_at(node, port)
            && !self.view.links[link.index()].declared
        {
            self.view.links[link.index()].lost = true;
            self.view.clear_port(node, port);
            self.refresh(link);
        }
    }

    /// Adds a cable that was discovered.
    fn connect(&mut self, from: (NodeId, u32), to: (NodeId, Option<u32>)) {
        // Cables that come and go must not fill the memory.
        let most = self.limits.hosts * 8;
        let discovered = self.view.links.iter().filter(|link| !link.declared).count();
        if discovered >= most {
            self.view.contradict(self.now, format!("more than {most} links were discovered"));
            return;
        }
        let port = self.switches.get(&from.0).and_then(|switch| switch.ports.get(&from.1));
        let speed = port.map(|port| port.speed).filter(|speed| *speed > Rate::ZERO);
        let capacity = speed.unwrap_or(self.discovered.capacity);
        let spec = LinkSpec { capacity, ..self.discovered };
        let Some(link) = self.view.add_cable(from, to, spec) else {
            return;
        };
        let back = self.view.links[link.index()].back;
        for link in [Some(link), back].into_iter().flatten() {
            self.view.links[link.index()].seen = Some(self.now);
            self.tell(Measured::LinkState { link, up: true });
        }
        self.counters.reroutes += 1;
        self.rollout.is_due = true;
        self.rollout.moved = true;
    }

    /// Discovered links between switches that no probe crosses any more.
    pub(crate) fn look_for_lost_links(&mut self) {
        let patience = self.statistics.max(PAUSE) * PROBES;
        let is_ready = |node| self.switches.get(&node).is_some_and(|switch| switch.ready);
        let mut lost = Vec::new();
        for (number, link) in (0u32..).zip(self.view.network.topology().links()) {
            let known = &self.view.links[number as usize];
            let between = is_ready(link.from) && is_ready(link.to);
            let silent = known.seen.is_none_or(|seen| self.now.since(seen) > patience);
            if between && !known.declared && !known.lost && silent {
                lost.push(LinkId(number));
            }
        }
        for link in lost {
            self.view.links[link.index()].lost = true;
            self.refresh(link);
        }
    }

    /// A host shows itself at a port.
    fn locate(&mut self, node: NodeId, port: u32, ethernet: [u8; 6], address: IpAddr) {
        let usable = ethernet[0] & 1 == 0 && ethernet != [0; 6];
        if !usable || address.is_unspecified() || address.is_multicast() {
            return;
        }
        let now = self.now;
        let known = self.view.host_at(address);
        let link = self.view.link_at(node, port);
        let leads = link.map(|link| self.view.network.topology().link(link).to);
        if let Some(end) = leads {
            if self.is_switch(end) {
                return;
            }
            if known.is_some_and(|host| host != end) {
                let what = format!(
                    "{address} is {}'s, but was seen at {}",
                    known.map_or("?", |host| self.view.node_name(host)),
                    self.view.node_name(end)
                );
                self.view.contradict(now, what);
                return;
            }
            let is_new = self.view.host_with(ethernet).is_none() || known.is_none();
            if is_new && self.view.learnt < self.limits.hosts {
                self.view.learnt += 1;
                self.view.set_address(address, end);
                self.view.set_ethernet(ethernet, end);
                self.rollout.is_due = true;
            }
            if let Some(link) = link {
                self.view.links[link.index()].seen = Some(now);
            }
            return;
        }
        // A port that nothing is known of may lead to a switch: a probe must have had time.
        let probed = self.switches.get(&node).and_then(|switch| switch.ports.get(&port)?.probed);
        if probed.is_none_or(|at| now.since(at) <= self.statistics.max(PAUSE)) {
            return;
        }
        let host = match known.or_else(|| self.view.host_with(ethernet)) {
            Some(host) => host,
            None if self.view.learnt < self.limits.hosts => {
                let Some(host) = self.view.add_host(&format!("h-{address}")) else {
                    return;
                };
                host
            }
            None => return,
        };
        if !self.attach(host, node, port) {
            return;
        }
        self.view.set_address(address, host);
        self.view.set_ethernet(ethernet, host);
    }

    /// Attaches a host to a port; whether it is there now. Where it is declared, it stays.
    fn attach(&mut self, host: NodeId, node: NodeId, port: u32) -> bool {
        let out = self.view.network.topology().out(host).to_vec();
        for uplink in &out {
            let known = &self.view.links[uplink.index()];
            let (declared, back) = (known.declared, known.back);
            let to = self.view.network.topology().link(*uplink).to;
            let Some(back) = back else {
                continue;
            };
            if !declared {
                // It has moved.
                if let Some(old) = self.view.links[back.index()].port {
                    self.clear(to, old);
                }
            } else if to == node && self.view.links[back.index()].port.is_none() {
                self.view.set_port(back, port);
                self.view.links[back.index()].seen = Some(self.now);
                self.rollout.is_due = true;
                return true;
            } else {
                let what = format!(
                    "{} is declared at {}, but was seen at port {port} of {}",
                    self.view.node_name(host),
                    self.view.node_name(to),
                    self.view.node_name(node)
                );
                self.view.contradict(self.now, what);
                return false;
            }
        }
        self.connect((node, port), (host, None));
        true
    }

    /// Sends on the packet at hand, which no entry knew a way for.
    fn forward(&mut self, node: NodeId, port: u32, frame: &Frame) {
        let by_address = match frame.content {
            Content::Ip { destination, .. } => self.view.host_at(destination),
            _ => None,
        };
        let host = self.view.host_with(frame.destination).or(by_address);
        let packet = core::mem::take(&mut self.packet);
        match host.and_then(|host| self.place(host)) {
            Some((node, port)) => self.send_out(node, port, &packet),
            None => self.flood((node, port), &packet),
        }
        self.packet = packet;
    }

    /// The port of a switch that a host hangs on.
    fn place(&self, host: NodeId) -> Option<(NodeId, u32)> {
        let topology = self.view.network.topology();
        topology.out(host).iter().find_map(|uplink| {
            let back = self.view.links[uplink.index()].back?;
            let node = topology.link(*uplink).to;
            let port = self.view.links[back.index()].port?;
            self.view.network.is_up(back).then_some((node, port))
        })
    }

    /// Sends a frame out of every port that leads to no switch.
    fn flood(&mut self, except: (NodeId, u32), frame: &[u8]) {
        let mut ports = Vec::new();
        for (node, switch) in self.switches.iter().filter(|(_, switch)| switch.ready) {
            for (port, state) in switch.ports.iter().filter(|(_, state)| state.up) {
                let to = self.view.link_at(*node, *port);
                let to = to.map(|link| self.view.network.topology().link(link).to);
                let quiet =
                    state.probed.is_some_and(|at| self.now.since(at) > self.statistics.max(PAUSE));
                let is_edge = to.map_or(quiet, |to| !self.is_switch(to));
                if is_edge && (*node, *port) != except {
                    ports.push((*node, *port));
                }
            }
        }
        for (node, port) in ports {
            self.send_out(node, port, frame);
        }
    }
}
