//! What operators order: what it ends, what it keeps from being in force, and what comes back.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::{
    Caps, Declared, FlowId, JobId, LEAST_RATE, LinkId, MOST_RATE, Measured, NodeId, NodeKind,
};
use protocol::Connection;
use protocol::operator::{Act, MOST_LASTS, Order};
use units::Rate;

use super::Controller;
use crate::applications::flow::Flow;
use crate::message::Refusal;
use crate::orders::{by, texts};

fn refuse(field: &'static str, reason: String) -> Result<(), Refusal> {
    Err(Refusal { field, reason, busy: false })
}

impl Controller {
    /// An operator orders something, or has ordered it before this controller began (`again`).
    pub(super) fn handle_order(&mut self, act: &Act, again: bool) -> Result<(), Refusal> {
        // What stood before may be from before a bound.
        if !again {
            for (field, text) in texts(&act.order) {
                if let Some(wrong) = self.context.limits.wrong_name(text) {
                    return refuse(field, wrong);
                }
            }
            if let Order::Block { application, .. } | Order::Limit { application, .. } = &act.order
                && !model::is_name(application)
            {
                return refuse("application", model::NO_NAME.into());
            }
        }
        match &act.order {
            Order::Cancel { application, job } => self.cancel(application, job),
            Order::Evict { application } => {
                if self.registry.applications.number(application).is_none() {
                    let reason = format!("{application:?} has declared nothing; see the status");
                    return refuse("application", reason);
                }
                self.end_application(application);
                Ok(())
            }
            Order::Block { application, .. } => {
                if self.orders.blocked(application).is_none() {
                    self.orders.room_to_block()?;
                }
                self.orders.block(application, act);
                self.end_application(application);
                Ok(())
            }
            Order::Unblock { application } => self.orders.unblock(application),
            Order::Freeze { .. } => {
                self.orders.freeze(act);
                self.apply_anew();
                Ok(())
            }
            Order::Thaw {} => {
                self.orders.thaw()?;
                self.apply_anew();
                Ok(())
            }
            Order::Drain { host, .. } => {
                let is_host = |node| self.view.kind(node) == Some(NodeKind::Host);
                if !again && !self.view.named(host).is_some_and(is_host) {
                    let reason = format!("\"{host}\" is no host; write its name in the topology");
                    return refuse("host", reason);
                }
                if self.orders.drained(host).is_none() {
                    self.orders.room_to_drain()?;
                    self.withdraw_host(host);
                }
                self.orders.drain(host, act);
                self.apply_anew();
                Ok(())
            }
            Order::Undrain { host } => {
                self.orders.undrain(host)?;
                self.enter_host(host);
                self.apply_anew();
                Ok(())
            }
            Order::Limit { application, job, rate_bps, lasts_s, .. } => {
                if !(LEAST_RATE..=MOST_RATE).contains(rate_bps) {
                    let reason = format!(
                        "is not from {LEAST_RATE} to {MOST_RATE}; write it as 50000000, a command as \"50 Mbit/s\""
                    );
                    return refuse("rate_bps", reason);
                }
                if !again && lasts_s.is_some_and(|lasts_s| !(1..=MOST_LASTS).contains(&lasts_s)) {
                    let reason = format!(
                        "is not from 1 to {MOST_LASTS}, which is 30 days; leave it out for a limit until `unlimit`"
                    );
                    return refuse("lasts_s", reason);
                }
                if !again {
                    self.check_known(application, job.as_deref())?;
                }
                self.orders.room_to_limit(application, job.as_deref())?;
                self.orders.limit(application, job.as_deref(), act);
                self.limit_anew(application, job.as_deref());
                Ok(())
            }
            Order::Unlimit { application, job } => {
                self.orders.unlimit(application, job.as_deref())?;
                self.limit_anew(application, job.as_deref());
                Ok(())
            }
        }
    }

