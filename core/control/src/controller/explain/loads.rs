//! What flows add up to on links: limits, what stands of them, what was measured.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::{FlowId, LinkId};
use units::Rate;

use super::Answers;

/// What flows on a link add up to.
#[derive(Clone, Default)]
pub(super) struct Load {
    pub(super) flows: Vec<FlowId>,
    pub(super) limited: Rate,
    pub(super) enforced: Rate,
    pub(super) measured: Option<Rate>,
    /// Flows without a limit: they take what there is.
    pub(super) unlimited: usize,
}

impl Answers<'_> {
    /// What flows add up to on the links that matter.
    pub(super) fn loads(&self, matters: impl Fn(LinkId) -> bool) -> BTreeMap<LinkId, Load> {
        let mut loads: BTreeMap<LinkId, Load> = BTreeMap::new();
        let mut path = Vec::new();
        for (id, flow) in self.registry.flows() {
            path.clear();
            self.view.network().path(flow.ends.0, flow.ends.1, u64::from(id.0), &mut path);
            // What holds a connection counts once, however many flows it carries.
            let sharing = self.registry.sharing(&flow.selector);
            let (limited, enforced) = match sharing.first() {
                Some(first) if *first != id => (Rate::ZERO, Rate::ZERO),
                _ => (self.limited_together(sharing), self.enforced(flow).unwrap_or(Rate::ZERO)),
            };
            let is_unlimited = self.intended(id, flow).is_none();
            for link in path.iter().filter(|link| matters(**link)) {
                let load = loads.entry(*link).or_default();
                load.flows.push(id);
                load.unlimited += usize::from(is_unlimited);
                load.limited = load.limited + limited;
                load.enforced = load.enforced + enforced;
                let measured = load.measured.into_iter().chain(self.measured(flow));
                load.measured = measured.reduce(|sum, more| sum + more);
            }
        }
        // What stands of flows that have ended.
        for agent in self.agents.iter() {
            for of in agent.failures.connections().filter(|of| self.outlasts(agent, of)) {
                let rate = self.agents.standing().rate(of).filter(|_| self.is_held(agent, of));
                let (Some(rate), Some(ends)) = (rate, self.view.ends(of)) else { continue };
                if !self.registry.carrying(of).0.is_empty() {
                    continue;
                }
                for link in self.view.path(ends, 0).into_iter().filter(|link| matters(*link)) {
                    let load = loads.entry(link).or_default();
                    load.enforced = load.enforced + rate;
                }
            }
        }
        loads
    }

    /// What limits of flows that share their connections add up to.
    fn limited_together(&self, sharing: &[FlowId]) -> Rate {
        let flows = sharing.iter().filter_map(|id| Some((*id, self.registry.flow(*id)?)));
        let limits = flows.filter_map(|(id, flow)| self.intended(id, flow));
        let all = limits.fold(Rate::ZERO, |sum, limit| sum + limit);
        let first = sharing.first().and_then(|id| self.registry.flow(*id));
        let by_hand = first.zip(self.by_hand(sharing));
        by_hand.map_or(all, |(first, each)| all.min(self.together(first, each)))
    }
}
