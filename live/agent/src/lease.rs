//! How long what is granted holds, and on whose word.

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

/// How long what is granted holds, and on whose word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The controller's incarnation. What an earlier one says is refused.
    pub epoch: u64,
    /// From now on.
    pub span: Span,
}

impl Lease {
    /// When it ends.
    pub(crate) fn expires(self) -> Time {
        now() + self.span
    }
}

/// The highest epoch that was obeyed.
#[derive(Debug, Default)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// Takes in an epoch.
    pub(crate) fn obey(&mut self, given: u64) -> Result<(), Error> {
        if given < self.0 {
            return Err(Error::Stale { given, standing: self.0 });
        }
        self.0 = given;
        Ok(())
    }

    pub(crate) const fn get(&self) -> u64 {
        self.0
    }
}
