//! Agents: who acts for which host, what each was told, and what it has confirmed.
//!
//! For each agent there is a copy of what it should hold; only differences are sent. An agent that
//! connects gets everything (`complete`), so that what it was told over a connection that broke ends
//! once the new state stands. What an earlier controller told it ends with that one's lease.

mod agent;
mod telling;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Bound;

use model::NodeId;
use protocol::Connection;
use protocol::agent::{Capability, Host, Report};
use units::{Span, Time};

use crate::context::Context;
use crate::contradictions::Contradictions;
use crate::failures::Failures;
use crate::lease::Lease;
use crate::message::{ChannelId, Refusal};
use crate::standing::{Held, Standing};
use crate::view::{View, is_on_wires, is_unicast, numbered};

pub(crate) use agent::{Agent, Moment};
pub(crate) use telling::{Everything, capping};

/// An agent that acted for a node for which none acts now.
pub(crate) struct Former {
    pub(crate) identity: String,
    /// Since when it is gone.
    pub(crate) since: Time,
    /// Whether it said that it holds nothing any more.
    pub(crate) left: bool,
    /// The highest epoch that it has obeyed.
    obeys: u64,
    /// When the lease of what it was told last ends.
    until: Time,
}

const SECOND: Span = Span::from_secs(1);
/// A connection that broke without a word is replaced once; agents of one name replace each other more often: each
/// comes back within seconds.
const RIVALRY: Span = Span::from_secs(60);
/// Names of which that is noted.
const RIVALS: usize = 256;
/// All agents.
#[derive(Default)]
pub(crate) struct Agents {
    agents: BTreeMap<ChannelId, Agent>,
    /// The agent that acts for a host or switch.
    acting: BTreeMap<NodeId, ChannelId>,
    /// The last agent of each node that had one and has none.
    former: BTreeMap<NodeId, Former>,
    /// Agents that have something to be told.
    addressed: BTreeSet<ChannelId>,
    /// When each agent must hear something again. Whatever it is told renews its lease, so that
    /// renewals of many agents don't fall on one moment.
    renewals: BTreeSet<(Time, ChannelId)>,
    /// Agents that had told of connections and are gone, by when what they told is forgotten.
    gone: BTreeMap<Time, BTreeSet<ChannelId>>,
    /// Names whose agent was replaced by a newer connection lately, and when last.
    replaced: BTreeMap<String, Time>,
    /// Rates that stand, and what agents that are gone have left.
    standing: Standing,
    /// Of agents that are not connected any more.
    lost: Contradictions<64>,
    /// Nodes for which one agent alone may act, and its name.
    bound: BTreeMap<String, String>,
    /// These agents.
    named: BTreeSet<String>,
}

impl Agents {
    /// None yet; for some nodes one alone may act.
    pub(crate) fn new(bound: Vec<(String, String)>) -> Self {
        let mut agents = Self::default();
        agents.bind(bound);
        agents
    }

    /// Other agents may act alone for nodes from now on.
    pub(crate) fn bind(&mut self, bound: Vec<(String, String)>) {
        self.named = bound.iter().map(|(_, agent)| agent.clone()).collect();
        self.bound = bound.into_iter().collect();
    }

    /// Why an agent may not act for a node of this name. Who is named for some acts for no others.
    fn wrong_node(&self, identity: &str, node: &str) -> Option<String> {
        let bound = self.bound.get(node);
        if bound.is_some_and(|agent| agent == identity) {
            return None;
        }
        let is_named = self.named.contains(identity);
        match bound {
            Some(agent) => Some(format!(
                "{node} is agent {agent}'s in the controller's configuration, and this is agent {identity}; correct \
                 its hosts, or agent of {node} there"
            )),
            None if is_named => Some(format!(
                "{node} is not among the nodes of agent {identity} in the controller's configuration; correct its \
                 hosts, or write agent = \"{identity}\" there"
            )),
            None => None,
        }
    }

    pub(crate) fn connect(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        identity: &str,
    ) -> Result<(), Refusal> {
        let most = cx.limits.agents;
        if self.agents.len() >= most {
            let reason =
                format!("{most} agents are connected; try again later, or raise limits.agents");
            return Err(Refusal { field: "agent", reason, busy: true });
        }
        let (identity, now) = (identity.into(), cx.now);
        let renewed = Lease::now(cx);
        let agent = Agent { identity, since: now, heard: now, renewed, ..Agent::default() };
        self.agents.insert(channel, agent);
        Ok(())
    }

