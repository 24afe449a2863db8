//! Agents: who acts for which host, what each was told, and what it has confirmed.
//!
//! What stands at an agent is a copy of what it should be; only differences are sent. An agent that
//! connects gets everything (`complete`), so that what it was told by a controller before, or over a
//! connection that broke, ends exactly when the new state stands.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::{FlowId, LinkId, NodeId, NodeKind};
use protocol::Connection;
use protocol::agent::{Command, Commands, Host, Report, Thresholds};
use units::{Bytes, Rate, Time};

use crate::budget::Budget;
use crate::controller::{Controller, RENEWALS};
use crate::message::{Closing, Output, Peer, Refusal};

/// An agent.
pub(crate) struct Agent {
    pub(crate) identity: String,
    pub(crate) hosts: Vec<NodeId>,
    pub(crate) capabilities: Vec<String>,
    /// It has said hello.
    pub(crate) greeted: bool,
    pub(crate) budget: Budget,
    pub(crate) heard: Time,
    sequence: u64,
    /// The last number that it has confirmed.
    applied: u64,
    /// When it must hear something again.
    pub(crate) renew_at: Time,
    /// What it was told and shall stand.
    pub(crate) standing: BTreeMap<Connection, Standing>,
    windows: BTreeMap<(LinkId, Option<Connection>), Bytes>,
    batch: Vec<Command>,
    /// The next commands are all there are.
    pub(crate) complete: bool,
    /// What it has not confirmed: number, connection, rate. Bounded; what is replaced goes.
    unconfirmed: VecDeque<(u64, Connection, Option<Rate>)>,
}

/// What a connection is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) rate: Option<Rate>,
    pub(crate) level: u8,
}

/// Unconfirmed commands beyond which those that newer ones replaced are forgotten; a multiple of what
/// stands, so that forgetting costs little per command.
const UNCONFIRMED: usize = 128;
const PER_STANDING: usize = 2;

impl Agent {
    /// Whether a report confirms what the agent was told and had not confirmed: there are no more of
    /// those than the controller asks for.
    pub(crate) fn confirms(&self, report: &Report, epoch: u64) -> bool {
        let Report::Applied { epoch: of, sequence } = report else {
            return false;
        };
        *of == epoch && (self.applied + 1..=self.sequence).contains(sequence)
    }

    pub(crate) fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// Keeps what is unconfirmed in proportion to what stands. Only the newest command of a connection
    /// matters: the agent carries them out in order.
    fn bound_unconfirmed(&mut self) {
        if self.unconfirmed.len() <= UNCONFIRMED + PER_STANDING * self.standing.len() {
            return;
        }
        let (mut seen, mut gone) = (BTreeSet::new(), 0);
        let mut newest: Vec<_> = self.unconfirmed.drain(..).rev().collect();
        newest.retain(|(_, connection, _)| {
            // Of connections that were let go the newest are enough.
            let stands = self.standing.contains_key(connection);
            let is_newest = seen.insert(*connection);
            gone += usize::from(is_newest && !stands);
            is_newest && (stands || gone <= UNCONFIRMED / 2)
        });
        self.unconfirmed.extend(newest.into_iter().rev());
    }
}

impl Controller {
    pub(crate) fn agent_connected(&mut self, peer: Peer, identity: &str) {
        let most = self.limits.agents;
        if self.agents.len() >= most {
            let reason = format!("{most} agents are connected; try again later");
            let refusal = Refusal { field: "agent", reason, busy: true };
            self.closing.push(Output::CloseAgent(peer, Closing::Refused(refusal)));
            return;
        }
        let agent = Agent {
            identity: identity.into(),
            hosts: Vec::new(),
            capabilities: Vec::new(),
            greeted: false,
            budget: Budget::new(self.now),
            heard: self.now,
            sequence: 0,
            applied: 0,
            renew_at: Time::NEVER,
            standing: BTreeMap::new(),
            windows: BTreeMap::new(),
            batch: Vec::new(),
            complete: false,
            unconfirmed: VecDeque::new(),
        };
        self.agents.insert(peer, agent);
    }

    /// Forgets an agent. What it was told stands until its lease ends; nobody confirms it any more.
    pub(crate) fn lose_agent(&mut self, peer: Peer) {
        self.addressed.remove(&peer);
        if let Some(agent) = self.agents.remove(&peer) {
            self.renewals.remove(&(agent.renew_at, peer));
            for host in &agent.hosts {
                if self.acting.get(host) == Some(&peer) {
                    self.acting.remove(host);
                }
            }
            // Those that it was told to let go and has not confirmed are not among what shall stand.
            let let_go = agent.unconfirmed.iter().map(|(_, connection, _)| connection);
            for connection in agent.standing.keys().chain(let_go) {
                self.confirmed.remove(connection);
            }
        }
    }

    pub(crate) fn close_agent(&mut self, peer: Peer, why: Closing) {
        self.lose_agent(peer);
        self.closing.push(Output::CloseAgent(peer, why));
    }

