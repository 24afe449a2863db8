//! From what was observed to what actuators are told: the policy decides, what it wants is noted, and agents
//! and switches are told what has changed. Whatever is decided goes this way, from [`Controller::decide`] on.

use alloc::string::String;
use alloc::vec::Vec;

use model::{
    Cap, Caps, Directive, FlowId, LEAST_RATE, LinkId, MOST_RATE, NodeId, PortWatch, Severity,
};
use openflow::PortNo;
use openflow::sdtcp::{CapWindow, PrepareWindow};
use protocol::Connection;
use protocol::agent::{Capability, Command};
use units::{Rate, Span};

use super::Controller;
use crate::agents::{Everything, capping};
use crate::applications::flow::Flow;
use crate::applications::selector::Selector;
use crate::config::Enforcement;
use crate::desired::{Grant, Intention};
use crate::fabric::entry::{Does, Key};
use crate::message::Output;

/// Why the switch where a link begins has no entry for a cap that is wanted of a connection's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoEntry {
    /// It is none that caps windows.
    CapsNone,
    /// The connection doesn't go over the link.
    Beside,
    /// Nobody saw the window's scale, without which the header can't be written.
    NoScale,
    /// Caps that change with the queue of the link's port need its number.
    NoPort,
}

impl Controller {
    /// Appends to `out` what is to be done after all that was observed since the last decision: limits
    /// that one input changes and another changes back are not told.
    pub fn decide(&mut self, out: &mut Vec<Output>) {
        self.tell_corrections();
        for directive in self.decider.decide(self.context.now, self.view.network()) {
            self.counters.directives += 1;
            self.judged.add_directive(&directive);
            self.take_in(directive);
        }
        self.registry.decided();
        self.roll();
        self.identify();
        self.enforce();
        self.tell_agents(out);
        self.fabric.switches.write(&self.context, out);
        out.append(&mut self.closing);
    }

    /// Notes what the policy wants. Caps of windows and gaps join what is to be sent here, all else in `enforce`.
    fn take_in(&mut self, directive: Directive) {
        match directive {
            Directive::Pace { flow, limit } => {
                let now = self.context.now;
                self.intend(flow, |wanted| {
                    wanted.set_limit(now, limit);
                    wanted.since = now;
                });
            }
            Directive::Prioritize { flow, priority } => {
                self.intend(flow, |wanted| wanted.priority = priority);
            }
            Directive::Window { link, flow, cap } => {
                self.cap_window(link, flow, cap.map(Caps::from));
            }
            Directive::Prepare { link, flow, caps } => self.cap_window(link, flow, Some(caps)),
            Directive::PacePair { src, dst, rate } => {
                self.pairs.give((src, dst), rate);
            }
            Directive::Space { link, gap } => self.space(link, gap),
            // Nothing under a controller does these.
            Directive::Grant { .. } | Directive::Gather { .. } => {
                self.counters.directives_unenforced += 1;
            }
        }
    }

    /// Changes what is wanted for a flow.
    pub(super) fn intend(&mut self, flow: FlowId, change: impl FnOnce(&mut Intention)) {
        self.desired.intend(flow, change);
        self.registry.wanted(flow);
        self.touch(flow);
    }

    /// Nothing is wanted for a flow.
    pub(super) fn free(&mut self, flow: FlowId) {
        let now = self.context.now;
        self.intend(flow, |wanted| {
            wanted.set_limit(now, None);
            wanted.priority = 0;
        });
    }

    /// The grants of a flow's connections may have changed.
    pub(super) fn touch(&mut self, flow: FlowId) {
        if let Some(known) = self.registry.flow(flow) {
            let declared = known.selector;
            self.desired.touch(declared.connection);
            if !declared.is_exact() {
                self.registry.joins.divide(&declared);
            }
        }
    }

    /// Caps windows where a link begins, or lifts the cap: of one flow, or of all over the link.
    pub(super) fn cap_window(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        if link.index() >= self.view.links().len() {
            return;
        }
        if (flow, caps) == (None, None) {
            let single: Vec<FlowId> =
                self.desired.windows_at(link).filter_map(|(flow, _)| flow).collect();
            for flow in single {
                self.cap_window(link, Some(flow), None);
            }
        }
        self.desired.set_window(link, flow, caps);
        self.tell_window(link, flow, caps);
    }