    /// An agent says that it holds nothing any more of what it was told.
    pub(crate) fn let_go(&mut self, channel: ChannelId) {
        let Some(agent) = self.agents.get_mut(&channel) else {
            return;
        };
        agent.left = true;
        let told = core::mem::take(&mut agent.unconfirmed).into_iter();
        let failed: Vec<Connection> = agent.failures.connections().copied().collect();
        let granted = core::mem::take(&mut agent.grants).into_keys();
        for connection in granted.chain(told.map(|(_, connection, _)| connection)).chain(failed) {
            self.standing.release(&connection);
        }
        (agent.held, agent.failures) = (Held::default(), Failures::default());
    }

    /// Forgets an agent. What it was told stands until its lease ends, or another says what stands.
    pub(crate) fn remove(&mut self, cx: &Context, channel: ChannelId) {
        self.addressed.remove(&channel);
        let Some(agent) = self.agents.remove(&channel) else {
            return;
        };
        self.renewals.remove(&(agent.renew_at, channel));
        if agent.tells {
            // Many may go at once: what they told is looked for once a second.
            let at = (cx.now + cx.grace).as_nanos().div_ceil(SECOND.as_nanos());
            let at = Time::ZERO + SECOND * at;
            self.gone.entry(at).or_default().insert(channel);
        }
        for host in &agent.hosts {
            if self.acting.get(host) == Some(&channel) {
                self.acting.remove(host);
                let (identity, since, left) = (agent.identity.clone(), cx.now, agent.left);
                let obeys = if agent.applied > 0 { cx.epoch } else { agent.obeys.min(cx.epoch) };
                let until = agent.until();
                self.former.insert(*host, Former { identity, since, left, obeys, until });
            }
        }
        // What it said is told as long as if it were there.
        for (what, at) in agent.contradictions.seen(cx.now) {
            self.lost.note(at, format!("agent {}: {what}", agent.identity));
        }
        let until = Some(agent.until()).filter(|at| *at > cx.now);
        let sure = agent.sure_until(cx).filter(|at| *at > cx.now);
        let most = cx.limits.flows;
        // What it was told to let go and has not confirmed is no longer among its grants.
        let let_go = agent.unconfirmed.iter().map(|(_, connection, _)| connection);
        let failed = agent.failures.connections();
        let limited = agent.grants.iter().filter(|(_, grant)| grant.rate.is_some());
        let limited = limited.map(|(connection, _)| connection);
        for connection in limited.chain(let_go).chain(failed) {
            self.standing.leave(connection, until, sure, most);
        }
        for (thing, command) in agent.held.may_stand() {
            self.standing.leave_thing(thing, command, until, most);
        }
    }

    pub(crate) fn knows(&self, channel: ChannelId) -> bool {
        self.agents.contains_key(&channel)
    }

    /// Whether an agent that is known has said hello, unless it reports too often. What confirms
    /// commands is always taken.
    pub(crate) fn admit(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        report: &Report,
    ) -> Result<bool, Refusal> {
        let agent = self.agents.get_mut(&channel).expect("the agent is known");
        agent.heard = cx.now;
        let per_second = cx.limits.reports_per_second;
        let confirms = agent.confirms(report, cx.epoch);
        let budget = match report {
            Report::Congested { .. } => &mut agent.notices,
            Report::Failed { .. } => &mut agent.failing,
            Report::Hello { .. }
            | Report::Connections { .. }
            | Report::Ended { .. }
            | Report::Opened { .. }
            | Report::Closed { .. }
            | Report::Ports { .. }
            | Report::Applied { .. }
            | Report::Stale { .. }
            | Report::Left {} => &mut agent.budget,
        };
        if !confirms && !budget.take(cx.now, per_second) {
            let reason = format!(
                "more than {per_second} reports in a second; send fewer, or raise limits.reports_per_second"
            );
            return Err(Refusal { field: "agent", reason, busy: true });
        }
        Ok(agent.greeted)
    }

