//! Max-min fair shares of links among classes of flows, recomputed where something changed.
//!
//! Every link has a *level*: the rate of those of its flows for which it is the bottleneck;
//! unlimited if it is so for none. A flow's rate is the least of its limit and its links' levels.
//! The levels are max-min fair exactly if each follows from the others it meets: with the others
//! given, a link is filled by its flows, each up to its bottleneck elsewhere. A level depends only
//! on lower ones, so a change spreads upwards from link to link and stops where it makes no
//! difference; the rest isn't visited. (Bertsekas and Gallager, Data Networks, section 6.5.2;
//! distributed algorithms for it use levels.)
//!
//! A level is the least `l` at which a link is full: flows that others hold below `l`, or their limit at
//! or below `l`, have that, and an equal part of the rest, rounded down, is `l` for each of the others.
//! Whether a limit or a link comes first at the same rate is settled once, for limits, so that there is
//! one answer whatever came before ([decision](../../../docs/decisions/levels-have-one-answer.md)).
//!
//! Flows whose limit is not above the levels of all their links need no class: they only use capacity.
//! That they are in none changes no level.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::prefetch;
use units::Rate;

use crate::ranks::Ranks;

/// Fractional bits of a rate.
const FRACTION: u32 = 16;
/// A class without limit; a link that holds no flow back.
pub(crate) const UNLIMITED: u64 = u64::MAX;
/// A path that is longer than two links, or a class with a limit. No link has this number.
const MANY: u32 = u32::MAX;
/// Links of the next ranks whose sums, and whose lists, are fetched ahead.
const LINE_AHEAD: usize = 6;
const LIST_AHEAD: usize = 3;
/// Steps of Newton's method before it is given up.
const GUESSES: usize = 4;
/// Links that a recomputation looks at, for each that there is, before it begins anew in order.
const PATIENCE: u64 = 64;

/// The rate in units of 2⁻¹⁶ bit/s; from 2⁴⁸ bit/s on it saturates.
pub(crate) const fn fixed(rate: Rate) -> u64 {
    rate.as_bps().saturating_mul(1 << FRACTION)
}

/// Octets in units of 2⁻¹⁶ bit/s times nanoseconds.
pub(crate) fn work(octets: u64) -> u128 {
    u128::from(octets) * (8_000_000_000 << FRACTION)
}

/// Flows of equal path and limit, which have equal rates.
#[derive(Debug)]
struct Class {
    /// Links of the path, with the position of the class in their lists while it has flows.
    path: Vec<(u32, u32)>,
    limit: u64,
    flows: u64,
    /// Whether it is among those that may have moved.
    is_moved: bool,
}

/// A class in the list of a link: the only other link of its path, or [`MANY`].
#[derive(Clone, Copy, Debug)]
struct Member {
    other: u32,
    flows: u32,
}

/// A link's level and sums over its flows, kept up to date as the levels of other links change. Mostly the
/// same flows stay limited elsewhere, and these sums give the link's level without a visit to each.
///
/// Fills a cache line: all that is mostly needed of a link that is looked at, and of those that it tells.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Sums {
    level: u64,
    /// Taken by flows that are held elsewhere, below the link's level.
    held: u64,
    /// None of these is faster.
    below: u64,
    /// Left by flows without a class, of which none is faster than `fastest`.
    left: u64,
    fastest: u64,
    /// All flows with a class, and those that aren't held elsewhere.
    flows: u32,
    growing: u32,
    /// Whether the counts but the first are right, and how many classes grow then, the first in the list.
    is_known: bool,
    growers: u32,
    rank: u32,
    is_changed: bool,
}

// A line holds it.
const _: () = assert!(size_of::<Sums>() == 64);

impl Sums {
    /// So many flows that others hold to `most` count, where a link's level is `level`.
    fn enter(&mut self, most: Hold, level: u64, flows: u32) {
        if most.is_below(level) {
            self.held = self.held.wrapping_add(most.rate.wrapping_mul(u64::from(flows)));
            self.below = self.below.max(most.rate);
        } else {
            self.growing += flows;
        }
    }

