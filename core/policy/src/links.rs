//! What is left of every link while a division is made.

use alloc::vec::Vec;

use model::{LinkId, Network};

use units::Rate;

use crate::filling::Filler;
use crate::lists::position;
use crate::{Acknowledgements, Share};

/// What is kept back for acknowledgements is a multiple of this part of a link, so that it stays while
/// what they come for changes little.
const STEPS: u64 = 256;
/// The whole of what was granted over a link, in parts.
const WHOLE: u64 = 1 << 20;

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
    /// Position in the list of links of the job that is being looked at.
    pub(crate) place: u32,
}

/// What comes back over a link: the acknowledgements of what others carry.
#[derive(Clone, Copy, Debug)]
struct Return {
    /// The other direction of the same cable; the link itself where there is none.
    opposite: u32,
    /// Kept back for them, bit/s.
    kept: u64,
    /// To be kept back next time.
    wanted: u64,
    /// What there was to grant, bit/s.
    opened: u64,
    /// Granted to flows whose acknowledgements come back here although their data doesn't take the
    /// opposite link, less what of that link is acknowledged elsewhere, bit/s.
    astray: i64,
    /// The part of what was granted that can stay.
    part: u64,
}

impl Return {
    fn new(network: &Network, number: usize) -> Self {
        let topology = network.topology();
        let links = topology.links();
        let is_back = |other: usize| {
            let (link, back) = (links.get(number), links.get(other));
            link.zip(back).is_some_and(|(a, b)| (a.from, a.to) == (b.to, b.from))
        };
        // A cable's links are made one after the other.
        let neighbour = Some(number ^ 1).filter(|other| is_back(*other));
        let link = &links[number];
        let found = || topology.link_between(link.to, link.from).map(LinkId::index);
        let opposite = position(neighbour.or_else(found).unwrap_or(number));
        Self { opposite, kept: 0, wanted: 0, opened: 0, astray: 0, part: WHOLE }
    }
}

/// All links, by [`model::LinkId`].
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) table: Vec<Link>,
    /// What isn't granted yet of each, bit/s: all jobs go through it.
    pub(crate) lefts: Vec<u64>,
    /// Counts up when capacities change.
    pub(crate) revision: u64,
    /// Counts up when what flows of old jobs have for themselves changes.
    pub(crate) rations: u64,
    pub(crate) filler: Filler,
    acknowledgements: Acknowledgements,
    /// Empty where there are no acknowledgements.
    returns: Vec<Return>,
}

impl Links {
    pub(crate) fn new(acknowledgements: Acknowledgements) -> Self {
        Self {
            table: Vec::new(),
            lefts: Vec::new(),
            revision: 0,
            rations: 0,
            filler: Filler::default(),
            acknowledgements,
            returns: Vec::new(),
        }
    }

    /// Makes room for every link of the network, and takes in their capacities.
    pub(crate) fn cover(&mut self, network: &Network) {
        let links = network.topology().links();
        if self.table.len() < links.len() {
            self.table.resize_with(links.len(), Link::default);
            self.lefts.resize(links.len(), 0);
            self.revision += 1;
            for (link, of) in self.table.iter_mut().zip(links) {
                link.capacity = of.spec.capacity.as_bps();
            }
            if !self.acknowledgements.are_none() {
                self.returns = (0..links.len()).map(|link| Return::new(network, link)).collect();
            }
        }
    }

    /// Whether acknowledgements that come back over `back` take the cables by which the data went.
    pub(crate) fn mirrors(&self, path: &[LinkId], back: &[LinkId]) -> bool {
        let opposites = path.iter().rev().map(|link| self.returns[link.index()].opposite);
        opposites.eq(back.iter().map(|link| link.0))
    }

    pub(crate) const fn counts_acknowledgements(&self) -> bool {
        !self.acknowledgements.are_none()
    }

    /// Takes in the capacities of links that have others now.
    pub(crate) fn resize(&mut self, network: &Network, links: &[LinkId]) {
        self.revision += 1;
        for link in links {
            let spec = network.topology().links().get(link.index()).map(|link| link.spec);
            if let (Some(known), Some(spec)) = (self.table.get_mut(link.index()), spec) {
                known.capacity = spec.capacity.as_bps();
            }
        }
    }

    /// What can stay of `rate` on a path where acknowledgements have no room, by the last
    /// [`Links::fits`].
    pub(crate) fn trimmed(&self, path: &[LinkId], rate: u64) -> u64 {
        let parts = path.iter().map(|link| self.returns[link.index()].part);
        Rate::from_bps(rate).fraction(parts.min().unwrap_or(WHOLE), WHOLE).as_bps()
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
        self.lefts[link.index()]
    }

    pub(crate) fn left_on(&self, path: &[LinkId]) -> u64 {
        path.iter().map(|&link| self.left(link)).min().unwrap_or(0)
    }

    /// Takes what is granted from all links of a path; they have it left.
    pub(crate) fn take(&mut self, path: &[LinkId], rate: u64) {
        for link in path {
            self.lefts[link.index()] -= rate;
        }
    }

    /// What is left of every link.
    pub(crate) fn lefts(&self) -> Vec<u64> {
        self.lefts.clone()
    }