    /// Has actuators cap windows where a link begins as is wanted, unless that is not to be in force.
    pub(super) fn tell_window(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        let caps = caps.filter(|_| !self.is_uncapped(link, flow));
        let is_told = match flow {
            None if self.agent_caps(link) => self.agents.cap_window(&self.view, link, None, caps),
            _ => self.cap_each(link, flow),
        };
        if !is_told && caps.is_some() {
            self.counters.directives_unenforced += 1;
        }
    }

    /// Spaces acknowledgements where a link begins, or no more.
    pub(super) fn space(&mut self, link: LinkId, gap: Option<Span>) {
        if link.index() < self.view.links().len() {
            self.desired.set_gap(link, gap);
            self.tell_gap(link, gap);
        }
    }

    /// Has the agent space acknowledgements where a link begins as is wanted, unless that is not to be in force.
    pub(super) fn tell_gap(&mut self, link: LinkId, gap: Option<Span>) {
        let gap = gap.filter(|_| !self.is_uncapped(link, None));
        if !self.agents.space(&self.view, link, gap) && gap.is_some() {
            self.counters.directives_unenforced += 1;
        }
    }

    /// Whether a flow's acknowledgements are to wait for their turn somewhere: what its sender measures of the round
    /// trip has this wait in it.
    pub(super) fn is_spaced(&self, id: FlowId) -> bool {
        let Some(flow) = self.registry.flow(id).filter(|_| self.desired.spaces()) else {
            return false;
        };
        let path = self.view.path(flow.ends, u64::from(id.0));
        path.into_iter().any(|link| self.desired.gap(link).is_some())
    }

    /// Whether an agent is to cap windows where a link begins: beside a switch that can, not one that can't, or that
    /// can't be told at which interface.
    pub(super) fn agent_caps(&self, link: LinkId) -> bool {
        let at = self.view.start(link);
        let is_named = !self.view.link(link).interface.is_empty();
        self.agents.acting_for(at).is_some_and(|(_, agent)| {
            is_named && agent.capabilities.contains(&Capability::Windows)
                || !self.fabric.switches.caps_windows(at)
        })
    }

    /// What a cap of a flow's window, or of all, is about: the connections that it leads, or all.
    fn capped(&self, flow: Option<FlowId>) -> Vec<Option<Connection>> {
        flow.map_or_else(|| Vec::from([None]), |id| self.led_by(id).into_iter().map(Some).collect())
    }

    /// Caps the window of each connection that a flow leads, or of each that goes over a link, where the link begins;
    /// whether somebody does.
    fn cap_each(&mut self, link: LinkId, flow: Option<FlowId>) -> bool {
        let by_switch = self.fabric.switches.caps_windows(self.view.start(link));
        let is_first = flow.is_none_or(|id| self.registry.is_first(id));
        if !is_first || !by_switch && !self.agent_caps(link) {
            return false;
        }
        let of = match flow {
            Some(id) => self.led_by(id),
            None => self.registry.connections().filter(|of| self.goes_over(of, link)).collect(),
        };
        let mut is_told = by_switch || !of.is_empty();
        for of in of {
            is_told &= self.cap_connection(link, &of);
        }
        is_told
    }

    /// Has who caps windows where a link begins cap that of a connection as is wanted: its agent, or the switch; whether
    /// one does.
    fn cap_connection(&mut self, link: LinkId, of: &Connection) -> bool {
        let (at, wanted) = (self.view.start(link), self.caps_in_force(link, of));
        if self.agent_caps(link) {
            self.fabric.switches.uncap(&self.context, at, of);
            // Of what is for all it is told once.
            let own = wanted.filter(|(_, is_own)| *is_own).map(|(caps, _)| caps);
            return self.agents.cap_window(&self.view, link, Some(*of), own);
        }
        let entry = wanted.map(|(caps, _)| self.cap_entry(link, of, &caps));
        let is_told = entry.as_ref().is_none_or(Result::is_ok);
        match entry.and_then(Result::ok) {
            Some(does) => self.fabric.switches.cap(&self.context, at, *of, does),
            None => self.fabric.switches.uncap(&self.context, at, of),
        }
        is_told
    }

