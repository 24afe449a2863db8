//! The connection of each flow: shared by the world, which opens them, and the northbound client,
//! which names them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use model::FlowId;
use protocol::Connection;

/// The connections of flows, by number.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<Mutex<Vec<Connection>>>);

impl Directory {
    /// Adds the next flow, `flow`.
    pub(crate) fn enter(&self, flow: FlowId, source: SocketAddr, destination: SocketAddr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!(all.len(), flow.index(), "flows count up");
        all.push(Connection { source, destination });
    }

    /// The connection of a flow, once it has started.
    pub fn get(&self, flow: FlowId) -> Option<Connection> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(flow.index()).copied()
    }
}
