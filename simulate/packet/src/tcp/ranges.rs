//! A set of sequence numbers as sorted, disjoint, non-adjacent ranges `[low, high)`.

/// What a receiver holds out of order, and what a sender knows to have arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Adds `[low, high)` and returns the range that now holds it.
    pub(crate) fn insert(&mut self, low: u64, high: u64) -> (u64, u64) {
        if low >= high {
            return (low, high);
        }
        let first = self.0.partition_point(|&(_, end)| end < low);
        let last = self.0.partition_point(|&(start, _)| start <= high);
        if first == last {
            self.0.insert(first, (low, high));
            return (low, high);
        }
        let merged = (low.min(self.0[first].0), high.max(self.0[last - 1].1));
        self.0[first] = merged;
        self.0.drain(first + 1..last);
        merged
    }

    /// Forgets everything below `edge`.
    pub(crate) fn remove_below(&mut self, edge: u64) {
        let gone = self.0.partition_point(|&(_, high)| high <= edge);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(edge);
        }
    }

    /// The end of the range that holds `at`, or `at` itself when none does.
    pub(crate) fn end_of(&self, at: u64) -> u64 {
        let after = self.0.partition_point(|&(_, high)| high <= at);
        match self.0.get(after) {
            Some(&(low, high)) if low <= at => high,
            _ => at,
        }
    }

    /// The start of the first range above `at`.
    pub(crate) fn next_above(&self, at: u64) -> Option<u64> {
        let after = self.0.partition_point(|&(low, _)| low <= at);
        self.0.get(after).map(|&(low, _)| low)
    }

    /// How much of `[0, edge)` the set holds.
    pub(crate) fn covered_below(&self, edge: u64) -> u64 {
        self.0.iter().take_while(|range| range.0 < edge).map(|&(l, h)| h.min(edge) - l).sum()
    }
}
