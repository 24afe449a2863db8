//! Until when what was granted holds, and on whose word. Each grant names the epoch of the controller
//! that made it; all grants of an epoch end together, so that one write renews them all.

use units::{Span, Time};

/// A lease of an epoch that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The highest epoch that was obeyed.
    pub obeys: u64,
}

/// The leases of the last epochs. An epoch has the place `epoch % PLACES`; of two epochs with one place
/// the later ends the lease of the earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    ends: [(u64, Time); Self::PLACES],
    /// Up to when [`Leases::sweep`] has looked.
    swept: Time,
}

impl Leases {
    /// How many epochs can have a lease at a time.
    pub const PLACES: usize = 8;

    /// The place of an epoch.
    #[allow(clippy::cast_possible_truncation)] // below PLACES
    pub const fn place(epoch: u64) -> usize {
        (epoch % Self::PLACES as u64) as usize
    }

    /// The highest epoch that was obeyed. What is granted is granted under it.
    pub fn epoch(&self) -> u64 {
        self.ends.iter().map(|(epoch, _)| *epoch).max().unwrap_or(0)
    }

    /// When what was granted under an epoch ends; zero where it has no lease any more.
    pub const fn end(&self, epoch: u64) -> Time {
        let (standing, end) = self.ends[Self::place(epoch)];
        if standing == epoch { end } else { Time::ZERO }
    }

    /// Whether what was granted under an epoch stands at `now`.
    pub fn holds(&self, epoch: u64, now: Time) -> bool {
        now < self.end(epoch)
    }

    /// Whether an epoch's lease has to begin, because it has ended or never was: in the order of
    /// [`Leases::renew`].
    ///
    /// # Errors
    /// [`Stale`]: a higher epoch was obeyed.
    pub fn begins(&self, epoch: u64, now: Time) -> Result<bool, Stale> {
        let obeys = self.epoch();
        if epoch < obeys { Err(Stale { obeys }) } else { Ok(!self.holds(epoch, now)) }
    }

    /// Makes an epoch's lease end at `end`.
    pub const fn set(&mut self, epoch: u64, end: Time) {
        self.ends[Self::place(epoch)] = (epoch, end);
    }

    /// Makes an epoch's lease last for `span` from `now` on. Where it begins, the epoch first takes its place
    /// without a lease, which ends that of an earlier one there; then `remove` takes away what has none; only
    /// then does it have one. So nothing that was granted before comes back with it.
    ///
    /// Two others keep this order in steps of their own: `Agent::obey`, whose actuator may refuse, and the
    /// leases in the kernel's maps, of which each write may fail.
    ///
    /// # Errors
    /// [`Stale`]: a higher epoch was obeyed.
    pub fn renew(
        &mut self,
        now: Time,
        epoch: u64,
        span: Span,
        remove: impl FnOnce(&Self),
    ) -> Result<(), Stale> {
        if self.begins(epoch, now)? {
            self.set(epoch, Time::ZERO);
            remove(self);
        }
        self.set(epoch, now + span);
        Ok(())
    }

    /// Whether a lease has ended since this was asked last.
    pub fn sweep(&mut self, now: Time) -> bool {
        let since = core::mem::replace(&mut self.swept, now);
        self.ends.iter().any(|(_, end)| since < *end && *end <= now)
    }

    /// When the next lease ends of those that [`Leases::sweep`] hasn't found ended.
    pub fn next_end(&self) -> Option<Time> {
        self.ends.iter().map(|(_, end)| *end).filter(|end| self.swept < *end).min()
    }
}
