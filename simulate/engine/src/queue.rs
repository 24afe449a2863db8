//! The event queue: a calendar of 4096 buckets over a far heap, with intrusive slots.
//!
//! Whatever can have an event pending owns a *slot*, and has at most one event pending: a link
//! (its next arrival), a timer, a port. So nothing is allocated per event, and scheduling writes two
//! cache lines: the slot and its bucket's head.
//!
//! Events come out in order of time. The order of simultaneous events depends only on time and slot
//! numbers, so it is deterministic, and it favours no slot: each of two slots is first half of the
//! time. In a fixed order, of several packets that reach a full queue at once the one from the
//! lowest port would always win.
//!
//! Buckets hold unsorted lists. When the clock reaches a bucket its list is sorted once into
//! `current`, which makes simultaneous events cost `n log n` instead of `n²`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{Span, Time};

use crate::prefetch;

/// A source of events; see the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

const BUCKETS: usize = 4096;
const NONE: u32 = u32::MAX;
/// With so many slots, a bucket is made to hold about [`BATCH`] events, so that memory is fetched for many at
/// a time; with fewer, a quarter of one.
const LARGE: usize = 4096;
const BATCH: u64 = 32;
/// Events that are foreseen at a time.
pub const FORESEEN: usize = 64;
/// Beyond the last bucket that a time can fall into.
const NO_BUCKET: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Idle,
    /// In `current`.
    Current,
    /// In the list of its bucket.
    Calendar,
    /// In the heap; the entry is valid only while its time is the slot's.
    Far,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    time: u64,
    /// Next slot in the bucket's list.
    next: u32,
    place: Place,
}

/// Lists of slots by bucket, and which have any.
#[derive(Debug)]
struct Calendar {
    heads: [u32; BUCKETS],
    /// A bit for each bucket.
    words: [u64; BUCKETS / 64],
    /// A bit for each word that isn't known to be zero.
    summary: u64,
}

/// Events in order of time; see the module's text for ties.
#[derive(Debug)]
pub struct EventQueue {
    /// The events of the bucket in progress, last first, as [`EventQueue::key`]s.
    current: Vec<u64>,
    /// Number of the bucket in progress, counted from time 0.
    bucket: u64,
    shift: u32,
    calendar: Box<Calendar>,
    slots: Vec<Pending>,
    far: BinaryHeap<Reverse<(u64, u32)>>,
    /// Bucket of the heap's first entry, valid or not.
    far_bucket: u64,
    popped: u64,
    /// How far ahead most events are scheduled, ns.
    reach: u64,
    /// When the width of buckets was last chosen: the time, ns, and `popped`.
    tuned: (u64, u64),
}

impl EventQueue {
    /// A queue for `slots` slots. `gap` is the expected time between events and `reach` how far
    /// ahead most are scheduled: both only tune, any values are correct.
    pub fn new(slots: usize, gap: Span, reach: Span) -> Self {
        let reach = reach.as_nanos();
        let mut queue = Self {
            current: Vec::new(),
            bucket: 0,
            shift: 0,
            calendar: Box::new(Calendar::EMPTY),
            slots: Vec::new(),
            far: BinaryHeap::new(),
            far_bucket: NO_BUCKET,
            popped: 0,
            reach,
            tuned: (0, 0),
        };
        queue.grow(slots);
        queue.shift = queue.shift_for(gap.as_nanos(), 1);
        queue
    }

    /// The width of buckets, as a power of two, where `count` events take `span`.
    fn shift_for(&self, span: u64, count: u64) -> u32 {
        let gaps = if self.is_large() { span.saturating_mul(BATCH) } else { span / 4 };
        // Most events should fall within reach, and few into the bucket in progress.
        let (least, most) = (self.reach / (BUCKETS as u64 - 1), self.reach / 64);
        let width = (gaps / count).min(most).max(least) + 1;
        // The offset within a bucket must fit 32 bits.
        (u64::BITS - (width - 1).leading_zeros()).min(31)
    }

    /// Whether what events touch is far more than the caches hold.
    fn is_large(&self) -> bool {
        self.slots.len() >= LARGE
    }

    /// Chooses the width of buckets anew, for events as dense as since the last time.
    pub fn tune(&mut self) {
        let now = self.bucket << self.shift;
        // A wider bucket begins earlier.
        let (since, count) = (now.saturating_sub(self.tuned.0), self.popped - self.tuned.1);
        self.tuned = (now, self.popped);
        let shift = self.shift_for(since, count.max(1));
        if shift == self.shift || count == 0 {
            return;
        }
        self.shift = shift;
        self.bucket = now >> shift;
        self.current.clear();
        self.far.clear();
        self.far_bucket = NO_BUCKET;
        *self.calendar = Calendar::EMPTY;
        for slot in 0..self.slots.len() {
            let pending = &mut self.slots[slot];
            if pending.place != Place::Idle {
                pending.place = Place::Idle;
                let time = Time::from_nanos(pending.time);
                self.insert(Slot(low(slot as u64)), time);
            }
        }
    }

