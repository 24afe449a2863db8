//! A second account of a link, kept in builds with debug assertions, as those of tests are: it knows the link as
//! the topology states it, and of each packet that is taken when it comes and when it is to leave.

use std::collections::VecDeque;

use model::{Buffer, LinkSpec};
use units::Time;

/// What was taken of late.
#[derive(Debug)]
struct Book {
    spec: LinkSpec,
    /// When each packet leaves that waits or is being sent, ns, and its octets.
    waiting: VecDeque<(u64, u64)>,
    octets: u64,
    /// When the last leaves.
    last: u64,
}

impl Book {
    const fn new(spec: LinkSpec) -> Self {
        Self { spec, waiting: VecDeque::new(), octets: 0, last: 0 }
    }

    /// A packet of `size` octets that comes at `now` is to leave at `leaves`.
    fn take(&mut self, now: u64, leaves: u64, size: u64) -> Result<(), &'static str> {
        while let Some((_, gone)) = self.waiting.pop_front_if(|(leaves, _)| *leaves <= now) {
            self.octets -= gone;
        }
        let bps = u128::from(self.spec.capacity.as_bps());
        // Departures are rounded up to the nanosecond, so that two may stand a part of one too close.
        let earliest = u128::from(now.max(self.last)) + u128::from(size) * 8_000_000_000 / bps;
        if u128::from(leaves) < earliest {
            return Err("sent more than its capacity");
        }
        self.last = leaves;
        self.octets += size;
        self.waiting.push_back((leaves, size));
        self.hold(self.waiting.len() as u64, self.octets)
    }

    /// So much waits, what is being sent included if the buffer counts packets.
    fn hold(&self, packets: u64, octets: u64) -> Result<(), &'static str> {
        let fits = match self.spec.buffer {
            Buffer::Packets(most) => packets <= u64::from(most),
            Buffer::Bytes(most) => octets <= most.get(),
            Buffer::Unlimited => true,
        };
        if fits { Ok(()) } else { Err("held more than its buffer") }
    }
}

/// Those of all links, and the first that was broken.
#[derive(Debug, Default)]
pub(crate) struct Books {
    books: Vec<Book>,
    fault: Option<String>,
}

impl Books {
    pub(crate) fn open(&mut self, spec: LinkSpec) {
        self.books.push(Book::new(spec));
    }

    pub(crate) fn take(&mut self, link: usize, now: u64, leaves: u64, size: u64) {
        let kept = self.books[link].take(now, leaves, size);
        self.note(link, now, kept);
    }

    /// So much waits before a link that is sending.
    pub(crate) fn hold(&mut self, link: usize, now: u64, waiting: u32, octets: u64) {
        let kept = self.books[link].hold(u64::from(waiting) + 1, octets);
        self.note(link, now, kept);
    }

    fn note(&mut self, link: usize, now: u64, kept: Result<(), &'static str>) {
        if let (Err(what), None) = (kept, &self.fault) {
            self.fault = Some(format!("link {link} {what} at {}", Time::from_nanos(now)));
        }
    }

    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.fault = None;
    }
}
