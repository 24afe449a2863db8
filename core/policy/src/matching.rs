//! Greedy maximal matching by priority, for up to 64 timeslots in one pass.
//!
//! Source: sync-vs-async, section III-A (greedy maximal matching on a priority), and Fastpass (Perry
//! et al., SIGCOMM 2014, section 4), whose arbiter fills a batch of timeslots at once. Here a batch
//! is a word for each port, bit t set while the port is free in slot t: the slots in which a source
//! and a destination are both free are one AND away, and a pair is looked at once a batch instead
//! of once a slot.

use alloc::vec;
use alloc::vec::Vec;

/// Most timeslots in a batch.
pub const MOST_SLOTS: u32 = u64::BITS;

/// A pair of ports that wants timeslots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Rank: the least is served first; of equals, who came first.
    pub key: u64,
    /// Sending port.
    pub src: u16,
    /// Receiving port.
    pub dst: u16,
    /// What the claim means to its owner.
    pub queue: u32,
}

/// What a claim takes of the slots that it could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Slots taken, a subset of those offered.
    pub slots: u64,
    /// The claim's new key; `None` when it wants nothing more.
    pub key: Option<u64>,
}

/// Claims in order of their keys, and the ports' slots.
#[derive(Clone, Debug)]
pub struct Matcher {
    sources: Vec<u64>,
    destinations: Vec<u64>,
    /// In order, except that what came since the last batch stands at the end.
    waiting: Vec<Claim>,
    /// Claims of the pass in progress, those for the next pass, and those served that found their
    /// ports full after.
    pass: Vec<Claim>,
    again: Vec<Claim>,
    spent: Vec<Claim>,
}

impl Matcher {
    /// Nobody waits for any of `ports` sources and as many destinations.
    pub fn new(ports: u16) -> Self {
        Self {
            sources: vec![0; usize::from(ports)],
            destinations: vec![0; usize::from(ports)],
            waiting: Vec::new(),
            pass: Vec::new(),
            again: Vec::new(),
            spent: Vec::new(),
        }
    }

    /// Adds a claim. One on a port that doesn't exist is never served.
    pub fn enter(&mut self, claim: Claim) {
        self.waiting.push(claim);
    }

    /// Whether nobody waits.
    pub const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Fills a batch of `slots` (at most [`MOST_SLOTS`]). Each claim in order is offered the slots
    /// in which both of its ports are free; `serve` says which it takes. A claim that wants more
    /// under its new key is offered again after those before it. In each slot no port is used
    /// twice, and none is left that a waiting claim would take (a maximal matching).
    pub fn fill(&mut self, slots: u32, mut serve: impl FnMut(&Claim, u64) -> Served) {
        let all = u64::MAX >> (MOST_SLOTS - slots.clamp(1, MOST_SLOTS));
        self.sources.fill(all);
        self.destinations.fill(all);
        self.waiting.sort_by_key(|claim| claim.key);
        core::mem::swap(&mut self.waiting, &mut self.pass);
        while !self.pass.is_empty() {
            for claim in &self.pass {
                let (src, dst) = (usize::from(claim.src), usize::from(claim.dst));
                let (Some(source), Some(destination)) =
                    (self.sources.get_mut(src), self.destinations.get_mut(dst))
                else {
                    continue;
                };
                let free = *source & *destination;
                if free == 0 {
                    self.waiting.push(*claim);
                    continue;
                }
                let served = serve(claim, free);
                let taken = served.slots & free;
                *source &= !taken;
                *destination &= !taken;
                let Some(key) = served.key else { continue };
                let next = Claim { key, ..*claim };
                if taken != 0 && free != taken {
                    self.again.push(next);
                } else {
                    self.spent.push(next);
                }
            }
            self.pass.clear();
            self.again.sort_by_key(|claim| claim.key);
            core::mem::swap(&mut self.pass, &mut self.again);
        }
        // Kept apart until now, so that what is to be sorted next consists of few sorted runs.
        self.waiting.append(&mut self.spent);
    }
}
