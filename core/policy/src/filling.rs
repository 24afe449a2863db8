//! Flows that divide links: in proportion to weights, or so that all end together.
//!
//! Links and flows are positions in tables of their own, so that a division of few links among many
//! flows stays within a processor's first cache.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};
use core::ops::Range;

/// Which flows use which links, both ways.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Links, flow by flow, and where those of each flow end.
    hops: Vec<u32>,
    ends: Vec<u32>,
    /// Flows in order, link by link, and where those of each link end; see [`Paths::turn`].
    members: Vec<u32>,
    member_ends: Vec<u32>,
}

impl Paths {
    /// No flows.
    pub(crate) const NONE: Self = Self {
        hops: Vec::new(),
        ends: Vec::new(),
        members: Vec::new(),
        member_ends: Vec::new(),
    };

    pub(crate) fn clear(&mut self) {
        self.hops.clear();
        self.ends.clear();
    }

    /// Adds a flow with these links.
    pub(crate) fn add(&mut self, path: impl Iterator<Item = u32>) {
        self.hops.extend(path);
        self.ends.push(position(self.hops.len()));
    }

    /// Lists the flows of each of so many links; no flow is added after that.
    pub(crate) fn turn(&mut self, links: usize) {
        let Self { hops, ends, members, member_ends } = self;
        member_ends.clear();
        member_ends.resize(links, 0);
        for &link in &*hops {
            member_ends[link as usize] += 1;
        }
        let mut start = 0;
        for end in &mut *member_ends {
            start += core::mem::replace(end, start);
        }
        members.clear();
        members.resize(hops.len(), 0);
        let mut hop = 0;
        for (flow, &end) in (0u32..).zip(&*ends) {
            for &link in &hops[hop as usize..end as usize] {
                let place = &mut member_ends[link as usize];
                members[*place as usize] = flow;
                *place += 1;
            }
            hop = end;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Links of a flow.
    pub(crate) fn path(&self, flow: usize) -> &[u32] {
        &self.hops[range(&self.ends, flow)]
    }

    /// Flows of a link.
    fn members(&self, link: usize) -> &[u32] {
        &self.members[range(&self.member_ends, link)]
    }
}

/// What of a table with these ends belongs to the entry.
fn range(ends: &[u32], entry: usize) -> Range<usize> {
    let start = entry.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[entry] as usize
}

/// A position in a table that has fewer entries than a u32 counts.
pub(crate) fn position(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// A link while it is divided.
#[derive(Clone, Copy, Debug)]
struct Filling {
    /// Not granted yet, bit/s.
    left: u64,
    /// Weight and number of the flows that still grow.
    weight: f64,
    growing: u32,
}

/// Divides links among flows.
#[derive(Debug, Default)]
pub(crate) struct Filler {
    links: Vec<Filling>,
    stopped: Vec<bool>,
    queue: BinaryHeap<Reverse<(Level, u32)>>,
}

impl Filler {
    /// Begins with what is left of each link, bit/s.
    pub(crate) fn open(&mut self, lefts: impl Iterator<Item = u64>) {
        self.links.clear();
        self.links.extend(lefts.map(|left| Filling { left, weight: 0.0, growing: 0 }));
    }

    /// What is left of each link, bit/s.
    pub(crate) fn lefts(&self) -> impl Iterator<Item = u64> {
        self.links.iter().map(|link| link.left)
    }

    /// Paces the flows so that all end together, as early as what is left allows, and none takes more
    /// than that needs: Varys's Minimum Allocation for Desired Duration. Their weights are what they
    /// have to send; if one of their links is full they get nothing.
    pub(crate) fn pace(
        &mut self,
        paths: &Paths,
        weight: impl Fn(usize) -> f64,
        rates: &mut [u64],
    ) {
        let links = &mut self.links;
        for flow in 0..paths.count() {
            let weight = weight(flow);
            for &link in paths.path(flow) {
                let link = &mut links[link as usize];
                link.weight += weight;
                link.growing += 1;
            }
        }
        let used = links.iter().filter(|link| link.growing > 0);
        let level = used.map(|link| Level::of(link).0).fold(f64::INFINITY, f64::min);
        for (flow, rate) in rates.iter_mut().enumerate().take(paths.count()) {
            let path = paths.path(flow);
            let most = path.iter().map(|link| links[*link as usize].left).min().unwrap_or(0);
            *rate = whole(level * weight(flow)).min(most);
            for &link in path {
                links[link as usize].left -= *rate;
            }
        }
    }

    /// Fills the links with the flows in proportion to their weights, which aren't negative: all grow
    /// together, each by its weight, and those on a link that fills up stop there. That is weighted
    /// max-min fairness on what is left (Bertsekas and Gallager, Data Networks, section 6.5.2, with
    /// weights).
    ///
    /// Rates are rounded down to whole bit/s and so never exceed what is left in sum. A link that has
    /// less than `least` left counts as full. The rate of a flow without links stays as it is.
    pub(crate) fn fill(
        &mut self,
        paths: &Paths,
        least: u64,
        weight: impl Fn(usize) -> f64,
        rates: &mut [u64],
    ) {
        self.gather(paths, least, &weight, rates);
        let Self { links, stopped, queue } = self;
        queue.clear();
        let growing = (0u32..).zip(&*links).filter(|(_, link)| link.growing > 0);
        queue.extend(growing.map(|(number, link)| Reverse((Level::of(link), number))));
        // A level only rises while flows stop elsewhere, but for rounding, so that an entry that
        // has gone stale comes up too early, never too late.
        while let Some(mut top) = queue.peek_mut() {
            let Reverse((queued, number)) = *top;
            let link = &links[number as usize];
            if link.growing == 0 {
                alloc::collections::binary_heap::PeekMut::pop(top);
                continue;
            }
            let level = Level::of(link);
            if level > queued {
                *top = Reverse((level, number));
                continue;
            }
            alloc::collections::binary_heap::PeekMut::pop(top);
            for &flow in paths.members(number as usize) {
                let flow = flow as usize;
                if core::mem::replace(&mut stopped[flow], true) {
                    continue;
                }
                let (weight, path) = (weight(flow), paths.path(flow));
                let lefts = path.iter().map(|link| links[*link as usize].left);
                let rate = lefts.fold(whole(level.0 * weight), u64::min);
                for link in path {
                    let link = &mut links[*link as usize];
                    link.left -= rate;
                    link.weight = (link.weight - weight).max(0.0);
                    link.growing -= 1;
                }
                rates[flow] = rate;
            }
        }
    }

    /// Counts the flows that grow on every link. Those on a full one have stopped, at nothing.
    fn gather(
        &mut self,
        paths: &Paths,
        least: u64,
        weight: impl Fn(usize) -> f64,
        rates: &mut [u64],
    ) {
        let Self { links, stopped, .. } = self;
        stopped.clear();
        stopped.resize(paths.count(), false);
        for (flow, (stopped, rate)) in stopped.iter_mut().zip(rates).enumerate() {
            let path = paths.path(flow);
            if path.iter().any(|link| links[*link as usize].left < least) {
                (*stopped, *rate) = (true, 0);
                continue;
            }
            let weight = weight(flow);
            for &link in path {
                let link = &mut links[link as usize];
                link.weight += weight;
                link.growing += 1;
            }
        }
    }
}

/// The whole part; what is too large for a rate is the largest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // that is what is wanted
fn whole(rate: f64) -> u64 {
    rate as u64
}

/// The rate of a flow of weight 1 at which a link fills up.
#[derive(Clone, Copy, Debug)]
struct Level(f64);

impl Level {
    fn of(link: &Filling) -> Self {
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