    /// The entry by which the switch where a link begins caps the window of a connection, or why it has none.
    pub(super) fn cap_entry(
        &self,
        link: LinkId,
        of: &Connection,
        caps: &Caps,
    ) -> Result<Does, NoEntry> {
        if !self.fabric.switches.caps_windows(self.view.start(link)) {
            return Err(NoEntry::CapsNone);
        }
        if !self.goes_over(of, link) {
            return Err(NoEntry::Beside);
        }
        let scale = self.registry.first_of(of).and_then(|(_, flow)| flow.scale);
        let shift = scale.ok_or(NoEntry::NoScale)?;
        let window = |cap: Cap| {
            let window = cap.window(Some(shift), self.context.mss);
            u32::try_from(window.get()).unwrap_or(u32::MAX)
        };
        if let Some(cap) = caps.constant() {
            return Ok(Does::Cap(CapWindow { window_bytes: window(cap), shift }));
        }
        let port = PortNo(self.view.link(link).port.ok_or(NoEntry::NoPort)?);
        let at = |severity| caps.at(severity).map_or(PrepareWindow::NONE, window);
        let window_bytes = Severity::ALL.map(at);
        Ok(Does::Prepare(PrepareWindow { port, window_bytes, shift }))
    }

    /// All windows are capped by who is to do so now: the number of a port may be known that caps wait for, or its name,
    /// or an agent has come or gone that caps instead.
    fn cap_all(&mut self) {
        if !self.fabric.switches.cap_any_windows() {
            return;
        }
        for (link, flow, caps) in self.desired.all_windows() {
            if flow.is_none() && self.agent_caps(link) {
                let caps = Some(caps).filter(|_| !self.is_uncapped(link, None));
                self.agents.cap_window(&self.view, link, None, caps);
            }
        }
        for of in self.registry.connections().collect::<Vec<_>>() {
            self.cap_anew(&of, &[]);
        }
    }

    /// Others may be to cap windows at these nodes, where any is.
    pub(super) fn recap_at(&mut self, nodes: &[NodeId]) {
        if nodes.iter().any(|node| self.fabric.switches.caps_windows(*node)) {
            self.fabric.rollout.recap();
        }
    }

    /// Has the window of a connection capped as is wanted now, also where it `was` capped of its own, and at no switch
    /// beside its path.
    pub(super) fn cap_anew(&mut self, of: &Connection, was: &[LinkId]) {
        let mut links = self.path_of(of);
        let at: Vec<NodeId> = links.iter().map(|link| self.view.start(*link)).collect();
        self.fabric.switches.uncap_elsewhere(&self.context, of, &at);
        let first = self.registry.first_of(of).map(|(id, _)| id);
        links.extend(first.into_iter().flat_map(|id| self.desired.links_capping(id)));
        for link in links.iter().chain(was) {
            self.cap_connection(*link, of);
        }
    }

    /// The links of a connection's path.
    fn path_of(&self, of: &Connection) -> Vec<LinkId> {
        let path = |(id, flow): (FlowId, &Flow)| self.view.path(flow.ends, u64::from(id.0));
        self.registry.first_of(of).map(path).unwrap_or_default()
    }

    fn goes_over(&self, of: &Connection, link: LinkId) -> bool {
        self.path_of(of).contains(&link)
    }

    /// The connections that a flow leads: its own, where it is the first of those that they carry.
    pub(super) fn led_by(&self, id: FlowId) -> Vec<Connection> {
        let leading = self.registry.flow(id).filter(|_| self.registry.is_first(id));
        let declared = leading.map(|flow| &flow.selector);
        declared.into_iter().flat_map(|of| self.registry.carriers(of)).collect()
    }

    /// Gives a flow entries of its own, if it is the first of its connection.
    pub(super) fn pin(&mut self, id: FlowId) {
        if !self.fabric.switches.is_empty()
            && let Some(flow) = self.registry.flow(id)
            && flow.selector.is_by_ports()
            && self.registry.is_first(id)
        {
            let (flow, ends) = ((id, flow.selector.connection), flow.ends);
            self.fabric.pin(&self.context, &self.view, flow, ends);
        }
    }

    /// Has the first switch on the path of a flow that nobody declared count what it carries.
    pub(super) fn count(&mut self, id: FlowId) {
        if let Some(flow) = self.registry.flow(id).filter(|flow| flow.owner.is_none())
            && let Some(at) = self.view.entrance(flow.ends, u64::from(id.0))
        {
            let key = Key::of_count(&flow.selector.connection);
            self.fabric.switches.put_own(&self.context, at, key, Does::Count);
        }
    }

    /// Takes the entries of a flow from all switches.
    pub(super) fn unpin(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        self.fabric.unpin(&self.context, id, &flow.selector.connection);
        if flow.owner.is_none() {
            let key = Key::of_count(&flow.selector.connection);
            self.fabric.switches.take_own_everywhere(&self.context, &key);
        }
    }