    /// Whether there is such an application or job, or it is limited already: else nobody would hear that a name is
    /// wrong.
    fn check_known(&self, application: &str, job: Option<&str>) -> Result<(), Refusal> {
        if self.orders.is_limited(application, job) {
            return Ok(());
        }
        let known = self.registry.applications.get(application);
        match (known, job) {
            (None, None) if self.registry.tenants().names(application) => Ok(()),
            (None, _) => refuse(
                "application",
                format!(
                    "\"{application}\" has declared nothing; see the status for its name, limit it once it has \
                     declared something, or add its [[tenant]] to the controller's configuration"
                ),
            ),
            (Some(known), Some(job)) if !known.jobs.contains_key(job) => refuse(
                "job",
                format!(
                    "\"{application}\" has no job \"{job}\"; `watermaster explain {application}` shows its jobs"
                ),
            ),
            _ => Ok(()),
        }
    }

    /// What holds the connections of an application, or of a job, has changed.
    fn limit_anew(&mut self, application: &str, job: Option<&str>) {
        let Some(known) = self.registry.applications.get(application) else {
            return;
        };
        let jobs = known.jobs.iter().filter(|(name, _)| job.is_none_or(|job| *job == ***name));
        let jobs = jobs.filter_map(|(_, id)| self.registry.job(*id));
        let flows: Vec<FlowId> = jobs.flat_map(|job| job.flows.values().copied()).collect();
        let now = self.context.now;
        for id in flows {
            self.intend(id, |wanted| wanted.since = now);
        }
    }

    /// The least rate that operators leave a connection that carries these flows.
    pub(super) fn by_hand(&self, flows: &[FlowId]) -> Option<Rate> {
        if !self.orders.limits() {
            return None;
        }
        let flows = flows.iter().filter_map(|id| self.registry.flow(*id));
        flows.filter_map(|flow| Some(self.limited_by_hand(flow)?.0)).min()
    }

    /// The least rate that operators leave each connection of a flow, and the order.
    pub(super) fn limited_by_hand(&self, flow: &Flow) -> Option<(Rate, &Act)> {
        let job = self.registry.job(flow.job()?)?;
        self.orders.limited(&job.application, &job.name)
    }

    /// Why an application's declarations are refused, if an operator blocks it.
    pub(super) fn refuse_blocked(&self, application: &str) -> Result<(), Refusal> {
        let Some(act) = self.orders.blocked(application) else { return Ok(()) };
        let reason = format!("is blocked {}; ask the operator", by(act));
        // Once it isn't it says the same, and all that comes after.
        Err(Refusal { field: "application", reason, busy: true })
    }

    fn cancel(&mut self, application: &str, job: &str) -> Result<(), Refusal> {
        let known = self.registry.applications.get(application);
        let Some(known) = known else {
            let reason = format!("{application:?} has declared nothing; see the status");
            return refuse("application", reason);
        };
        let Some(id) = known.jobs.get(job).copied() else {
            return refuse("job", format!("{application:?} has no job {job:?}"));
        };
        self.complete_job(id);
        Ok(())
    }

    /// All that an application has declared ends.
    pub(super) fn end_application(&mut self, name: &str) {
        self.registry.stays(name);
        let application = self.registry.applications.get(name);
        let jobs: Vec<JobId> =
            application.map(|known| known.jobs.values().copied().collect()).unwrap_or_default();
        for job in jobs {
            self.complete_job(job);
        }
        self.registry.forget(name);
    }

    /// What keeps limits between two hosts from being in force, in words.
    pub(super) fn withheld(&self, ends: (NodeId, NodeId)) -> Option<String> {
        if let Some(act) = self.orders.frozen() {
            return Some(format!("decisions are frozen {}", by(act)));
        }
        self.drain_of(ends)
    }

    /// Which of two hosts is drained, in words.
    pub(super) fn drain_of(&self, ends: (NodeId, NodeId)) -> Option<String> {
        let drained = |node| Some((node, self.drained(node)?));
        let (node, act) = drained(ends.0).or_else(|| drained(ends.1))?;
        Some(format!("host {} is drained {}", self.view.node_name(node), by(act)))
    }

    /// The order that drains a host.
    fn drained(&self, node: NodeId) -> Option<&Act> {
        if !self.orders.drains() {
            return None;
        }
        self.orders.drained(self.view.node_name(node))
    }

