//! When flows that go at a rate of their own end.
//!
//! Limits move these times again and again, mostly long before they come. So only those of the near
//! future are kept in order; the others wait in a list for each interval, and many have gone stale
//! when its turn comes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An interval is 2²⁸ ns, about a quarter of a second.
const SHIFT: u32 = 28;

/// Times, each with a flow; a flow may have several.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Those in intervals before `next`.
    near: BinaryHeap<Reverse<(u64, u32)>>,
    next: u64,
    /// The others, by interval.
    far: BTreeMap<u64, Vec<Reverse<(u64, u32)>>>,
}

impl Ends {
    pub(crate) fn enter(&mut self, time: u64, flow: u32) {
        let interval = time >> SHIFT;
        if interval < self.next {
            self.near.push(Reverse((time, flow)));
        } else {
            self.far.entry(interval).or_default().push(Reverse((time, flow)));
        }
    }

    /// The first. Some of those that aren't `valid` are left out.
    pub(crate) fn first(&mut self, valid: impl Fn(u64, u32) -> bool) -> Option<(u64, u32)> {
        while self.near.is_empty() {
            let (interval, mut ends) = self.far.pop_first()?;
            ends.retain(|Reverse((time, flow))| valid(*time, *flow));
            self.near = BinaryHeap::from(ends);
            self.next = interval + 1;
        }
        self.near.peek().map(|Reverse(first)| *first)
    }

    /// Removes the first.
    pub(crate) fn pop(&mut self) {
        self.near.pop();
    }
}