    /// Goes on with a change of forwarding.
    fn roll(&mut self) {
        loop {
            if self.fabric.rollout.wants_plan() {
                if self.fabric.rollout.take_moved() {
                    self.move_flows();
                    continue;
                }
                if self.fabric.rollout.take_recaps() {
                    self.cap_all();
                }
                let watching = self.decider.watch().is_some();
                self.fabric.plan(&self.view, watching);
            }
            if !self.fabric.step(&self.context) {
                break;
            }
        }
        if self.fabric.rollout.take_changed() {
            for id in self.registry.flows().map(|(id, _)| id).collect::<Vec<_>>() {
                self.pin(id);
            }
        }
    }

    /// Paths may have changed. Flows' own entries lead over links that may be gone; without them packets
    /// go with all others, over a path that is whole.
    fn move_flows(&mut self) {
        let connection = |id| Some(self.registry.flow(id)?.selector.connection);
        self.fabric.unpin_all(&self.context, connection);
        for id in self.registry.flows().map(|(id, _)| id).collect::<Vec<_>>() {
            self.count(id);
            if self.desired.intention(id).limit().is_some() {
                // The first switch of its path may be another one.
                self.touch(id);
            }
        }
    }

    /// What a connection should be held to; one that was declared without its ports, all that join it.
    pub(super) fn grant(&self, connection: &Connection) -> Grant {
        let ends = || self.view.ends(connection);
        if self.orders.withholds() && ends().is_some_and(|ends| self.is_withheld(ends)) {
            return Grant::default();
        }
        let (flows, joined) = self.registry.carrying(connection);
        let among = joined.map_or(1, |declared| self.registry.joins.counting(declared));
        let share = self.pairs.share(connection, ends);
        let mut grant = self.desired.grant(flows, among, share);
        if joined.is_some_and(|declared| self.has_one_meter(declared)) {
            grant.rate = share;
        }
        // A meter that holds all that join holds no single one.
        let is_for_all = self.context.enforcement == Enforcement::Meters
            && !Selector::from(*connection).is_exact();
        self.bounded(grant, if is_for_all { &[] } else { flows })
    }

    /// What the policy wants of a connection that carries these flows, as far as operators and actuators let it.
    pub(super) fn bounded(&self, wanted: Grant, flows: &[FlowId]) -> Grant {
        // Switches meter more than hosts can be told.
        let most = match self.context.enforcement {
            Enforcement::Pacing => MOST_RATE,
            Enforcement::Meters => Rate::MAX,
        };
        let rate = wanted.rate.into_iter().chain(self.by_hand(flows)).min();
        Grant { rate: rate.map(|rate| rate.clamp(LEAST_RATE, most)), ..wanted }
    }

    /// Whether one meter holds all that join.
    pub(super) fn has_one_meter(&self, declared: &Selector) -> bool {
        self.context.enforcement == Enforcement::Meters && declared.is_by_ports()
    }

    /// Asks agents for the connections of the processes that flows name.
    fn identify(&mut self) {
        for host in self.registry.processes.take_changed() {
            let Some((channel, agent)) = self.agents.acting_for(host) else {
                continue;
            };
            let processes = self.registry.sought(&self.view, &agent.hosts);
            self.agents.identify(channel, processes);
        }
    }

    /// The same of all hosts.
    pub(super) fn identify_all(&mut self) {
        let agents = self.agents.with_hosts();
        for (channel, hosts) in agents {
            let processes = self.registry.sought(&self.view, &hosts);
            self.agents.identify(channel, processes);
        }
    }

    /// Tells actuators of the connections whose grant may have changed.
    fn enforce(&mut self) {
        let paired = self.pairs.take_changed();
        let others = self.registry.joins.take_divided().chain(&paired);
        for connection in self.desired.take_changed(others) {
            let Some((src, dst)) = self.view.ends(&connection) else {
                continue;
            };
            let mut grant = self.grant(&connection);
            if self.context.enforcement == Enforcement::Meters {
                let rate = grant.rate.take();
                let first = self.registry.carried_by(&connection).first();
                let at = self.view.entrance((src, dst), first.map_or(0, |id| u64::from(id.0)));
                let is_metered = self.fabric.switches.hold(&self.context, connection, at, rate);
                self.counters.directives_unenforced += u64::from(!is_metered);
            }
            let is_held = if connection.limitable().is_ok() {
                self.agents.hold(src, connection, grant) || grant == Grant::default()
            } else {
                // Each that joins what was declared without its ports is held by itself.
                self.is_withheld((src, dst)) || !self.is_held_nowhere(&connection)
            };
            self.counters.directives_unenforced += u64::from(!is_held);
        }
    }

