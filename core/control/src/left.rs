//! Limits that stand though the agent that held them is gone: until its lease ends, or another says what stands.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::Connection;
use units::Time;

/// Connections whose limits were left behind by agents that are gone, each until a time at most.
#[derive(Default)]
pub(crate) struct Left {
    until: BTreeMap<Connection, Time>,
    by_time: BTreeSet<(Time, Connection)>,
}

impl Left {
    pub(crate) fn insert(&mut self, connection: Connection, until: Time) {
        self.settle(&connection);
        self.until.insert(connection, until);
        self.by_time.insert((until, connection));
    }

    /// Somebody says again what stands of a connection.
    pub(crate) fn settle(&mut self, connection: &Connection) {
        if let Some(until) = self.until.remove(connection) {
            self.by_time.remove(&(until, *connection));
        }
    }

    /// Until when a limit stands at most.
    pub(crate) fn until(&self, connection: &Connection) -> Option<Time> {
        self.until.get(connection).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.until.keys()
    }

    /// When the first of them is over.
    pub(crate) fn first(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out those whose lease is over by now.
    pub(crate) fn take(&mut self, now: Time) -> Vec<Connection> {
        let mut over = Vec::new();
        while let Some((at, connection)) = self.by_time.first().copied()
            && at <= now
        {
            self.settle(&connection);
            over.push(connection);
        }
        over
    }
}
