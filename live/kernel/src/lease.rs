//! How long what is granted holds, and on whose word.

use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use rustix::time::{ClockId, clock_gettime};
use units::{Span, Time};

use crate::Error;
use crate::layout::{Fields, LEASE, LEASES, Value};

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

/// Epochs and when their leases end.
type Ends = [(u64, Time); LEASES as usize];

/// The leases of the last epochs, in a map that the programs read (`bpf/lease.h`). What is granted is
/// granted under the highest one.
pub(crate) struct Leases {
    map: MapHandle,
    /// What the map says, epoch and end: nobody else writes it.
    ends: Mutex<Ends>,
    /// When it was last looked for what has ended.
    swept: Mutex<Time>,
}

impl Leases {
    /// No lease yet.
    ///
    /// # Errors
    /// The kernel gives no map.
    pub(crate) fn new() -> Result<Self, Error> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            ..bpf_map_create_opts::default()
        };
        MapHandle::create(MapType::Array, Some("leases"), 4, LEASE, LEASES, &options)
            .map_err(Error::bpf("make the map of leases"))
            .and_then(Self::left_in)
    }

    /// Those that an earlier agent left in a map.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn left_in(map: MapHandle) -> Result<Self, Error> {
        let mut ends = [(0, Time::ZERO); LEASES as usize];
        for (place, end) in (0..LEASES).zip(&mut ends) {
            let value = map.lookup(&place.to_ne_bytes(), MapFlags::ANY);
            if let Some(value) = value.map_err(Error::bpf("read a lease"))? {
                let mut fields = Fields(&value);
                *end = (fields.u64(), Time::from_nanos(fields.u64()));
            }
        }
        Ok(Self { map, ends: Mutex::new(ends), swept: Mutex::new(Time::ZERO) })
    }

    pub(crate) const fn map(&self) -> &MapHandle {
        &self.map
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest epoch that was obeyed.
    pub(crate) fn epoch(&self) -> u64 {
        self.ends().iter().map(|(epoch, _)| *epoch).max().unwrap_or(0)
    }

    /// When what was granted under an epoch ends; zero where it has no lease any more.
    pub(crate) fn end(&self, epoch: u64) -> Time {
        let (standing, end) = self.ends()[place(epoch) as usize];
        if standing == epoch { end } else { Time::ZERO }
    }

    /// Has `remove` take away what has no lease, if one has ended since the last time; gives back how
    /// much that was.
    ///
    /// # Errors
    /// Those of `remove`.
    pub(crate) fn sweep(
        &self,
        remove: impl FnOnce() -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        let now = now();
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let since = std::mem::replace(&mut *swept, now);
        drop(swept);
        let has_ended = self.ends().iter().any(|(_, end)| since < *end && *end <= now);
        if has_ended { remove() } else { Ok(0) }
    }

    /// Makes a lease last from now on. Where it stands no more, or never stood, `remove` first takes
    /// away what has none: it must not come back.
    ///
    /// # Errors
    /// [`Error::Stale`], or what the kernel says.
    pub(crate) fn renew(
        &self,
        lease: Lease,
        remove: impl FnOnce() -> Result<usize, Error>,
    ) -> Result<(), Error> {
        let standing = self.epoch();
        if lease.epoch < standing {
            return Err(Error::Stale { given: lease.epoch, standing });
        }
        if self.end(lease.epoch) <= now() {
            self.write(lease.epoch, Time::ZERO)?;
            remove()?;
        }
        self.write(lease.epoch, now() + lease.span)
    }

    fn write(&self, epoch: u64, end: Time) -> Result<(), Error> {
        let place = place(epoch);
        let value = Value::default().u64(epoch).u64(end.as_nanos());
        self.map
            .update(&place.to_ne_bytes(), &value.done(), MapFlags::ANY)
            .map_err(Error::bpf("write a lease"))?;
        self.ends()[place as usize] = (epoch, end);
        Ok(())
    }
}

/// Where the lease of an epoch is.
fn place(epoch: u64) -> u32 {
    u32::try_from(epoch % u64::from(LEASES)).unwrap_or(0)
}
