//! What the log tells once a second at most, because others decide how often it happens.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const TELLS: Duration = Duration::from_secs(1);

/// Something that is told now and then.
#[derive(Default)]
pub struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Whether it is told now, and then how often it wasn't since the last time.
    pub fn tell(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, untold) = &mut *told;
        if last.is_some_and(|last| now - last < TELLS) {
            *untold += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_now_and_then() {
        let (failing, begun) = (Seldom::default(), Instant::now());
        let told = |after: u64| failing.tell(begun + Duration::from_millis(after));
        assert_eq!([told(0), told(1), told(999), told(1_000)], [Some(0), None, None, Some(2)]);
        assert_eq!(told(2_000), Some(0));
    }
}