    /// The first report of an agent that is admitted: it acts for these hosts from now on. Hosts that
    /// nobody knows are added to the view. The agents that acted for them and are replaced.
    pub(crate) fn greet(
        &mut self,
        cx: &Context,
        view: &mut View,
        channel: ChannelId,
        hosts: &[Host],
        capabilities: &[Capability],
        obeys: u64,
    ) -> Result<Vec<ChannelId>, Refusal> {
        let refuse = |field, reason| Err(Refusal { field, reason, busy: false });
        let (limits, agent) = (&cx.limits, &self.agents[&channel]);
        if agent.greeted {
            return refuse("type", "a hello comes once, first; connect again".into());
        }
        if hosts.len() > limits.hosts {
            let reason = format!(
                "are more than {}; give some of them an agent of their own, or raise limits.hosts",
                limits.hosts
            );
            return refuse("hosts", reason);
        }
        if capabilities.len() > Capability::ALL.len() {
            let reason = format!(
                "are more than the {} that there are; name each once",
                Capability::ALL.len()
            );
            return refuse("capabilities", reason);
        }
        let (mut nodes, mut names) = (Vec::new(), BTreeSet::new());
        for host in hosts {
            if let Some(wrong) = limits.wrong_name(&host.name) {
                return refuse("hosts.name", wrong);
            }
            let at = || host.addresses.iter().find_map(|address| view.host_at(*address));
            let known = view.named(&host.name).or_else(at);
            let name = known.map_or(host.name.as_str(), |node| view.node_name(node));
            if let Some(wrong) = self.wrong_node(&agent.identity, name) {
                return refuse("hosts", wrong);
            }
            let other = known.and_then(|node| self.acting_for(node));
            if other.is_some_and(|(_, other)| other.identity != agent.identity) {
                let name = known.map_or("", |node| view.node_name(node));
                let reason = if name == host.name {
                    format!("another agent acts for {name}; stop that one")
                } else {
                    format!(
                        "{} has an address of {name}, for which another agent acts; give it its own",
                        host.name
                    )
                };
                return refuse("hosts", reason);
            }
            // An agent of another name doesn't go on from its maps, and can't end what they hold; nor does one that has
            // other pins, which knows no epoch.
            if let Some(former) = known.and_then(|node| self.former.get(&node))
                && (former.identity != agent.identity || former.obeys > obeys)
                && !former.left
                && former.until > cx.now
            {
                let lost = &former.identity;
                let reason = if *lost == agent.identity {
                    format!(
                        "agent {lost} is back without the pins that it had, and what they hold at {name} may stand \
                         until its lease ends; wait, or start it with them"
                    )
                } else {
                    format!(
                        "agent {lost} was lost, and what it holds at {name} may stand until its lease ends; wait, or \
                         start that one again, with its pins"
                    )
                };
                return Err(Refusal { field: "hosts", reason, busy: true });
            }
            // That of loopback is every machine's, unless the configuration says whose it is: all is on one then.
            let is_own = |address: &&IpAddr| {
                is_on_wires(**address)
                    || is_unicast(**address) && known.is_some() && view.host_at(**address) == known
            };
            if let Some(address) = host.addresses.iter().find(|address| !is_own(address)) {
                return refuse(
                    "hosts.addresses",
                    format!("{address} is no host's; give it one of its own"),
                );
            }
            if !names.insert(name) {
                return refuse("hosts", format!("{} is named twice; name it once", host.name));
            }
            if known.is_none() && numbered(&host.name).is_some() {
                let reason = format!("{} is what a switch is called; choose another", host.name);
                return refuse("hosts.name", reason);
            }
            nodes.push(known);
        }
        let new = nodes.iter().filter(|node| node.is_none()).count();
        if new > 0 && !cx.learn {
            let which = hosts.iter().zip(&nodes).find(|(_, node)| node.is_none());
            let name = which.map_or("", |(host, _)| &host.name);
            let reason = format!(
                "{name} is not declared; add it to the topology, or write control.learn = true"
            );
            return refuse("hosts", reason);
        }
        let named = view.named_by(&agent.identity);
        if named + new > limits.hosts_per_agent {
            let reason = format!(
                "with these {} has named {} hosts that nobody declared, and there may be {}; declare them, or raise \
                 limits.hosts_per_agent",
                agent.identity,
                named + new,
                limits.hosts_per_agent
            );
            return refuse("hosts", reason);
        }
        if view.learnt() + new > limits.hosts {
            return refuse("hosts", "too many hosts are known; declare them instead".into());
        }
        let (mut taken, mut replaced, mut before) = (Vec::new(), Vec::new(), Time::ZERO);
        let mut contradictions = Contradictions::default();
        for (host, node) in hosts.iter().zip(nodes) {
            let Some(node) = node.or_else(|| view.add_host_of(&host.name, &agent.identity, cx.now))
            else {
                continue;
            };
            for address in &host.addresses {
                if !view.learn_address(*address, node, limits) {
                    let other = view.host_at(*address);
                    let of = if other.is_some() { "is not" } else { "is one too many to be" };
                    // As long as it is connected.
                    contradictions.note(Time::NEVER, format!("{address} {of} {}'s", host.name));
                }
            }
            let old = self.acting.insert(node, channel);
            let former = self.former.remove(&node).filter(|former| !former.left);
            let acted = old.and_then(|old| self.agents.get(&old)).map(Agent::until);
            before =
                former.map(|former| former.until).into_iter().chain(acted).fold(before, Time::max);
            replaced.extend(old.filter(|old| *old != channel && !replaced.contains(old)));
            taken.push(node);
        }
        let agent = self.agents.get_mut(&channel).expect("the agent is admitted");
        if !replaced.is_empty() {
            note_rival(&mut self.replaced, &mut self.lost, cx.now, &agent.identity);
        }
        agent.hosts = taken;
        agent.before = before;
        agent.contradictions = contradictions;
        agent.capabilities = capabilities.to_vec();
        agent.greeted = true;
        agent.complete = true;
        self.addressed.insert(channel);
        Ok(replaced)
    }

