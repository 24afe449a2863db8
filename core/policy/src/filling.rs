//! Flows that divide links: in proportion to weights, or so that all end together.
//!
//! Links and flows are positions in tables of their own, so that a division of few links among many
//! flows stays within a processor's first cache.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use crate::lists::{Lists, Rows};
use crate::real;

/// Which flows use which links, both ways.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The links of each flow.
    pub(crate) links: Lists,
    /// The flows of each link in order, as of the last [`Paths::turn`].
    pub(crate) members: Lists,
}

impl Paths {
    /// No flows.
    pub(crate) const NONE: Self = Self { links: Lists::NONE, members: Lists::NONE };

    /// Lists the flows of each of so many links.
    pub(crate) fn turn(&mut self, links: usize) {
        self.members.turn(&self.links, links);
    }
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
    pub(crate) fn pace(&mut self, paths: &Paths, weight: impl Fn(usize) -> f64, rates: &mut [u64]) {
        match paths.links.pairs() {
            Some(pairs) => self.pace_along(pairs, weight, rates),
            None => self.pace_along(&paths.links, weight, rates),
        }
    }

    fn pace_along<R: Rows>(&mut self, paths: R, weight: impl Fn(usize) -> f64, rates: &mut [u64]) {
        let links = &mut self.links;
        for (flow, path) in paths.rows().enumerate() {
            let weight = weight(flow);
            for &link in path.as_ref() {
                let link = &mut links[link as usize];
                link.weight += weight;
                link.growing += 1;
            }
        }
        let used = links.iter().filter(|link| link.growing > 0);
        let level = used.map(|link| Level::of(link).0).fold(f64::INFINITY, f64::min);
        for ((flow, path), rate) in paths.rows().enumerate().zip(rates) {
            let path = path.as_ref();
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
    /// less than `least` left counts as full. The rate of a flow without links stays as it is. Returns whether
    /// there was a flow without a full link.
    pub(crate) fn fill(
        &mut self,
        paths: &Paths,
        least: u64,
        weight: impl Fn(usize) -> f64,
        rates: &mut [u64],
    ) -> bool {
        match paths.links.pairs() {
            Some(pairs) => self.fill_along(pairs, &paths.members, least, weight, rates),
            None => self.fill_along(&paths.links, &paths.members, least, weight, rates),
        }
    }

    fn fill_along<R: Rows>(
        &mut self,
        paths: R,
        members: &Lists,
        least: u64,
        weight: impl Fn(usize) -> f64,
        rates: &mut [u64],
    ) -> bool {
        self.gather(paths, least, &weight, rates);
        let Self { links, stopped, queue } = self;
        queue.clear();
        let growing = (0u32..).zip(&*links).filter(|(_, link)| link.growing > 0);
        queue.extend(growing.map(|(number, link)| Reverse((Level::of(link), number))));
        let grows = !queue.is_empty();
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
            // It isn't looked at again: only what is left of it counts, which stays in a register.
            let mut left = link.left;
            links[number as usize].growing = 0;
            for &flow in members.of(number as usize) {
                let flow = flow as usize;
                if core::mem::replace(&mut stopped[flow], true) {
                    continue;
                }
                let (weight, path) = (weight(flow), paths.row(flow));
                let others = || path.as_ref().iter().filter(|link| **link != number);
                let lefts = others().map(|link| links[*link as usize].left);
                let rate = lefts.fold(whole(level.0 * weight).min(left), u64::min);
                for link in others() {
                    let link = &mut links[*link as usize];
                    link.left -= rate;
                    link.weight = (link.weight - weight).max(0.0);
                    link.growing -= 1;
                }
                left -= rate;
                rates[flow] = rate;
            }
            links[number as usize].left = left;
        }
        grows
    }

    /// Counts the flows that grow on every link. Those on a full one have stopped, at nothing.
    fn gather<R: Rows>(
        &mut self,
        paths: R,
        least: u64,
        weight: impl Fn(usize) -> f64,
        rates: &mut [u64],
    ) {
        let Self { links, stopped, .. } = self;
        stopped.clear();
        stopped.resize(rates.len(), false);
        let flows = paths.rows().zip(stopped).zip(rates);
        for (flow, ((path, stopped), rate)) in flows.enumerate() {
            let path = path.as_ref();
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
#[allow(clippy::cast_possible_truncation)] // that is what is wanted
fn whole(rate: f64) -> u64 {
    // A signed number is what processors convert at once.
    (rate as i64).max(0).cast_unsigned()
}

/// The rate of a flow of weight 1 at which a link fills up.
#[derive(Clone, Copy, Debug)]
struct Level(f64);

impl Level {
    fn of(link: &Filling) -> Self {
        Self(real(link.left) / link.weight.max(f64::MIN_POSITIVE))
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
