//! What is left of every link while a division is made, and the filling of links by one coflow.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use model::{LinkId, Network};

use units::Rate;

use crate::Share;

/// One directed link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    /// Bit/s.
    pub(crate) capacity: u64,
    /// Flows of all jobs.
    pub(crate) flows: u64,
    /// Flows of jobs that the guard helps.
    pub(crate) old: u64,
    /// What each of these has for itself, bit/s.
    pub(crate) ration: u64,
    /// Not granted yet, bit/s.
    pub(crate) left: u64,
    /// While the link is filled: weight and number of the flows that still grow, and the range of
    /// all its flows in [`Links::members`].
    weight: f64,
    growing: u32,
    start: u32,
    end: u32,
    /// Position in the list of links of the job that is being looked at.
    pub(crate) place: u32,
}

/// All links, by [`model::LinkId`].
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) table: Vec<Link>,
    members: Vec<u32>,
    stopped: Vec<bool>,
    queue: BinaryHeap<Reverse<(Level, LinkId)>>,
}

/// Flows that fill links together, by position.
pub(crate) trait Growing {
    fn count(&self) -> usize;
    /// Links of a flow.
    fn path(&self, flow: usize) -> &[LinkId];
    /// The part of a flow compared with others'; not negative.
    fn weight(&self, flow: usize) -> f64;
    /// Takes the rate of a flow, bit/s. Every flow with a path gets one.
    fn grant(&mut self, flow: usize, rate: u64);
}

impl Links {
    /// Links that have all of `capacities` left.
    pub(crate) fn of(capacities: &[Rate]) -> Self {
        let link =
            |rate: &Rate| Link { capacity: rate.as_bps(), left: rate.as_bps(), ..Link::default() };
        Self { table: capacities.iter().map(link).collect(), ..Self::default() }
    }

    /// Makes room for every link of the network, and takes in their capacities.
    pub(crate) fn cover(&mut self, network: &Network) {
        let links = network.topology().links();
        if self.table.len() < links.len() {
            self.table.resize_with(links.len(), Link::default);
            for (link, of) in self.table.iter_mut().zip(links) {
                link.capacity = of.spec.capacity.as_bps();
            }
        }
    }

    /// A flow enters the network.
    pub(crate) fn enter(&mut self, path: &[LinkId]) {
        for link in path {
            self.table[link.index()].flows += 1;
        }
    }

    /// A flow that entered is gone.
    pub(crate) fn leave(&mut self, path: &[LinkId]) {
        for link in path {
            self.table[link.index()].flows -= 1;
        }
    }

    pub(crate) fn left(&self, link: LinkId) -> u64 {
        self.table[link.index()].left
    }

    pub(crate) fn left_on(&self, path: &[LinkId]) -> u64 {
        path.iter().map(|&link| self.left(link)).min().unwrap_or(0)
    }

    /// Takes what is granted from all links of a path; they have it left.
    pub(crate) fn take(&mut self, path: &[LinkId], rate: u64) {
        for link in path {
            self.table[link.index()].left -= rate;
        }
    }

    pub(crate) fn capacities(&self) -> Vec<Rate> {
        self.table.iter().map(|link| Rate::from_bps(link.capacity)).collect()
    }

    /// What is left of every link.
    pub(crate) fn lefts(&self) -> Vec<u64> {
        self.table.iter().map(|link| link.left).collect()
    }

    /// Says what is left of every link.
    pub(crate) fn set_lefts(&mut self, lefts: impl Iterator<Item = u64>) {
        for (link, left) in self.table.iter_mut().zip(lefts) {
            link.left = left;
        }
    }

    /// No flow is of an old job.
    pub(crate) fn forget_old(&mut self) {
        for link in &mut self.table {
            link.old = 0;
        }
    }

    /// Begins a division: everything is left but `aside` for every flow, and `share` where there
    /// are flows of old jobs.
    pub(crate) fn open(&mut self, aside: Rate, share: Option<Share>) {
        for link in &mut self.table {
            let floors = aside.as_bps().saturating_mul(rounded(link.flows));
            let part = |count| {
                let share = share.filter(|_| link.old > 0);
                share
                    .map_or(0, |share| share.divided(Rate::from_bps(link.capacity), count).as_bps())
            };
            link.ration = part(rounded(link.old));
            link.left = link.capacity.saturating_sub(floors).saturating_sub(part(1));
        }
    }

