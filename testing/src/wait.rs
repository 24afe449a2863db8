//! Waiting for a condition instead of a time.

use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything that comes takes, however busy the machine. Nothing passes or fails by it but
/// what never comes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a condition comes to hold. It is asked at least once, and again after a short pause.
#[must_use]
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if start.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The first of several looks that is as `wanted`, or the last one where none is.
pub fn settled<T>(mut look: impl FnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let found = look();
        if wanted(&found) || start.elapsed() > PATIENCE {
            return found;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// What `wanted` gives once it gives something.
#[cfg(feature = "tokio")]
pub async fn until<T>(what: &str, mut wanted: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = wanted().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
