//! Who leads, as a machine: time and what the store said go in, what to ask the store comes out.
//!
//! The store holds one record, the leader's, and changes it only over the revision that is named. The
//! leader writes it again and again; who sees the same revision for as long as the record's lease takes it
//! over, with a higher epoch. No clock is compared with another's:
//!
//! - A leader counts its lease from before it asked the store, and stops before the end of it, by a margin for
//!   clocks that run at different speeds.
//! - A follower counts from after the store has shown it a revision.
//!
//! So the first has stopped before the second begins. What is held up for longer than the margin, as
//! a process that stands still, is fenced by the epoch at agents and switches.
//!
//! A store may lose the record, or be given an old one. Who finds none waits a lease as well: a leader of which it
//! knows nothing has stopped then. And each remembers the highest epoch that it has seen, and begins so far above it
//! that those are below which it has missed.
//!
//! What was asked without an answer may be written late. Over a revision that is only where nobody has written since,
//! and so nobody leads; over nothing also where another has led and its record is gone. Who finds such a record of its
//! own waits for it as for another's.

use protocol::agent::MOST_EPOCH;
use serde::{Deserialize, Serialize};
use units::{Span, Time};

/// How far above the highest known epoch one begins where the record is of a lower one, or gone: more than there can
/// have been offices of which it hasn't heard. It is odd: meters at switches have numbers by whether an epoch is, and
/// the last one's may lead packets for a lease still.
const LEAP: u64 = 1_001;
const _: () = assert!(LEAP % 2 == 1);

/// What the store holds of a leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Where it is found.
    pub address: String,
    /// The epoch under which it leads.
    pub epoch: u64,
    /// Which process it is: a number that no other has.
    pub process: u64,
    /// How long it leads without writing the record again, in nanoseconds.
    pub lease_ns: Span,
    /// When it began, by its wall clock, in seconds since 1970. For people.
    pub since_s: u64,
    /// It has stopped: anybody may take over now.
    pub released: bool,
}

impl Record {
    /// The record that `octets` of the store are; `place` is what errors call them.
    ///
    /// # Errors
    /// They are none, or one of an epoch that no agent obeys.
    pub fn read(octets: &[u8], place: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(octets)
            .map_err(|error| format!("{place} holds something else: {error}"))?;
        if record.epoch > MOST_EPOCH {
            let epoch = record.epoch;
            return Err(format!(
                "{place} holds epoch {epoch}, which no agent obeys: remove {place}"
            ));
        }
        Ok(record)
    }
}

/// By what a store tells one writing from all others. Revisions are the same or not, and in no order.
pub type Revision = String;

/// What to ask the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The record and its revision.
    Read,
    /// To put this record in place of what stands there under revision `over`, or to say what stands there.
    Write {
        /// The revision that is replaced; `None`: nothing stands there.
        over: Option<Revision>,
        /// What takes its place.
        record: Record,
    },
}

/// What the store said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The answer to a read, or to a write over what isn't there any more: the record, and the revision of what stands
    /// there. A place for a record may stand there without one.
    Holds(Option<Record>, Option<Revision>),
    /// It is written, under this revision.
    Written(Revision),
}

/// Who stands for election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Where it is found.
    pub address: String,
    /// A number that no other process has.
    pub process: u64,
    /// How long it leads without word of the store.
    pub lease: Span,
}

#[derive(Clone, Copy, Debug)]
struct Office {
    epoch: u64,
    since_s: u64,
    until: Time,
}

#[derive(Clone, Debug)]
enum Flight {
    Read,
    Take(Record, Time),
    Renew(Record, Time),
}

/// One who stands for election.
#[derive(Debug)]
pub struct Election {
    own: Candidate,
    /// The highest epoch that was seen, or that others are known to obey: none up to it is taken.
    last: u64,
    /// What the store held, its revision, and when that was seen first. `None`: not known.
    seen: Option<(Option<Record>, Option<Revision>, Time)>,
    office: Option<Office>,
    flight: Option<Flight>,
    next: Time,
    /// The highest epoch that was to be taken over nothing, without an answer.
    stray: u64,
}

impl Election {
    /// Knows nothing yet; `last` is the highest epoch that this one's state has.
    pub const fn new(own: Candidate, last: u64) -> Self {
        Self { own, last, seen: None, office: None, flight: None, next: Time::ZERO, stray: 0 }
    }

    /// The highest epoch that it knows of: what its state should have at its next start.
    pub const fn highest(&self) -> u64 {
        self.last
    }

    /// Somebody obeys this epoch: it takes none up to it.
    pub fn pass(&mut self, epoch: u64) {
        self.last = self.last.max(epoch);
    }

    /// The epoch under which it leads, and until when if the store says nothing.
    pub fn leads(&self, now: Time) -> Option<(u64, Time)> {
        let office = self.office.filter(|office| now < office.until)?;
        Some((office.epoch, office.until))
    }

    /// Who led when the store was heard last, itself too.
    pub fn leader(&self) -> Option<&Record> {
        let record = self.seen.as_ref()?.0.as_ref()?;
        (!record.released).then_some(record)
    }

    /// What no lease goes on without, for clocks of different speeds.
    fn margin(lease: Span) -> Span {
        lease / 8
    }

    /// When to [`poll`](Self::poll) although nothing happens; `None`: an answer is due.
    pub fn deadline(&self) -> Option<Time> {
        self.flight.is_none().then_some(self.next)
    }