    /// Paces `flows` so that all end together, as early as what is left allows, and none takes more
    /// than that needs: Varys's Minimum Allocation for Desired Duration. Their weights are what they
    /// have to send; if one of their links is full they get nothing.
    pub(crate) fn pace<F: Growing>(&mut self, flows: &mut F) {
        let paths = |flow: &F, act: &mut dyn FnMut(LinkId, f64)| {
            for position in 0..flow.count() {
                let weight = flow.weight(position);
                flow.path(position).iter().for_each(|&link| act(link, weight));
            }
        };
        paths(flows, &mut |link, _| self.table[link.index()].weight = 0.0);
        paths(flows, &mut |link, weight| self.table[link.index()].weight += weight);
        let mut level = f64::INFINITY;
        paths(flows, &mut |link, _| level = level.min(Level::of(&self.table[link.index()]).0));
        for flow in 0..flows.count() {
            let path = flows.path(flow);
            let rate = whole(level * flows.weight(flow)).min(self.left_on(path));
            self.take(path, rate);
            flows.grant(flow, rate);
        }
    }

    /// Fills the links with `flows` in proportion to their weights: all grow together, each by its
    /// weight, and those on a link that fills up stop there. That is weighted max-min fairness on
    /// what is left (Bertsekas and Gallager, Data Networks, section 6.5.2, with weights).
    ///
    /// Rates are rounded down to whole bit/s and so never exceed what is left in sum. A link that
    /// has less than `least` left counts as full. `used` are the links of the flows, each once.
    pub(crate) fn fill<F: Growing>(
        &mut self,
        used: impl Iterator<Item = LinkId> + Clone,
        least: u64,
        flows: &mut F,
    ) {
        self.gather(used.clone(), least, flows);
        let Self { table, members, stopped, queue } = self;
        queue.clear();
        queue.extend(used.map(|link| Reverse((Level::of(&table[link.index()]), link))));
        // A level only rises while flows stop elsewhere, but for rounding, so that an entry that
        // has gone stale comes up too early, never too late.
        while let Some(Reverse((queued, number))) = queue.pop() {
            let link = &table[number.index()];
            if link.growing == 0 {
                continue;
            }
            let level = Level::of(link);
            if level > queued {
                queue.push(Reverse((level, number)));
                continue;
            }
            for &member in &members[link.start as usize..link.end as usize] {
                let position = member as usize;
                if core::mem::replace(&mut stopped[position], true) {
                    continue;
                }
                let weight = flows.weight(position);
                let left = flows.path(position).iter().map(|link| table[link.index()].left);
                let rate = left.fold(whole(level.0 * weight), u64::min);
                for link in flows.path(position) {
                    let link = &mut table[link.index()];
                    link.left -= rate;
                    link.weight = (link.weight - weight).max(0.0);
                    link.growing -= 1;
                }
                flows.grant(position, rate);
            }
        }
    }

    /// Lists the flows of every link, but grants nothing to those on a full one.
    fn gather<F: Growing>(
        &mut self,
        used: impl Iterator<Item = LinkId> + Clone,
        least: u64,
        flows: &mut F,
    ) {
        let Self { table, members, stopped, .. } = self;
        for link in used.clone() {
            let link = &mut table[link.index()];
            (link.weight, link.growing) = (0.0, 0);
        }
        stopped.clear();
        for flow in 0..flows.count() {
            let is_full = |link: &LinkId| table[link.index()].left < least;
            let stops = flows.path(flow).iter().any(is_full);
            stopped.push(stops);
            if stops {
                flows.grant(flow, 0);
                continue;
            }
            let weight = flows.weight(flow);
            for link in flows.path(flow) {
                let link = &mut table[link.index()];
                link.weight += weight;
                link.growing += 1;
            }
        }
        let mut entries = 0;
        for link in used {
            let link = &mut table[link.index()];
            (link.start, link.end) = (entries, entries);
            entries += link.growing;
        }
        members.clear();
        members.resize(entries as usize, 0);
        for (number, flow) in (0u32..).zip(0..flows.count()) {
            if stopped[flow] {
                continue;
            }
            for link in flows.path(flow) {
                let link = &mut table[link.index()];
                members[link.end as usize] = number;
                link.end += 1;
            }
        }
    }
}

/// The whole part; what is too large for a rate is the largest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // that is what is wanted
pub(crate) fn whole(rate: f64) -> u64 {
    rate as u64
}

/// The next power of two: what depends on it changes seldom.
fn rounded(count: u64) -> u64 {
    count.checked_next_power_of_two().unwrap_or(u64::MAX)
}

/// The rate of a flow of weight 1 at which a link fills up.
#[derive(Clone, Copy, Debug)]
struct Level(f64);

impl Level {
    fn of(link: &Link) -> Self {
        Self(link.left as f64 / link.weight.max(f64::MIN_POSITIVE))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}