    /// These count no longer.
    fn leave(&mut self, most: u64, level: u64, flows: u32) {
        if most < level {
            self.held = self.held.wrapping_sub(most.wrapping_mul(u64::from(flows)));
        } else {
            self.growing -= flows;
        }
    }

    /// The level that follows if the flows that grow are held nowhere else below it. `None` if it is so close
    /// to what holds a flow elsewhere that each must be visited.
    fn next(&self) -> Option<u64> {
        let flows = u64::from(self.flows);
        if self.growing == 0 && self.held.saturating_add(flows) <= self.left {
            return Some(UNLIMITED);
        }
        let next = self.left.checked_sub(self.held)?.checked_div(u64::from(self.growing))?;
        (self.below.saturating_add(flows) < next).then_some(next)
    }

    fn forget(&mut self) {
        (self.is_known, self.growers) = (false, 0);
    }
}

#[derive(Debug)]
struct Link {
    capacity: u64,
    /// Taken by flows without a class.
    taken: u128,
    /// The classes in its list, in the same order.
    classes: Vec<u32>,
    /// How many of them have other links that aren't known at a glance.
    many: u32,
    /// Whether it waits to be filled in order.
    is_waiting: bool,
}

/// The shares.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    links: Vec<Link>,
    sums: Vec<Sums>,
    /// Of each link the classes that have flows.
    members: Vec<Vec<Member>>,
    /// Sums count no more flows than this, so that they stay below 2⁶⁴.
    most: u64,
    classes: Vec<Class>,
    /// Links to look at.
    ranks: Ranks,
    /// How many may be looked at in a row before all are filled from nothing, in order of their levels: then
    /// those to look at, the lowest level first.
    pub(crate) patience: u64,
    is_in_order: bool,
    in_order: BinaryHeap<Reverse<(u64, u32)>>,
    /// The level that the link was queued with that was taken last.
    least: u64,
    /// Links whose level the last recomputation changed.
    changed: Vec<u32>,
    /// Classes that another link may hold back since.
    moved: Vec<u32>,
    /// Flows and what holds them elsewhere, of the link that is being filled.
    held: Vec<(Hold, u64)>,
    /// Members of a link that changes its level, where more changes than a sum.
    crossed: Vec<u32>,
}

/// What holds a flow elsewhere: it is no faster than `rate`, and held there where a link's level is above
/// `up_to`.
#[derive(Clone, Copy, Debug)]
struct Hold {
    rate: u64,
    up_to: u64,
}

impl Hold {
    /// Another link of this level.
    const fn link(level: u64) -> Self {
        Self { rate: level, up_to: level }
    }

    /// A limit; above zero.
    const fn limit(limit: u64) -> Self {
        Self { rate: limit, up_to: limit - 1 }
    }

    const fn is_below(self, level: u64) -> bool {
        self.up_to < level
    }
}

impl Shares {
    pub(crate) fn new(capacities: impl Iterator<Item = Rate>) -> Self {
        let link = |capacity| Link {
            capacity: fixed(capacity),
            taken: 0,
            classes: Vec::new(),
            many: 0,
            is_waiting: false,
        };
        let links: Vec<Link> = capacities.map(link).collect();
        let sums = |(rank, link): (u32, &Link)| Sums {
            level: UNLIMITED,
            held: 0,
            below: 0,
            left: link.capacity,
            fastest: 0,
            flows: 0,
            growing: 0,
            is_known: true,
            growers: 0,
            rank,
            is_changed: false,
        };
        let sums = (0..).zip(&links).map(sums).collect();
        let widest = links.iter().map(|link| link.capacity).max();
        let most = UNLIMITED / 2 / widest.unwrap_or(1).max(1);
        let patience = PATIENCE * (links.len() as u64 + 64);
        let (ranks, members) = (Ranks::new(links.len()), vec![Vec::new(); links.len()]);
        Self { links, sums, members, most, ranks, patience, ..Self::default() }
    }