    /// An agent says that it obeys an epoch.
    pub(crate) fn note_epoch(&mut self, channel: ChannelId, epoch: u64) {
        if let Some(agent) = self.agents.get_mut(&channel) {
            agent.obeys = agent.obeys.max(epoch);
        }
    }

    /// The agent that says to obey the highest epoch, and that epoch.
    pub(crate) fn highest_epoch(&self) -> Option<(&str, u64)> {
        let highest = self.agents.values().max_by_key(|agent| agent.obeys)?;
        Some((&highest.identity, highest.obeys))
    }

    /// The latest epoch of which more than half of the agents say to obey it or a later one; 0 without agents.
    pub(crate) fn epoch_of_most(&self) -> u64 {
        let greeted = self.agents.values().filter(|agent| agent.greeted);
        let mut obeyed: Vec<u64> = greeted.map(|agent| agent.obeys).collect();
        obeyed.sort_unstable();
        obeyed.get(obeyed.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// The agent that acts for a node.
    pub(crate) fn acting_for(&self, node: NodeId) -> Option<(ChannelId, &Agent)> {
        let channel = *self.acting.get(&node)?;
        Some((channel, self.agents.get(&channel)?))
    }

    /// The hosts that a host's agent acts for, which alone it is without one.
    pub(crate) fn beside(&self, host: NodeId) -> Vec<NodeId> {
        let agent = self.acting_for(host).map(|(_, agent)| agent.hosts.clone());
        agent.unwrap_or_else(|| Vec::from([host]))
    }

    /// The agent that acted for a node, if none does now.
    pub(crate) fn former(&self, node: NodeId) -> Option<&Former> {
        self.former.get(&node)
    }

    /// All of those, by node.
    pub(crate) fn all_former(&self) -> impl Iterator<Item = (NodeId, &Former)> {
        self.former.iter().map(|(node, former)| (*node, former))
    }

    /// What stands, but for what each agent holds.
    pub(crate) const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// What is over by now of what agents have left is forgotten.
    pub(crate) fn lapse(&mut self, now: Time) {
        self.standing.lapse(now);
    }

    /// What agents said, and were refused, that are not connected any more.
    pub(crate) const fn lost(&self) -> &Contradictions<64> {
        &self.lost
    }

    /// Nodes are forgotten: their numbers may be given to others.
    pub(crate) fn forget_nodes(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            self.former.remove(node);
        }
    }

    pub(crate) fn acts_for(&self, channel: ChannelId, node: NodeId) -> bool {
        self.acting.get(&node) == Some(&channel)
    }

    /// How many connections of pairs are kept of an agent: they are counted with the first report of a sample.
    pub(crate) fn kept(
        &self,
        channel: ChannelId,
        sampled: Time,
        count: impl FnOnce(&[NodeId]) -> usize,
    ) -> usize {
        self.agents.get(&channel).map_or(0, |agent| {
            let goes_on = agent.samples() && agent.begun.0 == sampled;
            if goes_on { agent.kept } else { count(&agent.hosts) }
        })
    }

    /// An agent has told a part of a sample; so many connections of pairs are kept of it.
    pub(crate) fn note_sample(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        sampled: Time,
        kept: usize,
    ) {
        if let Some(agent) = self.agents.get_mut(&channel) {
            let begins = (sampled, Moment { now: cx.now, awake: cx.awake });
            if agent.sampled.is_none() {
                (agent.sampled, agent.sampling) = (Some(sampled), cx.awake);
                agent.begun = begins;
            }
            let (last, came) = agent.begun;
            if last != sampled {
                (agent.looked, agent.begun) = (Some(came), begins);
            }
            (agent.sampled_at, agent.kept) = (cx.now, kept);
        }
    }

    /// When the agent of a node last looked at all of its connections: what was there then it has told of since. It
    /// tells a sample in many parts, which may take longer than samples should be apart. Where nobody samples nobody is
    /// waited for: [`Moment::NEVER`].
    pub(crate) fn looked(&self, node: Option<NodeId>) -> Moment {
        let agent = node.and_then(|node| self.acting_for(node)).filter(|(_, a)| a.samples());
        agent.map_or(Moment::NEVER, |(_, agent)| agent.looked.unwrap_or_default())
    }

    /// Whether a node has an agent that has sampled its connections for a grace, and does so still: what it doesn't
    /// tell of isn't there.
    pub(crate) fn would_report(&self, cx: &Context, node: NodeId) -> bool {
        self.acting_for(node).is_some_and(|(_, agent)| {
            let long = agent.samples() && cx.awake.since(agent.sampling) > cx.grace;
            long && !agent.has_stopped(cx)
        })
    }

    /// The hosts whose agents have sampled connections and do so no more. What they said while the controller slept may
    /// still wait.
    pub(crate) fn stopped(&self, cx: &Context) -> Vec<NodeId> {
        let is_silent = |agent: &&Agent| {
            let (_, came) = agent.begun;
            agent.samples() && agent.has_stopped(cx) && cx.awake.since(came.awake) > cx.patience()
        };
        let stopped = self.agents.values().filter(is_silent);
        stopped.flat_map(|agent| agent.hosts.iter().copied()).collect()
    }

    /// Whether an agent had sampled its connections before.
    pub(crate) fn sampled_before(&self, channel: ChannelId, sampled: Time) -> bool {
        let first = self.agents.get(&channel).and_then(|agent| agent.sampled);
        first.is_some_and(|first| first < sampled)
    }

    /// An agent whose hosts' flows were not looked at for a sample: they are now.
    pub(crate) fn sweep(&mut self, cx: &Context, channel: ChannelId) -> Option<&Agent> {
        let agent = self.agents.get_mut(&channel)?;
        if cx.awake.since(agent.swept) < cx.sample {
            return None;
        }
        agent.swept = cx.awake;
        Some(agent)
    }

    /// Something that an agent said was not taken.
    pub(crate) fn note_refused(&mut self, channel: ChannelId, now: Time, refusal: &Refusal) {
        if let Some(agent) = self.agents.get_mut(&channel) {
            agent.contradictions.note(now, format!("what it reports is refused: {refusal}"));
        }
    }

    /// More connections ended at once than an agent could tell of.
    pub(crate) fn note_lost(&mut self, channel: ChannelId, now: Time) {
        if let Some(agent) = self.agents.get_mut(&channel) {
            let what = "more connections ended at once than it can tell of: what they sent counts for nobody";
            agent.contradictions.note(now, what.into());
        }
    }

    /// More connections are open than are kept of an agent.
    pub(crate) fn note_more(&mut self, channel: ChannelId, now: Time, most: usize) {
        if let Some(agent) = self.agents.get_mut(&channel) {
            let what = format!(
                "its hosts have more than {most} connections: those beyond have no part in the rate of a pair of hosts; \
                 raise limits.flows"
            );
            agent.contradictions.note(now, what);
        }
    }

    /// An agent is not taken for what it said, and will be forgotten.
    pub(crate) fn note_turned_away(&mut self, channel: ChannelId, now: Time, refusal: &Refusal) {
        if let Some(agent) = self.agents.get(&channel) {
            self.lost.note(now, format!("agent {} is refused: {refusal}", agent.identity));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// All agents, by their connections.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (ChannelId, &Agent)> {
        self.agents.iter().map(|(channel, agent)| (*channel, agent))
    }

    /// The agent of a connection.
    pub(crate) fn get(&self, channel: ChannelId) -> Option<&Agent> {
        self.agents.get(&channel)
    }

    /// The connection of an agent that comes after another, or the first.
    pub(crate) fn after(&self, channel: Option<ChannelId>) -> Option<ChannelId> {
        let from = channel.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.agents.range::<ChannelId, _>((from, Bound::Unbounded));
        rest.next().map(|(channel, _)| *channel)
    }

    /// What an agent has acted for since it came.
    pub(crate) fn hosts_of(&self, channel: ChannelId) -> &[NodeId] {
        self.agents.get(&channel).map_or(&[], |agent| &agent.hosts)
    }

    /// All agents, with the hosts of each.
    pub(crate) fn with_hosts(&self) -> Vec<(ChannelId, Vec<NodeId>)> {
        self.agents.iter().map(|(channel, agent)| (*channel, agent.hosts.clone())).collect()
    }

    /// When the first lease must be renewed.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let renewal = self.renewals.first().map(|(at, _)| *at);
        let gone = self.gone.first_key_value().map(|(at, _)| *at);
        [renewal, gone, self.standing.deadline()].into_iter().flatten().min()
    }

    /// An agent has told of a connection that opened.
    pub(crate) fn note_teller(&mut self, channel: ChannelId) {
        if let Some(agent) = self.agents.get_mut(&channel) {
            agent.tells = true;
        }
    }

    /// The agents that are gone for so long that what they told of is forgotten.
    pub(crate) fn take_gone(&mut self, cx: &Context) -> BTreeSet<ChannelId> {
        let mut all = BTreeSet::new();
        while let Some(entry) = self.gone.first_entry().filter(|entry| *entry.key() <= cx.now) {
            all.extend(entry.remove());
        }
        all
    }

    /// Addresses the agents whose lease must be renewed.
    pub(crate) fn renew(&mut self, now: Time) {
        let due = self.renewals.iter().take_while(|(at, _)| *at <= now);
        self.addressed.extend(due.map(|(_, channel)| *channel));
    }

    /// Addresses all agents.
    pub(crate) fn renew_all(&mut self) {
        self.addressed.extend(self.agents.keys());
    }

    /// Has all agents hear everything anew.
    pub(crate) fn retell_all(&mut self) {
        for agent in self.agents.values_mut().filter(|agent| agent.greeted) {
            agent.complete = true;
        }
        self.renew_all();
    }

    /// The agents that have something to be told.
    pub(crate) fn take_addressed(&mut self) -> BTreeSet<ChannelId> {
        core::mem::take(&mut self.addressed)
    }
}

/// Another connection of an agent's name has taken its place: told where that happens again and again.
fn note_rival(
    replaced: &mut BTreeMap<String, Time>,
    told: &mut Contradictions<64>,
    now: Time,
    identity: &str,
) {
    replaced.retain(|_, at| now.since(*at) <= RIVALRY);
    if replaced.contains_key(identity) {
        told.note(
            now,
            format!(
                "agent {identity}: two agents of this name take each other's place, or the connections of one break \
                 again and again; the one that connected first is refused each time, the newest stands: stop one of them, or give it a name and a certificate of its own"
            ),
        );
    } else if replaced.len() >= RIVALS {
        return;
    }
    replaced.insert(identity.into(), now);
}

#[cfg(test)]
mod tests {
    use protocol::agent::Command;
    use units::Rate;

