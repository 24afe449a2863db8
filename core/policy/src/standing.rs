//! What a stage of a division granted a job, out of what, and whether that stands.
//!
//! A division goes from job to job; each takes of its links what it can of what those before it left. What a job was
//! granted the last time stands as long as it is granted to the same flows, to send the same, out of as much on each
//! of its links. Then the division passes by: its flows aren't looked at, only what it leaves of its links, which lies
//! in one row.

use alloc::vec::Vec;

use model::{LEAST_RATE, LinkId};

/// A link with flows of the job, and what was left of it, bit/s.
#[derive(Clone, Copy, Debug)]
struct Passed {
    link: LinkId,
    before: u64,
    after: u64,
}

/// What was granted by one stage.
#[derive(Debug)]
pub(crate) struct Standing {
    links: Vec<Passed>,
    /// Whether the job itself is as it was.
    holds: bool,
    is_idle: bool,
    /// Whether each flow had a link that was full.
    is_blocked: bool,
}

impl Standing {
    /// Nothing was granted yet.
    pub(crate) const NONE: Self =
        Self { links: Vec::new(), holds: false, is_idle: true, is_blocked: false };

    /// Flows have come, ended, or have another amount to send than was reckoned.
    pub(crate) const fn fall(&mut self) {
        self.holds = false;
    }

    /// Whether nothing was granted.
    pub(crate) const fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Passes by if what was granted stands, given what is left of all links: these have left what they had then.
    /// A link that is full has as little as before, whatever rounding left of it. Returns whether it passed.
    pub(crate) fn pass(&self, lefts: &mut [u64]) -> bool {
        let same = |of: &Passed| {
            let left = lefts[of.link.index()];
            left == of.before || is_full(left) && is_full(of.before)
        };
        if !self.holds || !self.links.iter().all(same) {
            return false;
        }
        for of in self.links.iter().filter(|of| !is_full(of.before)) {
            lefts[of.link.index()] = of.after;
        }
        true
    }

    /// Grants nothing once more if each flow has a link that was full and is, whatever is left of other links.
    /// Returns whether it is so.
    pub(crate) fn stay_blocked(&mut self, lefts: &[u64]) -> bool {
        let stays = |of: &Passed| !is_full(of.before) || is_full(lefts[of.link.index()]);
        if !self.holds || !self.is_blocked || !self.links.iter().all(stays) {
            return false;
        }
        for of in &mut self.links {
            let left = lefts[of.link.index()];
            (of.before, of.after) = (left, left);
        }
        true
    }

    /// Begins to grant anew over these links, with what is left of all. Returns what is left of each.
    pub(crate) fn open(
        &mut self,
        links: impl Iterator<Item = LinkId>,
        lefts: &[u64],
    ) -> impl Iterator<Item = u64> {
        self.links.clear();
        self.links.extend(links.map(|link| {
            let left = lefts[link.index()];
            Passed { link, before: left, after: left }
        }));
        self.links.iter().map(|of| of.before)
    }

    /// So much is left of each link, in the order in which they were given; `is_blocked`: each flow had one that
    /// was full.
    pub(crate) fn close(
        &mut self,
        after: impl Iterator<Item = u64>,
        is_blocked: bool,
        lefts: &mut [u64],
    ) {
        for (of, left) in self.links.iter_mut().zip(after) {
            of.after = left;
            lefts[of.link.index()] = left;
        }
        self.is_idle = self.links.iter().all(|of| of.before == of.after);
        self.is_blocked = is_blocked;
        self.holds = true;
    }

    /// Has everything looked at again that need not be.
    #[cfg(test)]
    pub(crate) const fn forget(&mut self) {
        self.is_blocked = false;
    }
}

/// Whether a link with so much left, bit/s, has nothing to grant: less than a floor.
pub(crate) const fn is_full(left: u64) -> bool {
    left < LEAST_RATE.as_bps()
}
