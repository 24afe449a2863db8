//! What agents are told, only differences of it, and what they confirm.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use model::{Caps, LinkId, NodeId};
use protocol::agent::{Command, Commands};
use protocol::{Connection, Process};
use units::{Span, Time};

use super::Agents;
use super::agent::{PER_GRANT, PORTS, UNCONFIRMED};
use crate::context::Context;
use crate::desired::Grant;
use crate::lease::Lease;
use crate::message::{ChannelId, Refusal};
use crate::thing::{Thing, goes_on};
use crate::view::View;

/// Everything that an agent has to know.
#[derive(Default)]
pub(crate) struct Everything {
    pub(crate) grants: BTreeMap<Connection, Grant>,
    /// Caps of windows: of a connection, or of all that leave by a link.
    pub(crate) windows: BTreeMap<(LinkId, Option<Connection>), Caps>,
    /// Least times between acknowledgements.
    pub(crate) gaps: BTreeMap<LinkId, Span>,
    /// The processes that it has no room to look for.
    pub(crate) unsought: BTreeSet<Process>,
    /// The commands for all but the grants.
    pub(crate) commands: Vec<Command>,
}

impl Agents {
    /// Has the agent of a host hold a connection to a grant; whether there is one.
    pub(crate) fn hold(&mut self, host: NodeId, connection: Connection, grant: Grant) -> bool {
        let Some(channel) = self.acting.get(&host).copied() else {
            return false;
        };
        let Some(agent) = self.agents.get_mut(&channel) else {
            return false;
        };
        if agent.complete {
            // Everything will be told, this too. Until then `grants` are what it was told before.
            return true;
        }
        let old = agent.grants.get(&connection).copied().unwrap_or_default();
        if old == grant {
            return true;
        }
        if grant == Grant::default() {
            agent.grants.remove(&connection);
        } else {
            agent.grants.insert(connection, grant);
        }
        if old.rate != grant.rate {
            agent.send(Command::Pace { connection, rate_bps: grant.rate });
        }
        if old.priority != grant.priority {
            agent.note_class(connection, grant.priority, agent.sequence + 1);
            agent.send(Command::Prioritize { connection, priority: grant.priority });
        }
        self.addressed.insert(channel);
        true
    }

    /// Has an agent look for the connections of the first of these processes only: for the others it has no room.
    pub(crate) fn identify(
        &mut self,
        channel: ChannelId,
        (sought, unsought): (BTreeSet<Process>, BTreeSet<Process>),
    ) {
        if let Some(agent) = self.agents.get_mut(&channel).filter(|agent| !agent.complete) {
            agent.unsought = unsought;
            agent.send(Command::Identify { processes: sought.into_iter().collect() });
            self.addressed.insert(channel);
        }
    }

