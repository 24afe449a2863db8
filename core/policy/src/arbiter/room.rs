//! An objective at work: its policy, the network as that sees it, and what it has of every link.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use model::{LEAST_RATE, LinkId, Measured, Network, Observation};
use units::{Rate, Span, Time};

use super::parts::{Turn, Want};
use crate::flow_map::FlowSet;
use crate::{Aim, Objective, Policy};

/// What a latency carried, and what waited for it, counts for less as time passes: by this part in each
/// interval.
const FADES: u64 = 8;
/// After so many intervals little of the largest rate is left.
const FADED: u64 = 300;

/// An objective.
pub(super) struct Room {
    pub(super) name: String,
    pub(super) aim: Aim,
    pub(super) policy: Box<dyn Policy + Send>,
    /// The name of that.
    pub(super) served_by: &'static str,
    /// `None` until something is observed.
    network: Option<Network>,
    /// By [`LinkId`].
    pub(super) stakes: Vec<Stake>,
    pub(super) flows: FlowSet,
    /// Its place at ports that serve strict priorities.
    pub(super) class: u8,
    /// Whether limits may have changed.
    pub(super) is_moved: bool,
    /// Links whose part has changed since the policy was told.
    changed: Vec<LinkId>,
}

/// What an objective has to do with a link, in frame bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stake {
    /// Its flows there.
    pub(super) flows: u32,
    /// What it is given, bit/s; `None`: it has no part in the link.
    pub(super) given: Option<u64>,
    /// What the policy sees of it then.
    seen: Option<u64>,
    /// The same while links are divided.
    pub(super) draft: u64,
    /// Bit/s that it needs before later turns, and that it asks for although it has a turn.
    pub(super) need: u64,
    pub(super) asks: u64,
    /// Bit/s that it could use.
    pub(super) demand: u64,
    /// Of a latency: what waits of flows with an end, the most of it lately, what entered since the
    /// last review, and the rate of that lately: the highest, and the mean.
    waiting: u64,
    peak: u64,
    entered: u64,
    lately: u64,
    mean: u64,
}

impl Stake {
    /// A flow with an end enters.
    pub(super) fn enter(&mut self, bits: u64) {
        self.waiting = self.waiting.saturating_add(bits);
        self.entered = self.entered.saturating_add(bits);
        self.peak = self.peak.max(self.waiting);
    }

    /// A flow with an end is gone.
    pub(super) fn leave(&mut self, bits: u64) {
        self.waiting = self.waiting.saturating_sub(bits);
    }

    /// Takes in that so long has passed since the last review.
    pub(super) fn pass(&mut self, passed: Span, interval: Span) {
        // After so many intervals nothing is left that counts.
        let steps = (passed.as_nanos() / interval.as_nanos().max(1)).min(FADED);
        let fade = |peak: u64| (0..steps).fold(peak, |peak, _| peak - peak.div_ceil(FADES));
        self.peak = fade(self.peak).max(self.waiting);
        let nanos = u128::from(passed.as_nanos().max(1));
        let rate = u128::from(core::mem::take(&mut self.entered)) * 1_000_000_000 / nanos;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.lately = fade(self.lately).max(rate);
        let gap = self.mean.abs_diff(rate).div_ceil(FADES);
        self.mean = if rate > self.mean { self.mean + gap } else { self.mean - gap };
    }

    /// What a latency needs of a link that serves priorities: what it carries of flows with an end, and
    /// `streams`.
    pub(super) fn carries(&self, streams: u64) -> u64 {
        self.mean.saturating_add(streams)
    }

    /// What it needs else: what it carries, or what lets it deliver within `target` what waits of flows
    /// with an end, and `streams`.
    pub(super) fn latency(&self, target: Span, streams: u64) -> u64 {
        let nanos = u128::from(target.as_nanos().max(1));
        let waiting = u128::from(self.peak) * 1_000_000_000 / nanos;
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX);
        self.lately.max(waiting).saturating_add(streams)
    }
}

impl Room {
    pub(super) fn new(objective: &Objective, policy: Box<dyn Policy + Send>, class: u8) -> Self {
        Self {
            name: objective.name.clone(),
            aim: objective.aim,
            policy,
            served_by: objective.policy.name,
            network: None,
            stakes: Vec::new(),
            flows: FlowSet::default(),
            class,
            is_moved: false,
            changed: Vec::new(),
        }
    }

    /// Brings the network that the policy sees in line with `network`, its links with their parts.
    pub(super) fn cover(&mut self, network: &Network) {
        let size = |network: &Network| {
            (network.topology().nodes().len(), network.topology().links().len())
        };
        if self.network.as_ref().map(size) != Some(size(network)) {
            let mut own = network.clone();
            let links = network.topology().links().iter();
            self.stakes.extend(links.skip(self.stakes.len()).map(|link| {
                let draft = link.spec.capacity.as_bps();
                Stake { draft, ..Stake::default() }
            }));
            for (number, stake) in (0u32..).zip(&self.stakes) {
                if let Some(seen) = stake.seen {
                    own.set_capacity(LinkId(number), Rate::from_bps(seen));
                }
            }
            self.network = Some(own);
        }
    }

    /// A link failed or returned.
    pub(super) fn follow(&mut self, network: &Network, link: LinkId) {
        if let Some(own) = &mut self.network {
            own.set_up(link, network.is_up(link));
        }
    }

    pub(super) fn observe(&mut self, now: Time, observation: &Observation) {
        if let Some(network) = &self.network {
            self.policy.observe(now, network, observation);
        }
    }

    /// Has the policy decide.
    pub(super) fn decide(&mut self, now: Time, out: &mut model::Directives) {
        if let Some(network) = &self.network {
            self.policy.decide(now, network, out);
        }
    }

    /// It is given another part of a link, or none, and its policy sees a link of so much.
    pub(super) fn give(&mut self, link: LinkId, given: Option<u64>, seen: u64) {
        let stake = &mut self.stakes[link.index()];
        (stake.given, stake.seen) = (given, given.map(|_| seen));
        let seen = Rate::from_bps(seen.max(1));
        if let Some(own) = &mut self.network
            && own.topology().link(link).spec.capacity != seen
        {
            own.set_capacity(link, seen);
            self.changed.push(link);
            self.is_moved = true;
        }
    }

    /// Tells the policy of links that have another capacity now.
    pub(super) fn tell(&mut self, now: Time) {
        if !self.changed.is_empty() {
            let links = core::mem::take(&mut self.changed);
            self.observe(now, &Measured::Capacity(links).into());
        }
    }

    /// Whether it takes part in the division of a link.
    pub(super) fn is_at(&self, link: usize) -> bool {
        let stake = &self.stakes[link];
        stake.flows > 0
            || matches!(self.aim, Aim::Latency { .. }) && stake.need >= LEAST_RATE.as_bps()
    }

    /// What it wants of a link.
    pub(super) fn want(&self, link: usize) -> Want {
        let Stake { need, asks, demand, .. } = self.stakes[link];
        let (turn, demand) = match self.aim {
            Aim::Latency { .. } => (Turn::Latency, asks),
            Aim::Deadline { .. } => (Turn::Deadline, asks),
            Aim::Weight(_) | Aim::Background => (Turn::Share, demand),
        };
        Want { turn, need, demand, weight: self.aim.weight() }
    }
}