    /// Sets path and limit of the class at `place`, which has no flows, or adds it at the end.
    pub(crate) fn set(&mut self, place: usize, path: impl Iterator<Item = u32>, limit: u64) {
        let path = path.map(|link| (link, 0)).collect();
        let class = Class { path, limit, flows: 0, is_moved: false };
        match self.classes.get_mut(place) {
            Some(old) => *old = Class { is_moved: old.is_moved, ..class },
            None => self.classes.push(class),
        }
    }

    pub(crate) fn capacity(&self, link: u32) -> u64 {
        self.links[link as usize].capacity
    }

    pub(crate) fn level(&self, link: u32) -> u64 {
        self.sums[link as usize].level
    }

    pub(crate) fn flows(&self, class: u32) -> u64 {
        self.classes[class as usize].flows
    }

    /// Appends the classes that another link may hold back than before the last recomputation.
    pub(crate) fn take_moved(&mut self, moved: &mut Vec<u32>) {
        for class in self.moved.drain(..) {
            self.classes[class as usize].is_moved = false;
            moved.push(class);
        }
    }

    /// The link that holds a class back, or none if its limit does. Of several the first, but
    /// `before` if it is one.
    pub(crate) fn bottleneck(&self, class: u32, before: u32) -> Option<u32> {
        let Class { path, limit, .. } = &self.classes[class as usize];
        let level = |link: u32| self.level(link);
        let (first, _) = path.iter().copied().min_by_key(|(link, _)| level(*link))?;
        let lowest = level(first);
        let stays = path.iter().any(|(link, _)| *link == before) && level(before) == lowest;
        let link = if stays { before } else { first };
        (lowest < *limit || *limit == UNLIMITED).then_some(link)
    }

    fn look_at(&mut self, link: u32) {
        self.ranks.marking().mark(self.sums[link as usize].rank);
    }

    /// Has what a look at a link reads first fetched, and what it tells.
    #[inline(always)] // once for each link that is looked at
    fn foresee(&self) {
        if let Some(link) = self.ranks.after(LINE_AHEAD) {
            prefetch(&self.sums[link as usize]);
        }
        if let Some(link) = self.ranks.after(LIST_AHEAD) {
            let members = &self.members[link as usize];
            if let Some(first) = members.first_chunk::<{ 64 / size_of::<Member>() }>() {
                prefetch(first);
            } else if let Some(first) = members.first() {
                prefetch(first);
            }
        }
    }

    /// Has a link wait to be filled in order, at this level.
    fn wait(&mut self, link: u32, level: u64) {
        if !std::mem::replace(&mut self.links[link as usize].is_waiting, true) {
            self.in_order.push(Reverse((level, link)));
        }
    }

    /// Adds a flow to a class.
    pub(crate) fn join(&mut self, number: u32) {
        let class = &mut self.classes[number as usize];
        class.flows += 1;
        let is_new = class.flows == 1;
        let ends = match class.path[..] {
            [(a, _), (b, _)] if class.limit == UNLIMITED => Some((a, b)),
            _ => None,
        };
        for hop in 0..class.path.len() {
            let (link, position) = self.classes[number as usize].path[hop];
            let of = &mut self.links[link as usize];
            let members = &mut self.members[link as usize];
            let sums = &mut self.sums[link as usize];
            let other = ends.map_or(MANY, |(a, b)| if a == link { b } else { a });
            let position = if is_new { members.len() } else { position as usize };
            sums.flows += 1;
            if is_new {
                members.push(Member { other, flows: 1 });
                of.classes.push(number);
                of.many += u32::from(other == MANY);
                self.note_position(link, position);
            } else {
                members[position].flows += 1;
            }
            let sums = &mut self.sums[link as usize];
            if other == MANY || u64::from(sums.flows) > self.most {
                sums.forget();
            }
            if sums.is_known {
                let most = Hold::link(self.level(other));
                let level = self.level(link);
                self.sums[link as usize].enter(most, level, 1);
                if is_new && !most.is_below(level) {
                    self.partition(link, position, false);
                }
            }
        }
        self.look_at_path(number);
    }

