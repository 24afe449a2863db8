//! What is drawn, the same for the same seed.

/// SplitMix (Steele, Lea, Flood).
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn small<T: TryFrom<u64>>(&mut self, most: u64) -> T {
        T::try_from(self.below(most)).unwrap_or_else(|_| panic!("{most} is too much"))
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.small::<usize>(all.len() as u64)]
    }
}
