//! Which links are to be looked at, roughly the lowest level first.
//!
//! A recomputation looks at most links where many flows share them, and their order hardly changes from one to
//! the next. So links have ranks, a mark is a store, and the order is made anew only when it has sent
//! recomputations back too often. It decides how often links are looked at, never what their levels are.

/// Marks that are tested at once.
const WORD: usize = 8;

/// Links by rank, and which are marked.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    links: Vec<u32>,
    /// By rank: not zero if it is marked. Whole words.
    marks: Vec<u8>,
    /// None before this rank is marked; if it is the number of marks, none is.
    first: usize,
    /// The rank after the one that was taken last, and how often one below it came after it.
    next: usize,
    returns: usize,
}

/// While some are marked, one after the other.
pub(crate) struct Marking<'a> {
    ranks: &'a mut Ranks,
    first: usize,
}

impl Marking<'_> {
    #[inline(always)] // once for each class that a link shares with others
    pub(crate) fn mark(&mut self, rank: u32) {
        self.ranks.marks[rank as usize] = 1;
        self.first = self.first.min(rank as usize);
    }
}

impl Drop for Marking<'_> {
    fn drop(&mut self) {
        self.ranks.first = self.first;
    }
}

impl Ranks {
    pub(crate) fn new(links: usize) -> Self {
        let marks = vec![0; links.next_multiple_of(WORD)];
        let first = marks.len();
        Self { links: (0..).take(links).collect(), marks, first, next: 0, returns: 0 }
    }

    /// Takes marks until it is dropped.
    pub(crate) const fn marking(&mut self) -> Marking<'_> {
        Marking { first: self.first, ranks: self }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first == self.marks.len()
    }

    /// Takes the marked link of the lowest rank.
    #[inline(always)] // once for each link that is looked at
    pub(crate) fn take(&mut self) -> Option<u32> {
        let rank = self.find()?;
        self.marks[rank] = 0;
        self.returns += usize::from(rank < self.next);
        (self.first, self.next) = (rank + 1, rank + 1);
        Some(self.links[rank])
    }

    /// The link so many ranks after the one that was taken last.
    #[inline(always)] // once for each link that is looked at
    pub(crate) fn after(&self, ranks: usize) -> Option<u32> {
        self.links.get(self.next + ranks - 1).copied()
    }

    /// The marked link of the lowest rank.
    pub(crate) fn first(&mut self) -> Option<u32> {
        self.find().map(|rank| self.links[rank])
    }

    fn find(&mut self) -> Option<usize> {
        let (words, _) = self.marks.as_chunks::<WORD>();
        let mut rank = self.first;
        while let Some(word) = words.get(rank / WORD) {
            let from_here = u64::from_le_bytes(*word) >> (8 * (rank % WORD));
            if from_here != 0 {
                rank += from_here.trailing_zeros() as usize / 8;
                self.first = rank;
                return Some(rank);
            }
            rank = (rank / WORD + 1) * WORD;
        }
        (self.first, self.next) = (self.marks.len(), 0);
        None
    }

    pub(crate) fn clear(&mut self) {
        self.marks.fill(0);
        (self.first, self.next) = (self.marks.len(), 0);
    }

    /// Whether the order has cost as much as making it anew.
    pub(crate) const fn are_stale(&self) -> bool {
        self.returns > self.links.len() / 4
    }

    /// Orders links by level; none is marked.
    pub(crate) fn sort(&mut self, level: impl Fn(u32) -> u64) {
        self.links.sort_by_key(|link| (level(*link), *link));
        self.returns = 0;
    }

    /// Ranks with their links.
    pub(crate) fn links(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.links.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_links_come_by_rank_each_once_and_again_when_marked_again() {
        // Not a whole number of words.
        let mut ranks = Ranks::new(29);
        assert!(ranks.is_empty());
        for rank in [28, 3, 8, 3, 17] {
            ranks.marking().mark(rank);
        }
        assert_eq!(ranks.first(), Some(3));
        assert_eq!([ranks.take(), ranks.take()], [Some(3), Some(8)]);
        ranks.marking().mark(5);
        let rest: Vec<u32> = std::iter::from_fn(|| ranks.take()).collect();
        assert_eq!(rest, [5, 17, 28]);
        assert!(ranks.is_empty());
    }

    #[test]
    fn an_order_that_sends_back_often_is_made_anew() {
        let mut ranks = Ranks::new(16);
        for _ in 0..5 {
            assert!(!ranks.are_stale());
            // What rank 9 changes lies before it.
            ranks.marking().mark(9);
            ranks.take();
            ranks.marking().mark(2);
            assert_eq!(ranks.take(), Some(2));
            assert_eq!(ranks.take(), None);
        }
        assert!(ranks.are_stale());
        ranks.sort(|link| u64::from(16 - link));
        assert!(!ranks.are_stale());
        assert_eq!(ranks.links().next(), Some((0, 15)));
    }
}
