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

use units::Rate;

/// Fractional bits of a rate.
const FRACTION: u32 = 16;
/// A class without limit; a link that holds no flow back.
pub(crate) const UNLIMITED: u64 = u64::MAX;
/// A path that is longer than two links, or a class with a limit.
const MANY: u32 = u32::MAX;
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

/// A class in the list of a link.
#[derive(Clone, Copy, Debug)]
struct Member {
    class: u32,
    /// The only other link of its path, or [`MANY`].
    other: u32,
    flows: u32,
}

/// Sums over a link's flows, kept up to date as the levels of other links change. Mostly the same
/// flows stay limited elsewhere, and these sums give the link's level without a visit to each.
#[derive(Clone, Copy, Debug)]
struct Sums {
    /// Taken by flows that are held elsewhere, below the link's level.
    held: u64,
    /// The flows that aren't, and all flows.
    growing: u64,
    flows: u64,
    /// None of the former is faster than `below`; none of the latter is held elsewhere up to `above`.
    below: u64,
    above: u64,
    /// What flows without a class left when the link was filled last.
    left: u64,
    /// Classes whose other links aren't known at a glance.
    many: u32,
    /// Whether `held` to `above` are right.
    is_known: bool,
    is_queued: bool,
}

impl Sums {
    const NONE: Self = Self {
        held: 0,
        growing: 0,
        flows: 0,
        below: 0,
        above: UNLIMITED,
        left: 0,
        many: 0,
        is_known: true,
        is_queued: false,
    };

    /// So many flows that others hold to `most` count, where the link's level is `level`.
    fn enter(&mut self, most: Hold, level: u64, flows: u64) {
        if most.is_below(level) {
            self.held = self.held.wrapping_add(most.rate.wrapping_mul(flows));
            self.below = self.below.max(most.rate);
        } else {
            self.growing += flows;
            self.above = self.above.min(most.up_to);
        }
    }

    /// These count no longer.
    fn leave(&mut self, most: u64, level: u64, flows: u64) {
        if most < level {
            self.held = self.held.wrapping_sub(most.wrapping_mul(flows));
        } else {
            self.growing -= flows;
        }
    }

    /// Whether all flows are held elsewhere, and leave a unit for each.
    fn is_free(&self) -> bool {
        self.is_known && self.growing == 0 && self.held.saturating_add(self.flows) <= self.left
    }

    /// The level that follows from the sums. `None` if it is so close to a flow's bottleneck
    /// elsewhere that each flow must be visited.
    fn level(&self) -> Option<u64> {
        if self.is_free() {
            return Some(UNLIMITED);
        }
        let spare = self.left.checked_sub(self.held).filter(|_| self.is_known)?;
        let next = spare.checked_div(self.growing)?;
        (self.below.saturating_add(self.flows) < next && next <= self.above).then_some(next)
    }
}

#[derive(Debug)]
struct Link {
    capacity: u64,
    /// Taken by flows without a class.
    taken: u128,
    /// No flow without a class is faster.
    fastest: u64,
    /// Classes that have flows.
    members: Vec<Member>,
    is_changed: bool,
}

