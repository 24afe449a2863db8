//! What the kernels at the ends of connections say of flows: whose they are, and whether there is anything of them.
//! Flows that are another's end; those that nobody sees, where an agent watches their sender, hold nobody.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use model::{Declared, FlowId, Measured, NodeId};
use protocol::agent::ConnectionReport;
use protocol::{Connection, Process};
use units::{Bytes, Rate, Time};

use super::Controller;
use crate::agents::Moment;
use crate::applications::flow::Flow;
use crate::traffic::used;
use crate::waste::{narrowest, starved};

impl Controller {
    /// Takes in whose the source of a reported connection is. Flows of others on it end.
    pub(super) fn note_owner(&mut self, report: &ConnectionReport) {
        let connection = report.connection;
        let host = self.view.host_at(connection.source.ip());
        let host = host.map_or("", |node| self.view.node_name(node));
        self.registry.note_owner(&self.context, host, report);
        let Connection { source, destination } = connection;
        for way in [connection, Connection { source: destination, destination: source }] {
            for id in self.registry.usurping(&way) {
                self.disown(id);
            }
        }
    }

    /// Takes in which pod has the source of a reported connection.
    pub(super) fn note_pod(&mut self, report: &ConnectionReport) {
        let pod = report.processes.iter().find_map(|process| match process {
            Process::Pod(name) => Some(name.as_str()),
            Process::Pid(_) | Process::Cgroup(_) => None,
        });
        self.registry.pods.note(&self.context, report.connection, pod);
    }

    /// Ends a flow whose connection is another application's.
    fn disown(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        let [name, _, called] = self.registry.name_of(flow);
        let Connection { source, destination } = flow.selector.connection;
        let told = format!(
            "application {name} declared {source} -> {destination} as its flow {called}; it is another's, and the \
             flow has ended"
        );
        self.registry.note_usurper(self.context.now, &name, told);
        self.counters.contradictions += 1;
        self.registry.note_unseen(&self.context, id);
        self.end_flow(id);
    }

    /// Ends a flow without a word of its application.
    pub(super) fn end_flow(&mut self, id: FlowId) {
        if let Some(job) = self.registry.flow(id).and_then(Flow::job) {
            self.tell(Declared::FlowComplete { job, flow: id });
        }
        self.tell_closed(id);
        self.forget_flow(id);
    }

    /// A flow that is declared now, and those of others of its connection. It counts at once, unless its application
    /// has declared too much that nobody saw.
    pub(super) fn admit_flow(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        let (selector, (src, _)) = (flow.selector, flow.ends);
        let of = self.registry.application_of(id).cloned();
        let is_doubted =
            of.as_ref().is_some_and(|of| self.registry.ledger.is_doubted(&self.context, of));
        if is_doubted && self.agents.would_report(&self.context, src) {
            self.registry.park(id);
        }
        let is_anothers = || of.is_none() || self.registry.declared_by(&selector) != of.as_ref();
        if selector.is_exact() && is_anothers() {
            let others = self.registry.sharing(&selector).iter().copied();
            let is_ghost = |id: &FlowId| {
                let name = self.registry.application_of(*id);
                let is_other = name.is_some() && name != of.as_ref();
                let denied =
                    name.is_some_and(|name| self.registry.owners.deny(&selector.connection, name));
                is_other && (denied || self.registry.flow(*id).is_some_and(Flow::is_missing))
            };
            for other in others.filter(is_ghost).collect::<Vec<_>>() {
                self.disown(other);
            }
        }
    }

    /// Nobody sees that a flow sends, or it gives way: it ends for the policy. What it is held to stays.
    fn park(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        let (job, open) = (flow.job(), flow.open);
        if let Some(job) = job {
            self.tell(Declared::FlowComplete { job, flow: id });
        }
        if open {
            self.tell(Measured::Closed { flow: id });
        }
        self.registry.park(id);
        self.registry.note_unseen(&self.context, id);
    }

    /// A connection has ended that had sent something: so have the flows that were declared as just this one, until
    /// another is seen there.
    pub(super) fn park_over(&mut self, connection: &Connection) {
        for id in Vec::from(self.registry.sharing(&(*connection).into())) {
            let Some(flow) = self.registry.flow(id).filter(|flow| flow.owner.is_some()) else {
                continue;
            };
            let stands = !flow.is_parked();
            self.registry.hear(&self.context, id, true);
            self.registry.note_late(&self.context, id);
            if stands {
                self.park(id);
            }
        }
    }

    /// A flow is seen: the policy counts on it again, unless it gives way.
    pub(super) fn see(&mut self, id: FlowId) {
        if self.registry.flow(id).is_some_and(Flow::is_missing) {
            self.unpark(id);
        }
    }

    /// The policy counts on a flow again: it is there, or has something to send.
    fn unpark(&mut self, id: FlowId) {
        self.registry.note_late(&self.context, id);
        self.enter(id);
    }