    /// Says what is left of every link.
    pub(crate) fn set_lefts(&mut self, lefts: impl Iterator<Item = u64>) {
        for (known, left) in self.lefts.iter_mut().zip(lefts) {
            *known = left;
        }
    }

    /// Begins a division: everything is left but `aside` for every flow, `share` where there are flows
    /// of old jobs, and what is kept back for acknowledgements.
    pub(crate) fn open(&mut self, aside: Rate, share: Option<Share>) {
        let mut is_other = false;
        for (link, left) in self.table.iter_mut().zip(&mut self.lefts) {
            let floors = aside.as_bps().saturating_mul(rounded(link.flows));
            let part = |count| {
                let share = share.filter(|_| link.old > 0);
                share
                    .map_or(0, |share| share.divided(Rate::from_bps(link.capacity), count).as_bps())
            };
            let ration = part(rounded(link.old));
            is_other |= ration != link.ration;
            *left = link.capacity.saturating_sub(floors).saturating_sub(part(1));
            link.ration = ration;
        }
        self.rations += u64::from(is_other);
        for (left, of) in self.lefts.iter_mut().zip(&mut self.returns) {
            *left = left.saturating_sub(of.kept);
            (of.opened, of.astray) = (*left, 0);
        }
    }

    /// The acknowledgements of a flow come back another way than its data went.
    pub(crate) fn stray(&mut self, path: &[LinkId], back: &[LinkId], rate: u64) {
        let rate = rate.cast_signed();
        for link in path {
            let opposite = self.returns[link.index()].opposite as usize;
            if opposite != link.index() {
                self.returns[opposite].astray -= rate;
            }
        }
        for link in back {
            self.returns[link.index()].astray += rate;
        }
    }

    /// Looks at what was granted: whether its acknowledgements find room on every link, and no link is
    /// full while more is kept back than they need. Where it isn't so, the next division keeps back what
    /// these would need, or goes half of the way there.
    pub(crate) fn fits(&mut self, halfway: bool) -> bool {
        let Self { table, lefts, returns, .. } = self;
        let mut fits = true;
        for number in 0..returns.len() {
            let (capacity, left, of) = (table[number].capacity, lefts[number], returns[number]);
            let acknowledged = acknowledged(table, lefts, returns, number);
            let needed = self.acknowledgements.of(acknowledged);
            let step = (capacity / STEPS).max(1);
            let wanted = needed.next_multiple_of(step).min(capacity);
            let is_short = needed > of.kept + left;
            let is_much = of.kept > wanted + step;
            let next =
                if halfway { of.kept.midpoint(wanted).next_multiple_of(step) } else { wanted };
            returns[number].wanted = if is_short || is_much { next } else { of.kept };
            let excess = needed.saturating_sub(of.kept + left);
            let granted = of.opened - left;
            let stays = Rate::from_bps(granted.saturating_sub(excess));
            let part = stays.fraction(WHOLE, granted.max(1)).as_bps();
            returns[number].part = if excess > 0 { part } else { WHOLE };
            fits &= !(is_short || is_much && left < step);
        }
        if !fits {
            for of in returns {
                of.kept = of.wanted;
            }
        }
        fits
    }
}

/// What is acknowledged over a link, bit/s: what the opposite one carries, but for what goes astray.
fn acknowledged(table: &[Link], lefts: &[u64], returns: &[Return], number: usize) -> u64 {
    let of = &returns[number];
    let opposite = of.opposite as usize;
    if opposite == number {
        return of.astray.max(0).unsigned_abs();
    }
    let (capacity, left) = (table[opposite].capacity, lefts[opposite]);
    let carried = capacity.saturating_sub(returns[opposite].kept).saturating_sub(left);
    carried.saturating_add_signed(of.astray)
}

/// The next power of two: what depends on it changes seldom.
fn rounded(count: u64) -> u64 {
    count.checked_next_power_of_two().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use model::Buffer;
    use model::build::{Access, star};
    use units::Span;

    use super::*;

    /// Where divisions never come to rest, what was granted is cut to what acknowledgements leave.
    #[test]
    fn what_leaves_acknowledgements_no_room_is_trimmed() {
        let capacity = Rate::from_mbps(100);
        let link =
            model::LinkSpec { capacity, delay: Span::ZERO, buffer: Buffer::Unlimited, mark: None };
        let network = Network::new(star(2, &Access { link, nic: Buffer::Unlimited }).unwrap());
        let acknowledgements = Acknowledgements::new(40, 1500);
        let mut links = Links::new(acknowledgements);
        links.cover(&network);
        links.open(Rate::ZERO, None);
        // All of one way of a cable, half of the other.
        let (there, back) = (LinkId(0), LinkId(1));
        let (all, half) = (capacity.as_bps(), capacity.as_bps() / 2);
        links.take(&[there], all);
        links.take(&[back], half);
        assert!(!links.fits(false));
        let fitting = all - acknowledgements.of(half);
        let trimmed = links.trimmed(&[there], all);
        assert!((fitting - all / WHOLE..=fitting).contains(&trimmed), "{trimmed}");
        assert_eq!(links.trimmed(&[back], half), half);
        // The next division keeps that back, in steps.
        links.open(Rate::ZERO, None);
        let left = links.left(there);
        assert!(left <= fitting && left + all / STEPS > fitting, "{left} of {fitting}");
        assert_eq!(links.left(back), all, "acknowledgements have room in its free half");
    }
}
