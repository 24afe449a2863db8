//! A value for each flow while it lives, by number, in memory that is bounded by what lives.

use std::ops::{Index, IndexMut};

/// Values that go together, and so what one value that stays keeps in memory.
const BLOCK: usize = 256;

/// Values by number, which counts up from 0. They go in blocks: once all of a block have ended.
#[derive(Clone, Debug)]
pub struct Living<T> {
    /// Of those that are gone nothing is left.
    blocks: Vec<Vec<T>>,
    /// How many of each block have not ended.
    living: Vec<usize>,
    count: usize,
}

// Derived, it would ask that T have a default too.
impl<T> Default for Living<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), living: Vec::new(), count: 0 }
    }
}

impl<T> Living<T> {
    /// How many there have been, those that are gone included: the next one's number.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Adds the next one.
    pub fn push(&mut self, value: T) {
        let number = self.count / BLOCK;
        if number == self.blocks.len() {
            self.blocks.push(Vec::with_capacity(BLOCK));
            self.living.push(0);
        }
        self.blocks[number].push(value);
        self.living[number] += 1;
        self.count += 1;
    }

    /// Adds what ended before it came, up to so many in all.
    pub fn skip(&mut self, count: usize, value: T)
    where
        T: Copy,
    {
        while self.count < count {
            self.push(value);
            self.end(self.count - 1);
        }
    }

    /// Notes that a value has ended, which is said once of each. It may be gone now.
    pub fn end(&mut self, number: usize) {
        let block = number / BLOCK;
        self.living[block] -= 1;
        if self.living[block] == 0 && self.blocks[block].len() == BLOCK {
            self.blocks[block] = Vec::new();
        }
    }

    /// A value, perhaps one that has ended; `None` once it is gone.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.blocks.get(number / BLOCK)?.get(number % BLOCK)
    }

    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.blocks.get_mut(number / BLOCK)?.get_mut(number % BLOCK)
    }
}

/// A value that has not ended.
impl<T> Index<usize> for Living<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.blocks[number / BLOCK][number % BLOCK]
    }
}

impl<T> IndexMut<usize> for Living<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.blocks[number / BLOCK][number % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_goes_with_its_block() {
        let mut values = Living::default();
        for number in 0..2 * BLOCK + 1 {
            values.push(number);
        }
        for number in (0..2 * BLOCK + 1).filter(|number| *number != BLOCK) {
            values.end(number);
        }
        assert_eq!(values.get(0), None, "all of its block have ended");
        assert_eq!(values[BLOCK], BLOCK, "it lives");
        assert_eq!(values.get(BLOCK + 1), Some(&(BLOCK + 1)), "another of its block lives");
        assert_eq!(values.get(2 * BLOCK), Some(&(2 * BLOCK)), "its block isn't full");
        assert_eq!(values.get(2 * BLOCK + 1), None);
        values.end(BLOCK);
        assert_eq!((values.get(BLOCK), values.count()), (None, 2 * BLOCK + 1));
    }

    #[test]
    fn what_ended_before_it_came_is_counted_and_gone() {
        let mut values = Living::default();
        values.skip(BLOCK, 0);
        values.push(7);
        values.skip(BLOCK, 0);
        assert_eq!((values.count(), values.get(0), values[BLOCK]), (BLOCK + 1, None, 7));
    }

    #[test]
    fn memory_is_that_of_what_lives() {
        let mut values = Living::default();
        for number in 0..1000 * BLOCK {
            values.push(number);
            if let Some(old) = number.checked_sub(100) {
                values.end(old);
            }
        }
        let kept: usize = values.blocks.iter().map(Vec::capacity).sum();
        assert!(kept <= 2 * BLOCK, "{kept}");
    }
}
