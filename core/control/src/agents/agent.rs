//! One agent: what it was told, and what it has confirmed of that.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::{Caps, LinkId, NodeId};
use protocol::agent::{Capability, Command, Report};
use protocol::{Connection, Process};
use units::{Rate, Span, Time};

use crate::budget::Budget;
use crate::context::Context;
use crate::contradictions::Contradictions;
use crate::desired::Grant;
use crate::failures::Failures;
use crate::lease::{Lease, Longest};
use crate::standing::Held;
use crate::thing::Thing;

/// Failed commands that are tried again with one renewal.
const RETRIED: usize = 64;
/// Unconfirmed commands beyond which those that newer ones replaced are forgotten; a multiple of the
/// grants, so that forgetting costs little per command.
pub(super) const UNCONFIRMED: usize = 128;
pub(super) const PER_GRANT: usize = 2;
/// More things than the ports of an agent, of which it has 4096 at the most (`live/agentd`), can have wanted of them: a
/// watch and a gap each.
pub(super) const PORTS: usize = 2 * 4096;

/// An agent.
#[derive(Default)]
pub(crate) struct Agent {
    pub(crate) identity: String,
    pub(crate) hosts: Vec<NodeId>,
    pub(crate) capabilities: Vec<Capability>,
    /// It has said hello.
    pub(crate) greeted: bool,
    pub(super) budget: Budget,
    /// The same for notices of congestion: openings, which anybody can cause, take nothing of it.
    pub(super) notices: Budget,
    /// And for what fails: that samples do is said once.
    pub(super) failing: Budget,
    /// Since when it is connected, and when it reported last.
    pub(crate) since: Time,
    pub(crate) heard: Time,
    /// When it sampled connections first, by its own clock.
    pub(super) sampled: Option<Time>,
    /// When that came, as [`Context::awake`].
    pub(super) sampling: Time,
    /// When its last sample came.
    pub(crate) sampled_at: Time,
    /// The sample of which parts come: when it was taken, by its own clock, and when its first part came.
    pub(super) begun: (Time, Moment),
    /// How many connections of pairs are kept of it, as they were counted when that began and have come since.
    pub(super) kept: usize,
    /// When the first part came of the last sample that came whole: another has followed it.
    pub(crate) looked: Option<Moment>,
    /// When flows of its hosts whose connection is gone were looked for, as [`Context::awake`].
    pub(super) swept: Time,
    /// The lease of commands that it has confirmed since: what stands there lasts so long at least.
    pub(super) renewed: Lease,
    /// The lease of the last commands.
    pub(super) sent: Lease,
    /// Until when what it was told may stand.
    pub(super) longest: Longest,
    /// When the lease ends of what others of its name were told at its hosts, until it has confirmed all that it is told.
    pub(super) before: Time,
    /// The first commands after those that were awaited before: their number and their lease. Where the
    /// agent never confirms the last ones in time, these move `renewed`.
    pub(super) awaited: Option<(u64, Lease)>,
    /// The highest epoch that it has said to obey.
    pub(crate) obeys: u64,
    /// The number of the last commands, and of the last that were complete.
    pub(super) sequence: u64,
    pub(super) completed: u64,
    /// The last number that it has confirmed.
    pub(super) applied: u64,
    /// When it must hear something again.
    pub(super) renew_at: Time,
    /// When what has failed is tried again.
    pub(super) retry_at: Time,
    /// What it was told and shall stand.
    pub(crate) grants: BTreeMap<Connection, Grant>,
    /// The number of the commands that gave a connection its priority, if it isn't 0.
    pub(super) classes: BTreeMap<Connection, u64>,
    /// Caps, and the number of the commands that they came with.
    pub(super) windows: BTreeMap<(LinkId, Option<Connection>), (Caps, u64)>,
    /// Least times between acknowledgements, and the same.
    pub(super) gaps: BTreeMap<LinkId, (Span, u64)>,
    pub(super) batch: Vec<Command>,
    /// Whether it has told of connections that opened.
    pub(super) tells: bool,
    /// The next commands are all there are.
    pub(super) complete: bool,
    /// What it has not confirmed: number, connection, rate. Bounded; what is replaced goes.
    pub(super) unconfirmed: VecDeque<(u64, Connection, Option<Rate>)>,
    /// What others have left at its hosts: over once it has confirmed all that it was told.
    pub(super) settles: Vec<Thing>,
    /// It has said that it ends, and holds nothing any more.
    pub(super) left: bool,
    /// The windows, classes and gaps that stand there.
    pub(crate) held: Held,
    /// What it was told and could not do.
    pub(crate) failures: Failures,
    /// Commands that it may still report as failed.
    pub(super) unanswered: u64,
    /// Of what it said.
    pub(crate) contradictions: Contradictions<16>,
    /// The processes that it has no room to look for.
    pub(crate) unsought: BTreeSet<Process>,
}

