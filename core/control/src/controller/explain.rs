//! Answers to people, read from the rooms: how everything stands, and why a flow has its rate.

mod loads;
pub mod question;
mod why;
mod windows;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;

use model::{FlowId, LinkId, NodeId, NodeKind, Terms};
use protocol::Connection;
use protocol::agent::MOST_IDENTIFIED;
use protocol::operator::Act;
use units::{Rate, Span, Time};

use self::loads::Load;
use self::question::{Flows, FlowsOf, Jobs, Overview};
use super::Controller;
use crate::agents::{Agent, Former};
use crate::applications::flow::Flow;
use crate::applications::registry::Job;
use crate::applications::selector::Selector;
use crate::config::Enforcement;
use crate::fabric::discovery::PROBES;
use crate::orders::by;
use crate::status::{
    AgentStatus, ApplicationFlows, ApplicationStatus, Asked, FlowStatus, FormerAgentStatus,
    JobStatus, LinkStatus, RefusalStatus, Status, SwitchStatus,
};
use crate::thing::Thing;

/// Why nothing holds a flow of which a port is not known.
const UNSEEN: &str = "no agent has seen a connection of it yet";

/// Which processes an agent looks for, and what to do about the others.
const OF_ALL: &str = "those of all its hosts together";
const FEWER: &str =
    "complete flows that name others, name control groups, or give its hosts agents of their own";

/// Connections of a flow that an answer names: a flow may have as many as an application has flows, and each flow that
/// was declared just so has them all.
const CARRIERS: usize = 16;

/// Of what an agent that is gone held.
const MAY_STAND: &str = "of the last one may stand until its lease ends";

/// What a job asks for, if anything.
fn terms(job: &Job) -> Option<Asked> {
    let Terms { objective, deadline, weight } = &job.terms;
    (job.terms != Terms::default()).then(|| Asked {
        objective: objective.as_deref().map(String::from),
        deadline_ms: deadline.map(|span| span.as_nanos() / 1_000_000),
        weight: *weight,
    })
}

/// Whether something that the policy wants is in force.
enum Standing {
    Stands,
    /// It is in force if this holds.
    Conditional(String),
    /// It may come to stand, or was in force; why it isn't now.
    Awaited(String),
    Failed(String),
}

/// Answers as of a moment. Leases end and measures grow old although nobody has told the controller
/// anything.
pub struct Answers<'a> {
    controller: &'a Controller,
    /// The moment: not before `context.now`, when the controller heard something last.
    as_of: Time,
}

impl Deref for Answers<'_> {
    type Target = Controller;

    fn deref(&self) -> &Controller {
        self.controller
    }
}

impl Controller {
    /// Answers as of `now`.
    pub fn at(&self, now: Time) -> Answers<'_> {
        Answers { controller: self, as_of: now.max(self.context.now) }
    }
}

