//! Why a flow has what it has.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

use model::{FlowId, LinkId, NodeId};
use protocol::Connection;
use units::{Rate, Time};

use super::loads::{Load, RIVALS};
use super::question::{ExplainFlow, ExplainJob};
use super::{Answers, MAY_STAND, Standing, UNSEEN};
use crate::agents::Agent;
use crate::applications::flow::Flow;
use crate::applications::registry::Job;
use crate::config::Enforcement;
use crate::desired::Grant;
use crate::orders::by;
use crate::status::{
    Bottleneck, FlowExplanation, JobExplanation, ObjectivePart, ObjectiveStatus, Rival, SharedLink,
};

impl Answers<'_> {
    /// Why a flow has its rate; `None` when there is no such flow.
    pub fn explain_flow(
        &self,
        application: &str,
        job: &str,
        flow: &str,
    ) -> Option<FlowExplanation> {
        self.at_once(ExplainFlow::new(application, job, flow))
    }

    /// Why the flows of a job have their rates; `None` when there is no such job.
    pub fn explain_job(&self, application: &str, job: &str) -> Option<JobExplanation> {
        self.at_once(ExplainJob::new(application, job))
    }

    /// The job of a name.
    pub(super) fn job_named(&self, application: &str, job: &str) -> Option<&Job> {
        self.registry.job(self.registry.find_job(application, job)?)
    }

    /// Why a flow has its rate, by what all flows add up to on its links.
    pub(super) fn explain_one(
        &self,
        id: FlowId,
        flow: &Flow,
        loads: &BTreeMap<LinkId, Load>,
    ) -> FlowExplanation {
        let path = self.view.path(flow.ends, u64::from(id.0));
        // How full a link is, in parts of its capacity; then how many share it.
        let fullness = |link: &&LinkId| {
            let capacity = self.view.network().topology().link(**link).spec.capacity.as_bps();
            let load = loads.get(*link)?;
            let busy = load.limited.max(load.measured.unwrap_or(Rate::ZERO)).as_bps();
            let parts = busy.saturating_mul(1000).checked_div(capacity)?.min(1000);
            Some((if load.unlimited > 0 { 1000 } else { parts }, load.flows))
        };
        let fullest = path.iter().rev().max_by_key(fullness);
        // Another path may have been added up.
        let bottleneck =
            fullest.and_then(|link| Some(self.bottleneck(*link, id, loads.get(link)?)));
        FlowExplanation {
            flow: self.flow_status(id, flow),
            declared_ns: flow.since,
            since_ns: self.desired.intention(id).since,
            why: self.why(id, flow, path.is_empty(), bottleneck.as_ref()),
            by: self.by(id, flow),
            path: path.iter().map(|link| self.view.link_name(*link)).collect(),
            bottleneck,
            objective: self.objective(id),
        }
    }

    /// The objective of a flow, and who yields to whom on its way.
    fn objective(&self, id: FlowId) -> Option<ObjectiveStatus> {
        let account = self.decider.account(id)?;
        let shared = account.parts.iter().filter(|part| part.given.len() > 1).map(|part| {
            let capacity = self.view.network().topology().link(part.link).spec.capacity;
            let parts = part.given.iter().map(|holding| {
                let (given, wants) = (holding.rate, holding.wants.min(capacity));
                ObjectivePart {
                    objective: holding.objective.clone(),
                    aim: holding.aim.to_string(),
                    given_bps: given,
                    wants_bps: wants,
                    yields: given < wants,
                }
            });
            SharedLink { link: self.view.link_name(part.link), parts: parts.collect() }
        });
        Some(ObjectiveStatus {
            name: account.objective.clone(),
            aim: account.aim.to_string(),
            late: account.due.is_some_and(|due| due <= self.as_of),
            policy: account.policy,
            shared: shared.collect(),
        })
    }

    fn bottleneck(&self, link: LinkId, id: FlowId, load: &Load) -> Bottleneck {
        let others = load.heaviest.iter().filter(|(_, other, _)| *other != id).take(RIVALS);
        let rivals = others.filter_map(|(_, id, begun)| {
            let flow = self.same_flow(*id, *begun)?;
            let [application, job, mut name] = self.registry.name_of(flow);
            if flow.owner.is_none() {
                let Connection { source, destination } = flow.selector.connection;
                name = format!("{source} -> {destination}");
            }
            let intended_bps = self.intended(*id, flow);
            let measured_bps = self.measured(flow);
            Some(Rival { application, job, flow: name, intended_bps, measured_bps })
        });
        Bottleneck {
            link: self.view.link_name(link),
            capacity_bps: self.view.network().topology().link(link).spec.capacity,
            limited_bps: load.limited,
            measured_bps: load.measured,
            rivals: rivals.collect(),
            more: load.flows.saturating_sub(1 + RIVALS),
        }
    }

    fn why(
        &self,
        id: FlowId,
        flow: &Flow,
        pathless: bool,
        bottleneck: Option<&Bottleneck>,
    ) -> String {
        let policy = self.decider.name();
        let intention = self.desired.intention(id);
        let (limit, priority) = (intention.limit(), intention.priority);
        let drain = self.drain_of(flow.ends);
        let mut why = match (limit, &drain) {
            _ if pathless => String::from("no path leads from its source to its destination"),
            (_, Some(drain)) => {
                format!("{drain}: policy {policy} isn't asked, and no limit holds it")
            }
            (None, None) => {
                let share = self.share(flow);
                let share = share.map(|rate| format!("{rate}, its share of its two hosts' rate"));
                let windows = self.windows(id, flow).map(|(what, _)| what);
                let all: Vec<String> = share.into_iter().chain(windows).collect();
                if all.is_empty() {
                    format!("policy {policy} sets no limit: it has what TCP gives it")
                } else {
                    format!("policy {policy} holds it to {}", all.join(" and "))
                }
            }
            (Some(rate), None) => match bottleneck {
                Some(Bottleneck { link, rivals, more, .. }) if !rivals.is_empty() => format!(
                    "policy {policy} holds it to {rate} beside {} on {link}",
                    plural(rivals.len() + more)
                ),
                Some(Bottleneck { link, .. }) => {
                    format!("policy {policy} holds it to {rate}; it is alone on {link}")
                }
                None => format!("policy {policy} holds it to {rate}"),
            },
        };
        if let Some((rate, act)) = self.limited_by_hand(flow).filter(|_| drain.is_none()) {
            let _ = write!(why, "; each of its connections is held to {rate} {}", by(act));
        }
        if priority > 0 {
            let _ =
                write!(why, "; it is served in class {priority}, or the last that its ports have");
        }
        if flow.waste.gives_way() {
            why += "; it gives way: it left its links idle while others waited for it";
        }
        if let Some(lie) = flow.lie() {
            let _ = write!(why, "; {lie}");
        }
        why
    }

    fn by(&self, id: FlowId, flow: &Flow) -> String {
        let grant = match self.limited(flow).first() {
            Some(connection) => self.grant(connection),
            None => {
                let (flows, of) =
                    (self.registry.sharing(&flow.selector), &flow.selector.connection);
                let share = self.pairs.share(of, || Some(flow.ends));
                self.bounded(self.desired.grant(flows, 1, share), flows)
            }
        };
        let mut all: Vec<String> = self
            .windows(id, flow)
            .map(|(what, standing)| match standing {
                Standing::Stands => what,
                Standing::Conditional(condition) => format!("{what} if {condition}"),
                Standing::Awaited(why) | Standing::Failed(why) => format!("nobody ({what}: {why})"),
            })
            .collect();
        if grant.rate.is_some() {
            let mut by = match self.context.enforcement {
                Enforcement::Meters => self.by_meter(id, flow),
                Enforcement::Pacing => self.by_pacing(flow),
            };
            if let Some(measured) = self.excess(id, flow) {
                let _ = write!(by, "; but {measured} were measured: something undoes it");
            }
            let agent = self.agents.acting_for(flow.ends.0);
            if let Some((agent, why)) = agent.and_then(|(_, of)| Some((of, of.failures.samples()?)))
            {
                let _ = write!(by, "; nobody measures it: agent {}: {why}", agent.identity);
            }
            all.push(by);
        }
        if grant.priority > 0 {
            all.push(self.by_class(flow));
        }
        if grant.rate.is_none() && self.desired.intention(id).limit().is_some() {
            all.push("nobody: another flow of its connection has no limit".to_string());
        }
        if let Some(why) = self.withheld(flow.ends) {
            all = vec![format!("nobody: {why}")];
        }
        all.extend(self.of_before(id, flow, grant));
        if all.is_empty() {
            return "nobody: there is nothing to enforce".to_string();
        }
        all.join("; ")
    }

    /// What stands of a flow otherwise than its connections are granted now, and how it ends.
    fn of_before(&self, id: FlowId, flow: &Flow, grant: Grant) -> Vec<String> {
        let until = |what: String, failed: Option<String>| match failed {
            Some(failed) => format!(
                "{what} of before still stands and is renewed with the lease, its end is tried again: {failed}"
            ),
            None => format!("{what} of before, until its end is confirmed or its lease is over"),
        };
        let mut all = Vec::new();
        let agent = self.agents.acting_for(flow.ends.0).map(|(_, agent)| agent);
        let failed = |of: &dyn Fn(&Agent, &Connection) -> Option<String>| {
            let mut carriers = self.registry.carriers(&flow.selector);
            let reason = carriers.find_map(|carrier| of(agent?, &carrier))?;
            Some(format!("agent {} failed: {reason}", agent?.identity))
        };
        if let Some(rate) = self.enforced(flow).filter(|_| grant.rate.is_none()) {
            let why = failed(&|agent, of| agent.failures.rate(of).map(String::from));
            all.push(until(rate.to_string(), why));
        }
        let sure = agent.filter(|agent| self.doubt(agent).is_none());
        let mut carriers = self.registry.carriers(&flow.selector);
        let class = carriers.find_map(|of| match agent {
            Some(_) => sure?.held.class(&of),
            None => self.agents.standing().class_left(self.as_of, &of),
        });
        if let Some(class) = class.filter(|class| *class != grant.priority) {
            let why = failed(&|agent, of| agent.failures.priority(of).map(String::from));
            all.push(until(format!("class {class}"), why));
        }
        all.extend(
            self.windows_of_before(id, flow).into_iter().map(|(what, why)| until(what, why)),
        );
        all
    }

    /// What was measured of a flow that goes faster than the limit that should stand, for longer than a
    /// new limit takes to show: also one that stands again since its agent came back, or by an order.
    fn excess(&self, id: FlowId, flow: &Flow) -> Option<Rate> {
        let limit = self.enforced(flow)?;
        let agent = self.agents.acting_for(flow.ends.0).map(|(_, agent)| agent.since);
        let since = agent.into_iter().chain([self.orders.since()]);
        let since = since.fold(self.desired.intention(id).since, Time::max);
        let is_long = self.as_of.since(since) > self.context.patience();
        self.measured(flow).filter(|measured| is_long && measured.fraction(4, 5) > limit)
    }

    fn by_meter(&self, id: FlowId, flow: &Flow) -> String {
        let limited = self.limited(flow);
        if limited.is_empty() {
            return format!("nobody yet: {}", self.unseen_yet(flow));
        }
        if let Some((node, failure)) = limited.iter().find_map(|c| self.fabric.switches.failure(c))
        {
            return format!("nobody: switch {} failed: {failure}", self.view.node_name(node));
        }
        let at = self.view.entrance(flow.ends, u64::from(id.0));
        let Some(node) = at.filter(|node| self.fabric.switches.is_ready(*node)) else {
            return "nobody: the first switch of its path is not connected".to_string();
        };
        let name = self.view.node_name(node);
        if let Some(silence) = self.silence_of(node) {
            return format!("nobody: {silence}");
        }
        match self.enforced(flow) {
            Some(_) => format!("switch {name}, by a meter"),
            None => format!("nobody yet: switch {name} has not confirmed the meter"),
        }
    }

    /// The agent of a host, where what it confirmed stands.
    fn obedient(&self, host: NodeId) -> Result<&Agent, String> {
        let Some((_, agent)) = self.agents.acting_for(host) else {
            return Err(self.unacted(host));
        };
        self.doubt(agent).map_or(Ok(agent), Err)
    }

    /// Why nothing holds a flow of which nothing was seen.
    fn unseen_yet(&self, flow: &Flow) -> String {
        let why = self.unidentified(flow).map(|why| format!(": {why}"));
        format!("{UNSEEN}{}", why.unwrap_or_default())
    }

    fn by_class(&self, flow: &Flow) -> String {
        let agent = match self.obedient(flow.ends.0) {
            Ok(agent) => agent,
            Err(doubt) => {
                let mut carriers = self.registry.carriers(&flow.selector);
                let standing = self.agents.standing();
                let left = carriers.find_map(|of| standing.class_left(self.as_of, &of));
                let left = left.map(|class| format!("; class {class} {MAY_STAND}"));
                return format!("nobody: {doubt}{}", left.unwrap_or_default());
            }
        };
        let name = &agent.identity;
        let carriers = || self.registry.carriers(&flow.selector);
        let mut others = carriers().filter(|of| !agent.holds_class(of));
        if let Some(reason) = others.find_map(|of| agent.failures.priority(&of)) {
            return format!("nobody: agent {name} failed: {reason}");
        }
        if carriers().next().is_none() {
            return format!("nobody yet: {}", self.unseen_yet(flow));
        }
        if carriers().all(|of| agent.holds_class(&of) || agent.answered_class(&of)) {
            format!("agent {name}, by its class")
        } else {
            format!("nobody yet: agent {name} has not confirmed its class")
        }
    }

    /// What may stand of a flow's rates that an agent has left.
    fn rate_left(&self, flow: &Flow) -> Option<Rate> {
        let (limited, standing) = (self.limited(flow), self.agents.standing());
        let left = limited.iter().filter_map(|of| standing.rate_left(self.as_of, of));
        left.reduce(|sum, rate| sum + rate)
    }

    fn by_pacing(&self, flow: &Flow) -> String {
        let agent = match (self.obedient(flow.ends.0), self.enforced(flow)) {
            (Ok(agent), _) => agent,
            (Err(doubt), enforced) => {
                return match enforced.or_else(|| self.rate_left(flow)) {
                    Some(rate) => format!("nobody: {doubt}; {rate} {MAY_STAND}"),
                    None => format!("nobody: {doubt}"),
                };
            }
        };
        let name = &agent.identity;
        let carriers = || self.registry.carriers(&flow.selector);
        if carriers().next().is_none() {
            return format!("nobody yet: {}", self.unseen_yet(flow));
        }
        let before = || {
            let rate = self.enforced(flow).map(|rate| format!("; {rate} of before stands"));
            rate.unwrap_or_default()
        };
        let mut others = carriers().filter(|of| !self.holds_rate(agent, of));
        if let Some(reason) = others.find_map(|of| agent.failures.rate(&of)) {
            return format!("nobody: agent {name} failed: {reason}{}", before());
        }
        if !self.is_seen(agent, flow) {
            if !self.has_looked(agent, flow.since) {
                return format!("nobody yet: agent {name} has not seen its connection");
            }
            return format!(
                "nobody: agent {name} has a limit for it, but sees no such connection: declare the right \
                 ports, or run its process in the agent's control group"
            );
        }
        if self.enforced(flow).is_none() || !carriers().all(|of| self.holds_rate(agent, &of)) {
            return format!("nobody yet: agent {name} has not confirmed it{}", before());
        }
        match self.registry.sharing(&flow.selector).len() {
            ..=1 => format!("agent {name}, by pacing"),
            flows => format!("agent {name}, by pacing its connection, which {flows} flows share"),
        }
    }
}

fn plural(count: usize) -> String {
    if count == 1 { "1 other flow".into() } else { format!("{count} other flows") }
}
