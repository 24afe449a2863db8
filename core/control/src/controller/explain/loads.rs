//! What flows add up to on links: limits, what stands of them, what was measured.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use model::{FlowId, LinkId};
use units::Rate;

use super::Answers;
use crate::applications::flow::Flow;

/// Rivals that an explanation names.
pub(super) const RIVALS: usize = 10;

/// A flow by what was measured, then by its limit, the most first; and its place in the order in which flows began, for
/// numbers are given again. Without a limit, a flow takes what it gets.
type Heavy = (Reverse<(Option<Rate>, Rate)>, FlowId, u64);

/// What flows on a link add up to.
#[derive(Default)]
pub(super) struct Load {
    pub(super) flows: usize,
    /// The heaviest of them, where something is explained: [`RIVALS`] beside any of them.
    pub(super) heaviest: BTreeSet<Heavy>,
    pub(super) limited: Rate,
    pub(super) enforced: Rate,
    pub(super) measured: Option<Rate>,
    /// Flows without a limit: they take what there is.
    pub(super) unlimited: usize,
}

impl Load {
    fn note(&mut self, flow: Heavy) {
        if self.heaviest.len() > RIVALS {
            if self.heaviest.last().is_some_and(|last| *last < flow) {
                return;
            }
            self.heaviest.pop_last();
        }
        self.heaviest.insert(flow);
    }
}

/// Whether a link is one of those that are explained, where these alone matter.
fn matters(explained: Option<&BTreeSet<LinkId>>, link: &LinkId) -> bool {
    explained.is_none_or(|links| links.contains(link))
}

impl Answers<'_> {
    /// Adds a flow to the links of its path: to all, or to those of what is explained, which has rivals there.
    pub(super) fn add_flow(
        &self,
        loads: &mut BTreeMap<LinkId, Load>,
        id: FlowId,
        flow: &Flow,
        explained: Option<&BTreeSet<LinkId>>,
    ) {
        let path = self.view.path(flow.ends, u64::from(id.0));
        // What holds a connection counts once, however many flows it carries.
        let sharing = self.registry.sharing(&flow.selector);
        let (limited, enforced) = match sharing.first() {
            Some(first) if *first != id => (Rate::ZERO, Rate::ZERO),
            _ => (self.limited_together(sharing), self.enforced(flow).unwrap_or(Rate::ZERO)),
        };
        let (limit, measured) = (self.intended(id, flow), self.measured(flow));
        for link in path.into_iter().filter(|link| matters(explained, link)) {
            let load = loads.entry(link).or_default();
            load.flows += 1;
            if explained.is_some() {
                load.note((Reverse((measured, limit.unwrap_or(Rate::MAX))), id, flow.begun));
            }
            load.unlimited += usize::from(limit.is_none());
            load.limited = load.limited + limited;
            load.enforced = load.enforced + enforced;
            let all = load.measured.into_iter().chain(measured);
            load.measured = all.reduce(|sum, more| sum + more);
        }
    }

    /// Adds what stands of flows that have ended, on all links or those of what is explained.
    pub(super) fn add_ended(
        &self,
        loads: &mut BTreeMap<LinkId, Load>,
        explained: Option<&BTreeSet<LinkId>>,
    ) {
        for agent in self.agents.iter() {
            for of in agent.failures.connections().filter(|of| self.outlasts(agent, of)) {
                let rate = self.agents.standing().rate(of).filter(|_| self.is_held(agent, of));
                let (Some(rate), Some(ends)) = (rate, self.view.ends(of)) else { continue };
                if !self.registry.carrying(of).0.is_empty() {
                    continue;
                }
                let path = self.view.path(ends, 0).into_iter();
                for link in path.filter(|link| matters(explained, link)) {
                    let load = loads.entry(link).or_default();
                    load.enforced = load.enforced + rate;
                }
            }
        }
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
