//! What each has taken of a table of all: it may have so much of it, whatever others have.

use alloc::collections::BTreeMap;

/// How many each has.
pub(crate) struct Taken<K>(BTreeMap<K, usize>);

impl<K> Default for Taken<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Taken<K> {
    /// Takes room for one more of `who`, that may have at most so many; whether there was room.
    pub(crate) fn take(&mut self, who: K, most: usize) -> bool {
        let taken = self.0.entry(who).or_default();
        let has_room = *taken < most;
        *taken += usize::from(has_room);
        has_room
    }

    /// One of `who` goes.
    pub(crate) fn give(&mut self, who: &K) {
        if let Some(taken) = self.0.get_mut(who) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                self.0.remove(who);
            }
        }
    }
}