    /// The first message of an agent.
    pub(crate) fn greet(
        &mut self,
        peer: Peer,
        hosts: &[Host],
        capabilities: &[String],
        epoch: u64,
    ) -> Result<(), Refusal> {
        let refuse = |field, reason| Err(Refusal { field, reason, busy: false });
        let identity = self.agents[&peer].identity.clone();
        if self.agents[&peer].greeted {
            return refuse("type", "a hello comes once, first; connect again".into());
        }
        if hosts.len() > self.limits.hosts || capabilities.len() > 1000 {
            return refuse("hosts", "names too many hosts or capabilities".into());
        }
        let mut nodes = Vec::new();
        for host in hosts {
            if host.name.is_empty() || host.name.len() > self.limits.name_bytes {
                let most = self.limits.name_bytes;
                return refuse("hosts.name", format!("must have 1 to {most} bytes"));
            }
            let at = || host.addresses.iter().find_map(|address| self.view.host_at(*address));
            let known = self.view.named(&host.name).or_else(at);
            let other =
                known.and_then(|node| self.acting.get(&node)).map(|p| &self.agents[p].identity);
            if other.is_some_and(|other| *other != identity) {
                let reason = format!("another agent acts for {}; stop that one", host.name);
                return refuse("hosts", reason);
            }
            nodes.push(known);
        }
        let new = nodes.iter().filter(|node| node.is_none()).count();
        if self.view.learnt + new > self.limits.hosts {
            return refuse("hosts", "too many hosts are known; declare them instead".into());
        }
        self.outrank(epoch);
        let mut taken = Vec::new();
        for (host, node) in hosts.iter().zip(nodes) {
            let Some(node) = node.or_else(|| self.view.add_host(&host.name)) else {
                continue;
            };
            for address in &host.addresses {
                if !self.view.set_address(*address, node) {
                    let what = format!("agent {identity}: {address} is not {}'s", host.name);
                    self.view.contradict(self.now, what);
                }
            }
            if let Some(old) = self.acting.insert(node, peer).filter(|old| *old != peer) {
                self.close_agent(old, Closing::Replaced);
                self.acting.insert(node, peer);
            }
            taken.push(node);
        }
        self.rollout.is_due = true;
        let agent = self.agents.get_mut(&peer).expect("the agent is greeted");
        agent.hosts = taken;
        agent.capabilities = capabilities.to_vec();
        agent.greeted = true;
        agent.complete = true;
        self.addressed.insert(peer);
        Ok(())
    }

