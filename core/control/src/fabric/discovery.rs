//! What switches reveal about the network: their ports, probes that cross links, hosts that show
//! where they are; and packets that no entry knows a way for.

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use model::{LinkId, LinkSpec, NodeId};
use openflow::{Port, PortNo};
use units::Rate;

use crate::context::Context;
use crate::fabric::frame::{Content, Frame, make_question};
use crate::fabric::rollout::Rollout;
use crate::fabric::switches::{PortView, Switches};
use crate::view::{Shown, View, Welcome, is_on_wires};

/// A discovered link that so many probes in a row didn't cross is gone.
pub(crate) const PROBES: u64 = 3;
/// Bits of `ofp_port` that say that nothing goes through: told down; no link.
const DOWN: u32 = 1;
/// Frames a second of a port that are sent out of all edge ports: each costs a message to every switch. Broadcasts of
/// hosts are far fewer.
const FLOODS: u32 = 100;
/// Ports that one message names, so that a frame has room beside them.
const OUTPUTS: usize = 1_024;
/// Most ports of a switch that are noted.
const PORTS: usize = 4_096;

/// What discovery reads and changes: the fabric, and the view that it says to what it finds.
pub(crate) struct Discovery<'a> {
    pub(super) cx: &'a Context,
    pub(super) view: &'a mut View,
    pub(super) switches: &'a mut Switches,
    pub(super) rollout: &'a mut Rollout,
}