    /// Takes a flow from a class that has one.
    pub(crate) fn leave(&mut self, number: u32) {
        self.classes[number as usize].flows -= 1;
        let is_empty = self.classes[number as usize].flows == 0;
        for hop in 0..self.classes[number as usize].path.len() {
            let (link, position) = self.classes[number as usize].path[hop];
            let member = &mut self.members[link as usize][position as usize];
            member.flows -= 1;
            let other = member.other;
            let most = self.sums.get(other as usize).map_or(UNLIMITED, |sums| sums.level);
            let sums = &mut self.sums[link as usize];
            sums.flows -= 1;
            if sums.is_known {
                sums.leave(most, sums.level, 1);
            }
            if !is_empty {
                continue;
            }
            let mut position = position as usize;
            if position < sums.growers as usize {
                position = self.partition(link, position, true);
            }
            let of = &mut self.links[link as usize];
            of.many -= u32::from(other == MANY);
            of.classes.swap_remove(position);
            self.members[link as usize].swap_remove(position);
            if position < of.classes.len() {
                self.note_position(link, position);
            }
        }
        self.look_at_path(number);
    }

    /// Puts the member at a position among those that grow or that are held elsewhere, and returns where it
    /// is then.
    fn partition(&mut self, link: u32, position: usize, is_held: bool) -> usize {
        let growers = &mut self.sums[link as usize].growers;
        let place = if is_held { *growers - 1 } else { *growers };
        *growers = if is_held { place } else { place + 1 };
        let place = place as usize;
        if place != position {
            self.members[link as usize].swap(position, place);
            self.links[link as usize].classes.swap(position, place);
            self.note_position(link, position);
            self.note_position(link, place);
        }
        place
    }

    /// Tells the class at a position of a link's list where it is.
    fn note_position(&mut self, link: u32, position: usize) {
        let class = self.links[link as usize].classes[position];
        let path = &mut self.classes[class as usize].path;
        if let Some(hop) = path.iter_mut().find(|hop| hop.0 == link) {
            // There are fewer classes than flows, which a u32 counts.
            hop.1 = u32::try_from(position).unwrap_or(u32::MAX);
        }
    }

    fn look_at_path(&mut self, class: u32) {
        for hop in 0..self.classes[class as usize].path.len() {
            self.look_at(self.classes[class as usize].path[hop].0);
        }
    }