    /// Whether something is wanted of what was declared without its ports, and nothing that could be held has joined.
    fn is_held_nowhere(&self, declared: &Connection) -> bool {
        let is_wanted = |declared: &Selector, flow: FlowId| {
            let wanted = self.desired.intention(flow);
            wanted.priority > 0 || wanted.limit().is_some() && !self.has_one_meter(declared)
        };
        let mut unseen = self.registry.unseen(declared);
        unseen.any(|(declared, flows)| flows.iter().any(|flow| is_wanted(declared, *flow)))
    }

    /// Sends agents what they have to be told, and renewals.
    fn tell_agents(&mut self, out: &mut Vec<Output>) {
        for channel in self.agents.take_addressed() {
            if let Some(hosts) = self.agents.to_retell(channel) {
                let everything = self.everything(&hosts);
                let is_here = |of: &&Connection| {
                    self.view.host_at(of.source.ip()).is_some_and(|host| hosts.contains(&host))
                };
                let left = self.agents.standing().rates_left().map(|(connection, _)| connection);
                let left: Vec<Connection> = left.filter(is_here).copied().collect();
                let things = self.agents.standing().things_left().map(|(thing, _)| thing);
                let things =
                    things.filter(|of| of.place(&self.view).is_some_and(|at| hosts.contains(&at)));
                let things = things.cloned().collect();
                self.agents.retell(channel, everything, &left, things);
            }
            if let Some(commands) = self.agents.take_commands(&self.context, channel) {
                self.counters.commands += commands.commands.len() as u64;
                out.push(Output::Agent(channel, commands));
            }
        }
    }

    /// Puts together everything that the agent of these hosts has to know.
    fn everything(&self, hosts: &[NodeId]) -> Everything {
        let mut all = Everything::default();
        let statistics = self.decider.watch().and_then(|watch| watch.statistics);
        let every_ns = statistics.unwrap_or(Span::MAX).min(self.context.sample);
        all.commands.push(Command::Sample { every_ns });
        all.commands.extend(self.decider.ports().map(|every_ns| Command::Count { every_ns }));
        let (sought, unsought) = self.registry.sought(&self.view, hosts);
        all.unsought = unsought;
        if !sought.is_empty() {
            all.commands.push(Command::Identify { processes: sought.into_iter().collect() });
        }
        for host in hosts {
            let addresses = self.view.addresses_of(*host);
            let leaving = addresses.flat_map(|address| self.registry.leaving(address));
            for connection in leaving.chain(self.pairs.paired_from(*host)) {
                let mut grant = self.grant(connection);
                if self.context.enforcement == Enforcement::Meters {
                    grant.rate = None;
                }
                if grant != Grant::default() {
                    all.grants.insert(*connection, grant);
                }
            }
            for link in self.view.network().topology().out(*host) {
                self.everything_at(*host, *link, &mut all);
            }
        }
        all
    }

    /// What the agent of a host or switch has to do where a link leaves it.
    fn everything_at(&self, node: NodeId, link: LinkId, all: &mut Everything) {
        let interface = &self.view.link(link).interface;
        if interface.is_empty() {
            return;
        }
        let name = || (String::from(self.view.node_name(node)), interface.clone());
        if let Some(asked) = self.decider.watch()
            && self.view.is_switch(node)
        {
            let (node, interface) = name();
            let watch = Some(PortWatch { thresholds: asked.congestion });
            all.commands.push(Command::Watch { node, interface, watch });
        }
        if let Some(gap) = self.desired.gap(link).filter(|_| !self.is_uncapped(link, None)) {
            all.gaps.insert(link, gap);
            let (node, interface) = name();
            all.commands.push(Command::Space { node, interface, gap_ns: Some(gap) });
        }
        for (flow, caps) in self.desired.windows_at(link).filter(|_| self.agent_caps(link)) {
            if self.is_uncapped(link, flow) {
                continue;
            }
            for connection in self.capped(flow) {
                all.windows.insert((link, connection), caps);
                let (node, interface) = name();
                all.commands.push(capping(node, interface, connection, Some(caps)));
            }
        }
    }
}
