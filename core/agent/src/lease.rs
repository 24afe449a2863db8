//! Until when what was granted holds, and on whose word. Each grant names the epoch of the controller
//! that made it; all grants of an epoch end together, so that one write renews them all.

use units::{Span, Time};

/// A lease of an epoch that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The highest epoch that was obeyed.
    pub obeys: u64,
}

/// A step of [`Leases::renewal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The epoch's lease is made to end then: [`Leases::set`].
    End(Time),
    /// What has no lease is taken away.
    Remove,
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

    /// Makes an epoch's lease end at `end`.
    pub const fn set(&mut self, epoch: u64, end: Time) {
        self.ends[Self::place(epoch)] = (epoch, end);
    }

    /// The steps by which an epoch's lease comes to last for `span` from `now` on, each to be taken once the one before is
    /// done. Where the lease begins, because it has ended or never was, the epoch first takes its place without one, which
    /// ends that of an earlier epoch there; then what has none is taken away; only then does the epoch have one. So nothing
    /// that was granted before comes back with it.
    ///
    /// # Errors
    /// [`Stale`]: a higher epoch was obeyed.
    pub fn renewal(
        &self,
        now: Time,
        epoch: u64,
        span: Span,
    ) -> Result<impl Iterator<Item = Renewal> + use<>, Stale> {
        let obeys = self.epoch();
        if epoch < obeys {
            return Err(Stale { obeys });
        }
        let begins = !self.holds(epoch, now);
        let before = begins.then_some([Renewal::End(Time::ZERO), Renewal::Remove]);
        Ok(before.into_iter().flatten().chain([Renewal::End(now + span)]))
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