    /// A flow without a class changes its rate on one of its links.
    pub(crate) fn take(&mut self, link: u32, before: u64, after: u64) {
        let of = &mut self.links[link as usize];
        of.taken = of.taken - u128::from(before) + u128::from(after);
        let capacity = u128::from(of.capacity);
        let sums = &mut self.sums[link as usize];
        sums.left = u64::try_from(capacity.saturating_sub(of.taken)).unwrap_or(0);
        sums.fastest = if of.taken == 0 { 0 } else { sums.fastest.max(after) };
        if sums.flows > 0 || of.taken > capacity {
            self.look_at(link);
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.ranks.is_empty() || !self.in_order.is_empty()
    }

    /// The level of a link, the others given; [`UNLIMITED`] when all its flows are held elsewhere. And
    /// whether it is that of the sums: then others are told by the members that grow.
    #[inline(always)] // once for each link that is looked at
    fn fill(&mut self, number: u32) -> (u64, bool) {
        let sums = &self.sums[number as usize];
        if sums.is_known
            && sums.flows > 0
            && let Some(level) = sums.next()
        {
            return (level, true);
        }
        (self.visit(number), false)
    }

    /// The same by a visit to all members.
    fn visit(&mut self, number: u32) -> u64 {
        let sums = &mut self.sums[number as usize];
        let left = sums.left;
        if sums.flows == 0 {
            (sums.growing, sums.held, sums.below) = (0, 0, 0);
            (sums.is_known, sums.growers) = (true, 0);
            let Link { taken, capacity, .. } = self.links[number as usize];
            return if taken <= u128::from(capacity) { UNLIMITED } else { left };
        }
        let level = self.guess(number);
        level.unwrap_or_else(|| self.search(number, left, &[]))
    }

    /// What holds a member of a link elsewhere.
    fn most(&self, number: u32, position: usize) -> Hold {
        let other = self.members[number as usize][position].other;
        if other != MANY {
            return Hold::link(self.level(other));
        }
        let class = &self.classes[self.links[number as usize].classes[position] as usize];
        let others = class.path.iter().filter(|(other, _)| *other != number);
        let most = others.map(|(other, _)| self.level(*other)).min();
        match most {
            Some(most) if most < class.limit || class.limit == UNLIMITED => Hold::link(most),
            _ => Hold::limit(class.limit),
        }
    }

    /// The level of a link by Newton's method, from the level that it had, and its sums. `None` where
    /// it comes so close to what holds a flow elsewhere that rounding decides: the search settles it.
    fn guess(&mut self, number: u32) -> Option<u64> {
        let known = self.sums[number as usize];
        let is_countable =
            self.links[number as usize].many == 0 && u64::from(known.flows) <= self.most;
        let mut level = known.level;
        for _ in 0..GUESSES {
            let mut sums = Sums { held: 0, growing: 0, below: 0, ..known };
            let (mut held, mut above) = (0, UNLIMITED);
            for (position, member) in self.members[number as usize].iter().enumerate() {
                let most = self.most(number, position);
                if most.is_below(level) {
                    held += u128::from(most.rate) * u128::from(member.flows);
                } else {
                    above = above.min(most.up_to);
                }
                sums.enter(most, level, member.flows);
            }
            // Below 2⁶⁴, or the sums say nothing.
            let held = u64::try_from(held).ok()?;
            if let Some(next) = sums.next().filter(|next| *next <= above) {
                sums.forget();
                self.sums[number as usize] = sums;
                if is_countable {
                    self.divide(number, level);
                }
                return Some(next);
            }
            level = sums.left.checked_sub(held)?.checked_div(u64::from(sums.growing))?;
        }
        None
    }

    /// Puts members that grow at this level first. From then on sums are followed.
    fn divide(&mut self, number: u32, level: u64) {
        for position in 0..self.members[number as usize].len() {
            let Member { other, .. } = self.members[number as usize][position];
            if self.level(other) >= level {
                self.partition(number, position, false);
            }
        }
        self.sums[number as usize].is_known = true;
    }

    /// The level of a link that has so much left for its classes and for flows without one that have
    /// these rates, from below.
    fn search(&mut self, number: u32, mut left: u64, alone: &[u64]) -> u64 {
        self.sums[number as usize].forget();
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        let members = self.members[number as usize].iter().enumerate();
        held.extend(
            members.map(|(position, of)| (self.most(number, position), u64::from(of.flows))),
        );
        held.extend(alone.iter().map(|rate| (Hold::limit(*rate), 1)));
        let mut growing = u64::from(self.sums[number as usize].flows) + alone.len() as u64;
        let level = loop {
            if growing == 0 {
                break UNLIMITED;
            }
            let level = left / growing;
            let before = growing;
            held.retain(|&(most, flows)| {
                let stays = !most.is_below(level);
                if !stays {
                    left -= most.rate * flows;
                    growing -= flows;
                }
                stays
            });
            if growing == before {
                break level;
            }
        };
        self.held = held;
        level
    }

    /// Recomputes the levels that the changes since the last time touch. Stops at a link where
    /// flows without a class may be too fast: [`Shares::fill_with`] is to be called for it, then this
    /// again.
    pub(crate) fn recompute(&mut self) -> Option<u32> {
        let mut patience = self.patience;
        while !self.is_in_order
            && let Some(number) = self.ranks.take()
        {
            if patience == 0 {
                self.begin_anew();
                break;
            }
            patience -= 1;
            self.foresee();
            let (level, is_kept) = self.fill(number);
            let sums = &mut self.sums[number as usize];
            if sums.fastest > level {
                // The sums are of a level that the link doesn't get.
                sums.forget();
                return Some(number);
            }
            self.set_level(number, level, is_kept);
        }
        if self.is_in_order {
            return self.recompute_in_order();
        }
        if self.ranks.are_stale() {
            let sums = &mut self.sums;
            self.ranks.sort(|link| sums[link as usize].level);
            for (rank, link) in self.ranks.links() {
                sums[link as usize].rank = rank;
            }
        }
        None
    }

    /// The same after [`Shares::begin_anew`].
    #[cold]
    fn recompute_in_order(&mut self) -> Option<u32> {
        loop {
            while let Some(link) = self.ranks.take() {
                self.wait(link, 0);
            }
            let Some(Reverse((least, number))) = self.in_order.pop() else { break };
            self.links[number as usize].is_waiting = false;
            self.least = least;
            let (level, _) = self.fill(number);
            // The sums may be of a level that the link doesn't get.
            let sums = &mut self.sums[number as usize];
            sums.forget();
            let is_too_fast = sums.fastest > level;
            if level > least {
                self.wait(number, level);
                continue;
            }
            if is_too_fast {
                return Some(number);
            }
            self.set_level(number, level, false);
        }
        self.is_in_order = false;
        None
    }

    /// Forgets all levels: from here on links are filled from the lowest level upwards. Each is right when
    /// its turn comes, as it depends on lower ones only; so none changes again, and it ends.
    ///
    /// Corrections end as well: of the links that they come back to, the lowest has its level the first
    /// time. But nothing bounds how often they come back.
    fn begin_anew(&mut self) {
        self.is_in_order = true;
        self.ranks.clear();
        for number in 0..u32::try_from(self.links.len()).unwrap_or(u32::MAX) {
            let sums = &mut self.sums[number as usize];
            sums.forget();
            let before = std::mem::replace(&mut sums.level, UNLIMITED);
            if before != UNLIMITED && !std::mem::replace(&mut sums.is_changed, true) {
                self.changed.push(number);
            }
            self.look_at(number);
        }
        for number in 0..u32::try_from(self.classes.len()).unwrap_or(u32::MAX) {
            if self.classes[number as usize].flows > 0 {
                self.mark(number);
            }
        }
    }

    /// What is asked of a link that is to be looked at, in words.
    pub(crate) fn case(&mut self) -> String {
        let in_order = self.in_order.peek().map(|Reverse((_, link))| *link);
        let Some(number) = in_order.or_else(|| self.ranks.first()) else { return String::new() };
        let Link { capacity, taken, .. } = &self.links[number as usize];
        let Sums { level, fastest, .. } = self.sums[number as usize];
        let members: Vec<String> = (self.members[number as usize].iter().enumerate().take(16))
            .map(|(position, member)| {
                let Hold { rate, .. } = self.most(number, position);
                format!("{} held to {rate}", member.flows)
            })
            .collect();
        format!(
            "link {number} of capacity {capacity}, level {level}, taken by flows alone {taken} (the fastest \
             {fastest}), classes: [{}]; in units of 2^-{FRACTION} bit/s",
            members.join(", ")
        )
    }

    /// Fills a link whose flows without a class have these rates, each of them looked at. If some are
    /// too fast, its level stays and is returned: those faster are to get a class.
    pub(crate) fn fill_with(&mut self, number: u32, alone: &[u64]) -> Option<u64> {
        let level = self.search(number, self.links[number as usize].capacity, alone);
        if self.is_in_order && level > self.least {
            self.wait(number, level);
            return None;
        }
        let fastest = alone.iter().copied().max().unwrap_or(0);
        let is_too_fast = fastest > level;
        let slower = alone.iter().copied().filter(|rate| *rate <= level).max().unwrap_or(0);
        self.sums[number as usize].fastest = slower;
        if is_too_fast {
            self.look_at(number);
            return Some(level);
        }
        self.set_level(number, level, false);
        None
    }

    /// Gives a link a level and tells the other links of its members: of those that grow, if the sums were
    /// known and are (the level of no other member falls behind the link's then), else of all.
    #[inline(always)] // once for each link that is filled
    fn set_level(&mut self, number: u32, level: u64, is_kept: bool) {
        let sums = &mut self.sums[number as usize];
        let before = std::mem::replace(&mut sums.level, level);
        if before == level {
            return;
        }
        if !std::mem::replace(&mut sums.is_changed, true) {
            self.changed.push(number);
        }
        let growers = sums.growers as usize;
        let members = std::mem::take(&mut self.members[number as usize]);
        let count = if is_kept { growers } else { members.len() };
        let (low, high) = (before.min(level), before.max(level));
        let change = level.wrapping_sub(before);
        let mut marking = self.ranks.marking();
        for (position, &Member { other, flows }) in members[..count].iter().enumerate() {
            if let Some(sums) = self.sums.get_mut(other as usize)
                && sums.level > high
            {
                sums.held = sums.held.wrapping_add(change.wrapping_mul(u64::from(flows)));
                sums.below = sums.below.max(level);
                marking.mark(sums.rank);
            } else if self.sums.get(other as usize).is_none_or(|sums| sums.level >= low) {
                self.crossed.push(self.links[number as usize].classes[position]);
            }
        }
        drop(marking);
        self.members[number as usize] = members;
        if !self.crossed.is_empty() {
            self.cross(number, before, level, is_kept);
        }
    }

    /// Tells of the classes noted in `crossed`: another link's level is passed or met, or they have several.
    #[cold]
    fn cross(&mut self, number: u32, before: u64, level: u64, is_kept: bool) {
        let mut crossed = std::mem::take(&mut self.crossed);
        for class in crossed.drain(..) {
            let Class { path, limit, .. } = &self.classes[class as usize];
            let other = match path[..] {
                [(a, _), (b, _)] if *limit == UNLIMITED => {
                    if a == number {
                        b
                    } else {
                        a
                    }
                }
                _ => {
                    self.tell_many(number, class, before, level);
                    continue;
                }
            };
            let own = self.level(other);
            if before.cmp(&own) != level.cmp(&own) {
                self.mark(class);
            }
            self.recount(other, class, (before, own), (level, own));
            if is_kept && self.recount(number, class, (own, before), (own, level)) {
                // The level isn't that of the sums any more.
                self.look_at(number);
            }
            if before.min(own) != level.min(own) {
                self.look_at(other);
            }
        }
        self.crossed = crossed;
    }

    /// Counts a class of a link as the levels, of its other link and of this one, are now instead of as they
    /// were. Returns whether it is held elsewhere where it wasn't, or the other way round.
    fn recount(&mut self, link: u32, class: u32, before: (u64, u64), now: (u64, u64)) -> bool {
        if !self.sums[link as usize].is_known {
            return false;
        }
        let path = &self.classes[class as usize].path;
        let position = path.iter().find(|hop| hop.0 == link).map_or(0, |hop| hop.1 as usize);
        let flows = self.members[link as usize][position].flows;
        let sums = &mut self.sums[link as usize];
        sums.leave(before.0, before.1, flows);
        sums.enter(Hold::link(now.0), now.1, flows);
        let (was_held, is_held) = (before.0 < before.1, now.0 < now.1);
        if was_held != is_held {
            self.partition(link, position, is_held);
        }
        was_held != is_held
    }

    fn tell_many(&mut self, number: u32, class: u32, before: u64, level: u64) {
        self.mark(class);
        for hop in 0..self.classes[class as usize].path.len() {
            let (other, _) = self.classes[class as usize].path[hop];
            let own = self.level(other);
            if other != number && before.min(own) != level.min(own) {
                self.look_at(other);
            }
        }
    }

    /// Another link may hold the class back.
    fn mark(&mut self, class: u32) {
        if !std::mem::replace(&mut self.classes[class as usize].is_moved, true) {
            self.moved.push(class);
        }
    }

    /// Appends the links whose level has changed, which are forgotten.
    pub(crate) fn take_changed(&mut self, changed: &mut Vec<u32>) {
        for link in self.changed.drain(..) {
            self.sums[link as usize].is_changed = false;
            changed.push(link);
        }
    }
}