impl Discovery<'_> {
    /// A switch told of a port, or that it has gone.
    pub(crate) fn port_found(&mut self, node: NodeId, port: &Port, gone: bool) {
        let number = port.port.0;
        if number > PortNo::MAX.0 {
            return;
        }
        let up = !gone && (port.config | port.state) & DOWN == 0;
        let speed = Rate::from_bps(u64::from(port.curr_speed_kbps).saturating_mul(1000));
        let Some(switch) = self.switches.get_mut(node) else {
            return;
        };
        switch.unlisted.remove(&number);
        let old = switch.ports.get(&number).copied();
        let probed = old.filter(|old| old.up && up).and_then(|old| old.probed);
        let floods = old.map(|old| old.floods).unwrap_or_default();
        if gone {
            switch.ports.remove(&number);
        } else if switch.ports.len() < PORTS || switch.ports.contains_key(&number) {
            switch.ports.insert(number, PortView { up, speed, probed, floods });
        }
        if let Some(link) = self.view.link_at(node, number) {
            if self.view.set_interface(link, port.name()) {
                self.rollout.recap();
            }
            self.view.set_port_up(link, up);
        }
    }

    /// A switch that has come back has listed all its ports: what it had before and didn't list has gone meanwhile.
    pub(crate) fn ports_listed(&mut self, node: NodeId) {
        let Some(switch) = self.switches.get_mut(node) else {
            return;
        };
        let gone = core::mem::take(&mut switch.unlisted);
        for number in &gone {
            switch.ports.remove(number);
        }
        for number in gone {
            if let Some(link) = self.view.link_at(node, number) {
                self.view.set_port_up(link, false);
            }
        }
    }

    /// A probe that left a switch by a port came in at another.
    pub(crate) fn probed(&mut self, datapath_id: u64, from_port: u32, to: NodeId, to_port: u32) {
        let Some(from) = self.view.switch_of(datapath_id).filter(|from| *from != to) else {
            return;
        };
        if self.switches.get(from).is_none_or(|switch| !switch.ports.contains_key(&from_port)) {
            return;
        }
        let topology = self.view.network().topology();
        let leads = |link: LinkId| topology.link(link).to;
        let known = self.view.link_at(from, from_port);
        let back = self.view.link_at(to, to_port);
        // What is declared wins: a host can make a probe too.
        for (link, end) in [(known, to), (back, from)] {
            if let Some(link) = link.filter(|link| leads(*link) != end)
                && self.view.link(link).declared
            {
                let what = format!(
                    "{} is declared, but a probe went from {} to {} there",
                    self.view.link_name(link),
                    self.view.node_name(from),
                    self.view.node_name(to)
                );
                self.view.contradict(self.cx.now, what);
                return;
            }
        }
        let unported = || {
            let mut out = topology.out(from).iter().copied();
            out.find(|link| leads(*link) == to && self.view.link(*link).port.is_none())
        };
        match known.filter(|link| leads(*link) == to).or_else(unported) {
            Some(link) => {
                let is_changed = self.view.link(link).port != Some(from_port);
                let reverse = self.view.link(link).back;
                if is_changed {
                    self.clear(from, from_port);
                    self.view.set_port(link, from_port);
                }
                if let Some(reverse) = reverse
                    && self.view.link(reverse).port.is_none()
                {
                    self.clear(to, to_port);
                    self.view.set_port(reverse, to_port);
                    self.rollout.recap();
                }
                if is_changed {
                    self.rollout.recap();
                }
                self.view.note_seen(self.cx.now, link);
                self.view.regain(link);
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
            && !self.view.link(link).declared
        {
            self.view.lose(link);
            self.view.clear_port(node, port);
        }
    }

    /// Adds a cable that was discovered.
    fn connect(&mut self, from: (NodeId, u32), to: (NodeId, Option<u32>)) {
        // Cables that come and go must not fill the memory.
        let most = self.cx.limits.hosts * 8;
        if self.view.discovered() >= most {
            self.view.contradict(self.cx.now, format!("more than {most} links were discovered"));
            return;
        }
        let port = self.switches.get(from.0).and_then(|switch| switch.ports.get(&from.1));
        let speed = port.map(|port| port.speed).filter(|speed| *speed > Rate::ZERO);
        let capacity = speed.unwrap_or(self.cx.discovered.capacity);
        let spec = LinkSpec { capacity, ..self.cx.discovered };
        self.view.note_cable(from, to, spec, speed.is_none());
    }

    /// Discovered links between switches that no probe crosses any more.
    pub(crate) fn look_for_lost_links(&mut self) {
        let patience = self.cx.probe_pause() * PROBES;
        let mut lost = Vec::new();
        for (number, link) in (0u32..).zip(self.view.network().topology().links()) {
            let known = self.view.link(LinkId(number));
            let between = [link.from, link.to].iter().all(|node| self.switches.is_ready(*node));
            let silent = known.seen.is_none_or(|seen| self.cx.now.since(seen) > patience);
            if between && !known.declared && !known.lost && silent {
                lost.push(LinkId(number));
            }
        }
        for link in lost {
            self.view.lose(link);
        }
    }

    /// A host shows itself at a port.
    pub(crate) fn locate(&mut self, node: NodeId, port: u32, ethernet: [u8; 6], address: IpAddr) {
        let usable = ethernet[0] & 1 == 0 && ethernet != [0; 6];
        if !usable || !is_on_wires(address) {
            return;
        }
        let known = self.view.host_at(address);
        let link = self.view.link_at(node, port);
        let leads = link.map(|link| self.view.network().topology().link(link).to);
        if let Some(end) = leads {
            if self.view.is_switch(end) {
                return;
            }
            if known.is_some_and(|host| host != end) {
                let what = format!(
                    "{address} is {}'s, but was seen at {}",
                    known.map_or("?", |host| self.view.node_name(host)),
                    self.view.node_name(end)
                );
                self.view.contradict(self.cx.now, what);
                return;
            }
            self.welcome((node, port), end, ethernet, (address, known));
            if let Some(link) = link {
                self.view.note_seen(self.cx.now, link);
            }
            return;
        }
        // A port that nothing is known of may lead to a switch: a probe must have had time.
        let probed = self.switches.get(node).and_then(|switch| switch.ports.get(&port)?.probed);
        if probed.is_none_or(|at| self.cx.now.since(at) <= self.cx.probe_pause()) {
            return;
        }
        let host = match known.or_else(|| self.view.host_with(ethernet)) {
            Some(host) => host,
            None if !self.cx.learn => return self.not_declared((node, port), address),
            None if self.view.learnt() < self.cx.limits.hosts => {
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
        self.welcome((node, port), host, ethernet, (address, known));
    }

    /// What a host shows of itself at its port is learnt; `owner` is the host that its IP address is known of.
    fn welcome(
        &mut self,
        (node, port): (NodeId, u32),
        host: NodeId,
        ethernet: [u8; 6],
        (address, owner): (IpAddr, Option<NodeId>),
    ) {
        let (now, limits) = (self.cx.now, &self.cx.limits);
        if !self.cx.learn && owner != Some(host) {
            return self.not_declared((node, port), address);
        }
        let address = self.view.welcome(now, (Shown::Address(address), owner), host, limits);
        // An address that there is no room for has no place either.
        let both = match address {
            Welcome::Full => [address; 2],
            _ => {
                let shown = (Shown::Ethernet(ethernet), self.view.host_with(ethernet));
                [address, self.view.welcome(now, shown, host, limits)]
            }
        };
        if both.contains(&Welcome::New) {
            self.rollout.make_due();
        }
        if both.contains(&Welcome::Full) {
            let what = format!(
                "port {port} of {} shows more than {} hosts that nobody declared: the others stay unknown; see who \
                 forges addresses there, declare its hosts, or raise limits.hosts_per_port",
                self.view.node_name(node),
                limits.hosts_per_port
            );
            self.view.contradict(now, what);
        }
    }

    fn not_declared(&mut self, (node, port): (NodeId, u32), address: IpAddr) {
        let what = format!(
            "{address} was seen at port {port} of {}, and nobody declared it; add a [[host]], or write control.learn = \
             true",
            self.view.node_name(node)
        );
        self.view.contradict(self.cx.now, what);
    }

    /// What was learnt of hosts that are silent is forgotten, after they were asked whether they are there.
    pub(crate) fn look_for_silent_hosts(&mut self) {
        let notice = self.cx.probe_pause() * (PROBES + 1);
        let mut ask = Vec::new();
        if self.view.forget_silent(self.cx.now, (self.cx.memory(), notice), &mut ask) {
            self.rollout.make_due();
        }
        for host in ask {
            let Some((node, port)) = self.place(host) else { continue };
            let addresses: Vec<_> =
                self.view.addresses_of(host).take(self.cx.limits.hosts_per_port).collect();
            for address in addresses {
                let question = make_question(address);
                self.switches.send_out(self.cx, node, &[port], &question);
            }
        }
    }

    /// Attaches a host to a port; whether it is there now. Where it is declared, it stays.
    fn attach(&mut self, host: NodeId, node: NodeId, port: u32) -> bool {
        let out = self.view.network().topology().out(host).to_vec();
        for uplink in &out {
            let known = self.view.link(*uplink);
            let (declared, back) = (known.declared, known.back);
            let to = self.view.network().topology().link(*uplink).to;
            let Some(back) = back else {
                continue;
            };
            if !declared {
                // It has moved.
                if let Some(old) = self.view.link(back).port {
                    self.clear(to, old);
                }
            } else if to == node && self.view.link(back).port.is_none() {
                self.view.set_port(back, port);
                self.view.note_seen(self.cx.now, back);
                self.rollout.recap();
                return true;
            } else {
                let what = format!(
                    "{} is declared at {}, but was seen at port {port} of {}",
                    self.view.node_name(host),
                    self.view.node_name(to),
                    self.view.node_name(node)
                );
                self.view.contradict(self.cx.now, what);
                return false;
            }
        }
        self.connect((node, port), (host, None));
        true
    }

    /// Sends on the packet at hand, which no entry knew a way for.
    pub(crate) fn forward(&mut self, node: NodeId, port: u32, frame: &Frame) {
        let by_address = match frame.content {
            Content::Ip { destination, .. } => self.view.host_at(destination),
            _ => None,
        };
        let host = self.view.host_with(frame.destination).or(by_address);
        // Where switches have no way, packets don't go through the controller either.
        let cut = |host| self.view.path((node, host), 0).is_empty();
        if host.is_some_and(|host| self.place(host).is_some() && cut(host)) {
            return;
        }
        let packet = core::mem::take(&mut self.switches.packet);
        match host.and_then(|host| self.place(host)) {
            Some((node, port)) => self.switches.send_out(self.cx, node, &[port], &packet),
            None => self.flood((node, port), &packet),
        }
        self.switches.packet = packet;
    }

    /// The port of a switch that a host hangs on.
    fn place(&self, host: NodeId) -> Option<(NodeId, u32)> {
        let topology = self.view.network().topology();
        topology.out(host).iter().find_map(|uplink| {
            let back = self.view.link(*uplink).back?;
            let node = topology.link(*uplink).to;
            let port = self.view.link(back).port?;
            self.view.network().is_up(back).then_some((node, port))
        })
    }

    /// Sends a frame out of every port that leads to no switch, unless its own has sent too many of these.
    fn flood(&mut self, except: (NodeId, u32), frame: &[u8]) {
        let from = self.switches.get_mut(except.0).and_then(|s| s.ports.get_mut(&except.1));
        if !from.is_some_and(|port| port.floods.take(self.cx.now, FLOODS)) {
            self.switches.counters.packets_refused += 1;
            return;
        }
        let mut all = Vec::new();
        for (node, switch) in self.switches.iter().filter(|(_, switch)| switch.ready) {
            let mut ports = Vec::new();
            for (port, state) in switch.ports.iter().filter(|(_, state)| state.up) {
                let to = self.view.link_at(node, *port);
                let to = to.map(|link| self.view.network().topology().link(link).to);
                let quiet =
                    state.probed.is_some_and(|at| self.cx.now.since(at) > self.cx.probe_pause());
                let is_edge = to.map_or(quiet, |to| !self.view.is_switch(to));
                if is_edge && (node, *port) != except {
                    ports.push(*port);
                }
            }
            all.push((node, ports));
        }
        for (node, ports) in all {
            for ports in ports.chunks(OUTPUTS) {
                self.switches.send_out(self.cx, node, ports, frame);
            }
        }
    }
}
