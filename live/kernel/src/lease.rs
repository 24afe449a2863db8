//! How long what is granted holds, and on whose word.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agent::{Renewal, Stale};
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use units::{Span, Time};

use crate::Error;
use crate::layout::{Fields, LEASE, Value};

/// How long what is granted holds, and on whose word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The controller's epoch. What an earlier one says is refused.
    pub epoch: u64,
    /// From now on.
    pub span: Span,
}

/// The leases of the last epochs, in a map that the programs read (`bpf/lease.h`). What is granted is
/// granted under the highest one. The rules are those of [`agent::Leases`].
pub(crate) struct Leases {
    map: MapHandle,
    /// What the map says: nobody else writes it.
    known: Mutex<agent::Leases>,
}

/// How many epochs can have a lease at a time (`WM_LEASES`).
#[allow(clippy::cast_possible_truncation)] // 8
const PLACES: u32 = agent::Leases::PLACES as u32;

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
        MapHandle::create(MapType::Array, Some("leases"), 4, LEASE, PLACES, &options)
            .map_err(Error::bpf("make the map of leases"))
            .and_then(Self::left_in)
    }

    /// Those that an earlier agent left in a map.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn left_in(map: MapHandle) -> Result<Self, Error> {
        let mut known = agent::Leases::default();
        for place in 0..PLACES {
            let value = map.lookup(&place.to_ne_bytes(), MapFlags::ANY);
            if let Some(value) = value.map_err(Error::bpf("read a lease"))? {
                let mut fields = Fields(&value);
                let (epoch, end) = (fields.u64(), Time::from_nanos(fields.u64()));
                if epoch > 0 {
                    known.set(epoch, end);
                }
            }
        }
        Ok(Self { map, known: Mutex::new(known) })
    }

    pub(crate) const fn map(&self) -> &MapHandle {
        &self.map
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, agent::Leases> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest epoch that was obeyed.
    pub(crate) fn epoch(&self) -> u64 {
        self.known().epoch()
    }

    /// When what was granted under an epoch ends; zero where it has no lease any more.
    pub(crate) fn end(&self, epoch: u64) -> Time {
        self.known().end(epoch)
    }

    /// Has `remove` take away what has no lease, if one has ended since the last time; gives back how
    /// much that was.
    ///
    /// # Errors
    /// Those of `remove`.
    pub(crate) fn sweep(
        &self,
        now: Time,
        remove: impl FnOnce() -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        let has_ended = self.known().sweep(now);
        if has_ended { remove() } else { Ok(0) }
    }

    /// Makes a lease last from `now` on. `remove` takes away what has none.
    ///
    /// # Errors
    /// [`Error::Stale`], or what the kernel says.
    pub(crate) fn renew(
        &self,
        now: Time,
        lease: Lease,
        remove: impl Fn() -> Result<usize, Error>,
    ) -> Result<(), Error> {
        let Lease { epoch, span } = lease;
        let steps = self.known().renewal(now, epoch, span);
        let stale = |stale: Stale| Error::Stale { given: epoch, standing: stale.obeys };
        for step in steps.map_err(stale)? {
            match step {
                Renewal::End(end) => self.write(epoch, end)?,
                Renewal::Remove => _ = remove()?,
            }
        }
        Ok(())
    }

    fn write(&self, epoch: u64, end: Time) -> Result<(), Error> {
        let place = u32::try_from(agent::Leases::place(epoch)).unwrap_or(0);
        let value = Value::default().u64(epoch).u64(end.as_nanos());
        self.map
            .update(&place.to_ne_bytes(), &value.done(), MapFlags::ANY)
            .map_err(Error::bpf("write a lease"))?;
        self.known().set(epoch, end);
        Ok(())
    }
}
