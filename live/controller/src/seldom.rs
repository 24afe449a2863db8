//! What the log tells once a second at most, because others decide how often it happens.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const TELLS: Duration = Duration::from_secs(1);
/// Of so many at once it is told apart.
const APART: usize = 1_000;

/// Something that is told now and then.
#[derive(Default)]
struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// Whether it is told now, and then how often it wasn't since the last time.
    fn tell(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, untold) = &mut *told;
        if last.is_some_and(|last| now - last < TELLS) {
            *untold += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(untold))
    }

    /// Whether it may be told again.
    fn is_over(&self, now: Instant) -> bool {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.0.is_none_or(|last| now.saturating_duration_since(last) >= TELLS)
    }
}

/// The same of each of many, who may come and go meanwhile.
pub struct Each<K>(Mutex<HashMap<K, Arc<Seldom>>>);

impl<K> Default for Each<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Each<K> {
    /// As [`Seldom::tell`]. Of those for whom there is no room nothing is told.
    pub fn tell(&self, who: K, now: Instant) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= APART && !all.contains_key(&who) {
            all.retain(|_, told| !told.is_over(now));
            if all.len() >= APART {
                return None;
            }
        }
        let told = Arc::clone(all.entry(who).or_default());
        drop(all);
        told.tell(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_it_is_told_and_of_as_many_as_there_is_room_for() {
        let (all, begun) = (Each::default(), Instant::now());
        let told = |who: usize, after: u64| all.tell(who, begun + Duration::from_millis(after));
        assert_eq!([told(0, 0), told(1, 0), told(0, 1)], [Some(0), Some(0), None]);
        assert!((2..APART).all(|who| told(who, 2) == Some(0)));
        assert_eq!(told(APART, 999), None, "there is no room");
        assert_eq!([told(APART, 1_000), told(0, 1_000)], [Some(0), Some(0)]);
        assert_eq!(told(2, 1_001), None, "it was told a moment ago");
    }

    #[test]
    fn what_happens_often_is_told_now_and_then() {
        let (failing, begun) = (Seldom::default(), Instant::now());
        let told = |after: u64| failing.tell(begun + Duration::from_millis(after));
        assert_eq!([told(0), told(1), told(999), told(1_000)], [Some(0), None, None, Some(2)]);
        assert_eq!(told(2_000), Some(0));
    }
}
