//! From what the policy wants to what actuators are told.
//!
//! The policy speaks of flows, actuators of connections. A connection that carries several flows gets
//! the sum of their rates, and none while one of them has none. A rate for a pair of hosts is divided
//! among its connections.

use alloc::collections::BTreeMap;

use model::{Directive, FlowId, LinkId, NodeId};
use protocol::Connection;
use units::{Bytes, Rate, Time};

use crate::agents::Standing;
use crate::config::Enforcement;
use crate::controller::Controller;

/// What goes from one host to another, as agents report it.
#[derive(Default)]
pub(crate) struct Pair {
    /// What the policy gives it.
    pub(crate) rate: Option<Rate>,
    /// Its connections, as they were reported last.
    pub(crate) connections: BTreeMap<Connection, Carrier>,
    /// What the policy was told of it last.
    pub(crate) offered: Rate,
    /// What its connections had delivered at the last report, and when that was.
    pub(crate) delivered: Bytes,
    pub(crate) at: Time,
}

/// A connection of a pair.
#[derive(Default)]
pub(crate) struct Carrier {
    pub(crate) reported: Time,
    pub(crate) delivered: Bytes,
    /// When it last had something to send; never, where it only receives.
    pub(crate) sent: Option<Time>,
    /// Whether that was lately, so that it counts where the pair's rate is divided.
    pub(crate) counts: bool,
}

impl Controller {
    /// Takes in what the policy has said.
    pub(crate) fn obey(&mut self) {
        if self.decided.is_empty() {
            return;
        }
        for directive in core::mem::take(&mut self.decided) {
            self.counters.directives += 1;
            match directive {
                Directive::Pace { flow, limit, .. } => {
                    if let Some(flow) = self.registry.flow_mut(flow) {
                        (flow.intended, flow.decided) = (limit, self.now);
                        self.touched.insert(flow.connection);
                    }
                }
                Directive::Prioritize { flow, priority, .. } => {
                    if let Some(flow) = self.registry.flow_mut(flow) {
                        flow.level = priority;
                        self.touched.insert(flow.connection);
                    }
                }
                Directive::Window { link, flow, cap, .. } => self.cap(link, flow, cap),
                Directive::PacePair { src, dst, rate, .. } => {
                    let pair = self.pairs.entry((src, dst)).or_default();
                    pair.rate = Some(rate);
                    self.touched.extend(pair.connections.keys());
                }
                // Timeslots and spaced acknowledgements have no actuator outside a simulation.
                Directive::Grant { .. } | Directive::Space { .. } | Directive::Gather { .. } => {
                    self.counters.directives_unenforced += 1;
                }
            }
        }
    }

    /// What a connection should be held to.
    pub(crate) fn target(&self, connection: &Connection) -> Standing {
        let mut flows =
            self.registry.sharing(connection).iter().filter_map(|id| self.registry.flow(*id));
        let Some(first) = flows.next() else {
            return Standing { rate: self.pair_share(connection), level: 0 };
        };
        let (mut rate, mut level) = (first.intended, first.level);
        for flow in flows {
            rate = rate.zip(flow.intended).map(|(sum, more)| sum + more);
            level = level.min(flow.level);
        }
        let rate = [rate, self.pair_share(connection)].into_iter().flatten().min();
        Standing { rate, level }
    }

    fn pair_share(&self, connection: &Connection) -> Option<Rate> {
        if self.pairs.is_empty() {
            return None;
        }
        let pair = self.pairs.get(&self.ends(connection)?)?;
        // One that never sends needs no share. One that rests keeps one, in case it sends again.
        pair.connections.get(connection)?.sent?;
        let count = pair.connections.values().filter(|carrier| carrier.counts).count();
        let share = pair.rate?.fraction(1, count.max(1) as u64);
        Some(share.max(policy::FLOOR))
    }

    /// The hosts of a connection.
    pub(crate) fn ends(&self, connection: &Connection) -> Option<(NodeId, NodeId)> {
        let src = self.view.host_at(connection.source.ip())?;
        Some((src, self.view.host_at(connection.destination.ip())?))
    }

    /// Sets right what actuators were told of the connections that were touched.
    pub(crate) fn enforce(&mut self) {
        for connection in core::mem::take(&mut self.touched) {
            let target = self.target(&connection);
            let Some((src, dst)) = self.ends(&connection) else {
                continue;
            };
            let rate = match self.enforcement {
                Enforcement::Pacing => target.rate,
                Enforcement::Meters => {
                    self.meter((src, dst), connection, target.rate);
                    None
                }
            };
            let told = self.hold(src, connection, Standing { rate, ..target });
            if !told && rate.is_some() {
                self.counters.directives_unenforced += 1;
            }
        }
    }

    /// Caps windows where a link begins, or lifts the cap.
    pub(crate) fn cap(&mut self, link: LinkId, flow: Option<FlowId>, cap: Option<Bytes>) {
        let Some(known) = self.view.network.topology().links().get(link.index()) else {
            return;
        };
        let at = known.from;
        match (cap, flow) {
            (Some(cap), _) => {
                self.windows.insert((link, flow), cap);
            }
            (None, Some(_)) => {
                self.windows.remove(&(link, flow));
            }
            (None, None) => {
                let all = (link, None)..=(link, Some(FlowId(u32::MAX)));
                let entries = self.windows.range(all).filter_map(|((_, flow), _)| *flow);
                for flow in entries.collect::<alloc::vec::Vec<_>>() {
                    self.cap(link, Some(flow), None);
                }
                self.windows.remove(&(link, None));
            }
        }
        let told = self.tell_window(at, link, flow, cap) || self.cap_at_switch(at, link, flow, cap);
        if !told && cap.is_some() {
            self.counters.directives_unenforced += 1;
        }
    }

    /// Removes the caps of a flow that is gone.
    pub(crate) fn forget_windows(&mut self, id: FlowId, connection: &Connection) {
        if self.windows.is_empty() {
            return;
        }
        let links =
            self.windows.keys().filter(|(_, flow)| *flow == Some(id)).map(|(link, _)| *link);
        for link in links.collect::<alloc::vec::Vec<_>>() {
            self.windows.remove(&(link, Some(id)));
            let at = self.view.network.topology().link(link).from;
            self.lift_window(at, link, *connection);
        }
    }
}