/// A moment by the controller's clock, and as [`Context::awake`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    pub(crate) awake: Time,
}

impl Moment {
    /// Later than all others.
    pub(crate) const NEVER: Self = Self { now: Time::NEVER, awake: Time::NEVER };
}

impl Agent {
    /// When the last lease ends of what may stand at its hosts.
    pub(super) fn until(&self) -> Time {
        self.longest.until().max(self.before)
    }

    /// For how long it has confirmed nothing at `now`, where the leases of what it has confirmed may be over since.
    pub(crate) fn silence(&self, cx: &Context, now: Time) -> Option<Span> {
        self.renewed.silence(cx, now)
    }

    /// Until when what it has confirmed counts as enforced, should it say nothing more; `None` where it has confirmed
    /// nothing, or obeys another controller.
    pub(super) fn sure_until(&self, cx: &Context) -> Option<Time> {
        let is_sure = self.applied > 0 && self.obeys <= cx.epoch;
        is_sure.then(|| self.renewed.sure_until(cx))
    }

    /// Whether a report confirms what the agent was told and had not confirmed: there are no more of
    /// those than the controller asks for.
    pub(super) fn confirms(&self, report: &Report, epoch: u64) -> bool {
        match report {
            Report::Applied { epoch: of, sequence } => {
                *of == epoch && (self.applied + 1..=self.sequence).contains(sequence)
            }
            Report::Failed { epoch: of, .. } => *of == epoch && self.unanswered > 0,
            // It is the last one.
            Report::Left {} => true,
            Report::Hello { .. }
            | Report::Connections { .. }
            | Report::Ended { .. }
            | Report::Opened { .. }
            | Report::Closed { .. }
            | Report::Congested { .. }
            | Report::Ports { .. }
            | Report::Stale { .. } => false,
        }
    }

    /// Whether it samples connections: then what it doesn't tell of isn't there.
    pub(crate) fn samples(&self) -> bool {
        self.sampled.is_some()
    }

    /// Whether its last sample came long ago.
    pub(super) fn has_stopped(&self, cx: &Context) -> bool {
        cx.now.since(self.sampled_at) > cx.patience()
    }

    /// Whether a connection has the class that it was granted. To say so again may fail.
    pub(crate) fn holds_class(&self, connection: &Connection) -> bool {
        let granted = self.grants.get(connection).map(|grant| grant.priority);
        granted.is_some() && granted == self.held.class(connection)
    }

    /// Whether a link's windows are capped as they shall be. To say so again may fail.
    pub(crate) fn holds_window(
        &self,
        (node, interface): (&str, &str),
        link: LinkId,
        connection: Option<Connection>,
    ) -> bool {
        let caps = self.caps_of(link, connection);
        caps.is_some() && caps == self.held.window(node, interface, connection)
    }

    /// Whether it has confirmed a connection's priority, or that this failed.
    pub(crate) fn answered_class(&self, connection: &Connection) -> bool {
        self.classes.get(connection).is_some_and(|number| self.answered(*number))
    }

    /// Whether it has confirmed a cap, or that it failed.
    pub(crate) fn answered_window(&self, link: LinkId, connection: Option<Connection>) -> bool {
        self.windows.get(&(link, connection)).is_some_and(|(_, number)| self.answered(*number))
    }

