//! Max-min fair shares of links among classes of flows, recomputed where something changed.
//!
//! Every link has a *level*: the rate of its flows that no other link and no limit holds below it;
//! none, if all are held elsewhere. A flow's rate is the least of its limit and its links' levels.
//! The levels are max-min fair exactly if each follows from the others it meets: with the others
//! given, a link is filled by its flows, each up to what holds it elsewhere. As a level depends on
//! lower ones only, a change spreads upwards from link to link and dies out where it makes no
//! difference; what isn't reached isn't looked at. (Bertsekas and Gallager, Data Networks, section
//! 6.5.2; the view by levels is that of distributed algorithms for it.)
//!
//! Flows whose limit is below the levels of all their links need no class: they only take room.

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
}

/// A class in the list of a link.
#[derive(Clone, Copy, Debug)]
struct Member {
    class: u32,
    /// The only other link of its path, or [`MANY`].
    other: u32,
    /// Whether this is the link that holds the class back.
    holds: bool,
    flows: u32,
}

#[derive(Debug)]
struct Link {
    capacity: u64,
    /// Taken by flows without a class.
    taken: u128,
    /// No flow without a class is faster.
    fastest: u64,
    /// Classes that have flows, and their flows.
    members: Vec<Member>,
    flows: u64,
    is_queued: bool,
    is_changed: bool,
}

/// The shares.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    links: Vec<Link>,
    levels: Vec<u64>,
    /// Of links without a level: what is left beyond a unit for each flow, while nothing changes but
    /// the levels of others. As long as it isn't below zero no level is needed.
    spares: Vec<i64>,
    classes: Vec<Class>,
    /// Links to look at, the lowest level first.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Links whose level the last recomputation changed.
    pub(crate) changed: Vec<u32>,
    /// Flows and what holds them elsewhere, of the link that is being filled.
    held: Vec<(u64, u64)>,
}

/// A link on which flows without a class are faster than its level allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooFast {
    pub(crate) link: u32,
    /// Those faster than this are to get a class.
    pub(crate) level: u64,
}

impl Shares {
    pub(crate) fn new(capacities: impl Iterator<Item = Rate>) -> Self {
        let link = |capacity| Link {
            capacity: fixed(capacity),
            taken: 0,
            fastest: 0,
            members: Vec::new(),
            flows: 0,
            is_queued: false,
            is_changed: false,
        };
        let links: Vec<Link> = capacities.map(link).collect();
        let (levels, spares) = (vec![UNLIMITED; links.len()], vec![0; links.len()]);
        Self { links, levels, spares, ..Self::default() }
    }

