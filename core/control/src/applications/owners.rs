//! Whose connections are, as the kernels of their ends say: the tenant whose control group made the socket.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use protocol::Connection;
use units::Time;

use crate::context::Context;

/// The tenants of sockets that were reported lately.
#[derive(Default)]
pub(crate) struct Owners {
    /// By the direction that the socket sends in; when that was said last, as [`Context::awake`].
    by_connection: BTreeMap<Connection, (Arc<str>, Time)>,
    swept: Time,
}

impl Owners {
    /// The kernel at the source of a connection says whose socket that is, if it is a tenant's.
    pub(crate) fn note(&mut self, cx: &Context, connection: Connection, owner: Option<&Arc<str>>) {
        match owner {
            None => drop(self.by_connection.remove(&connection)),
            Some(owner) => {
                let has_room = self.by_connection.len() < cx.limits.flows
                    || self.by_connection.contains_key(&connection);
                if has_room {
                    self.by_connection.insert(connection, (Arc::clone(owner), cx.awake));
                }
            }
        }
    }

    /// Whether a connection is an application's, at one of its ends; `None`: no kernel says whose it is.
    pub(crate) fn belongs(&self, connection: &Connection, application: &str) -> Option<bool> {
        let Connection { source, destination } = *connection;
        let back = Connection { source: destination, destination: source };
        let ends = [connection, &back].map(|end| self.by_connection.get(end));
        let mut known = ends.into_iter().flatten().peekable();
        known.peek()?;
        Some(known.any(|(owner, _)| **owner == *application))
    }

    /// Whether a kernel says that a connection is of others.
    pub(crate) fn deny(&self, connection: &Connection, application: &str) -> bool {
        self.belongs(connection, application) == Some(false)
    }

    /// Forgets what no report has spoken of lately; looked for no more often than samples come.
    pub(crate) fn sweep(&mut self, cx: &Context) {
        if cx.awake.since(self.swept) >= cx.sample {
            self.swept = cx.awake;
            self.by_connection.retain(|_, (_, at)| cx.awake.since(*at) <= cx.patience());
        }
    }
}
