//! When flows with rates of their own end.
//!
//! Limits move these times often, mostly long before they are due. So only those of the near future
//! are kept in order; the others are in a list for each interval, and many are stale when it is
//! opened.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// An interval is 2²⁸ ns, about a quarter of a second.
const SHIFT: u32 = 28;

/// Times, each with a flow; a flow may have several.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Those of the interval that was opened last, the first at the end.
    near: Vec<(u64, u32)>,
    /// Those that were entered after it was opened.
    late: BinaryHeap<Reverse<(u64, u32)>>,
    /// The interval to open next, and what was entered for it and those after it.
    next: u64,
    far: BTreeMap<u64, Vec<(u64, u32)>>,
    /// The first, while it is known.
    known: Option<(u64, u32)>,
}

impl Ends {
    /// The entry of a flow may have become another one.
    pub(crate) fn doubt(&mut self, flow: u32) {
        self.known.take_if(|(_, first)| *first == flow);
    }

    pub(crate) fn enter(&mut self, time: u64, flow: u32) {
        self.known.take_if(|(first, _)| *first >= time);
        let interval = time >> SHIFT;
        if interval < self.next {
            self.late.push(Reverse((time, flow)));
        } else {
            self.far.entry(interval).or_default().push((time, flow));
        }
    }

    /// The first; perhaps none if it is later than `limit`. `due` returns when an entry is due,
    /// never before its time, or `None` if it is stale.
    pub(crate) fn first(
        &mut self,
        limit: u64,
        mut due: impl FnMut(u64, u32) -> Option<u64>,
    ) -> Option<(u64, u32)> {
        while self.known.is_none() {
            let late = self.late.peek().map(|Reverse(late)| *late);
            let near = self.near.last().copied();
            let Some((time, flow)) = near.into_iter().chain(late).min() else {
                self.open(limit, &mut due)?;
                continue;
            };
            let later = due(time, flow);
            if later == Some(time) {
                self.known = Some((time, flow));
                break;
            }
            if near == Some((time, flow)) {
                self.near.pop();
            } else {
                self.late.pop();
            }
            if let Some(later) = later {
                self.enter(later, flow);
            }
        }
        self.known
    }

    /// Opens the next interval that has entries, unless it begins after `limit`: what is entered later
    /// is mostly for intervals before it.
    fn open(&mut self, limit: u64, mut due: impl FnMut(u64, u32) -> Option<u64>) -> Option<()> {
        let first = self.far.first_entry().filter(|first| *first.key() <= limit >> SHIFT)?;
        let (interval, entries) = first.remove_entry();
        self.next = interval + 1;
        for (time, flow) in entries {
            match due(time, flow) {
                Some(time) if time >> SHIFT == interval => self.near.push((time, flow)),
                Some(later) => self.enter(later, flow),
                None => {}
            }
        }
        self.near.sort_unstable_by(|one, other| other.cmp(one));
        Some(())
    }
}
