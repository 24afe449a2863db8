//! What an agent does with what it is told.

use std::collections::BTreeMap;

use control::ChannelId;
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

/// What stands of a connection, on whose word, and until when.
#[derive(Clone, Copy, Default)]
struct Grant {
    standing: Standing,
    epoch: u64,
    until: Time,
}

/// The agent of a host. What stands is in the host's kernel: it outlives the agent, not its lease.
#[derive(Default)]
pub(crate) struct Agent {
    /// Its connection.
    pub(crate) peer: Option<ChannelId>,
    /// The last connection it had in its life, and the epoch of the controller there.
    pub(crate) last: Option<(ChannelId, u64)>,
    pub(crate) epoch: u64,
    /// When what it was told last ends.
    until: Time,
    grants: BTreeMap<Connection, Grant>,
}

impl Agent {
    /// Carries commands out, adds to `changes`, and answers. Nothing when the lease ended before they
    /// came: a controller that believes that all still stands must say it all anew, over another
    /// connection.
    pub(crate) fn obey(
        &mut self,
        now: Time,
        commands: &Commands,
        changes: &mut Vec<Change>,
    ) -> Option<Report> {
        let (epoch, sequence) = (commands.epoch, commands.sequence);
        if epoch < self.epoch {
            return Some(Report::Stale { epoch, obeys: self.epoch });
        }
        self.epoch = epoch;
        if !commands.complete && self.until <= now {
            return None;
        }
        let before = self.grants.clone();
        self.until = now + commands.lease_ns;
        // What an earlier controller granted ends with its own lease: the new one speaks before
        // applications have told it all.
        if commands.complete {
            self.grants.retain(|_, grant| grant.epoch < epoch);
        }
        for grant in self.grants.values_mut().filter(|grant| grant.epoch == epoch) {
            grant.until = self.until;
        }
        for command in &commands.commands {
            let (Command::Pace { connection, .. } | Command::Prioritize { connection, .. }) =
                command
            else {
                // Hosts of the simulated world have nothing for the rest.
                continue;
            };
            let grant = self.grants.entry(*connection).or_default();
            (grant.epoch, grant.until) = (epoch, self.until);
            match command {
                Command::Pace { rate_bps, .. } => grant.standing.rate = *rate_bps,
                Command::Prioritize { priority, .. } => grant.standing.level = *priority,
                _ => {}
            }
        }
        self.grants.retain(|_, grant| grant.standing != Standing::default());
        self.compare(&before, changes);
        Some(Report::Applied { epoch, sequence })
    }

    /// What stands, stands in the kernel; what the agent knew is gone.
    pub(crate) fn die(&mut self) {
        (self.last, self.epoch, self.until) = (None, 0, Time::ZERO);
    }

    /// When the first lease ends.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.grants.values().map(|grant| grant.until).min()
    }

    /// Lets go what is over.
    pub(crate) fn expire(&mut self, now: Time, changes: &mut Vec<Change>) {
        if self.deadline().is_some_and(|until| until <= now) {
            let before = self.grants.clone();
            self.grants.retain(|_, grant| now < grant.until);
            self.compare(&before, changes);
        }
    }

    fn compare(&self, before: &BTreeMap<Connection, Grant>, changes: &mut Vec<Change>) {
        let of = |grants: &BTreeMap<Connection, Grant>, connection| {
            grants.get(connection).map(|grant| grant.standing).unwrap_or_default()
        };
        let gone = before.keys().filter(|connection| !self.grants.contains_key(connection));
        for connection in gone.chain(self.grants.keys()) {
            let (old, new) = (of(before, connection), of(&self.grants, connection));
            if old != new {
                changes.push((*connection, old, new));
            }
        }
    }
}
