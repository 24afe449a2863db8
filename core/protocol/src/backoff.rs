//! How a peer comes back to the controller: what it waits before each attempt.

use units::Span;

use crate::agent::SILENCE;

/// The wait after the first failure.
const FIRST: Span = Span::from_millis(100);

/// The waits of one peer, each up to twice as long as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    next: Span,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The longest wait.
    pub const MOST: Span = Span::from_secs(5);

    /// The wait before the next attempt: of `chance`, any number, between half of what is due and all of it.
    /// Peers that lost their controller together must not come back together.
    pub fn wait(&mut self, chance: u32) -> Span {
        let half = self.next.as_nanos() / 2;
        // Both factors are below 2^32.
        let part = (half * u64::from(chance)) >> 32;
        self.next = (self.next * 2).min(Self::MOST);
        Span::from_nanos(half + part)
    }

    /// A connection has ended that stood for `span`, from when it was made to the last word of its other end: one that
    /// outlasted [`SILENCE`] was good.
    pub fn stood(&mut self, span: Span) {
        if span > SILENCE {
            self.reset();
        }
    }

    /// What was tried has worked.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_a_connection_that_lasted() {
        let (mut shortest, mut longest) = (Backoff::default(), Backoff::default());
        for due in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let due = Span::from_millis(due);
            assert_eq!(shortest.wait(0), due / 2);
            let wait = longest.wait(u32::MAX);
            assert!(wait <= due && due.saturating_sub(wait) < Span::from_micros(1), "{wait}");
            longest.stood(SILENCE);
        }
        longest.stood(SILENCE + Span::from_nanos(1));
        assert_eq!(longest.wait(0), FIRST / 2);
    }
}
