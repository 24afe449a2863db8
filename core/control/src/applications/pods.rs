//! Which pods of Kubernetes have the ends of connections, as the agents there say. Nothing is decided by it: people
//! read it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::net::IpAddr;

use model::NodeId;
use protocol::Connection;
use units::Time;

use crate::context::Context;

/// The pods of sockets that were reported lately.
#[derive(Default)]
pub(crate) struct Pods {
    /// By the direction that the socket sends in; when that was said last, as [`Context::awake`].
    by_connection: BTreeMap<Connection, (Arc<str>, Time)>,
    /// Each once, however many connections it has.
    names: BTreeSet<Arc<str>>,
    swept: Time,
}

impl Pods {
    /// The agent at the source of a connection says whose pod's socket that is, if it is a pod's.
    pub(crate) fn note(&mut self, cx: &Context, connection: Connection, pod: Option<&str>) {
        let Some(pod) = pod else {
            self.by_connection.remove(&connection);
            return;
        };
        if let Some((known, at)) = self.by_connection.get_mut(&connection)
            && **known == *pod
        {
            *at = cx.awake;
            return;
        }
        let has_room = self.by_connection.len() < cx.limits.flows
            || self.by_connection.contains_key(&connection);
        if has_room {
            let name = self.names.get(pod).cloned().unwrap_or_else(|| {
                let name: Arc<str> = Arc::from(pod);
                self.names.insert(Arc::clone(&name));
                name
            });
            self.by_connection.insert(connection, (name, cx.awake));
        }
    }

    /// The pod that has the source of a connection.
    pub(crate) fn at_source(&self, connection: &Connection) -> Option<&str> {
        self.by_connection.get(connection).map(|(pod, _)| &**pod)
    }

    /// The pod that has its destination, which sends the other way.
    pub(crate) fn at_destination(&self, connection: &Connection) -> Option<&str> {
        let Connection { source, destination } = *connection;
        self.at_source(&Connection { source: destination, destination: source })
    }

    /// How many have connections that begin at each host.
    pub(crate) fn by_host(
        &self,
        host_at: impl Fn(IpAddr) -> Option<NodeId>,
    ) -> BTreeMap<NodeId, usize> {
        let at_hosts = self.by_connection.iter();
        let at_hosts = at_hosts.filter_map(|(of, (pod, _))| Some((host_at(of.source.ip())?, pod)));
        let mut count: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (host, _) in at_hosts.collect::<BTreeSet<_>>() {
            *count.entry(host).or_default() += 1;
        }
        count
    }

    /// Forgets what no report has spoken of lately; looked for no more often than samples come.
    pub(crate) fn sweep(&mut self, cx: &Context) {
        if cx.awake.since(self.swept) >= cx.sample {
            self.swept = cx.awake;
            self.by_connection.retain(|_, (_, at)| cx.awake.since(*at) <= cx.patience());
            self.names.retain(|name| Arc::strong_count(name) > 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{config, connection};

    #[test]
    fn there_is_room_for_as_many_as_an_application_may_have_flows_and_silence_makes_room() {
        let mut cx = Context::new(&config(), 1, Time::ZERO);
        cx.limits.flows = 2;
        let mut pods = Pods::default();
        for (port, has_room) in [(1, true), (2, true), (3, false)] {
            pods.note(&cx, connection(port), Some("default/a"));
            assert_eq!(pods.at_source(&connection(port)).is_some(), has_room);
        }
        assert_eq!(pods.names.len(), 1);
        // Who has room may be another's.
        pods.note(&cx, connection(1), Some("default/b"));
        assert_eq!(pods.at_source(&connection(1)), Some("default/b"));
        pods.note(&cx, connection(1), None);
        pods.note(&cx, connection(3), Some("default/c"));
        assert_eq!(pods.at_source(&connection(3)), Some("default/c"));
        let known = |pods: &Pods| pods.by_host(|_| Some(NodeId(7))).get(&NodeId(7)).copied();
        assert_eq!(known(&pods), Some(2));
        for _ in 0..10 {
            cx.pass(cx.now + cx.sample);
            pods.note(&cx, connection(3), Some("default/c"));
            pods.sweep(&cx);
        }
        assert_eq!((known(&pods), pods.names.len()), (Some(1), 1));
        assert_eq!(pods.at_source(&connection(3)), Some("default/c"));
    }
}
