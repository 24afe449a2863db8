//! A host of the simulated world: the machine of its agent, and what stands in its kernel.

use std::collections::BTreeMap;

use ::agent::{Agent, Capacity, Failing, Kernel, Lapse, Operation, PortNumber};
use control::ChannelId;
use engine::random::Stream;
use protocol::Connection;
use protocol::agent::{Commands, Report};
use protocol::backoff::Backoff;
use rand::RngExt as _;
use units::{Rate, Time};

/// The interface of a host, with a class for each priority.
const INTERFACE: PortNumber = PortNumber(0);

/// What stands of a connection at its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) rate: Option<Rate>,
    pub(crate) priority: u8,
}

/// What stood of a connection, and what stands now.
pub(crate) type Change = (Connection, Grant, Grant);

/// A host. What stands is in its kernel: limits outlive the agent, not their lease.
pub(crate) struct Host {
    /// The connection of its agent.
    pub(crate) channel: Option<ChannelId>,
    /// The last connection that the agent had in its life, and the epoch of the controller there.
    pub(crate) last: Option<(ChannelId, u64)>,
    /// When that connection began.
    pub(crate) since: Time,
    /// When it tries to connect.
    pub(crate) tries: Option<Time>,
    pub(crate) backoff: Backoff,
    pub(crate) agent: Agent,
    kernel: Kernel,
    /// As the world was told.
    stands: BTreeMap<Connection, Grant>,
}

impl Default for Host {
    fn default() -> Self {
        let kernel =
            Kernel::new(1, Capacity { limits: usize::MAX, connections: usize::MAX, ended: 0 });
        let agent = kernel.agent(false);
        let (since, backoff) = (Time::ZERO, Backoff::default());
        let stands = BTreeMap::new();
        Self { channel: None, last: None, since, tries: None, backoff, agent, kernel, stands }
    }
}

impl Host {
    /// Has the agent carry commands out, of which each operation fails with this probability; adds what
    /// changed to `changes`, and answers.
    ///
    /// # Errors
    /// [`Lapse`]: nothing was carried out.
    pub(crate) fn obey(
        &mut self,
        now: Time,
        commands: &Commands,
        (chance, probability): (&mut Stream, f64),
        changes: &mut Vec<Change>,
    ) -> Result<Vec<Report>, Lapse> {
        let mut reports = Vec::new();
        let fails = |_: &Operation| probability > 0.0 && chance.random_bool(probability);
        let mut kernel = Failing { kernel: &mut self.kernel, fails };
        self.agent.obey(now, commands, &mut kernel, &mut reports)?;
        self.compare(now, changes);
        Ok(reports)
    }

    /// The agent dies, and another takes its place. Limits stay in the kernel.
    pub(crate) fn die(&mut self, now: Time, changes: &mut Vec<Change>) {
        self.last = None;
        self.backoff = Backoff::default();
        self.kernel.abandon();
        self.agent = self.kernel.agent(false);
        self.compare(now, changes);
    }

    /// When the next lease ends under which something stands.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.agent.deadline().filter(|_| !self.stands.is_empty())
    }

    /// Has the agent do what is due.
    pub(crate) fn tick(&mut self, now: Time, changes: &mut Vec<Change>) {
        if self.agent.deadline().is_some_and(|due| due <= now) {
            // In memory it doesn't fail, and agents that don't sample report nothing.
            let _ = self.agent.tick(now, &mut self.kernel, &mut Vec::new());
            self.compare(now, changes);
        }
    }

    fn compare(&mut self, now: Time, changes: &mut Vec<Change>) {
        let mut stands: BTreeMap<Connection, Grant> = BTreeMap::new();
        for (connection, rate) in self.kernel.limits(now) {
            stands.entry(connection).or_default().rate = Some(rate);
        }
        for (connection, priority) in self.kernel.classes(now, INTERFACE) {
            stands.entry(connection).or_default().priority = priority;
        }
        let before = std::mem::replace(&mut self.stands, stands);
        let gone = before.keys().filter(|connection| !self.stands.contains_key(connection));
        for connection in gone.chain(self.stands.keys()) {
            let of = |grants: &BTreeMap<Connection, Grant>| {
                grants.get(connection).copied().unwrap_or_default()
            };
            let (old, new) = (of(&before), of(&self.stands));
            if old != new {
                changes.push((*connection, old, new));
            }
        }
    }
}
