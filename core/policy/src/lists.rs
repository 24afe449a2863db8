//! Lists of numbers, one after the other in one table: which links a flow takes, which flows a link
//! has.

use alloc::vec::Vec;

/// Lists, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Where each begins, and where the last ends; empty as long as there was none.
    starts: Vec<u32>,
    entries: Vec<u32>,
    /// How many lists haven't two numbers.
    odd: u32,
}

impl Lists {
    /// No lists.
    pub(crate) const NONE: Self = Self { starts: Vec::new(), entries: Vec::new(), odd: 0 };

    pub(crate) const fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(crate) fn of(&self, list: usize) -> &[u32] {
        &self.entries[self.starts[list] as usize..self.starts[list + 1] as usize]
    }

    /// All in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = &self.entries[..];
        self.starts.windows(2).map(move |pair| {
            let (list, after) = rest.split_at((pair[1] - pair[0]) as usize);
            rest = after;
            list
        })
    }

    /// All in order, if each has two numbers: the paths of a star.
    pub(crate) fn pairs(&self) -> Option<&[[u32; 2]]> {
        (self.odd == 0).then(|| self.entries.as_chunks().0)
    }

    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.entries.clear();
        self.odd = 0;
    }

    pub(crate) fn push(&mut self, list: impl Iterator<Item = u32>) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        let start = self.entries.len();
        self.entries.extend(list);
        self.odd += u32::from(self.entries.len() != start + 2);
        self.starts.push(position(self.entries.len()));
    }

    /// Keeps those of which `stays` says so; they are numbered anew.
    pub(crate) fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let (mut kept, mut end, mut start) = (0, 0, 0);
        for list in 0..self.len() {
            let range = start..self.starts[list + 1] as usize;
            start = range.end;
            if stays(list) {
                // Most are too short for a call that copies.
                for from in range {
                    self.entries[end] = self.entries[from];
                    end += 1;
                }
                kept += 1;
                self.starts[kept] = position(end);
            } else {
                self.odd -= u32::from(range.len() != 2);
            }
        }
        self.entries.truncate(end);
        self.starts.truncate(kept + 1);
    }

    /// Replaces every number.
    pub(crate) fn replace(&mut self, by: impl Fn(u32) -> u32) {
        for entry in &mut self.entries {
            *entry = by(*entry);
        }
    }

    /// Makes this the other way round: for each number below `count`, the lists that it is in.
    pub(crate) fn turn(&mut self, lists: &Self, count: usize) {
        let Self { starts, entries, odd } = self;
        starts.clear();
        starts.resize(count + 2, 0);
        for &number in &lists.entries {
            starts[number as usize + 2] += 1;
        }
        let mut sum = 0;
        for start in &mut *starts {
            sum += *start;
            *start = sum;
        }
        entries.clear();
        entries.resize(lists.entries.len(), 0);
        for (list, numbers) in (0u32..).zip(lists.iter()) {
            for &number in numbers {
                let place = &mut starts[number as usize + 1];
                entries[*place as usize] = list;
                *place += 1;
            }
        }
        starts.pop();
        *odd = position(starts.windows(2).filter(|pair| pair[1] - pair[0] != 2).count());
    }
}

/// Lists that are gone through again and again; loops over [`Lists::pairs`] are short.
pub(crate) trait Rows: Copy {
    type Row: AsRef<[u32]>;

    fn row(self, row: usize) -> Self::Row;

    fn rows(self) -> impl Iterator<Item = Self::Row>;
}

impl<'a> Rows for &'a Lists {
    type Row = &'a [u32];

    fn row(self, row: usize) -> &'a [u32] {
        self.of(row)
    }

    fn rows(self) -> impl Iterator<Item = &'a [u32]> {
        self.iter()
    }
}

impl<'a> Rows for &'a [[u32; 2]] {
    type Row = &'a [u32; 2];

    fn row(self, row: usize) -> &'a [u32; 2] {
        &self[row]
    }

    fn rows(self) -> impl Iterator<Item = &'a [u32; 2]> {
        self.iter()
    }
}

/// A position in a table that has fewer entries than a u32 counts.
pub(crate) fn position(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