    pub(super) fn is_drained(&self, ends: (NodeId, NodeId)) -> bool {
        self.drained(ends.0).or_else(|| self.drained(ends.1)).is_some()
    }

    /// Whether limits between two hosts are not to be in force.
    pub(super) fn is_withheld(&self, ends: (NodeId, NodeId)) -> bool {
        self.orders.frozen().is_some() || self.is_drained(ends)
    }

    /// Notes whether a flow's limit is not to be in force.
    pub(super) fn note_withheld(&mut self, id: FlowId) {
        if let Some(flow) = self.registry.flow(id) {
            let withheld = self.is_withheld(flow.ends);
            self.desired.withhold(self.context.now, id, withheld);
        }
    }

    /// Whether a cap of a flow's window where a link begins, or what is for all over the link, is not to be in force.
    pub(super) fn is_uncapped(&self, link: LinkId, flow: Option<FlowId>) -> bool {
        let ends = match flow {
            Some(id) => self.registry.flow(id).map(|flow| flow.ends),
            None => {
                let link = self.view.network().topology().link(link);
                Some((link.from, link.to))
            }
        };
        ends.is_some_and(|ends| self.is_withheld(ends))
    }

    /// The caps of a connection's window where a link begins that are to be in force, and whether they are its own.
    pub(super) fn caps_in_force(&self, link: LinkId, of: &Connection) -> Option<(Caps, bool)> {
        let (id, _) = self.registry.first_of(of)?;
        let wanted = self.desired.window(link, id)?;
        (!self.is_uncapped(link, Some(id))).then_some(wanted)
    }

    /// What may be in force has changed for all: actuators are told what differs.
    fn apply_anew(&mut self) {
        for id in self.registry.flows_by_age() {
            self.registry.wanted(id);
            self.note_withheld(id);
            self.touch(id);
        }
        self.pairs.touch_all();
        for (link, flow, caps) in self.desired.all_windows() {
            self.tell_window(link, flow, Some(caps));
        }
        for (link, gap) in self.desired.all_gaps() {
            self.tell_gap(link, Some(gap));
        }
    }

    /// The flows of a host that are not drained at the other end.
    fn flows_at(&self, host: NodeId) -> Vec<FlowId> {
        let mut flows = self.registry.flows_by_age();
        flows.retain(|id| {
            self.registry.flow(*id).is_some_and(|flow| {
                let (src, dst) = flow.ends;
                (src == host || dst == host) && !self.is_drained(flow.ends)
            })
        });
        flows
    }

    /// The policy no longer counts on a host: what it was told of its flows ends.
    fn withdraw_host(&mut self, name: &str) {
        let Some(host) = self.view.named(name) else {
            return;
        };
        for id in self.flows_at(host) {
            let Some(flow) = self.registry.flow(id) else {
                continue;
            };
            let (job, open) = (flow.job(), flow.open);
            if let Some(job) = job {
                self.tell(Declared::FlowComplete { job, flow: id });
            }
            if open {
                self.tell(Measured::Closed { flow: id });
            }
            self.free(id);
            for link in self.desired.links_capping(id).collect::<Vec<_>>() {
                self.cap_window(link, Some(id), None);
            }
        }
        for ((src, dst), _) in self.pairs.offered_at(host) {
            self.tell(Measured::Offered { src, dst, rate: Rate::ZERO });
        }
    }

    /// The policy counts on a host again, and is told of its flows.
    fn enter_host(&mut self, name: &str) {
        let Some(host) = self.view.named(name) else {
            return;
        };
        for id in self.flows_at(host) {
            if let Some(request) = self.registry.declared(id) {
                self.tell(request);
            }
            if let Some(Flow { ends: (src, dst), open: true, .. }) = self.registry.flow(id) {
                let (src, dst) = (*src, *dst);
                self.tell(Measured::Opened { flow: id, src, dst });
            }
        }
        for ((src, dst), rate) in self.pairs.offered_at(host) {
            self.tell(Measured::Offered { src, dst, rate });
        }
    }
}
