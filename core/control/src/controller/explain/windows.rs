//! Caps of windows and gaps between acknowledgements on a flow's path: whether they stand, and what stands of before.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use model::{Cap, Caps, FlowId, LinkId, Severity};
use protocol::Connection;
use units::Span;

use super::{Answers, MAY_STAND, Standing, UNSEEN};
use crate::agents::Agent;
use crate::applications::flow::Flow;
use crate::controller::decide::NoEntry;

impl Answers<'_> {
    /// The first of the flows that share a flow's connections: its windows are theirs.
    fn first_beside<'a>(&'a self, id: FlowId, flow: &'a Flow) -> (FlowId, &'a Flow) {
        let first = self.registry.sharing(&flow.selector).first();
        let known = first.and_then(|first| Some((*first, self.registry.flow(*first)?)));
        known.unwrap_or((id, flow))
    }

    /// Windows and gaps that stand on a flow's path otherwise than is wanted there, and why each has not ended.
    pub(super) fn windows_of_before(
        &self,
        id: FlowId,
        flow: &Flow,
    ) -> Vec<(String, Option<String>)> {
        let (id, flow) = self.first_beside(id, flow);
        let scale = flow.scale;
        let mut all = Vec::new();
        for link in self.view.path(flow.ends, u64::from(id.0)) {
            let at = self.view.start(link);
            let agent = self.agents.acting_for(at).map(|(_, agent)| agent);
            let (node, interface) = (self.view.node_name(at), &self.view.link(link).interface);
            if agent.is_none() {
                let wanted = self.desired.gap(link).filter(|_| !self.is_uncapped(link, None));
                let gap = self.agents.standing().gap_left(self.as_of, node, interface);
                let gap = gap.filter(|gap| wanted != Some(*gap)).map(|gap| spacing(gap, node));
                // Of a connection and of all, the one that is its own counts.
                let mut of = self.registry.carriers(&flow.selector).map(Some).chain([None]);
                let left = of.find_map(|of| Some((of.is_some(), self.left_caps(link, of)?)));
                let wanted = self.desired.window(link, id).map(|(caps, is_own)| (is_own, caps));
                let wanted =
                    wanted.filter(|(is_own, _)| !self.is_uncapped(link, is_own.then_some(id)));
                let caps = left.filter(|left| wanted != Some(*left));
                let caps = caps.map(|(_, caps)| self.capping(&caps, scale, node));
                all.extend(gap.into_iter().chain(caps).map(|what| (what, None)));
            }
            let Some(agent) = agent.filter(|agent| self.doubt(agent).is_none()) else {
                continue;
            };
            let failed = |reason| format!("agent {} failed: {reason}", agent.identity);
            let gap = agent.held.gap(node, interface);
            if let Some(gap) = gap.filter(|gap| agent.gap_of(link) != Some(*gap)) {
                let reason = agent.failures.gap(node, interface);
                all.push((spacing(gap, node), reason.map(failed)));
            }
            let of = self.registry.carriers(&flow.selector).map(Some).chain([None]);
            for of in of {
                let caps = agent.held.window(node, interface, of);
                let Some(caps) = caps.filter(|caps| agent.caps_of(link, of) != Some(*caps)) else {
                    continue;
                };
                let what = self.capping(&caps, scale, node);
                let reason = agent.failures.window(node, interface, of);
                all.push((what, reason.map(failed)));
            }
        }
        all
    }

    /// The caps of a flow's window on its path, and gaps between acknowledgements: in words, and whether they stand.
    pub(super) fn windows(
        &self,
        id: FlowId,
        flow: &Flow,
    ) -> impl Iterator<Item = (String, Standing)> + '_ {
        let (id, flow) = self.first_beside(id, flow);
        let scale = flow.scale;
        let carriers: Vec<Connection> = self.registry.carriers(&flow.selector).collect();
        let (opened, since) = (flow.open, flow.since);
        let path = self.view.path(flow.ends, u64::from(id.0));
        let gaps = path.clone().into_iter().filter_map(|link| self.gap(link));
        let caps = path.into_iter().filter_map(move |link| {
            let (caps, is_own) = self.desired.window(link, id)?;
            let of = if is_own { carriers.iter().copied().map(Some).collect() } else { vec![None] };
            let at = self.view.start(link);
            let what = self.capping(&caps, scale, self.view.node_name(at));
            let standing = match self.agents.acting_for(at).filter(|_| self.agent_caps(link)) {
                Some((_, agent)) => match worst(&of, |of| self.window_by_agent(agent, link, *of)) {
                    // It leaves windows alone whose scale it doesn't know. It was there when both
                    // SYNs passed, if the connection opened after it came.
                    Standing::Stands if !opened || agent.since > since => Standing::Conditional(
                        format!("agent {} has seen both SYNs", agent.identity),
                    ),
                    standing => standing,
                },
                None => {
                    let standing = worst(&carriers, |of| self.window_by_switch(link, &caps, of));
                    let left = of.iter().find_map(|of| self.left_caps(link, *of));
                    with_left(
                        standing,
                        left.map(|caps| self.capping(&caps, scale, self.view.node_name(at))),
                    )
                }
            };
            Some((what, standing))
        });
        caps.chain(gaps)
    }

    /// The time between acknowledgements where a link begins: in words, and whether it stands.
    fn gap(&self, link: LinkId) -> Option<(String, Standing)> {
        let gap = self.desired.gap(link)?;
        let (at, interface) = (self.view.start(link), &self.view.link(link).interface);
        let node = self.view.node_name(at);
        let standing = match self.agents.acting_for(at) {
            None => {
                let left = self.agents.standing().gap_left(self.as_of, node, interface);
                with_left(Standing::Failed(self.unacted(at)), left.map(|gap| spacing(gap, node)))
            }
            Some(_) if interface.is_empty() => self.undeclared(link),
            Some((_, agent)) => match (agent.failures.gap(node, interface), self.doubt(agent)) {
                (_, None) if agent.held.gap(node, interface) == Some(gap) => Standing::Stands,
                (Some(reason), _) => Standing::Failed(reason.into()),
                (None, Some(doubt)) => Standing::Awaited(doubt),
                (None, None) if agent.answered_gap(link) => Standing::Stands,
                (None, None) => {
                    Standing::Awaited(format!("agent {} has not confirmed it", agent.identity))
                }
            },
        };
        Some((spacing(gap, node), standing))
    }

    /// The caps that an agent that is gone may have left where a link begins.
    fn left_caps(&self, link: LinkId, of: Option<Connection>) -> Option<Caps> {
        let node = self.view.node_name(self.view.start(link));
        let interface = &self.view.link(link).interface;
        self.agents.standing().window_left(self.as_of, node, interface, of)
    }

    fn undeclared(&self, link: LinkId) -> Standing {
        let link = self.view.link_name(link);
        Standing::Failed(format!("the interface of {link} is not declared"))
    }

    /// Caps of windows of this scale at a node in words.
    fn capping(&self, caps: &Caps, scale: Option<u8>, node: &str) -> String {
        let window = |cap: Cap| cap.window(scale, self.context.mss);
        if let Some(cap) = caps.constant() {
            return format!("a window of {} at {node}", window(cap));
        }
        let said = Severity::ALL
            .into_iter()
            .filter_map(|severity| Some(format!("{} at {severity}", window(caps.at(severity)?))));
        format!("prepared windows ({}) at {node}", said.collect::<Vec<_>>().join(", "))
    }

    fn window_by_agent(&self, agent: &Agent, link: LinkId, of: Option<Connection>) -> Standing {
        let (at, interface) = (self.view.start(link), &self.view.link(link).interface);
        let node = self.view.node_name(at);
        if agent.holds_window((node, &**interface), link, of) && self.doubt(agent).is_none() {
            return Standing::Stands;
        }
        if let Some(reason) = agent.failures.window(node, interface, of) {
            return Standing::Failed(reason.into());
        }
        if interface.is_empty() {
            return self.undeclared(link);
        }
        match self.doubt(agent) {
            Some(doubt) => Standing::Awaited(doubt),
            None if agent.answered_window(link, of) => Standing::Stands,
            None => Standing::Awaited(format!("agent {} has not confirmed it", agent.identity)),
        }
    }

    fn window_by_switch(&self, link: LinkId, caps: &Caps, connection: &Connection) -> Standing {
        let at = self.view.start(link);
        let name = self.view.node_name(at);
        match self.cap_entry(link, connection, caps).err() {
            Some(NoEntry::CapsNone) => {
                let reason = self.unacted(at);
                return Standing::Failed(format!("{reason}; it caps no windows itself"));
            }
            _ if !self.fabric.switches.is_ready(at) => {
                return Standing::Awaited("it is not connected".into());
            }
            Some(NoEntry::Beside) => {
                return Standing::Awaited("its connection goes another way".into());
            }
            Some(NoEntry::NoScale) => {
                return Standing::Awaited("the receiver's window scale was not seen".into());
            }
            Some(NoEntry::NoPort) => {
                let link = self.view.link_name(link);
                return Standing::Awaited(format!("the port of {link} is not known"));
            }
            None => {}
        }
        // It has an entry, or will once it can be given one.
        let known = self.fabric.switches.get(at);
        if known.is_some_and(|switch| !switch.capable) {
            return Standing::Failed(format!("switch {name} has less than two tables"));
        }
        match known.and_then(|switch| switch.caps.answer(connection)) {
            Some(Ok(())) => self.silence_of(at).map_or(Standing::Stands, Standing::Awaited),
            Some(Err(failure)) => Standing::Failed(format!("switch {name}: {failure}")),
            None => Standing::Awaited(format!("switch {name} has not confirmed it")),
        }
    }
}

/// A gap between acknowledgements at a node in words.
fn spacing(gap: Span, node: &str) -> String {
    format!("acknowledgements {gap} apart at {node}")
}

/// How something stands where an agent that is gone may have `left` it otherwise.
fn with_left(standing: Standing, left: Option<String>) -> Standing {
    let Some(left) = left else { return standing };
    let said = |why| format!("{why}; {left} {MAY_STAND}");
    match standing {
        Standing::Awaited(why) => Standing::Awaited(said(why)),
        Standing::Failed(why) => Standing::Failed(said(why)),
        stands => stands,
    }
}

/// The first that doesn't stand.
fn worst<T>(of: &[T], standing: impl Fn(&T) -> Standing) -> Standing {
    if of.is_empty() {
        return Standing::Awaited(UNSEEN.into());
    }
    let mut all = of.iter().map(standing);
    all.find(|one| !matches!(one, Standing::Stands)).unwrap_or(Standing::Stands)
}