    /// Nobody would see any more that flows of these hosts send: what is declared counts, whatever was seen before.
    pub(super) fn release(&mut self, hosts: &[NodeId]) {
        if !self.registry.parks() {
            return;
        }
        let unseen = hosts.iter().filter(|host| !self.agents.would_report(&self.context, **host));
        let addresses = unseen.flat_map(|host| self.view.addresses_of(*host));
        let flows = addresses.flat_map(|address| self.registry.declared_from(address));
        let parked = flows.filter(|(_, flow)| flow.is_parked()).map(|(id, _)| id);
        for id in parked.collect::<Vec<_>>() {
            self.registry.release(id);
            self.enter(id);
        }
    }

    /// The same of all whose agents sample no more. They are looked for once in a sample.
    pub(super) fn release_unsampled(&mut self) {
        if self.context.awake.since(self.released) >= self.context.sample {
            self.released = self.context.awake;
            self.release(&self.agents.stopped(&self.context));
        }
    }

    /// The policy is told of a flow that was parked.
    fn enter(&mut self, id: FlowId) {
        self.registry.unpark(id);
        // It enters without a limit.
        let now = self.context.now;
        self.intend(id, |wanted| wanted.set_limit(now, None));
        if let Some(request) = self.registry.declared(id) {
            self.tell(request);
        }
        if let Some(Flow { ends: (src, dst), open: true, .. }) = self.registry.flow(id) {
            let (src, dst) = (*src, *dst);
            self.tell(Measured::Opened { flow: id, src, dst });
        }
    }

    /// Parks the flows of these hosts whose connection nobody has seen for long, or over which nothing was sent and
    /// nothing waited from one report to the next.
    pub(super) fn park_unseen(&mut self, hosts: &[NodeId]) {
        let (cx, awake) = (&self.context, self.context.awake);
        let (sample, patience) = (self.context.nearly_a_sample(), self.context.patience());
        let is_idle = |flow: &Flow| {
            // Nothing is told of it, or that nothing goes.
            let looked = self.agents.looked(Some(flow.ends.0));
            let is_told = flow.heard == Some(awake);
            let (most, looked) = if is_told { (sample, Moment::NEVER) } else { (patience, looked) };
            let is_unseen = match flow.busy {
                Some(at) => flow.size.is_some() && cx.is_gone(at, most, looked.awake),
                None => {
                    !flow.is_seen() && cx.now.since(flow.since) > most && flow.since < looked.now
                }
            };
            flow.owner.is_some() && !flow.is_parked() && is_unseen
        };
        let watched = hosts.iter().filter(|host| self.agents.would_report(&self.context, **host));
        let addresses = watched.flat_map(|host| self.view.addresses_of(*host));
        let flows = addresses.flat_map(|address| self.registry.declared_from(address));
        let idle: Vec<FlowId> = flows.filter(|(_, flow)| is_idle(flow)).map(|(id, _)| id).collect();
        for id in idle {
            self.park(id);
        }
    }

    /// A connection has carried so much since it was reported last: so much was made of its flows being let send.
    pub(super) fn note_use(&mut self, report: &ConnectionReport, carried: Bytes) {
        let flows = Vec::from(self.registry.carried_by(&report.connection));
        let first = flows.first().and_then(|id| Some((*id, self.registry.flow(*id)?.ends)));
        let Some((first, ends)) = first else {
            return;
        };
        let limits = flows.iter().map(|id| self.desired.intention(*id).limit());
        let limit = limits.reduce(|sum, more| Some(sum? + more?)).flatten();
        let has_more = report.unsent_bytes + report.in_flight_bytes > Bytes::ZERO;
        let gives_way = |flow: &Flow| flow.waste.gives_way();
        let all_give_way = flows.iter().all(|id| self.registry.flow(*id).is_none_or(gives_way));
        for id in flows {
            self.registry.note_use(id, carried, report.unsent_bytes > Bytes::ZERO);
        }
        let path = self.view.capacities(ends, first);
        // Where a link is much wider than the others, who is held to a small part of it may fill its own.
        let is_starved =
            limit.zip(narrowest(&path)).is_some_and(|(limit, of)| limit <= starved(of));
        let waits = has_more && is_starved && !self.is_withheld(ends);
        for (link, _) in path {
            self.traffic.note(&self.context, link, carried, all_give_way, waits);
        }
    }

    /// Has flows of reported connections give way that leave their links idle while others wait for them, and no longer
    /// where they have something to send. Of a connection all do, whichever is first.
    pub(super) fn judge_waste(&mut self, reported: &[Connection]) {
        for connection in reported {
            let flows = Vec::from(self.registry.carried_by(connection));
            let leads = flows.iter().any(|id| self.leads(*id));
            for id in flows {
                let Some(flow) = self.registry.flow(id).filter(|flow| flow.owner.is_some()) else {
                    continue;
                };
                let (ends, leads) = (flow.ends, leads && !flow.is_parked());
                let path = || self.view.capacities(ends, id);
                let cx = &self.context;
                match self.registry.judge_waste(cx, id, leads, path, &self.traffic) {
                    Some(true) => self.park(id),
                    Some(false) => self.unpark(id),
                    None => {}
                }
            }
        }
    }

