//! From what flows need to their rates: link by link, the least of a flow's shares, and what is
//! left in proportion ("On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream
//! Analytics", algorithm 1 and section VI-C).
//!
//! The first links of a path fork what senders have, the last joins what a receiver gets. Flat
//! tables, rebuilt when flows or paths change; a step allocates nothing. Rates are frame bits per
//! second.

use alloc::vec::Vec;

use model::{LEAST_RATE, LinkId};
use units::Rate;

use crate::Share;
use crate::lists::Lists;
use crate::split::{Claim, MOST, level};

/// Most passes of backfilling; in a big switch more gain nothing worth naming.
const PASSES: usize = 4;
/// Bits behind the point of a factor of growth.
const POINT: u32 = 16;
/// The rate of a flow that no bottleneck limits.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// Where on its path a link is to a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the last.
    Fork,
    /// The last.
    Join,
}

/// What a flow needs in the time ahead, bit/s, each at most [`MOST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowNeed {
    /// What it would send if nothing held it back.
    pub(crate) demand: u64,
    /// What its receiver processes.
    pub(crate) consumption: u64,
    /// What waits at its receiver, over the time ahead.
    pub(crate) waiting: u64,
}

/// Which links count, and how they are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DivisionRule {
    /// A link is a bottleneck when the demand for it reaches this part of it.
    pub(crate) bottleneck: Share,
    /// The part of an even share that a flow gets though it shows no need.
    pub(crate) floor: Share,
    /// Whether flows that show some need get at least as much.
    pub(crate) is_floor_for_all: bool,
    /// The part of a link that is given away.
    pub(crate) usable: Share,
}

/// The links, the flows over them, and their rates. Flows are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct StreamRates {
    /// The links of each flow; none where no path leads to its receiver.
    paths: Lists,
    /// The flows of each link that it forks, and those that it joins: whose last link it is.
    members: [Lists; 2],
    /// What may be given away of each link, bit/s.
    capacities: Vec<u64>,
    /// The rate of each flow, bit/s.
    rates: Vec<u64>,
    claims: Vec<Claim>,
    order: Vec<usize>,
    shares: Vec<Rate>,
    /// Of each link: the rates limited on it, what flows without a limit leave, and by how much
    /// limited rates can grow.
    limited: Vec<u64>,
    left: Vec<u64>,
    growth: Vec<u64>,
}