    /// When the record may be taken over, as far as is known.
    fn free(&self) -> Time {
        match &self.seen {
            Some((Some(record), _, since)) => {
                // One's own: whoever led before it has stopped.
                let is_own = record.process == self.own.process && record.epoch > self.stray;
                let is_free = record.released || is_own;
                let patience = record.lease_ns.max(self.own.lease);
                if is_free { *since } else { *since + patience }
            }
            Some((None, _, since)) => *since + self.own.lease,
            None => Time::NEVER,
        }
    }

    /// What to ask now, if anything; nothing more until it is [`heard`](Self::heard). `wall_s` is the wall clock's
    /// time, for people.
    pub fn poll(&mut self, now: Time, wall_s: u64) -> Option<Action> {
        if self.office.is_some_and(|office| now >= office.until) {
            self.office = None;
            self.next = now;
        }
        if self.flight.is_some() || now < self.next {
            return None;
        }
        let Some((record, revision, _)) = &self.seen else {
            self.flight = Some(Flight::Read);
            return Some(Action::Read);
        };
        let over = revision.clone();
        if let Some(office) = self.office {
            let record = self.record(office.epoch, office.since_s);
            self.flight = Some(Flight::Renew(record.clone(), now));
            return Some(Action::Write { over, record });
        }
        let held = record.as_ref().map_or(0, |record| record.epoch);
        if now < self.free() || self.last >= MOST_EPOCH {
            self.flight = Some(Flight::Read);
            return Some(Action::Read);
        }
        let epoch = if held < self.last { (self.last + LEAP).min(MOST_EPOCH) } else { held + 1 };
        let record = self.record(epoch, wall_s);
        self.flight = Some(Flight::Take(record.clone(), now));
        Some(Action::Write { over, record })
    }

    fn record(&self, epoch: u64, since_s: u64) -> Record {
        Record {
            name: self.own.name.clone(),
            address: self.own.address.clone(),
            epoch,
            process: self.own.process,
            lease_ns: self.own.lease,
            since_s,
            released: false,
        }
    }

    /// What the store said to what [`poll`](Self::poll) asked; `None`: nothing that can be understood, in good
    /// time. What was asked may have been done all the same.
    pub fn heard(&mut self, now: Time, said: Option<Said>) {
        let Some(flight) = self.flight.take() else { return };
        if self.office.is_some_and(|office| now >= office.until) {
            self.office = None;
        }
        if let (None, Flight::Take(record, _)) = (&said, &flight)
            && matches!(self.seen, Some((_, None, _)))
        {
            self.stray = self.stray.max(record.epoch);
        }
        let lease = self.own.lease;
        match (said, flight) {
            (Some(Said::Written(revision)), Flight::Take(record, asked)) => {
                let (epoch, since_s) = (record.epoch, record.since_s);
                let until = asked + lease.saturating_sub(Self::margin(lease));
                self.pass(epoch);
                self.seen = Some((Some(record), Some(revision), now));
                self.office = (now < until).then_some(Office { epoch, since_s, until });
                self.next = asked + lease / 5;
            }
            (Some(Said::Written(revision)), Flight::Renew(record, asked)) => {
                self.seen = Some((Some(record), Some(revision), now));
                // An office that has ended doesn't begin again: another may have been told so.
                if let Some(office) = &mut self.office {
                    office.until = asked + lease.saturating_sub(Self::margin(lease));
                    self.next = asked + lease / 5;
                } else {
                    self.next = now;
                }
            }
            (Some(Said::Holds(record, revision)), _) => {
                let is_own = record.as_ref().is_some_and(|record| {
                    record.process == self.own.process
                        && self.office.is_some_and(|office| office.epoch == record.epoch)
                });
                if !is_own {
                    self.office = None;
                }
                self.pass(record.as_ref().map_or(0, |record| record.epoch));
                // A store that has lost all counts its revisions anew.
                let known =
                    self.seen.as_ref().filter(|seen| seen.1 == revision && seen.0 == record);
                let since = known.map_or(now, |seen| seen.2);
                self.seen = Some((record, revision, since));
                // What was written without an answer has another revision: it is written over that at once.
                self.next = match self.free() {
                    _ if is_own => now,
                    free if free > now || self.last < MOST_EPOCH => {
                        free.clamp(now, now + lease / 10)
                    }
                    // There is no epoch to take it over with.
                    _ => now + lease / 10,
                };
            }
            (Some(Said::Written(_)), Flight::Read) | (None, _) => {
                // That nothing stands there has no revision: a record may have come and gone meanwhile.
                self.seen.take_if(|seen| seen.0.is_none());
                self.next = now + lease / 20;
            }
        }
    }

    /// It leads no longer, of its own accord. It may again, under another epoch.
    pub fn give_up(&mut self) {
        self.office = None;
    }

    /// The same for good: what to ask the store, so that others needn't wait. Where it says that something else
    /// [holds](Said::Holds), as where an order was kept beside the record, it is asked again over that.
    pub fn release(&mut self) -> Option<Action> {
        self.office = None;
        self.flight = Some(Flight::Read);
        let (record, over, _) = self.seen.as_ref()?;
        let own = record.as_ref().filter(|record| record.process == self.own.process)?;
        let record = Record { released: true, ..own.clone() };
        Some(Action::Write { over: over.clone(), record })
    }
}