    /// Whether the policy lets a flow use its links. Where all are plain TCP, nobody goes before others.
    fn leads(&self, id: FlowId) -> bool {
        let Some(flow) = self.registry.flow(id).filter(|flow| flow.owner.is_some()) else {
            return false;
        };
        let limit = self.desired.intention(id).limit();
        let is_enough = |limit| {
            let narrowest = narrowest(&self.view.capacities(flow.ends, id));
            narrowest.is_some_and(|of| limit >= used(of))
        };
        !flow.is_parked() && !self.is_withheld(flow.ends) && limit.is_none_or(is_enough)
    }

    /// Sets what a reported connection has carried against what was declared for it. `before`: what it had delivered
    /// when it was reported first. An application of which all flows count as more from now on.
    pub(super) fn settle(&mut self, report: &ConnectionReport, before: Bytes) -> Option<Arc<str>> {
        let ends = self.view.ends(&report.connection);
        let last = ends
            .and_then(|ends| self.pairs.delivered_before(ends, &report.connection, Time::NEVER));
        let capacity = self.capacity_from(ends.map(|(src, _)| src));
        let before = last.unwrap_or(before);
        let (now, desired) = (self.context.now, &self.desired);
        let let_go = |id| desired.intention(id).let_go(now);
        let lied = self.registry.settle(&self.context, report, before, capacity, let_go);
        let sharing = self.registry.sharing(&report.connection.into());
        if sharing.len() > 1 {
            self.raise_along(&Vec::from(sharing));
        }
        lied
    }

    /// These flows share a connection: they count as more, where what such flows were held to went beside them.
    fn raise_along(&mut self, flows: &[FlowId]) {
        for &id in flows {
            let Some(of) = self.registry.application_of(id).cloned() else {
                continue;
            };
            let along = self.registry.ledger.along(&self.context, &of);
            self.count_as_more(id, &of, |flow| flow.raise_along(along));
        }
    }

    /// A flow of an application counts as more, if `raise` says that it does.
    fn count_as_more(&mut self, id: FlowId, of: &str, raise: impl FnOnce(&mut Flow) -> bool) {
        if self.registry.raise(id, of, raise) {
            self.counters.contradictions += 1;
            self.enter_again(id);
            self.correct_sizes(id);
        }
    }

    /// A flow is declared, or has another size, and may share its connection.
    pub(super) fn share(&mut self, id: FlowId) {
        let Some(selector) = self.registry.flow(id).map(|flow| flow.selector) else {
            return;
        };
        let sharing = self.registry.sharing(&selector);
        if let ([first, _, ..], true) = (sharing, selector.is_exact()) {
            // Of the first it was not known that it would share. All others have been here.
            let both = [*first, id];
            self.raise_along(&both);
        }
    }

    fn capacity_from(&self, host: Option<NodeId>) -> Rate {
        host.and_then(|host| self.view.access(host)).unwrap_or(Rate::MAX)
    }

    /// All flows of an application count as more.
    pub(super) fn raise(&mut self, of: &Arc<str>) {
        let standing = self.registry.ledger.standing(&self.context, of);
        let known = self.registry.applications.get(of);
        let jobs: Vec<_> = known.into_iter().flat_map(|known| known.jobs.values()).collect();
        let jobs = jobs.into_iter().filter_map(|job| self.registry.job(*job));
        let flows: Vec<FlowId> = jobs.flat_map(|job| job.flows.values()).copied().collect();
        for id in flows {
            self.count_as_more(id, of, |flow| flow.raise(standing));
        }
    }

    /// A policy that goes by declared sizes is to be told what a flow counts as: once for all of its job, before the
    /// policy decides.
    pub(super) fn correct_sizes(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        if let Some(job) = flow.job().filter(|job| self.registry.has_sizes(*job)) {
            self.corrections.entry(job).or_default().insert(flow.ends);
        }
    }

    /// Tells the policy what is to be told of sizes.
    pub(super) fn tell_corrections(&mut self) {
        for (job, between) in core::mem::take(&mut self.corrections) {
            for declared in self.registry.corrected_sizes(job, &between) {
                self.tell(declared);
            }
        }
    }

    /// Notes what becomes of a declared flow that ends.
    pub(super) fn note_end(&mut self, id: FlowId) {
        let src = self.registry.flow(id).filter(|flow| flow.owner.is_some()).map(|f| f.ends.0);
        if src.is_some_and(|src| self.agents.would_report(&self.context, src)) {
            let capacity = self.capacity_from(src);
            let let_go = self.desired.intention(id).let_go(self.context.now);
            self.registry.note_end(&self.context, id, capacity, let_go);
        }
    }
}
