//! The metrics of sync-vs-async, section III: completion times relative to an empty network, queues
//! by place, time in the network.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, NodeKind};
use units::{Span, Time};

use super::sample::Sample;
use super::view::View;

/// Where a queue stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At a host, packets that wait to be let go included.
    Host,
    /// At a switch with hosts.
    Leaf,
    /// At another switch.
    Spine,
}

impl View<'_> {
    /// Completion times over those of the same flows in an otherwise empty network.
    pub(super) fn fct_normalized(&self) -> Sample {
        self.fct_over(&self.run.host_queues.ideal)
    }

    /// The same, where under timeslots that network has them too.
    pub(super) fn fct_slotted(&self) -> Sample {
        let queues = &self.run.host_queues;
        self.fct_over(if queues.granted { &queues.slotted } else { &queues.ideal })
    }

    /// Completion times over those of `empty`, by flow.
    fn fct_over(&self, empty: &[Span]) -> Sample {
        let ratios = self.run.flows.iter().zip(empty).filter_map(|(flow, empty)| {
            Some(flow.completion()?.as_secs_f64() / empty.as_secs_f64())
        });
        ratios.collect()
    }

    /// Rates of the flows over those that they would have in an otherwise empty network.
    pub(super) fn rate_normalized(&self) -> Sample {
        self.fct_normalized().values().iter().map(|ratio| 1.0 / ratio).collect()
    }

    /// The same of pairs of hosts: of each the time that its completed flows take in that network one
    /// after the other, over the time in which one of them at least was under way.
    pub(super) fn pair_rate_normalized(&self) -> Sample {
        let mut pairs: BTreeMap<_, (Span, Vec<(Time, Time)>)> = BTreeMap::new();
        for (flow, empty) in self.run.flows.iter().zip(&self.run.host_queues.ideal) {
            if let Some(end) = flow.end {
                let (alone, ways) = pairs.entry((flow.src, flow.dst)).or_default();
                *alone += *empty;
                ways.push((flow.start, end));
            }
        }
        let rates = pairs.into_values().map(|(alone, mut ways)| {
            ways.sort_unstable();
            let (mut last, mut under_way) = (Time::ZERO, Span::ZERO);
            for (start, end) in ways {
                under_way += end.since(start.max(last));
                last = last.max(end);
            }
            alone.as_secs_f64() / under_way.as_secs_f64()
        });
        rates.collect()
    }

    /// Time in the network, without the wait at the host, of each packet that waited there, s.
    pub(super) fn network_latency(&self) -> &Sample {
        self.latency.get_or_init(|| {
            self.run.host_queues.latency.iter().copied().map(Span::as_secs_f64).collect()
        })
    }

    /// Payload of all flows over the capacity of the receivers' links in the busy time.
    pub(super) fn receiver_throughput(&self) -> Option<f64> {
        let receives = |node: NodeId| self.flows().ends.contains_key(&(node, false));
        let into = self.topology.links().iter().filter(|link| receives(link.to));
        let capacity: f64 = into.map(|link| link.spec.capacity.as_bps() as f64).sum();
        Some(self.goodput()? / capacity)
    }

    /// Payload delivered from each sending host. Jain's index of it is that of throughputs, since
    /// all share one time.
    pub(super) fn sender_delivered(&self) -> Sample {
        let sent = self.flows().ends.iter().filter(|((_, sends), _)| *sends);
        sent.map(|(_, bytes)| bytes.get() as f64).collect()
    }

    /// Packets in the queues at a place, those in transmission included: a value for each queue and
    /// sample.
    pub(super) fn queued(&self, place: Place) -> Sample {
        let nodes = self.topology.nodes();
        let is_host = |node: NodeId| nodes[node.index()].kind == NodeKind::Host;
        let links = self.topology.links();
        let leaves: BTreeSet<NodeId> =
            links.iter().filter(|link| is_host(link.from)).map(|link| link.to).collect();
        let place_of = |node: NodeId| match (is_host(node), leaves.contains(&node)) {
            (true, _) => Place::Host,
            (false, true) => Place::Leaf,
            (false, false) => Place::Spine,
        };
        let queues = self.run.queues.iter();
        let here = queues.filter(|queue| place_of(links[queue.link.index()].from) == place);
        here.flat_map(|queue| &queue.packets).map(|n| f64::from(*n)).collect()
    }

    /// As [`queued`](Self::queued) at a switch, without the one in transmission: a port that has packets sends one.
    pub(super) fn waiting(&self, place: Place) -> Sample {
        self.queued(place).values().iter().map(|n| (n - 1.0).max(0.0)).collect()
    }
}
