//! Max-min fair shares of links among classes of flows, recomputed where something changed.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use units::Rate;

/// Fractional bits of a rate.
const FRACTION: u32 = 16;
/// A class without limit.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// The rate in units of 2⁻¹⁶ bit/s; from 2⁴⁸ bit/s on it saturates.
pub(crate) const fn fixed(rate: Rate) -> u64 {
    rate.as_bps().saturating_mul(1 << FRACTION)
}

/// Octets in units of 2⁻¹⁶ bit/s times nanoseconds.
pub(crate) fn work(octets: u64) -> u128 {
    u128::from(octets) * (8_000_000_000 << FRACTION)
}

/// The flows of equal path and limit, which have equal rates.
#[derive(Debug)]
struct Member {
    /// Links of the path, with the position of the class in their lists while it has flows.
    path: Vec<(u32, u32)>,
    limit: u64,
    flows: u64,
    rate: u64,
    /// Recomputation that last gathered or settled the class.
    gathered: u32,
    settled: u32,
}

#[derive(Debug)]
struct Link {
    capacity: u64,
    /// Classes that have flows.
    members: Vec<u32>,
    left: u64,
    growing: u64,
    gathered: u32,
}

/// The shares.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    links: Vec<Link>,
    classes: Vec<Member>,
    /// Links on which something changed.
    dirty: Vec<u32>,
    round: u32,
    /// Classes with a limit in the component being recomputed, by limit.
    limited: Vec<(u64, u32)>,
    queue: BinaryHeap<Reverse<(Level, u32)>>,
    /// Classes whose rate the last recomputation changed, with the rate before.
    pub(crate) changed: Vec<(u32, u64)>,
}

impl Shares {
    pub(crate) fn new(capacities: impl Iterator<Item = Rate>) -> Self {
        let link = |capacity| Link {
            capacity: fixed(capacity),
            members: Vec::new(),
            left: 0,
            growing: 0,
            gathered: 0,
        };
        Self { links: capacities.map(link).collect(), ..Self::default() }
    }

    /// Sets path and limit of the class at `place`, which has no flows, or adds it at the end.
    pub(crate) fn set(&mut self, place: usize, path: impl Iterator<Item = u32>, limit: u64) {
        let path = path.map(|link| (link, 0)).collect();
        let member = Member { path, limit, flows: 0, rate: 0, gathered: 0, settled: 0 };
        match self.classes.get_mut(place) {
            Some(old) => *old = member,
            None => self.classes.push(member),
        }
    }

    pub(crate) fn rate(&self, class: u32) -> u64 {
        self.classes[class as usize].rate
    }

    pub(crate) fn flows(&self, class: u32) -> u64 {
        self.classes[class as usize].flows
    }

    pub(crate) fn path(&self, class: u32) -> impl Iterator<Item = u32> {
        self.classes[class as usize].path.iter().map(|(link, _)| *link)
    }

    /// Adds a flow to a class.
    pub(crate) fn join(&mut self, class: u32) {
        let member = &mut self.classes[class as usize];
        member.flows += 1;
        for (link, position) in &mut member.path {
            if member.flows == 1 {
                let members = &mut self.links[*link as usize].members;
                // There are fewer classes than flows, which a u32 counts.
                *position = u32::try_from(members.len()).unwrap_or(u32::MAX);
                members.push(class);
            }
            self.dirty.push(*link);
        }
    }

    /// Takes a flow from a class that has one.
    pub(crate) fn leave(&mut self, class: u32) {
        let member = &mut self.classes[class as usize];
        member.flows -= 1;
        let empty = member.flows == 0;
        if empty {
            member.rate = 0;
        }
        for hop in 0..self.classes[class as usize].path.len() {
            let (link, position) = self.classes[class as usize].path[hop];
            self.dirty.push(link);
            if !empty {
                continue;
            }
            let members = &mut self.links[link as usize].members;
            members.swap_remove(position as usize);
            if let Some(&moved) = members.get(position as usize) {
                let path = &mut self.classes[moved as usize].path;
                if let Some(hop) = path.iter_mut().find(|hop| hop.0 == link) {
                    hop.1 = position;
                }
            }
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Recomputes what the changes since the last time may touch: the links and classes connected
    /// with a changed link.
    ///
    /// # Errors
    /// The number of a link whose shares exceed its capacity.
    pub(crate) fn recompute(&mut self) -> Result<(), u32> {
        self.round += 1;
        self.changed.clear();
        self.gather();
        let mut limited = std::mem::take(&mut self.limited).into_iter().peekable();
        loop {
            let level = loop {
                let Some(Reverse((queued, link))) = self.queue.peek().copied() else {
                    break None;
                };
                let Link { left, growing, .. } = self.links[link as usize];
                if growing != 0 && queued == (Level { left, growing }) {
                    break Some((left / growing, link));
                }
                // A level only rises, so that an entry comes up too early, never too late.
                self.queue.pop();
                if growing != 0 {
                    self.queue.push(Reverse((Level { left, growing }, link)));
                }
            };
            // What a limit below the level stops, stops first.
            let limit =
                limited.next_if(|(limit, _)| level.is_none_or(|(level, _)| *limit <= level));
            let (classes, rate) = match (level, limit) {
                (_, Some((limit, class))) => (vec![class], limit),
                (Some((level, link)), None) => (self.links[link as usize].members.clone(), level),
                (None, None) => break,
            };
            for class in classes {
                let member = &mut self.classes[class as usize];
                if member.settled == self.round {
                    continue;
                }
                member.settled = self.round;
                if member.rate != rate {
                    self.changed.push((class, member.rate));
                    member.rate = rate;
                }
                let taken = u128::from(rate) * u128::from(member.flows);
                for &(link, _) in &member.path {
                    let used = &mut self.links[link as usize];
                    let left = u128::from(used.left).checked_sub(taken).ok_or(link)?;
                    used.left = u64::try_from(left).map_err(|_| link)?;
                    used.growing -= member.flows;
                }
            }
        }
        Ok(())
    }

    /// Gathers the component of the changed links.
    fn gather(&mut self) {
        self.limited.clear();
        self.queue.clear();
        while let Some(number) = self.dirty.pop() {
            let link = &mut self.links[number as usize];
            if link.gathered == self.round {
                continue;
            }
            link.gathered = self.round;
            link.left = link.capacity;
            link.growing = 0;
            for &class in &link.members {
                let member = &mut self.classes[class as usize];
                link.growing += member.flows;
                if member.gathered != self.round {
                    member.gathered = self.round;
                    self.dirty.extend(member.path.iter().map(|(link, _)| *link));
                    if member.limit != UNLIMITED {
                        self.limited.push((member.limit, class));
                    }
                }
            }
            if link.growing > 0 {
                let level = Level { left: link.left, growing: link.growing };
                self.queue.push(Reverse((level, number)));
            }
        }
        self.limited.sort_unstable();
    }
}

/// What a link has left for its flows that still grow; ordered by the level at which it fills up.
#[derive(Clone, Copy, Debug)]
struct Level {
    left: u64,
    growing: u64,
}

impl Ord for Level {
    /// Compares `left / growing` without rounding.
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |a: u64, b: u64| u128::from(a) * u128::from(b);
        scaled(self.left, other.growing).cmp(&scaled(other.left, self.growing))
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
