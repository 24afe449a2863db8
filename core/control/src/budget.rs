//! How much a peer may ask for: so many a second, and as many at once.

use units::{Span, Time};

/// A bucket that holds a second's worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// What is left, as time.
    left: Span,
    at: Time,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Self::FULL, at: Time::ZERO }
    }
}

impl Budget {
    const FULL: Span = Span::from_secs(1);

    /// Takes one of `per_second`; whether there was one.
    pub(crate) fn take(&mut self, now: Time, per_second: u32) -> bool {
        let cost = Self::FULL / u64::from(per_second);
        self.left = (self.left + now.since(self.at)).min(Self::FULL);
        self.at = self.at.max(now);
        let is_enough = self.left >= cost && per_second > 0;
        if is_enough {
            self.left = self.left.saturating_sub(cost);
        }
        is_enough
    }
}
