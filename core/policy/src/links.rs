//! What is left of every link while a division is made.

use alloc::vec::Vec;

use model::{LinkId, Network};

use units::Rate;

use crate::Share;
use crate::filling::Filler;

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
    /// Position in the list of links of the job that is being looked at.
    pub(crate) place: u32,
}

/// All links, by [`model::LinkId`].
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) table: Vec<Link>,
    pub(crate) filler: Filler,
}

impl Links {
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

    /// Takes in the capacities of links that have others now.
    pub(crate) fn resize(&mut self, network: &Network, links: &[LinkId]) {
        for link in links {
            let spec = network.topology().links().get(link.index()).map(|link| link.spec);
            if let (Some(known), Some(spec)) = (self.table.get_mut(link.index()), spec) {
                known.capacity = spec.capacity.as_bps();
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
}

/// The next power of two: what depends on it changes seldom.
fn rounded(count: u64) -> u64 {
    count.checked_next_power_of_two().unwrap_or(u64::MAX)
}
