//! The connection of each flow, and what its socket has taken: shared by the world, which opens them, and
//! the northbound client, which tells of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use model::FlowId;
use protocol::Connection;
use units::Bytes;

/// The connections of flows, by number.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<Mutex<Vec<(Connection, Taken)>>>);

/// How much a flow's socket has taken, in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<AtomicU64>);

impl Taken {
    pub(crate) fn add(&self, octets: u64) {
        self.0.fetch_add(octets, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Directory {
    /// Adds the next flow, `flow`.
    pub(crate) fn enter(&self, flow: FlowId, source: SocketAddr, destination: SocketAddr) -> Taken {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!(all.len(), flow.index(), "flows count up");
        let taken = Taken::default();
        all.push((Connection { source, destination }, taken.clone()));
        taken
    }

    /// The connection of a flow, once it has started.
    pub fn get(&self, flow: FlowId) -> Option<Connection> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(flow.index()).map(|(connection, _)| *connection)
    }

    /// What the socket of a flow has taken so far.
    pub(crate) fn taken(&self, flow: FlowId) -> Bytes {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Bytes::new(all.get(flow.index()).map_or(0, |(_, taken)| taken.get()))
    }
}