impl Answers<'_> {
    /// The orders of operators that stand.
    pub fn orders(&self) -> Vec<Act> {
        self.orders.standing()
    }

    /// How everything stands.
    pub fn status(&self) -> Status {
        self.at_once(Overview::default())
    }

    /// How everything stands, where all flows and grants have been gone over.
    fn overview(&self, over: &Overview) -> Status {
        let pods = self.registry.pods.by_host(|address| self.view.host_at(address));
        Status {
            epoch: self.context.epoch,
            since_ns: self.since,
            now_ns: self.as_of,
            policy: self.decider.name().into(),
            enforcement: self.context.enforcement.name(),
            switches: self.switch_statuses(),
            agents: self
                .agents
                .numbered()
                .map(|(channel, agent)| AgentStatus {
                    identity: agent.identity.clone(),
                    hosts: agent
                        .hosts
                        .iter()
                        .map(|node| self.view.node_name(*node).into())
                        .collect(),
                    capabilities: agent.capabilities.clone(),
                    paced: over.granted(channel).paced
                        + agent
                            .failures
                            .connections()
                            .filter(|c| self.outlasts(agent, c) && self.is_held(agent, c))
                            .filter(|c| !over.is_unseen(c))
                            .count(),
                    unseen: over.granted(channel).unseen,
                    unconfirmed: agent.unconfirmed() as u64,
                    pods: agent.hosts.iter().filter_map(|host| pods.get(host)).sum(),
                    heard_ns: agent.heard,
                })
                .collect(),
            former_agents: self.former_statuses(),
            applications: self
                .registry
                .applications
                .iter()
                .map(|(name, known)| ApplicationStatus {
                    name: (**name).into(),
                    connected: known.ends.is_none(),
                    jobs: known.jobs.len(),
                    flows: known.flows,
                    refused: known.refused,
                    refusals: known
                        .refusals
                        .iter()
                        .map(|(at, why)| RefusalStatus { at_ns: *at, reason: why.clone() })
                        .collect(),
                    contradicted: known.contradicted,
                    memory_bytes: known.memory,
                })
                .collect(),
            tenants: self.registry.tenants().all().map(String::from).collect(),
            links: self.link_statuses(&over.loads),
            orders: self.orders.standing(),
            problems: self.problems(over),
        }
    }

    /// Agents that are gone, and what they may have left standing.
    fn former_statuses(&self) -> Vec<FormerAgentStatus> {
        let mut stand: BTreeMap<NodeId, (usize, Time)> = BTreeMap::new();
        let standing = self.agents.standing();
        let rates = standing.rates_left();
        let rates = rates.map(|(of, until)| (self.view.host_at(of.source.ip()), until));
        let things = standing.things_left();
        let all = rates.chain(things.map(|(of, until)| (of.place(&self.view), until)));
        for (node, until) in all.filter(|(_, until)| *until > self.as_of) {
            let Some(node) = node else { continue };
            let (count, last) = stand.entry(node).or_default();
            (*count, *last) = (*count + 1, until.max(*last));
        }
        let mut all: BTreeMap<(&str, Time), FormerAgentStatus> = BTreeMap::new();
        for (node, former) in self.agents.all_former() {
            let one = all.entry((&former.identity, former.since)).or_insert_with(|| {
                let (identity, since_ns, left) =
                    (former.identity.clone(), former.since, former.left);
                FormerAgentStatus { identity, since_ns, left, ..FormerAgentStatus::default() }
            });
            one.hosts.push(self.view.node_name(node).into());
            if let Some((count, until)) = stand.get(&node) {
                one.may_stand += count;
                one.until_ns = one.until_ns.max(Some(*until));
            }
        }
        all.into_values().collect()
    }

    /// That no agent acts for a node, and what became of the last one.
    fn unacted(&self, node: NodeId) -> String {
        let said = format!("no agent is connected for {}", self.view.node_name(node));
        match self.agents.former(node) {
            Some(Former { identity, left: true, .. }) => {
                format!("{said}: agent {identity} has left, and holds nothing")
            }
            Some(Former { identity, .. }) => {
                format!("{said}: the connection of agent {identity} was lost")
            }
            None => said,
        }
    }

    /// Connections of a flow whose rate an agent has confirmed though it doesn't see them, and since when the flow is
    /// wanted.
    fn unseen(&self, flow: &Flow) -> Vec<(Connection, Time)> {
        let agent = self.agents.acting_for(flow.ends.0).map(|(_, agent)| agent);
        let Some(agent) = agent.filter(|agent| !self.is_seen(agent, flow)) else {
            return Vec::new();
        };
        let limited = self.limited(flow).into_iter();
        let held = limited.filter(|connection| self.is_held(agent, connection));
        held.map(|connection| (connection, flow.since)).collect()
    }

    fn switch_statuses(&self) -> Vec<SwitchStatus> {
        let topology = self.view.network().topology();
        let nodes = (0u32..).zip(topology.nodes());
        let is_known = |number, name| self.view.named(name) == Some(NodeId(number));
        let switches = nodes.filter(|(number, node)| {
            node.kind == NodeKind::Switch && is_known(*number, &node.name)
        });
        switches
            .map(|(number, node)| {
                let known = self.fabric.switches.get(NodeId(number));
                SwitchStatus {
                    name: node.name.clone(),
                    datapath_id: self.view.datapath_of(NodeId(number)),
                    connected: known.is_some_and(|switch| switch.ready),
                    settled: known.is_some_and(|s| s.ready && s.refused.is_empty())
                        && self.fabric.rollout.is_settled(NodeId(number)),
                    entries: known.filter(|switch| switch.capable).map_or(0, |switch| {
                        let own = switch.own.len() + switch.meters.len() + switch.caps.len();
                        switch.routes.len() + own
                    }),
                    meters: known.map_or(0, |switch| switch.meters.len()),
                }
            })
            .collect()
    }

    fn link_statuses(&self, loads: &BTreeMap<LinkId, Load>) -> Vec<LinkStatus> {
        let (none, links) = (Load::default(), self.view.network().topology().links());
        let links = (0u32..).zip(links);
        links
            .map(|(number, link)| {
                let id = LinkId(number);
                let load = loads.get(&id).unwrap_or(&none);
                let known = self.view.link(id);
                // What nobody sends needs no measurement.
                let measured_bps = if load.flows == 0 { Some(Rate::ZERO) } else { load.measured };
                LinkStatus {
                    from: self.view.node_name(link.from).into(),
                    to: self.view.node_name(link.to).into(),
                    capacity_bps: link.spec.capacity,
                    declared: known.declared,
                    seen: self.can_be_seen(id).then(|| known.seen.is_some()),
                    up: self.view.network().is_up(id),
                    flows: load.flows,
                    limited_bps: load.limited,
                    enforced_bps: load.enforced,
                    measured_bps,
                    congested: known.congested,
                }
            })
            .collect()
    }

    /// Whether probes would cross a link: between two switches that are connected.
    fn can_be_seen(&self, link: LinkId) -> bool {
        let link = self.view.network().topology().link(link);
        [link.from, link.to].iter().all(|n| self.fabric.switches.is_ready(*n))
    }

    /// Whether probes must have crossed a link by now.
    fn is_silent(&self, link: LinkId) -> bool {
        let patience = self.context.probe_pause() * PROBES;
        let long = |since| self.as_of.since(since) > patience;
        if self.view.link(link).seen.is_some_and(|seen| !long(seen)) {
            return false;
        }
        let link = self.view.network().topology().link(link);
        let ends = [link.from, link.to].map(|node| self.fabric.switches.get(node));
        ends.iter().all(|end| end.is_some_and(|switch| switch.ready && long(switch.ready_since)))
    }

    /// Whether a connection that an agent failed to let go has no grant any more.
    fn outlasts(&self, agent: &Agent, connection: &Connection) -> bool {
        agent.failures.is_rates_end(connection) && !agent.grants.contains_key(connection)
    }

    /// How many limits are in force, of rates, windows and classes, or may be, as agents that are gone have left them.
    fn in_force(&self) -> usize {
        let standing = self.agents.standing();
        let stands = |of: &&Connection| {
            let host = self.view.host_at(of.source.ip());
            let agent = host.and_then(|host| self.agents.acting_for(host));
            // What was left is counted below.
            standing.left_until(of).is_none()
                && agent.is_some_and(|(_, agent)| self.is_held(agent, of))
        };
        let rates = match self.context.enforcement {
            Enforcement::Pacing => standing.rates().filter(stands).count(),
            Enforcement::Meters => {
                self.registry.flows().filter(|(_, flow)| self.enforced(flow).is_some()).count()
            }
        };
        let sure = self.agents.iter().filter(|agent| self.doubt(agent).is_none());
        let things = standing.things_left().map(|(_, until)| until);
        let left = standing.rates_left().map(|(_, until)| until).chain(things);
        let left = left.filter(|until| *until > self.as_of);
        rates + left.count() + sure.map(|agent| agent.held.count()).sum::<usize>()
    }

    /// Whether the lease that it confirmed still lasts of a limit whose agent is gone.
    fn is_left(&self, connection: &Connection) -> bool {
        self.agents.standing().sure_until(connection).is_some_and(|until| until > self.as_of)
    }

    fn problems(&self, over: &Overview) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(act) = self.orders.frozen() {
            let by = by(act);
            let but = match self.in_force() {
                0 => "no limit is in force until `watermaster order thaw`".into(),
                stand => format!(
                    "no limit is to be in force until `watermaster order thaw`, but {stand} of before still stand \
                     or may: their end is not confirmed, or failed"
                ),
            };
            problems.push(format!("DECISIONS ARE FROZEN {by}: {but}"));
        }
        if let Some((agent, epoch)) = self.outranked() {
            problems.push(format!(
                "agent {agent} obeys a controller of epoch {epoch}, this one has {}: stop one of the two; where this \
                 one's state was lost, and the agents' logs name it, write {epoch} into the file epoch of the state and \
                 start it again",
                self.context.epoch
            ));
        }
        let policy = self.decider.name();
        if let Some(why) = policy::find(policy).ok().and_then(policy::Descriptor::why_not_live) {
            problems.push(format!("policy {policy}: {why}"));
        }
        if self.registry.seen() >= self.context.limits.flows {
            let most = self.context.limits.flows;
            problems.push(format!(
                "{most} connections that nobody declared are open: more are not governed; raise limits.flows"
            ));
        }
        for switch in self.switch_statuses() {
            let node = self.view.named(&switch.name);
            let known = node.and_then(|node| self.fabric.switches.get(node));
            if known.is_some_and(|known| known.obeys_another) {
                problems.push(format!(
                    "switch {} obeys a controller of a later epoch than {}: stop one of the two",
                    switch.name, self.context.epoch
                ));
            } else if switch.is_missing() && node.is_some_and(|node| self.view.is_declared(node)) {
                problems.push(format!("switch {} is not connected", switch.name));
            }
        }
        for (node, switch) in self.fabric.switches.iter() {
            if switch.ready && !switch.capable {
                let name = self.view.node_name(node);
                problems
                    .push(format!("switch {name} has less than two tables: it gets no entries"));
            }
            if let Some(why) = switch.refused.values().next().filter(|_| switch.ready) {
                let (name, count) = (self.view.node_name(node), switch.refused.len());
                problems.push(format!(
                    "switch {name}: {count} entries that forward packets are not confirmed: {why}; they are sent again \
                     until they are"
                ));
            }
        }
        for (number, link) in (0u32..).zip(self.view.links()) {
            let id = LinkId(number);
            if link.declared && self.is_silent(id) {
                let whole =
                    |seen| Span::from_secs(self.as_of.since(seen).as_nanos() / 1_000_000_000);
                let since = link.seen.map(|seen| format!(" for {}", whole(seen)));
                problems.push(format!(
                    "link {} is declared, but no probe has crossed it{}; see the switches' entries and cables",
                    self.view.link_name(id),
                    since.unwrap_or_default()
                ));
            }
            if !self.view.network().is_up(id) && (link.declared || !link.lost) {
                problems.push(format!("link {} is down", self.view.link_name(id)));
            }
        }
        for (channel, agent) in self.agents.numbered() {
            let failures = agent.failures.summaries(|thing, wanted| match thing {
                Thing::Rate(of) => {
                    Some((format!("{}", self.held_rate(agent, of)?), self.holds_rate(agent, of)))
                }
                thing => Some((agent.held.in_words(thing)?, agent.held.has(wanted))),
            });
            let contradictions = agent.contradictions.iter(self.as_of).cloned();
            let all = failures.into_iter().chain(contradictions);
            problems.extend(all.map(|what| format!("agent {}: {what}", agent.identity)));
            if !agent.unsought.is_empty() {
                let (name, more) = (&agent.identity, agent.unsought.len());
                problems.push(format!(
                    "agent {name}: it looks for {MOST_IDENTIFIED} processes, {OF_ALL}, and not for {more} more; {FEWER}"
                ));
            }
            problems.extend(self.silence(agent));
            let granted = over.granted(channel);
            if let Some(first) = granted.first_late {
                problems.push(format!(
                    "agent {}: of {} rates that stand it sees no connection, such as {} -> {}: they aren't open, \
                     or their processes are outside its control group",
                    agent.identity,
                    granted.late,
                    first.source,
                    first.destination
                ));
            }
        }
        // One that is back may have said the same again.
        let lost = self.agents.lost().iter(self.as_of).filter(|what| !problems.contains(what));
        let lost: Vec<String> = lost.cloned().collect();
        problems.extend(lost);
        let more = self.agents.lost().more(self.as_of);
        if more > 0 {
            problems.push(format!(
                "{more} more things that agents were refused or said have no room here; the log names refusals"
            ));
        }
        problems.extend(self.unattended(over));
        for (node, switch) in self.fabric.switches.iter() {
            let meters = switch.meters.connections();
            let meters = meters.filter_map(|(of, failure)| Some(("rate", of, failure?)));
            let caps = switch.caps.failures().map(|(of, failure)| ("window", of, failure));
            let mut failures = meters.chain(caps);
            if let Some((what, connection, failure)) = failures.next() {
                let (name, source) = (self.view.node_name(node), connection.source);
                let more = match failures.count() {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                problems.push(format!(
                    "switch {name}: the {what} of {source} is not enforced: {failure}{more}"
                ));
            }
        }
        problems.extend(self.view.contradictions().iter(self.as_of).cloned());
        problems.extend(self.registry.overreach().iter(self.as_of).cloned());
        problems
    }

    /// Whether a flow has a limit, and no agent at its host that could hold it.
    fn is_unattended(&self, id: FlowId, flow: &Flow) -> bool {
        self.context.enforcement == Enforcement::Pacing
            && self.agents.acting_for(flow.ends.0).is_none()
            && !self.is_withheld(flow.ends)
            && self.intended(id, flow).is_some()
    }

    fn unattended(&self, over: &Overview) -> Option<String> {
        // An agent may have come since its host's flows were gone over.
        let all = over.unattended.iter();
        let mut still = all.filter(|(host, _)| self.agents.acting_for(**host).is_none());
        let (host, first) = still.next().filter(|_| self.orders.frozen().is_none())?;
        let flows = first + still.map(|(_, flows)| flows).sum::<usize>();
        let host = self.view.node_name(*host);
        Some(format!(
            "limits of flows that nobody holds, as no agent is connected for their hosts: {flows}, such as at {host}"
        ))
    }

    /// The jobs that run: of one application, or of all.
    pub fn jobs(&self, of: Option<&str>) -> Vec<JobStatus> {
        self.at_once(Jobs::new(of))
    }

    /// A job, without its flows.
    fn job_status(&self, job: &Job) -> JobStatus {
        JobStatus {
            application: String::from(&*job.application),
            job: String::from(&*job.name),
            started_ns: job.started,
            flows: 0,
            limited: 0,
            measured_bps: Rate::ZERO,
            terms: terms(job),
        }
    }

    /// Adds a flow to its job.
    fn add_to_job(&self, job: &mut JobStatus, id: FlowId, flow: &Flow) {
        job.flows += 1;
        job.limited += usize::from(self.intended(id, flow).is_some());
        job.measured_bps = job.measured_bps + self.measured(flow).unwrap_or(Rate::ZERO);
    }

    /// The version of what [`Answers::flows_of`] says is wanted. Another epoch has other versions.
    pub fn version(&self, application: &str) -> u64 {
        self.registry.changed(Some(application))
    }

    /// The flows of an application, at most `most`, by their jobs and names.
    pub fn flows_of(&self, application: &str, most: usize) -> ApplicationFlows {
        self.at_once(FlowsOf::new(application, most))
    }

    /// At most `most` flows, those with the highest measured rate first.
    pub fn flows(&self, most: usize) -> Vec<FlowStatus> {
        self.at_once(Flows::new(most))
    }

    fn flow_status(&self, id: FlowId, flow: &Flow) -> FlowStatus {
        let [application, job, name] = self.registry.name_of(flow);
        let carriers = || self.registry.carriers(&flow.selector);
        let pods = &self.registry.pods;
        let source_pod = carriers().find_map(|of| pods.at_source(&of)).map(String::from);
        let destination_pod = carriers().find_map(|of| pods.at_destination(&of));
        FlowStatus {
            application,
            job,
            flow: name,
            connection: flow.selector.connection,
            carriers: carriers().take(CARRIERS).collect(),
            more_carriers: carriers().skip(CARRIERS).count(),
            source_pod,
            destination_pod: destination_pod.map(String::from),
            intended_bps: self.intended(id, flow),
            enforced_bps: self.enforced(flow),
            failed: self.failure(id, flow),
            measured_bps: self.measured(flow),
            bytes: flow.size,
            delivered_bytes: flow.delivered,
            contradicted: flow.lie(),
        }
    }

    /// What is wanted of a flow: its own limit, or that of its hosts' connections, of which those that carry it
    /// have a share, each divided among the flows that it carries; or less, by an operator. At a drained host nothing.
    fn intended(&self, id: FlowId, flow: &Flow) -> Option<Rate> {
        if self.is_drained(flow.ends) {
            return None;
        }
        let by_hand = self.limited_by_hand(flow).map(|(each, _)| self.together(flow, each));
        let own = self.desired.intention(id).limit();
        [own, self.share(flow), by_hand].into_iter().flatten().min()
    }

    /// What the connections of a flow have together where each has so much.
    fn together(&self, flow: &Flow, each: Rate) -> Rate {
        let carriers = self.registry.carriers(&flow.selector).count().max(1);
        Rate::from_bps(each.as_bps().saturating_mul(carriers as u64))
    }

    /// What its connections have of the rate of a flow's hosts.
    fn share(&self, flow: &Flow) -> Option<Rate> {
        let share = |connection: Connection| {
            let share = self.pairs.share(&connection, || Some(flow.ends))?;
            let flows = self.registry.carried_by(&connection).len().max(1);
            Some(share.fraction(1, flows as u64))
        };
        let mut shares = self.registry.carriers(&flow.selector).map(share);
        let first = shares.next().flatten();
        first.and_then(|first| shares.try_fold(first, |sum, next| Some(sum + next?)))
    }

    /// An agent that has confirmed nothing for longer than its leases last: they may be over.
    fn silence(&self, agent: &Agent) -> Option<String> {
        let silent = agent.silence(&self.context, self.as_of).filter(|_| agent.greeted)?;
        let (name, seconds) = (&agent.identity, silent.as_nanos() / 1_000_000_000);
        Some(format!("agent {name} has confirmed nothing for {seconds} s: its leases may be over"))
    }

    /// A switch that has confirmed nothing for longer than its entries last.
    fn silence_of(&self, node: NodeId) -> Option<String> {
        let silent = self.fabric.switches.get(node)?.silence(&self.context, self.as_of)?;
        let (name, seconds) = (self.view.node_name(node), silent.as_nanos() / 1_000_000_000);
        Some(format!("switch {name} has confirmed nothing for {seconds} s: its entries have ended"))
    }

    /// Whether an agent that samples has sampled a flow's connection lately before its last sample, or since it looked at
    /// all that there is.
    fn is_seen(&self, agent: &Agent, flow: &Flow) -> bool {
        !agent.samples() || flow.reported.is_some_and(|at| !self.has_looked(agent, at))
    }

    /// Whether an agent has sampled for long since `at`, and has looked at all that there is.
    fn has_looked(&self, agent: &Agent, at: Time) -> bool {
        let is_long = agent.sampled_at.since(at) > self.context.patience();
        is_long && agent.looked.is_some_and(|looked| at < looked.now)
    }

    /// Why what an agent confirmed may not stand.
    fn doubt(&self, agent: &Agent) -> Option<String> {
        let is_over = agent.obeys > self.context.epoch;
        let over =
            || format!("agent {} obeys a controller of epoch {}", agent.identity, agent.obeys);
        self.silence(agent).or_else(|| is_over.then(over))
    }

    /// The rate of a connection that its agent holds.
    fn held_rate(&self, agent: &Agent, connection: &Connection) -> Option<Rate> {
        self.agents.standing().rate(connection).filter(|_| self.is_held(agent, connection))
    }

    /// Whether the rate that its agent holds a connection to is the one that it was told last. To say so again may fail.
    fn holds_rate(&self, agent: &Agent, connection: &Connection) -> bool {
        let wanted = agent.grants.get(connection).and_then(|grant| grant.rate);
        wanted.is_some() && wanted == self.held_rate(agent, connection)
    }

    /// Whether an agent has confirmed the rate of a connection and its lease can still stand.
    fn is_held(&self, agent: &Agent, connection: &Connection) -> bool {
        let left = self.agents.standing().sure_until(connection);
        self.agents.standing().rate(connection).is_some()
            && self.doubt(agent).is_none()
            && left.is_none_or(|until| until > self.as_of)
    }

    /// What limits of a flow are about: its connections, or what one meter holds.
    fn limited(&self, flow: &Flow) -> Vec<Connection> {
        if self.has_one_meter(&flow.selector) {
            return vec![flow.selector.connection];
        }
        self.registry.carriers(&flow.selector).collect()
    }

    /// The limit that is confirmed to stand, of all its connections together.
    fn enforced(&self, flow: &Flow) -> Option<Rate> {
        let agent = self.agents.acting_for(flow.ends.0).map(|(_, agent)| agent);
        let held = |connection: &Connection| match self.context.enforcement {
            Enforcement::Meters => {
                let (node, rate) = self.fabric.switches.enforced(connection)?;
                self.silence_of(node).is_none().then_some(rate)
            }
            Enforcement::Pacing => {
                let is_held = match agent {
                    Some(agent) => self.is_held(agent, connection) && self.is_seen(agent, flow),
                    None => self.is_left(connection),
                };
                self.agents.standing().rate(connection).filter(|_| is_held)
            }
        };
        let limited = self.limited(flow);
        let mut limits = limited.iter().map(held);
        let first = limits.next()??;
        limits.try_fold(first, |sum, next| Some(sum + next?))
    }

    /// What was measured of a flow lately.
    fn measured(&self, flow: &Flow) -> Option<Rate> {
        let patience = self.context.patience();
        let is_fresh = flow.reported.is_some_and(|at| self.as_of.since(at) <= patience);
        flow.gauge.rate.filter(|_| is_fresh)
    }

    /// Why something that the policy wants of a flow is not done.
    fn failure(&self, id: FlowId, flow: &Flow) -> Option<String> {
        let limited = self.limited(flow);
        if let Some((node, failure)) = limited.iter().find_map(|c| self.fabric.switches.failure(c))
        {
            return Some(format!("switch {}: {failure}", self.view.node_name(node)));
        }
        let agent = self.agents.acting_for(flow.ends.0).map(|(_, agent)| agent);
        let of = |agent: &Agent, c: &Connection| {
            let class = agent.failures.priority(c).filter(|_| !agent.holds_class(c));
            let rate = agent.failures.rate(c).filter(|_| !self.holds_rate(agent, c));
            rate.map(String::from).or_else(|| class.map(|reason| format!("its class: {reason}")))
        };
        let mut carriers = self.registry.carriers(&flow.selector);
        let own = agent.and_then(|agent| carriers.find_map(|carrier| of(agent, &carrier)));
        let at_switches = || {
            self.windows(id, flow).find_map(|(_, standing)| match standing {
                Standing::Failed(reason) => Some(reason),
                _ => None,
            })
        };
        let of_before = || {
            let mut all = self.windows_of_before(id, flow).into_iter();
            all.find_map(|(what, failed)| Some(format!("{}: {what} still stands", failed?)))
        };
        own.or_else(at_switches).or_else(of_before).or_else(|| self.unidentified(flow))
    }

    /// Why a process that a flow names, and of which nothing was seen, is not looked for.
    fn unidentified(&self, flow: &Flow) -> Option<String> {
        if self.registry.carriers(&flow.selector).next().is_some() {
            return None;
        }
        let Selector { source, destination, .. } = flow.selector;
        [(flow.ends.0, source), (flow.ends.1, destination)].into_iter().find_map(|(host, of)| {
            let process = self.registry.processes.named(of?)?;
            let (_, agent) = self.agents.acting_for(host)?;
            let name = &agent.identity;
            if agent.unsought.contains(process) {
                return Some(format!(
                    "agent {name} looks for {MOST_IDENTIFIED} processes, {OF_ALL}, and not for its own; {FEWER}"
                ));
            }
            let reason = agent.failures.processes()?;
            Some(format!("agent {name} failed to look for its process: {reason}"))
        })
    }
}