    use super::*;
    use crate::desired::Grant;
    use crate::fixture::{config, connection};

    const CHANNEL: ChannelId = ChannelId(1);

    fn grant(mbps: u64) -> Grant {
        Grant { rate: Some(Rate::from_mbps(mbps)), priority: 0 }
    }

    /// An agent that has said hello and was told everything.
    fn one_agent() -> (Agents, View, Context, NodeId) {
        let mut config = config();
        let cx = Context::new(&config, 4, Time::ZERO);
        let mut view = View::new(&mut config).expect("a view");
        let mut agents = Agents::default();
        greet(&mut agents, &mut view, &cx, CHANNEL, "a").expect("it is new");
        agents.retell(CHANNEL, Everything::default(), &[], Vec::new());
        let commands = agents.take_commands(&cx, CHANNEL).expect("it has said hello");
        assert!(commands.complete && commands.sequence == 1 && commands.epoch == 4);
        let host = view.named("h").expect("it was learnt");
        (agents, view, cx, host)
    }

    fn greet(
        agents: &mut Agents,
        view: &mut View,
        cx: &Context,
        channel: ChannelId,
        identity: &str,
    ) -> Result<Vec<ChannelId>, Refusal> {
        agents.connect(cx, channel, identity)?;
        let hosts = [Host { name: "h".into(), addresses: Vec::from([[10, 0, 0, 1].into()]) }];
        agents.greet(cx, view, channel, &hosts, &Capability::ALL, 0)
    }

