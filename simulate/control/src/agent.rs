//! What an agent does with what it is told.

use std::collections::BTreeMap;

use control::Peer;
use protocol::Connection;
use protocol::agent::{Command, Commands, Report};
use units::{Rate, Time};

/// What stands of a connection at its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) rate: Option<Rate>,
    pub(crate) level: u8,
}

/// What stood of a connection, and what stands now.
pub(crate) type Change = (Connection, Standing, Standing);

/// The agent of a host. What stands is in the host's kernel: it outlives the agent, not its lease.
#[derive(Default)]
pub(crate) struct Agent {
    /// Its connection.
    pub(crate) peer: Option<Peer>,
    /// The last connection it had in its life, and the epoch of the controller there.
    pub(crate) last: Option<(Peer, u64)>,
    pub(crate) epoch: u64,
    until: Time,
    /// When it has heard nothing over its connection for the whole of a lease.
    pub(crate) silent: Option<Time>,
    standing: BTreeMap<Connection, Standing>,
}

impl Agent {
    /// Carries commands out, adds to `changes`, and answers.
    pub(crate) fn obey(
        &mut self,
        now: Time,
        commands: &Commands,
        changes: &mut Vec<Change>,
    ) -> Report {
        let (epoch, sequence) = (commands.epoch, commands.sequence);
        if epoch < self.epoch {
            return Report::Stale { epoch, obeys: self.epoch };
        }
        self.epoch = epoch;
        self.until = now + commands.lease_ns;
        let before = if commands.complete {
            std::mem::take(&mut self.standing)
        } else {
            self.standing.clone()
        };
        for command in &commands.commands {
            match command {
                Command::Pace { connection, rate_bps } => {
                    self.standing.entry(*connection).or_default().rate = *rate_bps;
                }
                Command::Prioritize { connection, level } => {
                    self.standing.entry(*connection).or_default().level = *level;
                }
                // What hosts of the simulated world have nothing for.
                Command::Window { .. } | Command::Watch { .. } | Command::Sample { .. } => {}
            }
        }
        self.standing.retain(|_, standing| *standing != Standing::default());
        self.compare(&before, changes);
        Report::Applied { epoch, sequence }
    }

    /// What stands, stands in the kernel; what the agent knew is gone.
    pub(crate) fn die(&mut self) {
        (self.last, self.epoch) = (None, 0);
    }

    /// When it wants [`Agent::expire`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        let until = (!self.standing.is_empty()).then_some(self.until);
        [until, self.silent].into_iter().flatten().min()
    }

    /// Lets all go when the lease is over. Whether the controller has been silent for so long: it
    /// doesn't know what has ended, and must tell all anew over another connection.
    pub(crate) fn expire(&mut self, now: Time, changes: &mut Vec<Change>) -> bool {
        if self.until <= now {
            let before = std::mem::take(&mut self.standing);
            self.compare(&before, changes);
        }
        self.silent.take_if(|silent| *silent <= now).is_some()
    }

    fn compare(&self, before: &BTreeMap<Connection, Standing>, changes: &mut Vec<Change>) {
        let none = Standing::default();
        let of = |map: &BTreeMap<Connection, Standing>, connection| {
            map.get(connection).copied().unwrap_or(none)
        };
        let gone = before.keys().filter(|connection| !self.standing.contains_key(connection));
        for connection in gone.chain(self.standing.keys()) {
            let (old, new) = (of(before, connection), of(&self.standing, connection));
            if old != new {
                changes.push((*connection, old, new));
            }
        }
    }
}