/// The shares.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    links: Vec<Link>,
    levels: Vec<u64>,
    sums: Vec<Sums>,
    /// Sums count no more flows than this, so that they stay below 2⁶⁴.
    most: u64,
    classes: Vec<Class>,
    /// Links to look at, the lowest level first.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// How many may be looked at in a row before all are filled from nothing, in order of their levels.
    pub(crate) patience: u64,
    is_in_order: bool,
    /// The level that the link was queued with that was taken last.
    least: u64,
    /// Links whose level the last recomputation changed.
    pub(crate) changed: Vec<u32>,
    /// Classes that another link may hold back since.
    moved: Vec<u32>,
    /// Flows and what holds them elsewhere, of the link that is being filled.
    held: Vec<(Hold, u64)>,
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
            fastest: 0,
            members: Vec::new(),
            is_changed: false,
        };
        let links: Vec<Link> = capacities.map(link).collect();
        let (levels, sums) = (vec![UNLIMITED; links.len()], vec![Sums::NONE; links.len()]);
        let widest = links.iter().map(|link| link.capacity).max();
        let most = UNLIMITED / 2 / widest.unwrap_or(1).max(1);
        let patience = PATIENCE * (links.len() as u64 + 64);
        Self { links, levels, sums, most, patience, ..Self::default() }
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
        self.levels[link as usize]
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
        let level = |link: u32| self.levels[link as usize];
        let (first, _) = path.iter().copied().min_by_key(|(link, _)| level(*link))?;
        let lowest = level(first);
        let stays = path.iter().any(|(link, _)| *link == before) && level(before) == lowest;
        let link = if stays { before } else { first };
        (lowest < *limit || *limit == UNLIMITED).then_some(link)
    }

    #[inline(always)] // mostly it is queued
    fn look_at(&mut self, link: u32) {
        if !std::mem::replace(&mut self.sums[link as usize].is_queued, true) {
            let level = if self.is_in_order { 0 } else { self.levels[link as usize] };
            self.queue.push(Reverse((level, link)));
        }
    }

    /// Adds a flow to a class.
    pub(crate) fn join(&mut self, number: u32) {
        let class = &mut self.classes[number as usize];
        class.flows += 1;
        let ends = match class.path[..] {
            [(a, _), (b, _)] if class.limit == UNLIMITED => Some((a, b)),
            _ => None,
        };
        for (link, position) in &mut class.path {
            let of = &mut self.links[*link as usize];
            let sums = &mut self.sums[*link as usize];
            let other = ends.map_or(MANY, |(a, b)| if a == *link { b } else { a });
            sums.flows += 1;
            if class.flows == 1 {
                // There are fewer classes than flows, which a u32 counts.
                *position = u32::try_from(of.members.len()).unwrap_or(u32::MAX);
                of.members.push(Member { class: number, other, flows: 1 });
                sums.many += u32::from(other == MANY);
            } else {
                of.members[*position as usize].flows += 1;
            }
            sums.is_known &= other != MANY && sums.flows <= self.most;
            if sums.is_known {
                let most = Hold::link(self.levels[other as usize]);
                sums.enter(most, self.levels[*link as usize], 1);
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
            let of = &mut self.links[link as usize];
            let sums = &mut self.sums[link as usize];
            let member = &mut of.members[position as usize];
            sums.flows -= 1;
            member.flows -= 1;
            let other = member.other;
            if sums.is_known {
                sums.leave(self.levels[other as usize], self.levels[link as usize], 1);
            }
            if !is_empty {
                continue;
            }
            sums.many -= u32::from(other == MANY);
            of.members.swap_remove(position as usize);
            if let Some(moved) = of.members.get(position as usize) {
                let path = &mut self.classes[moved.class as usize].path;
                if let Some(hop) = path.iter_mut().find(|hop| hop.0 == link) {
                    hop.1 = position;
                }
            }
        }
        self.look_at_path(number);
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
        of.fastest = of.fastest.max(after);
        if of.taken == 0 {
            of.fastest = 0;
        }
        if !of.members.is_empty() || of.taken > u128::from(of.capacity) {
            self.look_at(link);
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The level of a link, the others given; [`UNLIMITED`] when all its flows are held elsewhere.
    #[inline(always)] // once for each link that is looked at
    fn fill(&mut self, number: u32) -> u64 {
        let link = &self.links[number as usize];
        let capacity = u128::from(link.capacity);
        let left = u64::try_from(capacity.saturating_sub(link.taken)).unwrap_or(0);
        let sums = &mut self.sums[number as usize];
        sums.left = left;
        if link.members.is_empty() {
            (sums.growing, sums.held, sums.below, sums.above) = (0, 0, 0, UNLIMITED);
            sums.is_known = true;
            return if link.taken <= capacity { UNLIMITED } else { left };
        }
        let level = sums.level().or_else(|| self.guess(number));
        level.unwrap_or_else(|| self.search(number, left, &[]))
    }

    /// What holds a member of a link elsewhere.
    fn most(&self, number: u32, member: &Member) -> Hold {
        if member.other != MANY {
            return Hold::link(self.levels[member.other as usize]);
        }
        let class = &self.classes[member.class as usize];
        let others = class.path.iter().filter(|(other, _)| *other != number);
        let most = others.map(|(other, _)| self.levels[*other as usize]).min();
        match most {
            Some(most) if most < class.limit || class.limit == UNLIMITED => Hold::link(most),
            _ => Hold::limit(class.limit),
        }
    }

    /// The level of a link by Newton's method, from the level that it had, and its sums. `None` where
    /// it comes so close to what holds a flow elsewhere that rounding decides: the search settles it.
    fn guess(&mut self, number: u32) -> Option<u64> {
        let link = &self.links[number as usize];
        let sums = &self.sums[number as usize];
        let is_known = sums.many == 0 && sums.flows <= self.most;
        let mut level = self.levels[number as usize];
        for _ in 0..GUESSES {
            let mut sums = Sums { held: 0, growing: 0, below: 0, above: UNLIMITED, ..*sums };
            let mut held = 0;
            for member in &link.members {
                let (most, flows) = (self.most(number, member), u64::from(member.flows));
                if most.is_below(level) {
                    held += u128::from(most.rate) * u128::from(flows);
                }
                sums.enter(most, level, flows);
            }
            // Told from them now; kept if all changes can be followed.
            sums.is_known = u128::from(sums.held) == held;
            if let Some(level) = sums.level() {
                self.sums[number as usize] = Sums { is_known, ..sums };
                return Some(level);
            }
            level = sums.left.checked_sub(u64::try_from(held).ok()?)?.checked_div(sums.growing)?;
        }
        None
    }

    /// The level of a link that has so much left for its classes and for flows without one that have
    /// these rates, from below.
    fn search(&mut self, number: u32, mut left: u64, alone: &[u64]) -> u64 {
        self.sums[number as usize].is_known = false;
        let mut held = std::mem::take(&mut self.held);
        let link = &self.links[number as usize];
        held.clear();
        held.extend(
            link.members.iter().map(|member| (self.most(number, member), u64::from(member.flows))),
        );
        held.extend(alone.iter().map(|rate| (Hold::limit(*rate), 1)));
        let mut growing = self.sums[number as usize].flows + alone.len() as u64;
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
            && let Some(Reverse((_, number))) = self.queue.pop()
        {
            if patience == 0 {
                self.begin_anew();
                break;
            }
            patience -= 1;
            self.sums[number as usize].is_queued = false;
            let level = self.fill(number);
            if self.links[number as usize].fastest > level {
                // The sums are of a level that the link doesn't get.
                self.sums[number as usize].is_known = false;
                return Some(number);
            }
            self.set_level(number, level);
        }
        self.recompute_in_order()
    }

    /// The same after [`Shares::begin_anew`].
    #[cold]
    fn recompute_in_order(&mut self) -> Option<u32> {
        while let Some(Reverse((least, number))) = self.queue.pop() {
            self.sums[number as usize].is_queued = false;
            self.least = least;
            let level = self.fill(number);
            if level > least {
                queue(&mut self.sums, &mut self.queue, number, level);
                continue;
            }
            if self.links[number as usize].fastest > level {
                self.sums[number as usize].is_known = false;
                return Some(number);
            }
            self.set_level(number, level);
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
        self.queue.clear();
        for number in 0..u32::try_from(self.links.len()).unwrap_or(u32::MAX) {
            let (link, sums) = (&mut self.links[number as usize], &mut self.sums[number as usize]);
            (sums.is_known, sums.is_queued) = (false, false);
            let before = std::mem::replace(&mut self.levels[number as usize], UNLIMITED);
            if before != UNLIMITED && !std::mem::replace(&mut link.is_changed, true) {
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
    pub(crate) fn case(&self) -> String {
        let Some(&Reverse((level, number))) = self.queue.peek() else { return String::new() };
        let Link { capacity, taken, fastest, members, .. } = &self.links[number as usize];
        let members: Vec<String> = members
            .iter()
            .take(16)
            .map(|member| {
                let Hold { rate, .. } = self.most(number, member);
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
            queue(&mut self.sums, &mut self.queue, number, level);
            return None;
        }
        let fastest = alone.iter().copied().max().unwrap_or(0);
        let is_too_fast = fastest > level;
        let slower = alone.iter().copied().filter(|rate| *rate <= level).max().unwrap_or(0);
        self.links[number as usize].fastest = slower;
        if is_too_fast {
            self.look_at(number);
            return Some(level);
        }
        self.set_level(number, level);
        None
    }

    #[inline(always)] // once for each link that is filled
    fn set_level(&mut self, number: u32, level: u64) {
        let before = std::mem::replace(&mut self.levels[number as usize], level);
        if before == level {
            return;
        }
        let link = &mut self.links[number as usize];
        if !std::mem::replace(&mut link.is_changed, true) {
            self.changed.push(number);
        }
        let members = std::mem::take(&mut link.members);
        for member in &members {
            self.tell(number, member, before, level);
        }
        self.links[number as usize].members = members;
    }

    /// Queues the other links of a member if the change of level affects them.
    #[inline(always)] // once for each class that a link shares with others
    fn tell(&mut self, number: u32, member: &Member, before: u64, level: u64) {
        let Member { class, other, flows } = *member;
        if other == MANY {
            self.tell_many(number, class, before, level);
            return;
        }
        let flows = u64::from(flows);
        let own = self.levels[other as usize];
        let sums = &mut self.sums[other as usize];
        if before < own && level < own {
            sums.held = sums.held.wrapping_add(level.wrapping_sub(before).wrapping_mul(flows));
            sums.below = sums.below.max(level);
        } else if before > own && level > own {
            sums.above = sums.above.min(level);
            return;
        } else {
            if sums.is_known {
                sums.leave(before, own, flows);
                sums.enter(Hold::link(level), own, flows);
            }
            if before.cmp(&own) != level.cmp(&own) {
                self.mark(class);
            }
            if before.min(own) == level.min(own) {
                return;
            }
        }
        if own != UNLIMITED || !self.sums[other as usize].is_free() {
            self.look_at(other);
        }
    }

    fn tell_many(&mut self, number: u32, class: u32, before: u64, level: u64) {
        self.mark(class);
        for hop in 0..self.classes[class as usize].path.len() {
            let (other, _) = self.classes[class as usize].path[hop];
            let own = self.levels[other as usize];
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

    /// The links whose level has changed, which are forgotten.
    pub(crate) fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        for link in &changed {
            self.links[*link as usize].is_changed = false;
        }
        changed
    }
}

/// Queues a link of this level.
fn queue(sums: &mut [Sums], queue: &mut BinaryHeap<Reverse<(u64, u32)>>, link: u32, level: u64) {
    if !std::mem::replace(&mut sums[link as usize].is_queued, true) {
        queue.push(Reverse((level, link)));
    }
}