    #[test]
    fn only_differences_are_told_and_only_what_is_applied_is_confirmed() {
        let (mut agents, _, cx, host) = one_agent();
        for mbps in [10, 10, 20] {
            assert!(agents.hold(host, connection(1), grant(mbps)));
        }
        let commands = agents.take_commands(&cx, CHANNEL).expect("it has said hello");
        assert_eq!(commands.commands.len(), 2, "the same is not told again");
        let applied = |agents: &mut Agents, epoch, sequence| {
            agents.applied(&cx, CHANNEL, epoch, sequence);
            agents.standing.rate(&connection(1))
        };
        assert_eq!(applied(&mut agents, 3, 2), None, "of another epoch");
        assert_eq!(applied(&mut agents, 4, 1), None, "of commands before");
        assert_eq!(applied(&mut agents, 4, 2), Some(Rate::from_mbps(20)));
        assert_eq!(agents.highest_epoch(), Some(("a", 0)), "an answer names none to believe");
    }

    #[test]
    fn a_host_has_one_agent_and_it_is_replaced_by_its_own_kind_only() {
        let (mut agents, mut view, cx, host) = one_agent();
        assert!(greet(&mut agents, &mut view, &cx, ChannelId(2), "b").is_err());
        let replaced = greet(&mut agents, &mut view, &cx, ChannelId(3), "a").expect("the same");
        assert_eq!(replaced, [CHANNEL]);
        agents.remove(&cx, CHANNEL);
        assert!(agents.acts_for(ChannelId(3), host), "the old one takes nothing with it");
    }