impl StreamRates {
    /// Takes in the flows anew, by their paths over `links` links.
    pub(crate) fn lay_out<'a>(&mut self, links: usize, paths: impl Iterator<Item = &'a [LinkId]>) {
        self.paths.clear();
        for path in paths {
            self.paths.push(path.iter().map(|link| link.0).filter(|&link| (link as usize) < links));
        }
        let mut stages = [Lists::NONE, Lists::NONE];
        for path in self.paths.iter() {
            let (before, last) = path.split_at(path.len().saturating_sub(1));
            for (stage, links) in stages.iter_mut().zip([before, last]) {
                stage.push(links.iter().copied());
            }
        }
        for (members, stage) in self.members.iter_mut().zip(&stages) {
            members.turn(stage, links);
        }
    }

    /// The rate of each flow that `needs` so much, bit/s, over links of these capacities;
    /// [`UNLIMITED`] where no bottleneck limits it.
    pub(crate) fn solve(
        &mut self,
        rule: &DivisionRule,
        capacities: impl Iterator<Item = Rate>,
        needs: &[FlowNeed],
    ) -> &[u64] {
        self.capacities.clear();
        let usable = capacities.map(|rate| rule.usable.divided(rate, 1).as_bps().min(MOST));
        self.capacities.extend(usable);
        self.rates.clear();
        self.rates.resize(needs.len(), UNLIMITED);
        for stage in [Stage::Fork, Stage::Join] {
            for link in 0..self.capacities.len() {
                self.divide(link, stage, rule, needs);
            }
        }
        self.add_up(needs);
        if self.limited.iter().zip(&self.capacities).any(|(limited, capacity)| limited > capacity) {
            for link in 0..self.capacities.len() {
                self.trim(link);
            }
            self.add_up(needs);
        }
        for pass in 0..PASSES {
            if pass > 0 {
                self.add_up(needs);
            }
            if !self.backfill() {
                break;
            }
        }
        &self.rates
    }

    /// Divides a link among the flows that it forks or joins, if it is a bottleneck to them: problem
    /// (3) or (4). A flow demands no more of it than it got at earlier links.
    fn divide(&mut self, link: usize, stage: Stage, rule: &DivisionRule, needs: &[FlowNeed]) {
        let Self { members, capacities, rates, claims, order, shares, .. } = self;
        let here = || members[stage as usize].of(link).iter().map(|&flow| flow as usize);
        let capacity = Rate::from_bps(capacities[link]);
        let coming = here().map(|flow| needs[flow].demand.min(rates[flow]));
        let coming = coming.fold(0, u64::saturating_add);
        if coming == 0 || coming < rule.bottleneck.divided(capacity, 1).as_bps() {
            return;
        }
        let floor = rule.floor.divided(capacity, here().count() as u64).max(LEAST_RATE).as_bps();
        claims.clear();
        claims.extend(here().map(|flow| {
            let need = &needs[flow];
            let (weight, offset) = match stage {
                Stage::Fork => (need.demand, 0),
                Stage::Join => (need.consumption, need.waiting),
            };
            let has_floor = weight == 0 || rule.is_floor_for_all;
            // No limit is below the least rate that actuators hold.
            Claim { weight, offset, least: if has_floor { floor } else { LEAST_RATE.as_bps() } }
        }));
        shares.clear();
        level(capacity, claims, order, shares);
        for (flow, share) in here().zip(&*shares) {
            rates[flow] = rates[flow].min(share.as_bps());
        }
    }

    /// Holds the limits of all flows on a link together to its capacity.
    fn trim(&mut self, link: usize) {
        let Self { members, capacities, rates, .. } = self;
        let least = LEAST_RATE.as_bps();
        // What would fall below the least rate keeps that, and the others give way for it.
        let (mut capacity, mut above) = (capacities[link], 0);
        loop {
            let limited = on(members, link).map(|flow| rates[flow]);
            let limited = limited.filter(|&rate| rate != UNLIMITED && rate > above);
            let sum = limited.clone().fold(0, u64::saturating_add);
            if sum <= capacity {
                return;
            }
            let scaled = |rate: u64| Rate::from_bps(rate).fraction(capacity, sum).as_bps();
            let fallen = limited.filter(|&rate| scaled(rate) < least);
            let Some(most) = fallen.clone().max().filter(|_| capacity > 0) else {
                for flow in on(members, link) {
                    if rates[flow] != UNLIMITED && rates[flow] > above {
                        rates[flow] = scaled(rates[flow]);
                    }
                }
                return;
            };
            capacity = capacity.saturating_sub(fallen.count() as u64 * least);
            for flow in on(members, link) {
                if rates[flow] > above && rates[flow] <= most {
                    rates[flow] = least;
                }
            }
            above = most;
        }
    }

    /// Adds up what is limited on every link, and what flows without a limit leave there, whose
    /// demand is theirs.
    fn add_up(&mut self, needs: &[FlowNeed]) {
        let Self { paths, capacities, rates, limited, left, .. } = self;
        left.clone_from(capacities);
        limited.clear();
        limited.resize(capacities.len(), 0);
        for (flow, (&rate, need)) in rates.iter().zip(needs).enumerate() {
            for &link in paths.of(flow) {
                let link = link as usize;
                if rate == UNLIMITED {
                    left[link] = left[link].saturating_sub(need.demand);
                } else {
                    limited[link] = limited[link].saturating_add(rate);
                }
            }
        }
    }

    /// Has limited flows grow in proportion to their rates, each as much as all its links allow;
    /// whether one could.
    fn backfill(&mut self) -> bool {
        let Self { paths, rates, limited, left, growth, .. } = self;
        growth.clear();
        growth.extend(left.iter().zip(&*limited).map(|(left, &limited)| {
            (left.saturating_sub(limited) << POINT).checked_div(limited).unwrap_or(0)
        }));
        let mut grew = false;
        for (flow, rate) in rates.iter_mut().enumerate().filter(|(_, rate)| **rate != UNLIMITED) {
            let factors = paths.of(flow).iter().map(|&link| growth[link as usize]);
            let more = (u128::from(*rate) * u128::from(factors.min().unwrap_or(0))) >> POINT;
            *rate += u64::try_from(more).unwrap_or(0);
            grew |= more > 0;
        }
        grew
    }
}

/// The flows on a link.
fn on(members: &[Lists; 2], link: usize) -> impl Iterator<Item = usize> + Clone + '_ {
    members.iter().flat_map(move |stage| stage.of(link)).map(|&flow| flow as usize)
}
