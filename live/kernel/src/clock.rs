//! The clock that the kernel's programs go by.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use units::{Span, Time};

use crate::Error;

/// The clock of all times here: nanoseconds since the kernel started, never set, never turned back.
pub fn now() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
    Time::from_nanos(rest) + Span::from_secs(seconds)
}

/// Whether [`now`] is what the kernel's programs go by: not in a time namespace of one's own.
pub(crate) fn check() -> Result<(), Error> {
    // Where the kernel knows no such namespaces there is no such file.
    match fs::read_to_string("/proc/self/timens_offsets").ok().and_then(|offsets| shift(&offsets)) {
        None | Some(0) => Ok(()),
        Some(seconds) => Err(Error::Clock(seconds)),
    }
}

/// By how many seconds, rounded away from zero, the monotonic clock is shifted.
fn shift(offsets: &str) -> Option<i64> {
    let mut words =
        offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let (seconds, nanos): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(if seconds == 0 { nanos.signum() } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_ones_own_is_seen() {
        for (offsets, by) in [
            ("monotonic           0         0\nboottime            0         0\n", Some(0)),
            ("monotonic     1000000         0\nboottime            0         0\n", Some(1_000_000)),
            ("monotonic          -1         5\nboottime            0         0\n", Some(-1)),
            ("monotonic           0         5\n", Some(1)),
            ("boottime            0         0\n", None),
        ] {
            assert_eq!(shift(offsets), by, "{offsets}");
        }
    }
}