    /// Makes slots up to `slots`, exclusive, usable.
    pub fn grow(&mut self, slots: usize) {
        let idle = Pending { time: 0, next: NONE, place: Place::Idle };
        self.slots.resize(slots.max(self.slots.len()), idle);
    }

    /// Events handed out so far.
    pub const fn popped(&self) -> u64 {
        self.popped
    }

    /// When the slot's event is due.
    pub fn due(&self, slot: Slot) -> Option<Time> {
        let pending = &self.slots[slot.0 as usize];
        (pending.place != Place::Idle).then_some(Time::from_nanos(pending.time))
    }

    /// Schedules the slot's event, moving it when one is pending. A time that has passed means
    /// now.
    pub fn schedule(&mut self, slot: Slot, time: Time) {
        if self.slots[slot.0 as usize].place != Place::Idle {
            self.cancel(slot);
        }
        self.insert(slot, time.max(Time::from_nanos(self.bucket << self.shift)));
    }

    /// [`EventQueue::schedule`] for a slot that is known to have nothing pending, at a time that is
    /// known not to have passed.
    #[inline(always)] // one call a hop: the call would cost as much as the work
    pub fn insert(&mut self, slot: Slot, time: Time) {
        let time = time.as_nanos();
        let bucket = time >> self.shift;
        let ahead = bucket.wrapping_sub(self.bucket);
        let pending = &mut self.slots[slot.0 as usize];
        debug_assert_eq!(pending.place, Place::Idle);
        pending.time = time;
        if ahead.wrapping_sub(1) < BUCKETS as u64 - 1 {
            let index = index(bucket);
            pending.place = Place::Calendar;
            let calendar = &mut *self.calendar;
            pending.next = calendar.heads[index];
            calendar.heads[index] = slot.0;
            calendar.words[index / 64] |= 1 << (index % 64);
            calendar.summary |= 1 << (index / 64);
        } else {
            self.insert_elsewhere(slot, time);
        }
    }

    /// An event of the bucket in progress, or beyond the calendar's reach.
    #[cold]
    fn insert_elsewhere(&mut self, slot: Slot, time: u64) {
        let pending = &mut self.slots[slot.0 as usize];
        let bucket = time >> self.shift;
        if bucket <= self.bucket {
            pending.place = Place::Current;
            let key = self.key(time, slot.0);
            let at = self.current.partition_point(|&other| other > key);
            self.current.insert(at, key);
        } else {
            pending.place = Place::Far;
            self.far.push(Reverse((time, slot.0)));
            self.far_bucket = self.far_bucket.min(bucket);
        }
    }

    /// Cancels the slot's event, if one is pending.
    pub fn cancel(&mut self, slot: Slot) {
        let Pending { time, next, place } = self.slots[slot.0 as usize];
        match place {
            // A heap entry dies with the slot's change of place or time.
            Place::Idle | Place::Far => {}
            Place::Current => {
                let key = self.key(time, slot.0);
                self.current.retain(|&other| other != key);
            }
            Place::Calendar => {
                let index = index(time >> self.shift);
                let mut at = self.calendar.heads[index];
                if at == slot.0 {
                    self.calendar.heads[index] = next;
                    if next == NONE {
                        self.calendar.vacate(index);
                    }
                } else {
                    while self.slots[at as usize].next != slot.0 {
                        at = self.slots[at as usize].next;
                    }
                    self.slots[at as usize].next = next;
                }
            }
        }
        self.slots[slot.0 as usize].place = Place::Idle;
    }

    /// The next event not after `limit`, if there is one; its slot is free again. In a large queue
    /// `foresee` gets slots whose events come next, some dozens at a time, to have memory fetched for them.
    #[inline]
    pub fn pop(&mut self, limit: Time, foresee: impl Fn(&Self, &[Slot])) -> Option<(Time, Slot)> {
        while self.current.is_empty() {
            let near = self.calendar.next_occupied(self.bucket);
            if near < self.far_bucket {
                // The usual case: one event in the next bucket needs no sorting.
                let index = index(near);
                let slot = self.calendar.heads[index];
                let pending = &mut self.slots[slot as usize];
                if pending.next == NONE {
                    let time = pending.time;
                    if time > limit.as_nanos() {
                        return None;
                    }
                    pending.place = Place::Idle;
                    self.calendar.heads[index] = NONE;
                    self.calendar.vacate(index);
                    self.bucket = near;
                    self.popped += 1;
                    return Some((Time::from_nanos(time), Slot(slot)));
                }
            }
            if !self.advance(near, limit) {
                return None;
            }
            if self.is_large() {
                self.foresee(&foresee);
            }
        }
        let key = *self.current.last()?;
        let time = (self.bucket << self.shift) + (key >> 32);
        if time > limit.as_nanos() {
            return None;
        }
        self.current.pop();
        if self.current.len().is_multiple_of(FORESEEN) && self.is_large() {
            self.foresee(&foresee);
        }
        let slot = low(key) ^ veil(time);
        self.slots[slot as usize].place = Place::Idle;
        self.popped += 1;
        Some((Time::from_nanos(time), Slot(slot)))
    }

