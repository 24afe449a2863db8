//! When the next flow of every link ends.
//!
//! All classes with one bottleneck link are served at its level. So the link keeps one account of
//! what each was served, to which a class adds its offset, and a change of level costs the same for
//! any number of classes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event is early by this part of the time until it, in powers of two, so that a rate that rises by as much
/// leaves it where it is.
const MARGIN: u32 = 4;

/// The account of a link, in units of 2⁻¹⁶ bit/s times nanoseconds.
#[derive(Debug, Default)]
struct Clock {
    /// Served to each class up to `synced`.
    service: i128,
    synced: u64,
    rate: u64,
    /// The link's event is stale unless it has this number. Up to this rate no end comes before it.
    version: u32,
    most: u64,
    /// What the link must have served for the next flow of a class to end, the class, its version.
    ends: BinaryHeap<Reverse<(i128, u32, u32)>>,
    is_stirred: bool,
}

/// The accounts of all links.
#[derive(Debug)]
pub(crate) struct Clocks {
    clocks: Vec<Clock>,
    /// When a link has its next end: time, link, version.
    events: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Links whose next end may have changed.
    stirred: Vec<u32>,
}

impl Clocks {
    pub(crate) fn new(links: usize) -> Self {
        let clocks = (0..links).map(|_| Clock::default()).collect();
        Self { clocks, events: BinaryHeap::new(), stirred: Vec::new() }
    }

    /// What the link has served to each of its classes.
    pub(crate) fn service(&self, link: u32, now: u64) -> i128 {
        self.clocks[link as usize].service(now)
    }

    #[cfg(debug_assertions)]
    pub(crate) fn rate(&self, link: u32) -> u64 {
        self.clocks[link as usize].rate
    }

    pub(crate) fn set_rate(&mut self, link: u32, now: u64, rate: u64) {
        let service = self.service(link, now);
        let clock = &mut self.clocks[link as usize];
        (clock.service, clock.synced, clock.rate) = (service, now, rate);
        if rate > clock.most {
            self.stir(link);
        }
    }

    /// Enters the next end of a class.
    pub(crate) fn enter(&mut self, link: u32, end: i128, class: u32, version: u32) {
        self.clocks[link as usize].ends.push(Reverse((end, class, version)));
        self.stir(link);
    }

    pub(crate) fn stir(&mut self, link: u32) {
        if !std::mem::replace(&mut self.clocks[link as usize].is_stirred, true) {
            self.stirred.push(link);
        }
    }

    /// When the next flow of any link ends, and its class. `versions` are those of the classes.
    pub(crate) fn next(&mut self, now: u64, version: impl Fn(u32) -> u32) -> Option<(u64, u32)> {
        while let Some(link) = self.stirred.pop() {
            self.clocks[link as usize].is_stirred = false;
            self.announce(link, now, &version);
        }
        while let Some(&Reverse((early, link, number))) = self.events.peek() {
            let clock = &mut self.clocks[link as usize];
            if clock.version == number
                && let Some(&Reverse((end, class, _))) = clock.ends.peek()
            {
                let due = clock.due(now, end);
                if due == Some(early) {
                    return Some((early, class));
                }
                self.events.pop();
                clock.most = clock.rate;
                if let Some(due) = due {
                    self.events.push(Reverse((due, link, number)));
                }
            } else {
                self.events.pop();
            }
        }
        None
    }

    fn announce(&mut self, link: u32, now: u64, version: impl Fn(u32) -> u32) {
        let clock = &mut self.clocks[link as usize];
        clock.version = clock.version.wrapping_add(1);
        while clock.ends.peek().is_some_and(|Reverse((_, class, of))| version(*class) != *of) {
            clock.ends.pop();
        }
        // Without an end, or one that is never due, nothing comes before another is entered or the rate rises.
        clock.most = if clock.ends.is_empty() { u64::MAX } else { clock.rate };
        let Some(due) = clock.ends.peek().and_then(|Reverse((end, ..))| clock.due(now, *end))
        else {
            return;
        };
        // left ≥ rate (due - now - 1), and so 2^MARGIN wait ≤ (2^MARGIN - 1) (due - now - 1) is early enough
        // for every rate up to `most`.
        let wait = (due - now).saturating_sub(1);
        let early = now + wait - wait.div_ceil(1 << MARGIN);
        clock.most += clock.rate >> MARGIN;
        self.events.push(Reverse((early, link, clock.version)));
        if self.events.len() > 4 * self.clocks.len() + 64 {
            let clocks = &self.clocks;
            self.events.retain(|Reverse((_, link, of))| clocks[*link as usize].version == *of);
        }
    }
}

impl Clock {
    fn service(&self, now: u64) -> i128 {
        // A product of unsigned numbers is one instruction. Below 2^113 by the sizes of flows.
        self.service + (u128::from(self.rate) * u128::from(now - self.synced)).cast_signed()
    }

    /// When the account reaches `end`, if ever.
    fn due(&self, now: u64, end: i128) -> Option<u64> {
        let service = self.service(now);
        due(now, u128::try_from(end - service).unwrap_or(0), self.rate)
    }
}

/// When so much is done at this rate; `None` if never.
pub(crate) fn due(now: u64, left: u128, rate: u64) -> Option<u64> {
    let wait = match (left, rate) {
        (0, _) => 0,
        (_, 0) => return None,
        (left, rate) => match u64::try_from(left) {
            Ok(left) => u128::from(left.div_ceil(rate)),
            Err(_) => left.div_ceil(u128::from(rate)),
        },
    };
    u64::try_from(u128::from(now) + wait).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However rates rise and fall, the next end is the first of all links', to the nanosecond.
        #[test]
        fn ends_come_when_they_are_due(
            ends in prop::collection::vec(prop::collection::vec(1i128..1 << 29, 0..4), 1..6),
            // Rates that a margin covers, and others.
            changes in prop::collection::vec((0usize..6, 4_000u64..5_000, 0u64..20_000), 0..60),
        ) {
            let mut clocks = Clocks::new(ends.len());
            // By link, a class for each end.
            let mut waiting: Vec<(u32, i128, u32)> = Vec::new();
            for (link, ends) in (0u32..).zip(&ends) {
                for end in ends {
                    let class = u32::try_from(waiting.len()).unwrap_or(0);
                    waiting.push((link, *end, class));
                    clocks.enter(link, *end, class, 0);
                }
            }
            let mut gone = vec![0; waiting.len()];
            let mut now = 0;
            for (link, rate, wait) in changes {
                let link = u32::try_from(link % ends.len()).unwrap_or(0);
                clocks.set_rate(link, now, rate);
                let limit = now + wait;
                loop {
                    let first = waiting.iter().filter_map(|(link, end, class)| {
                        let due = clocks.clocks[*link as usize].due(now, *end)?;
                        Some((due, *link, *end, *class))
                    });
                    let first = first.min();
                    let next = clocks.next(now, |class| gone[class as usize]);
                    prop_assert_eq!(next, first.map(|(due, _, _, class)| (due, class)));
                    let Some((due, link, _, class)) = first.filter(|(due, ..)| *due <= limit) else {
                        break;
                    };
                    now = due;
                    gone[class as usize] = 1;
                    waiting.retain(|of| of.2 != class);
                    clocks.stir(link);
                }
                now = limit;
            }
        }
    }
}