    #[test]
    fn what_a_lost_agent_held_is_not_confirmed_any_more_once_its_lease_is_over() {
        let (mut agents, _, cx, host) = one_agent();
        agents.hold(host, connection(1), grant(10));
        agents.hold(host, connection(2), grant(10));
        let sent = agents.take_commands(&cx, CHANNEL).expect("it has said hello");
        agents.applied(&cx, CHANNEL, sent.epoch, sent.sequence);
        agents.hold(host, connection(2), Grant::default());
        agents.remove(&cx, CHANNEL);
        assert!(!agents.hold(host, connection(1), grant(10)), "nobody acts for the host");
        let until = Time::ZERO + cx.lease;
        assert_eq!(agents.deadline(), Some(until));
        agents.lapse(Time::ZERO);
        assert_eq!(agents.standing.rates().count(), 2, "what it has let go may stand, too");
        agents.lapse(until);
        assert_eq!((agents.standing.rates().count(), agents.deadline()), (0, None));
    }

    /// A reload has made leases shorter, and one of the shorter may have reached it, or not: what it holds may stand for
    /// the longer, and is called enforced for the shorter.
    #[test]
    fn a_lost_agent_leaves_what_may_stand_for_its_longest_lease() {
        for seconds in [9, 11] {
            let (mut agents, _, mut cx, host) = one_agent();
            cx.lease = Span::from_secs(60);
            agents.hold(host, connection(1), grant(10));
            let sent = agents.take_commands(&cx, CHANNEL).expect("it has said hello");
            agents.applied(&cx, CHANNEL, sent.epoch, sent.sequence);
            cx.lease = Span::from_secs(10);
            cx.now = Time::ZERO + Span::from_secs(seconds);
            agents.hold(host, connection(2), grant(10));
            agents.take_commands(&cx, CHANNEL).expect("there is something new");
            let silence = agents.agents[&CHANNEL].silence(&cx, cx.now);
            assert_eq!(silence.is_none(), seconds < 10);
            agents.remove(&cx, CHANNEL);
            let (standing, of) = (&agents.standing, &connection(1));
            let minute = Time::ZERO + Span::from_secs(60);
            assert_eq!(standing.left_until(of), Some(minute), "after {seconds} s");
            let (rate, short) = (Some(Rate::from_mbps(10)), Time::ZERO + Span::from_secs(10));
            assert_eq!(standing.sure_until(of), Some(short).filter(|at| *at > cx.now));
            let rates = (standing.rate(of), standing.rate_left(cx.now, of));
            assert_eq!(rates, (rate.filter(|_| seconds < 10), rate), "after {seconds} s");
            assert_eq!(standing.rate_left(minute, of), None);
            let former = &agents.former[&host];
            assert_eq!(former.until, minute, "nor may another act for its hosts until then");
        }
    }

