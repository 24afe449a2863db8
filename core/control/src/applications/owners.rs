//! Whose connections are, as the kernels of their ends say: the tenant whose control group made the socket.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use protocol::Connection;
use units::Time;

use crate::applications::taken::Taken;
use crate::context::Context;

/// The tenants of sockets that were reported lately.
#[derive(Default)]
pub(crate) struct Owners {
    /// By the direction that the socket sends in; when that was said last, as [`Context::awake`].
    by_connection: BTreeMap<Connection, (Arc<str>, Time)>,
    /// How many each tenant has.
    taken: Taken<Arc<str>>,
    swept: Time,
}

impl Owners {
    /// The kernel at the source of a connection says whose socket that is, if it is a tenant's. Whether there is room:
    /// each has as much as an application may have flows.
    pub(crate) fn note(
        &mut self,
        cx: &Context,
        connection: Connection,
        owner: Option<&Arc<str>>,
    ) -> bool {
        // As nearly each sample says.
        if let (Some(owner), Some((known, at))) = (owner, self.by_connection.get_mut(&connection))
            && known == owner
        {
            *at = cx.awake;
            return true;
        }
        if let Some((before, _)) = self.by_connection.remove(&connection) {
            self.taken.give(&before);
        }
        let Some(owner) = owner else {
            return true;
        };
        let has_room = self.taken.take(Arc::clone(owner), cx.limits.flows);
        if has_room {
            self.by_connection.insert(connection, (Arc::clone(owner), cx.awake));
        }
        has_room
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
            let taken = &mut self.taken;
            self.by_connection.retain(|_, (owner, at)| {
                let stays = cx.awake.since(*at) <= cx.patience();
                if !stays {
                    taken.give(owner);
                }
                stays
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{config, connection};

    #[test]
    fn who_has_many_connections_takes_no_others_room() {
        let mut cx = Context::new(&config(), 1, Time::ZERO);
        cx.limits.flows = 2;
        let mut owners = Owners::default();
        let [many, few] = ["many", "few"].map(Arc::<str>::from);
        for (port, has_room) in [(1, true), (2, true), (2, true), (3, false)] {
            assert_eq!(owners.note(&cx, connection(port), Some(&many)), has_room);
        }
        assert!(owners.note(&cx, connection(4), Some(&few)));
        assert!(
            owners.deny(&connection(4), "many") && owners.belongs(&connection(3), "many").is_none()
        );
        // Who loses one has room again, and so has who is not spoken of.
        assert!(owners.note(&cx, connection(1), None));
        assert!(owners.note(&cx, connection(3), Some(&many)));
        for _ in 0..=crate::context::PATIENCE {
            cx.pass(cx.now + cx.sample);
        }
        owners.sweep(&cx);
        for port in 5..=6 {
            assert!(owners.note(&cx, connection(port), Some(&many)));
        }
    }
}
