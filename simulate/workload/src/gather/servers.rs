//! What the servers of a request can send: one that is overloaded sends so much and no more, one
//! message after the other, whoever asked for it.

use std::collections::BTreeMap;

use engine::random::Stream;
use model::NodeId;
use rand::RngExt;
use units::{Bytes, Rate, Span, Time};

use super::Overload;

pub(super) struct Servers {
    overload: Option<Overload>,
    /// From which each server's lot is drawn, so that it is the same whoever decides.
    key: u64,
    /// By server: when it has sent what it was given; `None` where its link alone limits it.
    busy: BTreeMap<NodeId, Option<Time>>,
}

impl Servers {
    pub(super) const fn new(overload: Option<Overload>, key: u64) -> Self {
        Self { overload, key, busy: BTreeMap::new() }
    }

    fn busy(&mut self, overload: Overload, server: NodeId) -> &mut Option<Time> {
        self.busy.entry(server).or_insert_with(|| {
            let mut lot = Stream::named(self.key, &format!("server-{}", server.0));
            lot.random_bool(overload.probability).then_some(Time::ZERO)
        })
    }

    /// How long until a server that is given a frame of `size` has sent it; nothing where its link
    /// alone limits it.
    pub(super) fn send(&mut self, now: Time, server: NodeId, size: Bytes) -> Span {
        let Some(overload) = self.overload else { return Span::ZERO };
        let Some(busy) = self.busy(overload, server) else { return Span::ZERO };
        *busy = now.max(*busy) + overload.rate.time_for(size);
        busy.since(now)
    }

    /// What those of `servers` that are overloaded can send, in order, each once.
    pub(super) fn known(&mut self, servers: &[NodeId]) -> Vec<(NodeId, Rate)> {
        let Some(overload) = self.overload else { return Vec::new() };
        let mut slow: Vec<_> = (servers.iter().copied())
            .filter(|server| self.busy(overload, *server).is_some())
            .map(|server| (server, overload.rate))
            .collect();
        slow.sort_unstable();
        slow.dedup();
        slow
    }
}