    /// Renewals that it hasn't confirmed may have been lost: they prolong what may stand, not what is enforced.
    #[test]
    fn what_a_lost_agent_left_is_enforced_for_the_lease_that_it_confirmed() {
        for obeys in [4, 5] {
            let (mut agents, _, mut cx, host) = one_agent();
            agents.hold(host, connection(1), grant(10));
            let sent = agents.take_commands(&cx, CHANNEL).expect("it has said hello");
            agents.applied(&cx, CHANNEL, sent.epoch, sent.sequence);
            cx.now = Time::ZERO + Span::from_secs(9);
            agents.take_commands(&cx, CHANNEL).expect("a renewal");
            agents.note_epoch(CHANNEL, obeys);
            agents.remove(&cx, CHANNEL);
            let (standing, of) = (&mut agents.standing, &connection(1));
            let rate = Some(Rate::from_mbps(10));
            assert_eq!(standing.rate(of), rate.filter(|_| obeys == 4), "it obeys {obeys}");
            standing.lapse(Time::ZERO + Span::from_secs(10));
            let last = Time::ZERO + Span::from_secs(18);
            assert_eq!((standing.rate(of), standing.rate_left(last, of)), (None, rate));
            let end = Time::ZERO + Span::from_secs(19);
            assert_eq!(standing.left_until(of), Some(end));
        }
    }

    /// It answers for nothing that the last one left: that may stand as long as before, and is enforced no more.
    #[test]
    fn who_breaks_before_it_confirms_shortens_nothing_that_was_left() {
        let (mut agents, mut view, mut cx, host) = one_agent();
        cx.lease = Span::from_secs(60);
        agents.hold(host, connection(1), grant(10));
        let sent = agents.take_commands(&cx, CHANNEL).expect("it has said hello");
        agents.applied(&cx, CHANNEL, sent.epoch, sent.sequence);
        agents.remove(&cx, CHANNEL);
        cx.lease = Span::from_secs(10);
        for number in 2..4 {
            let channel = ChannelId(number);
            let hosts = [Host { name: "h".into(), addresses: Vec::new() }];
            agents.connect(&cx, channel, "a").expect("there is room");
            let greeted = agents.greet(&cx, &mut view, channel, &hosts, &Capability::ALL, 4);
            greeted.expect("it goes on");
            agents.retell(channel, Everything::default(), &[connection(1)], Vec::new());
            agents.take_commands(&cx, channel).expect("it has said hello");
            agents.remove(&cx, channel);
            let (standing, of) = (&agents.standing, &connection(1));
            let minute = Time::ZERO + Span::from_secs(60);
            assert_eq!((standing.rate(of), standing.left_until(of)), (None, Some(minute)));
            assert_eq!(standing.rate_left(cx.now, of), Some(Rate::from_mbps(10)));
        }
    }

    /// Reports of failures are spared the limit of reports: no more of them than commands that may fail.
    #[test]
    fn no_more_failures_are_awaited_than_commands_without_an_answer() {
        let (mut agents, _, cx, host) = one_agent();
        let command = Command::Pace { connection: connection(1), rate_bps: None };
        let awaits = |agents: &Agents, sequence| {
            let (command, reason) = (command.clone(), String::new());
            let failed = Report::Failed { epoch: 4, sequence, command, reason };
            agents.agents[&CHANNEL].confirms(&failed, 4)
        };
        let send = |agents: &mut Agents, ports: [u16; 2]| {
            for port in ports {
                agents.hold(host, connection(port), grant(10));
            }
            agents.take_commands(&cx, CHANNEL).expect("it has said hello").sequence
        };
        let sequence = send(&mut agents, [1, 2]);
        for left in [true, false] {
            let failed = agents.failed(&cx, CHANNEL, (4, sequence), (&command, true), "no");
            assert_eq!(failed, Ok(true));
            assert_eq!(awaits(&agents, sequence), left);
        }
        let sequence = send(&mut agents, [3, 4]);
        assert!(awaits(&agents, sequence));
        agents.applied(&cx, CHANNEL, 4, sequence);
        assert!(!awaits(&agents, sequence), "what was carried out doesn't fail any more");
    }
}