    /// Sets path and limit of the class at `place`, which has no flows, or adds it at the end.
    pub(crate) fn set(&mut self, place: usize, path: impl Iterator<Item = u32>, limit: u64) {
        let class = Class { path: path.map(|link| (link, 0)).collect(), limit, flows: 0 };
        match self.classes.get_mut(place) {
            Some(old) => *old = class,
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

    /// Appends the classes of a link that it holds back and didn't, or the other way round, and those
    /// of which that isn't known at a glance.
    pub(crate) fn moved(&self, link: u32, moved: &mut Vec<u32>) {
        let level = self.levels[link as usize];
        for member in &self.links[link as usize].members {
            let holds = |other: u64| level < other || level == other && member.holds;
            if member.other == MANY || holds(self.levels[member.other as usize]) != member.holds {
                moved.push(member.class);
            }
        }
    }

    /// Says which link holds a class back.
    pub(crate) fn hold(&mut self, class: u32, by: u32) {
        for &(link, position) in &self.classes[class as usize].path {
            if let Some(member) = self.links[link as usize].members.get_mut(position as usize) {
                member.holds = link == by;
            }
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

    fn look_at(&mut self, link: u32) {
        queue(&mut self.links, &mut self.queue, link, self.levels[link as usize]);
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
            of.flows += 1;
            if class.flows == 1 {
                let other = ends.map_or(MANY, |(a, b)| if a == *link { b } else { a });
                // There are fewer classes than flows, which a u32 counts.
                *position = u32::try_from(of.members.len()).unwrap_or(u32::MAX);
                of.members.push(Member { class: number, other, holds: false, flows: 1 });
            } else {
                of.members[*position as usize].flows += 1;
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
            of.flows -= 1;
            of.members[position as usize].flows -= 1;
            if !is_empty {
                continue;
            }
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

    /// Says that no flow without a class is faster than this.
    pub(crate) fn set_fastest(&mut self, link: u32, fastest: u64) {
        self.links[link as usize].fastest = fastest;
        self.look_at(link);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The level of a link, the others given; [`UNLIMITED`] when all its flows are held elsewhere.
    fn fill(&mut self, number: u32) -> u64 {
        let link = &self.links[number as usize];
        let capacity = u128::from(link.capacity);
        let left = u64::try_from(capacity.saturating_sub(link.taken)).unwrap_or(0);
        if link.members.is_empty() {
            return if link.taken <= capacity { UNLIMITED } else { left };
        }
        let (level, spare) =
            self.guess(number, left).unwrap_or_else(|| self.search(number, left));
        let spare = i64::try_from(spare).unwrap_or(i64::MAX);
        self.spares[number as usize] = spare.saturating_sub_unsigned(self.links[number as usize].flows);
        level
    }

    /// What holds a member of a link elsewhere.
    fn most(&self, number: u32, member: &Member) -> u64 {
        if member.other != MANY {
            return self.levels[member.other as usize];
        }
        let class = &self.classes[member.class as usize];
        let others = class.path.iter().filter(|(other, _)| *other != number);
        let most = others.map(|(other, _)| self.levels[*other as usize]);
        most.fold(class.limit, u64::min)
    }

    /// The level of a link that has so much left by Newton's method, from the level that it had.
    /// Mostly the same flows are held elsewhere as before, and one look is enough. `None` where it
    /// comes so close to what holds a flow elsewhere that rounding decides: the search settles it.
    fn guess(&self, number: u32, left: u64) -> Option<(u64, u64)> {
        let link = &self.links[number as usize];
        let mut level = self.levels[number as usize];
        for _ in 0..GUESSES {
            let (mut taken, mut growing) = (0, 0);
            let (mut below, mut above) = (0, UNLIMITED);
            for member in &link.members {
                let most = self.most(number, member);
                if most < level {
                    taken += u128::from(most) * u128::from(member.flows);
                    below = below.max(most);
                } else {
                    growing += u64::from(member.flows);
                    above = above.min(most);
                }
            }
            let spare = left.checked_sub(u64::try_from(taken).ok()?)?;
            match spare.checked_div(growing) {
                None => return (spare >= link.flows).then_some((UNLIMITED, spare)),
                Some(next) if below.saturating_add(link.flows) < next && next <= above => {
                    return Some((next, spare));
                }
                Some(next) => level = next,
            }
        }
        None
    }

    /// The level of a link that has so much left, from below.
    fn search(&mut self, number: u32, mut left: u64) -> (u64, u64) {
        let mut held = std::mem::take(&mut self.held);
        let link = &self.links[number as usize];
        held.clear();
        held.extend(
            link.members.iter().map(|member| (self.most(number, member), u64::from(member.flows))),
        );
        let mut growing = link.flows;
        let level = loop {
            let level = left / growing;
            let before = growing;
            held.retain(|&(most, flows)| {
                let stays = most >= level;
                if !stays {
                    left -= most * flows;
                    growing -= flows;
                }
                stays
            });
            if growing == 0 {
                break UNLIMITED;
            }
            if growing == before {
                break level;
            }
        };
        self.held = held;
        (level, left)
    }

    /// Recomputes the levels that the changes since the last time touch. Stops at a link where
    /// flows without a class are too fast: they are to get one, and it is to be called again.
    pub(crate) fn recompute(&mut self) -> Option<TooFast> {
        while let Some(Reverse((_, number))) = self.queue.pop() {
            self.links[number as usize].is_queued = false;
            let level = self.fill(number);
            let link = &mut self.links[number as usize];
            if link.fastest > level {
                link.is_queued = true;
                self.queue.push(Reverse((level, number)));
                return Some(TooFast { link: number, level });
            }
            let before = std::mem::replace(&mut self.levels[number as usize], level);
            if before == level {
                continue;
            }
            if !std::mem::replace(&mut link.is_changed, true) {
                self.changed.push(number);
            }
            let members = std::mem::take(&mut self.links[number as usize].members);
            for member in &members {
                self.tell(number, member, before, level);
            }
            self.links[number as usize].members = members;
        }
        None
    }

    /// Has the other links of a member looked at if the change of level makes them a difference.
    #[inline(always)] // once for each class that a link shares with others
    fn tell(&mut self, number: u32, member: &Member, before: u64, level: u64) {
        let Member { other, flows, .. } = *member;
        if other == MANY {
            let path = &self.classes[member.class as usize].path;
            for &(other, _) in path.iter().filter(|(other, _)| *other != number) {
                let own = self.levels[other as usize];
                if before.min(own) != level.min(own) {
                    queue(&mut self.links, &mut self.queue, other, own);
                }
            }
            return;
        }
        let own = self.levels[other as usize];
        if own == UNLIMITED && before != UNLIMITED && level != UNLIMITED {
            let spare = &mut self.spares[other as usize];
            let change = before.wrapping_sub(level).cast_signed().checked_mul(i64::from(flows));
            let left = change.and_then(|change| spare.checked_add(change));
            // Below zero or unknown: it is to be filled anew.
            *spare = left.unwrap_or(-1);
            if *spare >= 0 {
                return;
            }
        }
        if before.min(own) != level.min(own) {
            queue(&mut self.links, &mut self.queue, other, own);
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

/// Has a link of this level looked at.
fn queue(links: &mut [Link], queue: &mut BinaryHeap<Reverse<(u64, u32)>>, link: u32, level: u64) {
    if !std::mem::replace(&mut links[link as usize].is_queued, true) {
        queue.push(Reverse((level, link)));
    }
}
