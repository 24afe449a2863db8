//! What agents report becomes what the policy is told, and what is known of flows.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use model::{FlowId, Measured, NodeId, StreamSample};
use protocol::Connection;
use protocol::agent::{ConnectionReport, Report};
use units::{Bytes, Rate, Span, Time};

use crate::controller::Controller;
use crate::message::{Closing, Peer, Refusal};
use crate::registry::Flow;

/// What no report speaks of for so many of them is gone.
const PATIENCE: u64 = 4;

/// What one report says of a flow, over all its connections.
#[derive(Clone, Copy, Default)]
struct Sum {
    delivered: Bytes,
    queued: Bytes,
}

impl Controller {
    pub(crate) fn reported(&mut self, peer: Peer, report: &Report) -> Result<(), Refusal> {
        let per_second = self.limits.reports_per_second;
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&peer) else {
            let reason = "the connection is not known; connect first".into();
            return Err(Refusal { field: "agent", reason, busy: false });
        };
        agent.heard = now;
        let is_free = agent.confirms(report, self.epoch);
        let done = if !is_free && !agent.budget.take(now, per_second) {
            let reason = format!("more than {per_second} reports in a second; send fewer");
            Err(Refusal { field: "agent", reason, busy: true })
        } else {
            match report {
                Report::Hello { hosts, capabilities, epoch } => {
                    let done = self.greet(peer, hosts, capabilities, *epoch);
                    if let Err(refusal) = &done {
                        self.close_agent(peer, Closing::Refused(refusal.clone()));
                    }
                    done
                }
                _ if !agent.greeted => {
                    let reason = "the first report must be a hello; connect again".into();
                    let refusal = Refusal { field: "type", reason, busy: false };
                    self.close_agent(peer, Closing::Refused(refusal.clone()));
                    Err(refusal)
                }
                _ => self.take_in(peer, report),
            }
        };
        match done {
            Ok(()) => self.counters.reports += 1,
            Err(_) => self.counters.reports_refused += 1,
        }
        done
    }

    fn take_in(&mut self, peer: Peer, report: &Report) -> Result<(), Refusal> {
        match report {
            Report::Hello { .. } => {}
            Report::Connections { connections } => self.sampled(peer, connections)?,
            Report::Opened { connection } => {
                self.own(peer, connection)?;
                self.opened(*connection);
            }
            Report::Closed { connection } => {
                self.own(peer, connection)?;
                self.closed(connection);
            }
            Report::Congested { node, interface, severity, queue_bytes } => {
                let found =
                    self.view.named(node).filter(|node| self.acting.get(node) == Some(&peer));
                let link = found.and_then(|node| self.view.link_by(node, interface));
                let Some(link) = link else {
                    let reason = "is no interface that the agent acts for; declare it".into();
                    return Err(Refusal { field: "interface", reason, busy: false });
                };
                let (severity, queue) = (*severity, *queue_bytes);
                self.tell(Measured::Congested { link, severity, queue });
            }
            Report::Failed { epoch, sequence, command, reason } => {
                self.failed(peer, (*epoch, *sequence), command, reason);
            }
            Report::Applied { epoch, sequence } => self.applied(peer, *epoch, *sequence),
            Report::Stale { obeys, .. } => {
                self.counters.stale += 1;
                self.outrank(*obeys);
            }
        }
        Ok(())
    }

    /// An agent speaks of connections of its own hosts only.
    fn own(&self, peer: Peer, connection: &Connection) -> Result<(), Refusal> {
        let host = self.view.host_at(connection.source.ip());
        if host.is_some_and(|host| self.acting.get(&host) == Some(&peer)) {
            return Ok(());
        }
        let reason = format!("{} is not of the agent's hosts", connection.source.ip());
        Err(Refusal { field: "connection.source", reason, busy: false })
    }

    /// The first packet of a connection. Connections that nobody declared matter to policies that
    /// watch the network only.
    pub(crate) fn opened(&mut self, connection: Connection) {
        if let Some(id) = self.registry.carried_by(&connection).first().copied() {
            if let Some(flow) = self.registry.flow_mut(id) {
                // All that it delivers is the flow's.
                flow.base = flow.base.or(Some(Bytes::ZERO));
            }
            self.tell_opened(id);
            return;
        }
        if self.policy.watch().is_none() || self.registry.seen >= self.limits.flows {
            return;
        }
        let Some(ends) = self.ends(&connection).filter(|(src, dst)| src != dst) else {
            return;
        };
        let mut flow = Flow::new(None, connection, ends, None, self.now);
        flow.base = Some(Bytes::ZERO);
        if let Some(id) = self.registry.add_flow(flow) {
            self.tell_opened(id);
            self.count_at_switch(id);
        }
    }

    fn tell_opened(&mut self, id: FlowId) {
        if let Some(flow) = self.registry.flow_mut(id).filter(|flow| !flow.open) {
            flow.open = true;
            let (src, dst) = flow.ends;
            self.tell(Measured::Opened { flow: id, src, dst });
        }
    }

    /// The last packet of a connection.
    pub(crate) fn closed(&mut self, connection: &Connection) {
        self.leave_pair(connection);
        let Some(id) = self.registry.sharing(connection).first().copied() else {
            return;
        };
        let Some(flow) = self.registry.flow_mut(id) else {
            return;
        };
        if flow.owner.is_none() {
            self.forget_flow(id);
        } else if core::mem::take(&mut flow.open) {
            self.tell(Measured::Closed { flow: id });
        }
    }

    fn sampled(&mut self, peer: Peer, reports: &[ConnectionReport]) -> Result<(), Refusal> {
        if reports.len() > self.limits.flows {
            let reason = format!("more than {} in a report; send fewer", self.limits.flows);
            return Err(Refusal { field: "connections", reason, busy: false });
        }
        let mut sums: BTreeMap<FlowId, Sum> = BTreeMap::new();
        let mut pairs: BTreeMap<(NodeId, NodeId), Sum> = BTreeMap::new();
        for report in reports {
            self.own(peer, &report.connection)?;
        }
        for report in reports {
            let queued = report.unsent_bytes + report.in_flight_bytes;
            // What a connection of several flows delivers can't be told apart.
            if let [id] = *self.registry.carried_by(&report.connection) {
                let sum = sums.entry(id).or_default();
                sum.delivered += report.delivered_bytes;
                sum.queued += queued;
            }
            if let Some(ends) = self.ends(&report.connection).filter(|(src, dst)| src != dst) {
                let sum = pairs.entry(ends).or_default();
                sum.delivered += report.delivered_bytes;
                sum.queued += report.unsent_bytes;
                self.list(ends, report);
            }
        }
        self.tell_flows(&sums);
        self.tell_pairs(&pairs);
        Ok(())
    }

    /// Notes how a connection of a pair stands.
    fn list(&mut self, ends: (NodeId, NodeId), report: &ConnectionReport) {
        let (most, now) = (self.limits.flows, self.now);
        let pair = self.pairs.entry(ends).or_default();
        if pair.connections.len() >= most && !pair.connections.contains_key(&report.connection) {
            return;
        }
        let is_new = !pair.connections.contains_key(&report.connection);
        let carrier = pair.connections.entry(report.connection).or_default();
        let waits = report.unsent_bytes + report.in_flight_bytes > Bytes::ZERO;
        // When a new one delivered what it has, nobody knows.
        if waits || !is_new && report.delivered_bytes > carrier.delivered {
            carrier.sent = Some(now);
        }
        (carrier.reported, carrier.delivered) = (now, report.delivered_bytes);
    }

    fn tell_flows(&mut self, sums: &BTreeMap<FlowId, Sum>) {
        let mut delivered = Vec::new();
        let mut streams = Vec::new();
        let fresh = self.sample * 2;
        let now = self.now;
        for (id, sum) in sums {
            let Some(flow) = self.registry.flow_mut(*id) else {
                continue;
            };
            flow.note(now.since(flow.reported.unwrap_or(flow.since)), sum);
            flow.reported = Some(now);
            if flow.owner.is_none() {
                continue;
            }
            if flow.size.is_some() {
                delivered.push((*id, flow.delivered));
                self.check_size(*id);
            } else if flow.declared.is_none_or(|(at, _)| now.since(at) > fresh) {
                streams.push(StreamSample {
                    flow: *id,
                    delivered: flow.delivered,
                    sender_queue: flow.queued,
                    receiver_queue: Bytes::ZERO,
                });
            }
        }
        if self.policy.watch().is_some_and(|watch| watch.statistics.is_some()) {
            let carried =
                sums.keys().filter_map(|id| Some((*id, self.registry.flow(*id)?.delivered)));
            let flows = carried.collect();
            self.tell(Measured::Carried { flows });
        }
        if !delivered.is_empty() {
            self.tell(Measured::Delivered(delivered));
        }
        if !streams.is_empty() {
            self.tell(Measured::Streams(streams));
        }
    }

    /// What each pair offers: as much as its access link carries while something waits, or else what
    /// it delivers. Told when it changes by more than an eighth.
    fn tell_pairs(&mut self, sums: &BTreeMap<(NodeId, NodeId), Sum>) {
        for (&(src, dst), sum) in sums {
            let patience = self.sample * PATIENCE;
            let now = self.now;
            let access = self.view.access(src).unwrap_or(Rate::ZERO);
            let Some(pair) = self.pairs.get_mut(&(src, dst)) else {
                continue;
            };
            let before = pair.connections.len();
            pair.connections.retain(|_, carrier| now.since(carrier.reported) <= patience);
            let mut changed = pair.connections.len() != before;
            for carrier in pair.connections.values_mut() {
                let counts = carrier.sent.is_some_and(|at| now.since(at) <= patience);
                changed |= core::mem::replace(&mut carrier.counts, counts) != counts;
            }
            if changed && pair.rate.is_some() {
                self.touched.extend(pair.connections.keys());
            }
            let since = if pair.at == Time::ZERO { sum.delivered } else { pair.delivered };
            let carried = Rate::of(sum.delivered - since, now.since(pair.at));
            (pair.delivered, pair.at) = (sum.delivered, now);
            let rate = if sum.queued > Bytes::ZERO { access } else { carried.min(access) };
            let change = rate.max(pair.offered) - rate.min(pair.offered);
            if change > pair.offered.fraction(1, 8) {
                pair.offered = rate;
                self.tell(Measured::Offered { src, dst, rate });
            }
        }
        self.end_pairs();
    }

    /// A connection carries nothing any more: what it had is for the others of its pair, and where
    /// there are none, for other pairs.
    pub(crate) fn leave_pair(&mut self, connection: &Connection) {
        let Some(ends) = self.ends(connection) else { return };
        let Some(pair) = self.pairs.get_mut(&ends) else { return };
        if pair.connections.remove(connection).is_none() {
            return;
        }
        self.touched.insert(*connection);
        self.touched.extend(pair.connections.keys());
        if !pair.connections.values().any(|carrier| carrier.counts) {
            self.end_pair(ends);
        }
    }

    /// Ends pairs of which nobody reports a connection any more.
    pub(crate) fn end_pairs(&mut self) {
        let (now, patience) = (self.now, self.sample * PATIENCE);
        let ended = self.pairs.iter().filter(|(_, pair)| now.since(pair.at) > patience);
        let ended: Vec<(NodeId, NodeId)> = ended.map(|(ends, _)| *ends).collect();
        for ends in ended {
            self.end_pair(ends);
        }
    }

    fn end_pair(&mut self, (src, dst): (NodeId, NodeId)) {
        let Some(pair) = self.pairs.remove(&(src, dst)) else { return };
        self.touched.extend(pair.connections.into_keys());
        if pair.offered > Rate::ZERO {
            self.tell(Measured::Offered { src, dst, rate: Rate::ZERO });
        }
    }
}

impl Flow {
    /// Takes in what was measured `since` the last report.
    fn note(&mut self, since: Span, sum: &Sum) {
        // A connection from before the flow has delivered something already, that isn't the flow's.
        let base = *self.base.get_or_insert(sum.delivered);
        let delivered = (sum.delivered - base).max(self.delivered);
        if since > Span::ZERO {
            self.measured = Some(Rate::of(delivered - self.delivered, since));
        }
        self.delivered = delivered;
        self.queued = sum.queued;
    }
}