    /// The agent of the node where a link begins, and that node and the link's interface there.
    fn beginning<'v>(&self, view: &'v View, link: LinkId) -> Option<(ChannelId, &'v str, &'v str)> {
        let at = view.start(link);
        let interface = &*view.link(link).interface;
        let channel = self.acting.get(&at).copied().filter(|_| !interface.is_empty())?;
        Some((channel, view.node_name(at), interface))
    }

    /// Has the agent of the node where a link begins cap windows there; whether there is one.
    pub(crate) fn cap_window(
        &mut self,
        view: &View,
        link: LinkId,
        connection: Option<Connection>,
        caps: Option<Caps>,
    ) -> bool {
        let Some((channel, node, interface)) = self.beginning(view, link) else {
            return false;
        };
        let Some(agent) = self.agents.get_mut(&channel) else {
            return false;
        };
        let key = (link, connection);
        let old = agent.windows.get(&key).map(|(caps, _)| *caps);
        if old == caps {
            return true;
        }
        match caps {
            Some(caps) => agent.windows.insert(key, (caps, agent.sequence + 1)),
            None => agent.windows.remove(&key),
        };
        if !agent.complete {
            agent.send(capping(node.into(), interface.into(), connection, caps));
            self.addressed.insert(channel);
        }
        true
    }

    /// Has the agent of the node where a link begins space acknowledgements there; whether there is one.
    pub(crate) fn space(&mut self, view: &View, link: LinkId, gap: Option<Span>) -> bool {
        let Some((channel, node, interface)) = self.beginning(view, link) else {
            return false;
        };
        let Some(agent) = self.agents.get_mut(&channel) else {
            return false;
        };
        if agent.gap_of(link) == gap {
            return true;
        }
        match gap {
            Some(gap) => agent.gaps.insert(link, (gap, agent.sequence + 1)),
            None => agent.gaps.remove(&link),
        };
        if !agent.complete {
            let (node, interface) = (node.into(), interface.into());
            agent.send(Command::Space { node, interface, gap_ns: gap });
            self.addressed.insert(channel);
        }
        true
    }

    /// Whether an agent can have been sent commands of a number. Of those of other epochs nobody knows here.
    pub(crate) fn may_have(
        &self,
        cx: &Context,
        channel: ChannelId,
        epoch: u64,
        sequence: u64,
    ) -> bool {
        epoch != cx.epoch
            || self.agents.get(&channel).is_some_and(|agent| sequence <= agent.sequence)
    }

    /// An agent has carried out commands up to a number, which it was sent.
    pub(crate) fn applied(&mut self, cx: &Context, channel: ChannelId, epoch: u64, sequence: u64) {
        let Some(agent) = self.agents.get_mut(&channel).filter(|_| epoch == cx.epoch) else {
            return;
        };
        agent.applied = agent.applied.max(sequence);
        let awaited = agent.awaited.take_if(|(number, _)| *number <= sequence);
        if sequence == agent.sequence {
            agent.renewed = agent.sent;
            agent.longest.confirm(agent.sent);
            agent.unanswered = 0;
        } else if let Some((_, sent)) = awaited {
            agent.renewed = sent;
        }
        while let Some((number, connection, rate)) = agent.unconfirmed.front().copied() {
            if number > sequence {
                break;
            }
            agent.unconfirmed.pop_front();
            if agent.failures.succeeded(&Thing::Rate(connection), number) {
                // Of what was told before all was told anew, failures are not kept.
                self.standing.confirm(connection, rate.filter(|_| number >= agent.completed));
            }
        }
        agent.held.applied(sequence, |thing, number| agent.failures.succeeded(thing, number));
        agent.failures.applied(sequence);
        if sequence >= agent.completed {
            agent.before = Time::ZERO;
            for thing in core::mem::take(&mut agent.settles) {
                self.standing.settle_thing(&thing);
            }
        }
        if agent.unconfirmed.is_empty() {
            // The memory of a burst isn't kept for ever.
            agent.unconfirmed.shrink_to(UNCONFIRMED);
        }
    }

    /// An agent could not carry out a command; whether it was one of this epoch. What stood before stands,
    /// but where the commands were complete. What is done again and again may fail long after it was confirmed.
    ///
    /// # Errors
    /// It has confirmed the commands before, or no such command was among them. What complete commands end they don't
    /// name: of that it may tell what it can hold.
    pub(crate) fn failed(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        (epoch, sequence): (u64, u64),
        (command, can_hold): (&Command, bool),
        reason: &str,
    ) -> Result<bool, Refusal> {
        let Some(agent) = self.agents.get_mut(&channel).filter(|_| epoch == cx.epoch) else {
            return Ok(false);
        };
        // People read it on terminals.
        let mut reason = crate::config::harmless(reason);
        if reason.trim().is_empty() {
            reason = "it gives no reason".into();
        }
        if sequence <= agent.applied && !goes_on(command) {
            // One of its two words is wrong: whether the rate stands is asked once more.
            if let Command::Pace { connection, .. } = command
                && let Some(rate) = agent.grants.get(connection).and_then(|grant| grant.rate)
            {
                let granted = Command::Pace { connection: *connection, rate_bps: Some(rate) };
                self.standing.doubt(connection);
                agent.failures.failed(&granted, sequence, &reason, cx.limits.flows);
            }
            // Told once, whatever its number.
            let reason = "commands were confirmed before one of them is said to have failed; say what fails first";
            let reason = reason.into();
            return Err(Refusal { field: "sequence", reason, busy: false });
        }
        agent.unanswered -= u64::from(agent.unanswered > 0 && sequence > agent.applied);
        if sequence < agent.completed {
            // All was told anew since.
            return Ok(true);
        }
        let is_end = can_hold && sequence == agent.completed && command.ends();
        if !is_end && !agent.failures.awaits(command, sequence) {
            let reason = "no such command was sent; say of those that were what fails".into();
            return Err(Refusal { field: "command", reason, busy: false });
        }
        if let Command::Pace { connection, .. } = command {
            self.standing.settle(connection);
        }
        if sequence == agent.completed && !command.ends() {
            // Complete commands end what stood before, unless that fails, too.
            if let Command::Pace { connection, .. } = command {
                self.standing.doubt(connection);
            }
            agent.held.ended(command);
        }
        agent.failures.failed(command, sequence, &reason, cx.limits.flows);
        Ok(true)
    }

    /// The hosts of an agent that must hear everything.
    pub(crate) fn to_retell(&self, channel: ChannelId) -> Option<Vec<NodeId>> {
        let agent = self.agents.get(&channel).filter(|agent| agent.complete)?;
        Some(agent.hosts.clone())
    }

    /// Replaces what an agent was told by everything it has to know. What others have `left` there is over with it.
    pub(crate) fn retell(
        &mut self,
        channel: ChannelId,
        everything: Everything,
        left: &[Connection],
        things_left: Vec<Thing>,
    ) {
        let Some(agent) = self.agents.get_mut(&channel) else {
            return;
        };
        let Everything { grants, windows, gaps, unsought, commands: mut batch } = everything;
        agent.unsought = unsought;
        for (&connection, grant) in &grants {
            if grant.rate.is_some() {
                batch.push(Command::Pace { connection, rate_bps: grant.rate });
            }
            if grant.priority > 0 {
                batch.push(Command::Prioritize { connection, priority: grant.priority });
            }
        }
        let sequence = agent.sequence + 1;
        agent.classes.clear();
        for (connection, grant) in &grants {
            agent.note_class(*connection, grant.priority, sequence);
        }
        // What it was told before is over as soon as this stands.
        let old = agent.grants.keys().chain(left);
        let old = old.filter(|connection| !grants.contains_key(connection));
        agent.unconfirmed.extend(old.map(|connection| (sequence, *connection, None)));
        let unlimited = grants.iter().filter(|(_, grant)| grant.rate.is_none());
        agent.unconfirmed.extend(unlimited.map(|(connection, _)| (sequence, *connection, None)));
        agent.grants = grants;
        agent.windows = windows.into_iter().map(|(key, caps)| (key, (caps, sequence))).collect();
        agent.gaps = gaps.into_iter().map(|(link, gap)| (link, (gap, sequence))).collect();
        agent.settles = things_left;
        agent.batch.clear();
        agent.held.begin_anew(sequence);
        agent.failures.begin_anew();
        batch.into_iter().for_each(|command| agent.send(command));
    }

    /// The commands for an agent that has said hello; without any, they renew its lease.
    pub(crate) fn take_commands(&mut self, cx: &Context, channel: ChannelId) -> Option<Commands> {
        let agent = self.agents.get_mut(&channel).filter(|agent| agent.greeted)?;
        if agent.retry_at <= cx.now && !agent.complete {
            agent.retry();
            agent.retry_at = cx.renewal();
        }
        agent.sequence += 1;
        if agent.complete {
            agent.completed = agent.sequence;
        }
        self.renewals.remove(&(agent.renew_at, channel));
        agent.renew_at = cx.renewal();
        agent.sent = Lease::now(cx);
        agent.longest.send(agent.sent);
        agent.awaited.get_or_insert((agent.sequence, agent.sent));
        self.renewals.insert((agent.renew_at, channel));
        agent.bound_unconfirmed(|connection| self.standing.doubt(&connection));
        let wanted = agent.grants.len() + agent.windows.len() + agent.gaps.len();
        agent.held.bound(UNCONFIRMED + PER_GRANT * wanted);
        // A burst of windows ends at once, and all ports are watched by the first commands: those are known.
        let others = cx.limits.flows.saturating_add(PORTS);
        agent.failures.bound(UNCONFIRMED + PER_GRANT * wanted, others, agent.sequence);
        agent.unanswered += agent.batch.len() as u64;
        Some(Commands {
            epoch: cx.epoch,
            sequence: agent.sequence,
            lease_ns: cx.lease,
            complete: core::mem::take(&mut agent.complete),
            commands: core::mem::take(&mut agent.batch),
        })
    }
}

/// The command that caps windows so.
pub(crate) fn capping(
    node: String,
    interface: String,
    connection: Option<Connection>,
    caps: Option<Caps>,
) -> Command {
    match caps.map(|caps| (caps, caps.constant())) {
        Some((caps, None)) => Command::Prepare { node, interface, connection, caps },
        constant => {
            let cap = constant.and_then(|(_, cap)| cap);
            Command::Window { node, interface, connection, cap }
        }
    }
}
