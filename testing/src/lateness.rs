//! How long this machine lets threads wait: what a test of times owes to others, and no more.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that sleeps again and again, and notes how much later it woke than it should have. It ends with this.
pub struct Lateness(Arc<Mutex<Wakes>>);

struct Wakes {
    /// When it should have woken, and when it did.
    past: Vec<(Instant, Instant)>,
    /// When it should wake next.
    due: Instant,
}

impl Lateness {
    /// Measures from now on.
    #[must_use]
    pub fn measure() -> Self {
        const SLEEP: Duration = Duration::from_millis(10);
        let mut due = Instant::now() + SLEEP;
        let wakes = Arc::new(Mutex::new(Wakes { past: Vec::new(), due }));
        let noted = Arc::downgrade(&wakes);
        thread::spawn(move || {
            loop {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let Some(wakes) = noted.upgrade() else { return };
                let mut wakes = wakes.lock().unwrap();
                let woke = Instant::now();
                wakes.past.push((due, woke));
                due = woke + SLEEP;
                wakes.due = due;
            }
        });
        Self(wakes)
    }

    /// How long in all the thread should have run between two times and didn't.
    #[must_use]
    pub fn between(&self, from: Instant, to: Instant) -> Duration {
        let wakes = self.0.lock().unwrap();
        let past = wakes.past.iter().rev().take_while(|(_, woke)| *woke > from).copied();
        // It may be late just now.
        let all = past.chain([(wakes.due, to)]);
        all.map(|(due, woke)| woke.min(to).saturating_duration_since(due.max(from))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_between_two_times_counts() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let past = vec![(at(10), at(12)), (at(22), at(32)), (at(42), at(43))];
        let late = Lateness(Arc::new(Mutex::new(Wakes { past, due: at(53) })));
        let between = |from, to| late.between(at(from), at(to)).as_millis();
        assert_eq!(between(0, 50), 13);
        assert_eq!([between(25, 50), between(0, 25)], [8, 5], "parts count");
        assert_eq!([between(12, 22), between(43, 53)], [0, 0]);
        assert_eq!(between(40, 60), 8, "and what is late still");
    }
}