    /// Has memory fetched for [`EventQueue::insert`].
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        if let Some(pending) = self.slots.get(slot.0 as usize) {
            prefetch(pending);
        }
    }

    /// Tells of the next events: of so many that a multiple of [`FORESEEN`] is left, when the next are told.
    fn foresee(&self, tell: &impl Fn(&Self, &[Slot])) {
        if self.current.is_empty() {
            return;
        }
        let mut slots = [Slot(0); FORESEEN];
        let count = (self.current.len() - 1) % FORESEEN + 1;
        let next = self.current.iter().rev().take(count);
        let mut told = 0;
        for (slot, key) in slots.iter_mut().zip(next) {
            *slot = Slot(low(*key) ^ veil((self.bucket << self.shift) + (key >> 32)));
            told += 1;
        }
        tell(self, &slots[..told]);
    }

    /// Sorts the events of the next bucket that holds any into `current`, unless it lies wholly
    /// after `limit`. `near` is the calendar's next bucket.
    fn advance(&mut self, near: u64, limit: Time) -> bool {
        let bucket = near.min(self.far_bucket);
        if bucket == NO_BUCKET || bucket > limit.as_nanos() >> self.shift {
            return false;
        }
        self.bucket = bucket;
        if near == bucket {
            let index = index(bucket);
            let mut at = self.calendar.heads[index];
            self.calendar.heads[index] = NONE;
            self.calendar.vacate(index);
            while at != NONE {
                let pending = &mut self.slots[at as usize];
                pending.place = Place::Current;
                let (time, next) = (pending.time, pending.next);
                self.current.push(self.key(time, at));
                at = next;
            }
        }
        if self.far_bucket == bucket {
            self.take_far();
        }
        self.current.sort_unstable_by(|a, b| b.cmp(a));
        true
    }

    /// Moves the heap's events of the bucket in progress to `current`.
    #[cold]
    fn take_far(&mut self) {
        while let Some(&Reverse((time, slot))) = self.far.peek() {
            if self.is_far(time, slot) {
                if time >> self.shift != self.bucket {
                    break;
                }
                self.slots[slot as usize].place = Place::Current;
                self.current.push(self.key(time, slot));
            }
            self.far.pop();
        }
        self.far_bucket = self.far.peek().map_or(NO_BUCKET, |far| far.0.0 >> self.shift);
    }

    fn is_far(&self, time: u64, slot: u32) -> bool {
        let pending = &self.slots[slot as usize];
        pending.place == Place::Far && pending.time == time
    }

    /// Position of an event within the bucket in progress: offset « 32 | veiled slot.
    const fn key(&self, time: u64, slot: u32) -> u64 {
        (time - (self.bucket << self.shift)) << 32 | (slot ^ veil(time)) as u64
    }
}

impl Calendar {
    const EMPTY: Self = Self { heads: [NONE; BUCKETS], words: [0; BUCKETS / 64], summary: 0 };

    const fn vacate(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    /// Number of the first occupied bucket, searched in a circle from the one after `bucket`, that in
    /// progress; [`NO_BUCKET`] when all are empty.
    #[inline]
    fn next_occupied(&mut self, bucket: u64) -> u64 {
        let start = index(bucket + 1);
        let (word, bit) = (start / 64, start % 64);
        let here = self.words[word] >> bit;
        if here != 0 {
            return bucket + 1 + u64::from(here.trailing_zeros());
        }
        // Words after this one first; this one itself comes last, for the bits below.
        let from = word + 1;
        loop {
            let turned = self.summary.rotate_right(low(from as u64));
            if turned == 0 {
                return NO_BUCKET;
            }
            let word = (from + turned.trailing_zeros() as usize) % 64;
            if self.words[word] != 0 {
                let found = word * 64 + self.words[word].trailing_zeros() as usize;
                return bucket + 1 + ((found + BUCKETS - start) % BUCKETS) as u64;
            }
            self.summary &= !(1 << word);
        }
    }
}

/// The mask of slot numbers that orders simultaneous events. The highest bit in which two slots
/// differ decides between them, and the mask flips it half of the time (Fibonacci hashing).
const fn veil(time: u64) -> u32 {
    low(time.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32)
}

#[allow(clippy::cast_possible_truncation)] // the remainder is what is wanted
const fn index(bucket: u64) -> usize {
    bucket as usize % BUCKETS
}

#[allow(clippy::cast_possible_truncation)] // the low half is what is wanted
const fn low(key: u64) -> u32 {
    key as u32
}