    /// An agent obeys an epoch.
    pub(crate) fn outrank(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.outranked = self.outranked.max(Some(epoch));
        }
    }

    /// Tells the agent of a host what a connection is held to; whether there is one.
    pub(crate) fn hold(&mut self, host: NodeId, connection: Connection, target: Standing) -> bool {
        let Some((peer, agent)) =
            self.acting.get(&host).and_then(|peer| Some((*peer, self.agents.get_mut(peer)?)))
        else {
            return false;
        };
        let old = agent.standing.get(&connection).copied().unwrap_or_default();
        if old == target {
            return true;
        }
        if target == Standing::default() {
            agent.standing.remove(&connection);
        } else {
            agent.standing.insert(connection, target);
        }
        if agent.complete {
            // All will be told, this too.
            return true;
        }
        if old.rate != target.rate {
            agent.batch.push(Command::Pace { connection, rate_bps: target.rate });
            agent.unconfirmed.push_back((agent.sequence + 1, connection, target.rate));
        }
        if old.level != target.level {
            agent.batch.push(Command::Prioritize { connection, priority: target.level });
        }
        self.addressed.insert(peer);
        true
    }

    /// Tells the agent of a node to cap windows; whether there is one.
    pub(crate) fn tell_window(
        &mut self,
        at: NodeId,
        link: LinkId,
        flow: Option<FlowId>,
        cap: Option<Bytes>,
    ) -> bool {
        let connection = flow.and_then(|id| Some(self.registry.flow(id)?.connection));
        if flow.is_some() && connection.is_none() {
            return false;
        }
        self.set_window(at, link, connection, cap)
    }

    /// Removes the cap of a connection, wherever it is.
    pub(crate) fn lift_window(&mut self, at: NodeId, link: LinkId, connection: Connection) {
        self.set_window(at, link, Some(connection), None);
        self.uncap_at_switch(at, &connection);
    }

    fn set_window(
        &mut self,
        at: NodeId,
        link: LinkId,
        connection: Option<Connection>,
        cap_bytes: Option<Bytes>,
    ) -> bool {
        let interface = &self.view.links[link.index()].interface;
        let Some(peer) = self.acting.get(&at).copied().filter(|_| !interface.is_empty()) else {
            return false;
        };
        let Some(agent) = self.agents.get_mut(&peer) else {
            return false;
        };
        let old = match cap_bytes {
            Some(cap) => agent.windows.insert((link, connection), cap),
            None => agent.windows.remove(&(link, connection)),
        };
        if old != cap_bytes && !agent.complete {
            let (node, interface) = (self.view.node_name(at).into(), interface.clone());
            agent.batch.push(Command::Window { node, interface, connection, cap_bytes });
            self.addressed.insert(peer);
        }
        true
    }

    /// An agent has carried out commands up to a number.
    pub(crate) fn applied(&mut self, peer: Peer, epoch: u64, sequence: u64) {
        self.outrank(epoch);
        let Some(agent) = self.agents.get_mut(&peer).filter(|_| epoch == self.epoch) else {
            return;
        };
        agent.applied = agent.applied.max(sequence.min(agent.sequence));
        while let Some((number, connection, rate)) = agent.unconfirmed.front().copied() {
            if number > sequence.min(agent.sequence) {
                break;
            }
            agent.unconfirmed.pop_front();
            match rate {
                Some(rate) => self.confirmed.insert(connection, rate),
                None => self.confirmed.remove(&connection),
            };
        }
        if agent.unconfirmed.is_empty() {
            // What a burst took isn't kept for ever.
            agent.unconfirmed.shrink_to(UNCONFIRMED);
        }
    }

    /// Sends what agents have to be told, and renewals.
    pub(crate) fn address(&mut self, out: &mut Vec<Output>) {
        for peer in core::mem::take(&mut self.addressed) {
            if self.agents.get(&peer).is_some_and(|agent| agent.complete) {
                self.recount(peer);
            }
            let (epoch, lease_ns) = (self.epoch, self.lease);
            let Some(agent) = self.agents.get_mut(&peer).filter(|agent| agent.greeted) else {
                continue;
            };
            agent.sequence += 1;
            self.renewals.remove(&(agent.renew_at, peer));
            agent.renew_at = self.now + lease_ns / RENEWALS;
            self.renewals.insert((agent.renew_at, peer));
            let complete = core::mem::take(&mut agent.complete);
            let commands = core::mem::take(&mut agent.batch);
            agent.bound_unconfirmed();
            self.counters.commands += commands.len() as u64;
            let sequence = agent.sequence;
            out.push(Output::Agent(
                peer,
                Commands { epoch, sequence, lease_ns, complete, commands },
            ));
        }
    }

    /// Puts together everything that an agent has to know.
    fn recount(&mut self, peer: Peer) {
        let hosts = self.agents[&peer].hosts.clone();
        let mut standing = BTreeMap::new();
        let mut windows = BTreeMap::new();
        let mut batch = alloc::vec![Command::Sample { every_ns: Some(self.sample) }];
        for host in hosts {
            for address in self.view.addresses_of(host) {
                let declared = self.registry.leaving(address);
                let paired = self.pairs.values().flat_map(|pair| pair.connections.keys());
                let paired = paired.filter(|connection| connection.source.ip() == address);
                for connection in declared.chain(paired) {
                    let mut target = self.target(connection);
                    if self.enforcement == crate::config::Enforcement::Meters {
                        target.rate = None;
                    }
                    if target != Standing::default() {
                        standing.insert(*connection, target);
                    }
                }
            }
            for link in self.view.network.topology().out(host) {
                self.recount_link(host, *link, &mut windows, &mut batch);
            }
        }
        for (connection, Standing { rate, level }) in &standing {
            let connection = *connection;
            if rate.is_some() {
                batch.push(Command::Pace { connection, rate_bps: *rate });
            }
            if *level > 0 {
                batch.push(Command::Prioritize { connection, priority: *level });
            }
        }
        let agent = self.agents.get_mut(&peer).expect("the agent was found");
        let sequence = agent.sequence + 1;
        // What it was told before is over as soon as this stands.
        let old = agent.standing.keys().filter(|connection| !standing.contains_key(connection));
        let old: Vec<_> = old.map(|connection| (sequence, *connection, None)).collect();
        agent.unconfirmed.extend(old);
        agent.unconfirmed.extend(standing.iter().map(|(c, s)| (sequence, *c, s.rate)));
        (agent.standing, agent.windows, agent.batch) = (standing, windows, batch);
    }

    fn recount_link(
        &self,
        node: NodeId,
        link: LinkId,
        windows: &mut BTreeMap<(LinkId, Option<Connection>), Bytes>,
        batch: &mut Vec<Command>,
    ) {
        let interface = &self.view.links[link.index()].interface;
        if interface.is_empty() {
            return;
        }
        let is_switch = self.view.kind(node) == Some(NodeKind::Switch);
        let name = || (String::from(self.view.node_name(node)), interface.clone());
        if let Some(watch) = self.policy.watch().and_then(|watch| watch.congestion)
            && is_switch
        {
            let (node, interface) = name();
            let thresholds = Some(Thresholds {
                low_packets: watch.low,
                medium_packets: watch.medium,
                high_packets: watch.high,
                recovery_ns: watch.recovery,
            });
            batch.push(Command::Watch { node, interface, thresholds });
        }
        let all = (link, None)..=(link, Some(FlowId(u32::MAX)));
        for ((_, flow), cap) in self.windows.range(all) {
            let connection = flow.and_then(|id| Some(self.registry.flow(id)?.connection));
            if flow.is_some() && connection.is_none() {
                continue;
            }
            windows.insert((link, connection), *cap);
            let (node, interface) = name();
            batch.push(Command::Window { node, interface, connection, cap_bytes: Some(*cap) });
        }
    }
}
