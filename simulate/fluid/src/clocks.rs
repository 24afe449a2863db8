//! When the next flow of every link ends.
//!
//! All classes with one bottleneck link are served at its level. So the link keeps one account of
//! what each was served, to which a class adds its offset, and a change of level costs the same for
//! any number of classes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The account of a link, in units of 2⁻¹⁶ bit/s times nanoseconds.
#[derive(Debug, Default)]
struct Clock {
    /// Served to each class up to `synced`.
    service: i128,
    synced: u64,
    rate: u64,
    /// The link's event is stale unless it has this number.
    version: u32,
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
        let clock = &self.clocks[link as usize];
        clock.service + i128::from(clock.rate) * i128::from(now - clock.synced)
    }

    pub(crate) fn set_rate(&mut self, link: u32, now: u64, rate: u64) {
        let service = self.service(link, now);
        let clock = &mut self.clocks[link as usize];
        (clock.service, clock.synced, clock.rate) = (service, now, rate);
        self.stir(link);
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
        while let Some(&Reverse((due, link, number))) = self.events.peek() {
            let clock = &self.clocks[link as usize];
            if clock.version == number
                && let Some(&Reverse((_, class, _))) = clock.ends.peek()
            {
                return Some((due, class));
            }
            self.events.pop();
        }
        None
    }

    fn announce(&mut self, link: u32, now: u64, version: impl Fn(u32) -> u32) {
        let service = self.service(link, now);
        let clock = &mut self.clocks[link as usize];
        clock.version = clock.version.wrapping_add(1);
        while clock.ends.peek().is_some_and(|Reverse((_, class, of))| version(*class) != *of) {
            clock.ends.pop();
        }
        let Some(&Reverse((end, _, _))) = clock.ends.peek() else {
            return;
        };
        let left = u128::try_from(end - service).unwrap_or(0);
        if let Some(due) = due(now, left, clock.rate) {
            self.events.push(Reverse((due, link, clock.version)));
            if self.events.len() > 4 * self.clocks.len() + 64 {
                let clocks = &self.clocks;
                self.events.retain(|Reverse((_, link, of))| clocks[*link as usize].version == *of);
            }
        }
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