    /// The caps that shall stand where a link begins.
    pub(crate) fn caps_of(&self, link: LinkId, connection: Option<Connection>) -> Option<Caps> {
        self.windows.get(&(link, connection)).map(|(caps, _)| *caps)
    }

    /// Whether it has confirmed a gap, or that it failed.
    pub(crate) fn answered_gap(&self, link: LinkId) -> bool {
        self.gaps.get(&link).is_some_and(|(_, number)| self.answered(*number))
    }

    /// The least time between acknowledgements that shall stand where a link begins.
    pub(crate) fn gap_of(&self, link: LinkId) -> Option<Span> {
        self.gaps.get(&link).map(|(gap, _)| *gap)
    }

    /// Whether all is known of commands of this number: none of their failures was left out.
    pub(super) fn answered(&self, number: u64) -> bool {
        number <= self.applied && number > self.failures.dropped
    }

    /// Notes that a connection's priority is sent with the commands of this number.
    pub(super) fn note_class(&mut self, connection: Connection, priority: u8, number: u64) {
        if priority > 0 {
            self.classes.insert(connection, number);
        } else {
            self.classes.remove(&connection);
        }
    }

    /// Has a command sent with the next ones, if the agent can carry it out.
    pub(super) fn send(&mut self, command: Command) {
        let sequence = self.sequence + 1;
        let needs = command.needs();
        if !self.capabilities.contains(&needs) {
            match command {
                // Statistics are of use where there are any.
                Command::Sample { .. } | Command::Count { .. } => {}
                command if command.ends() => self.failures.forget(&command),
                command => {
                    let reason = format!("agent {} has no {}", self.identity, needs.name());
                    self.failures.failed(&command, 0, &reason, usize::MAX);
                }
            }
            return;
        }
        self.held.sent(&command, sequence);
        self.failures.sent(&command, sequence);
        if let Command::Pace { connection, rate_bps } = command {
            self.unconfirmed.push_back((sequence, connection, rate_bps));
        }
        self.batch.push(command);
    }

    /// Has what failed sent again: there may be room now.
    pub(super) fn retry(&mut self) {
        for mut command in self.failures.to_retry(RETRIED) {
            match &mut command {
                Command::Pace { connection, rate_bps } => {
                    *rate_bps = self.grants.get(connection).and_then(|grant| grant.rate);
                }
                Command::Prioritize { connection, priority } => {
                    *priority = self.grants.get(connection).map_or(0, |grant| grant.priority);
                    let (connection, priority) = (*connection, *priority);
                    self.note_class(connection, priority, self.sequence + 1);
                }
                // Of these what was sent last is meant.
                Command::Window { .. }
                | Command::Prepare { .. }
                | Command::Space { .. }
                | Command::Watch { .. }
                | Command::Sample { .. }
                | Command::Count { .. }
                | Command::Identify { .. } => {}
            }
            self.send(command);
        }
    }

    pub(crate) fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// Keeps what is unconfirmed in proportion to the grants. Only the newest command of a connection
    /// matters: the agent carries them out in order. `unconfirm` hears of connections that were let go
    /// and of which that is not noted any more.
    pub(super) fn bound_unconfirmed(&mut self, mut unconfirm: impl FnMut(Connection)) {
        if self.unconfirmed.len() <= UNCONFIRMED + PER_GRANT * self.grants.len() {
            return;
        }
        let (mut seen, mut gone) = (BTreeSet::new(), 0);
        let mut newest: Vec<_> = self.unconfirmed.drain(..).rev().collect();
        newest.retain(|(_, connection, _)| {
            // Of connections that were let go the newest are enough.
            let stands = self.grants.contains_key(connection);
            let is_newest = seen.insert(*connection);
            gone += usize::from(is_newest && !stands);
            let is_kept = stands || gone <= UNCONFIRMED / 2;
            if is_newest && !is_kept {
                unconfirm(*connection);
            }
            is_newest && is_kept
        });
        self.unconfirmed.extend(newest.into_iter().rev());
    }
}
