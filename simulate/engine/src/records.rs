//! Tables of what a run leaves: records that will change no more take a few octets each.
//!
//! They stand in blocks. In an open block they are as they are. Once all of a full block are final it is
//! sealed: of each field the least, and how far the others lie above that, in as many octets as the farthest
//! takes (frame of reference: Goldstein, Ramakrishnan, Shaft, ICDE 1998, "Compressing relations and
//! indexes").

use std::borrow::Cow;
use std::fmt;

use model::{FlowId, JobClass, JobId, NodeId};
use units::{Bytes, Rate, Span, Time};

/// One flow of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The flow.
    pub id: FlowId,
    /// Its job.
    pub job: JobId,
    /// The application that it is of, by its position in [`Outcome::applications`](crate::Outcome::applications).
    pub application: u32,
    /// Sending host.
    pub src: NodeId,
    /// Receiving host.
    pub dst: NodeId,
    /// Payload to move; [`Bytes::MAX`] when endless.
    pub size: Bytes,
    /// Payload that reached the receiving application.
    pub delivered: Bytes,
    /// First byte handed to the transport.
    pub start: Time,
    /// Last byte at the receiving application (for datagrams: last packet that wasn't lost);
    /// `None` when the run ended first.
    pub end: Option<Time>,
    /// Packets sent again.
    pub retransmissions: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Alternately when it was first limited, with the rate, and when it was free again (`None`).
    /// Empty: never limited.
    pub limits: Vec<(Time, Option<Rate>)>,
    /// How many limits were enforced and lifted.
    pub limits_set: u32,
}

// As a flow that lives has it; one that has ended takes less.
const _: () = assert!(size_of::<FlowRecord>() <= 96);

impl FlowRecord {
    /// Flow completion time (FCT).
    pub fn completion(&self) -> Option<Span> {
        self.end.map(|end| end.since(self.start))
    }
}

/// One job of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The job.
    pub id: JobId,
    /// The application that it is of, by its position in [`Outcome::applications`](crate::Outcome::applications).
    pub application: u32,
    /// Size class, where the workload has classes.
    pub class: Option<JobClass>,
    /// When it arrived.
    pub arrival: Time,
    /// Payload of all its flows.
    pub size: Bytes,
    /// When its last flow ended; `None` when the run ended first.
    pub end: Option<Time>,
}

const _: () = assert!(size_of::<JobRecord>() <= 48);

impl JobRecord {
    /// Job completion time (JCT).
    pub fn completion(&self) -> Option<Span> {
        self.end.map(|end| end.since(self.arrival))
    }
}

/// Records of a block, and so what one that stays open keeps open.
const BLOCK: usize = 128;

/// Records by position, in the order in which they were added.
#[derive(Clone)]
pub struct Records<T> {
    blocks: Vec<Block<T>>,
    count: usize,
}

#[derive(Clone)]
enum Block<T> {
    Open(Vec<T>),
    /// [`BLOCK`] records.
    Sealed(Box<[u8]>),
}

/// What can stand in [`Records`].
pub trait Record: Clone {
    /// Whether it will change no more.
    fn is_final(&self) -> bool;

    /// The octets of a full block, all of whose records are final.
    fn seal(records: &[Self]) -> Vec<u8>;

    /// The records from `first` on of the full block of which [`seal`](Self::seal) made these octets, each read
    /// when it is asked for.
    fn open(octets: &[u8], first: usize) -> impl Iterator<Item = Self>;
}

// Derived, it would ask that T have a default too.
impl<T> Default for Records<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), count: 0 }
    }
}

impl<T: Record> Block<T> {
    fn records(&self) -> Vec<T> {
        match self {
            Self::Open(records) => records.clone(),
            Self::Sealed(octets) => T::open(octets, 0).collect(),
        }
    }
}

impl<T: Record> Records<T> {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a record behind the others.
    pub fn push(&mut self, record: T) {
        match self.blocks.last_mut() {
            Some(Block::Open(records)) if records.len() < BLOCK => records.push(record),
            _ => {
                let mut records = Vec::with_capacity(BLOCK);
                records.push(record);
                self.blocks.push(Block::Open(records));
            }
        }
        self.count += 1;
    }

    /// The record at a position.
    pub fn get(&self, position: usize) -> Option<T> {
        (position < self.count).then(|| self.at(position))
    }

    /// The record at a position where there is one.
    ///
    /// # Panics
    /// Where there is none, as a slice does.
    pub fn at(&self, position: usize) -> T {
        self.peek(position).into_owned()
    }

    /// The record at a position where there is one, as it stands in an open block.
    ///
    /// # Panics
    /// Where there is none, as a slice does.
    pub fn peek(&self, position: usize) -> Cow<'_, T> {
        match &self.blocks[position / BLOCK] {
            Block::Open(records) => Cow::Borrowed(&records[position % BLOCK]),
            Block::Sealed(octets) => {
                let record = T::open(octets, position % BLOCK).next();
                Cow::Owned(record.expect("a sealed block is full"))
            }
        }
    }

    /// The record at a position where there is one, to be changed. Its block is open from then on.
    ///
    /// # Panics
    /// Where there is none, as a slice does.
    pub fn at_mut(&mut self, position: usize) -> &mut T {
        let block = &mut self.blocks[position / BLOCK];
        if let Block::Sealed(_) = block {
            *block = Block::Open(block.records());
        }
        match block {
            Block::Open(records) => &mut records[position % BLOCK],
            Block::Sealed(_) => unreachable!("it was opened"),
        }
    }

    /// Whether the record at a position will change no more.
    pub fn is_final(&self, position: usize) -> bool {
        match self.blocks.get(position / BLOCK) {
            Some(Block::Open(records)) => records.get(position % BLOCK).is_none_or(T::is_final),
            Some(Block::Sealed(_)) | None => true,
        }
    }

    /// All records in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { blocks: self.blocks.iter(), block: Vec::new().into_iter(), left: self.count }
    }

    /// Those of open blocks, to be changed: among them all that aren't final.
    pub(crate) fn open_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let open = self.blocks.iter_mut().filter_map(|block| match block {
            Block::Open(records) => Some(records),
            Block::Sealed(_) => None,
        });
        open.flatten()
    }

    /// Seals the block of a record that has become final, if all of it are.
    pub(crate) fn seal(&mut self, position: usize) {
        let Some(block) = self.blocks.get_mut(position / BLOCK) else { return };
        if let Block::Open(records) = block
            && records.len() == BLOCK
            && records.iter().all(T::is_final)
        {
            *block = Block::Sealed(T::seal(records).into_boxed_slice());
        }
    }
}

/// The records of a table, in order.
pub struct Iter<'a, T> {
    blocks: std::slice::Iter<'a, Block<T>>,
    block: std::vec::IntoIter<T>,
    left: usize,
}

impl<T: Record> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(record) = self.block.next() {
                self.left -= 1;
                return Some(record);
            }
            self.block = self.blocks.next()?.records().into_iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Record> IntoIterator for &'a Records<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T: Record> FromIterator<T> for Records<T> {
    fn from_iter<I: IntoIterator<Item = T>>(records: I) -> Self {
        let mut all = Self::default();
        for record in records {
            all.push(record);
            all.seal(all.count - 1);
        }
        all
    }
}

impl<T: Record> From<Vec<T>> for Records<T> {
    fn from(records: Vec<T>) -> Self {
        records.into_iter().collect()
    }
}

impl<T: Record + PartialEq> PartialEq for Records<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl<T: Record + Eq> Eq for Records<T> {}

impl<T: Record + fmt::Debug> fmt::Debug for Records<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Appends numbers: the least of them, and of each how far it lies above that, in as many octets as the
/// farthest takes.
fn put(values: impl Iterator<Item = u64> + Clone, out: &mut Vec<u8>) {
    let least = values.clone().min().unwrap_or(0);
    let farthest = values.clone().max().unwrap_or(0) - least;
    let width = (u64::BITS - farthest.leading_zeros()).div_ceil(8);
    out.push(width.to_le_bytes()[0]);
    out.extend(least.to_le_bytes());
    for value in values {
        out.extend((value - least).to_le_bytes().iter().take(width as usize));
    }
}

/// Numbers as [`put`] wrote them.
#[derive(Clone)]
struct Column<'a> {
    least: u64,
    width: usize,
    /// Of the numbers to come.
    octets: &'a [u8],
    left: usize,
}

impl<'a> Column<'a> {
    /// Takes `count` numbers from the front of `from`.
    fn read(count: usize, from: &mut &'a [u8]) -> Self {
        let (head, rest) = from.split_at(1 + size_of::<u64>());
        let width = usize::from(head[0]);
        let (octets, rest) = rest.split_at(count * width);
        *from = rest;
        Self { least: whole(&head[1..]), width, octets, left: count }
    }

    /// Without the first `count` numbers, of which there are so many.
    fn past(self, count: usize) -> Self {
        Self { octets: &self.octets[count * self.width..], left: self.left - count, ..self }
    }
}

impl Iterator for Column<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let (octets, rest) = self.octets.split_at(self.width);
        self.octets = rest;
        Some(self.least + whole(octets))
    }
}

/// The number of which these are the octets, the lowest first.
fn whole(octets: &[u8]) -> u64 {
    octets.iter().rev().fold(0, |value, octet| value << 8 | u64::from(*octet))
}

/// A number that was a `u32` when it was written.
fn short(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// What numbers that count up from record to record have in common, at the place `n` of a block.
const fn even(number: u32, n: usize) -> u64 {
    number as u64 + (BLOCK - n) as u64
}

/// The number of which [`even`] was written.
fn uneven(value: u64, n: usize) -> u32 {
    short(value - (BLOCK - n) as u64)
}

/// How far a time lies behind another, in a turn of all that there are.
const fn behind(time: Time, other: Time) -> u64 {
    time.as_nanos().wrapping_sub(other.as_nanos())
}

/// The time so far behind another.
const fn ahead(other: Time, behind: u64) -> Time {
    Time::from_nanos(other.as_nanos().wrapping_add(behind))
}

impl Record for FlowRecord {
    fn is_final(&self) -> bool {
        self.end.is_some()
    }

    fn seal(records: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        let flows = || records.iter();
        put(flows().enumerate().map(|(n, flow)| even(flow.id.0, n)), &mut out);
        put(flows().enumerate().map(|(n, flow)| even(flow.job.0, n)), &mut out);
        put(flows().map(|flow| flow.application.into()), &mut out);
        put(flows().map(|flow| flow.src.0.into()), &mut out);
        put(flows().map(|flow| flow.dst.0.into()), &mut out);
        put(flows().map(|flow| flow.size.get()), &mut out);
        put(flows().map(|flow| flow.size.get().wrapping_sub(flow.delivered.get())), &mut out);
        put(flows().map(|flow| flow.start.as_nanos()), &mut out);
        let end = |flow: &Self| flow.end.map_or(0, |end| behind(end, flow.start));
        put(flows().map(end), &mut out);
        put(flows().map(|flow| flow.retransmissions.into()), &mut out);
        put(flows().map(|flow| flow.timeouts.into()), &mut out);
        put(flows().map(|flow| flow.limits_set.into()), &mut out);
        put(flows().map(|flow| flow.limits.len() as u64), &mut out);
        let limits = || flows().flat_map(|flow| &flow.limits);
        let times = flows().flat_map(|flow| {
            let before = std::iter::once(flow.start).chain(flow.limits.iter().map(|(at, _)| *at));
            flow.limits.iter().zip(before).map(|((at, _), before)| behind(*at, before))
        });
        put(times, &mut out);
        put(limits().map(|(_, limit)| limit.is_some().into()), &mut out);
        put(limits().map(|(_, limit)| limit.map_or(0, Rate::as_bps)), &mut out);
        out
    }

    fn open(mut from: &[u8], first: usize) -> impl Iterator<Item = Self> {
        let from = &mut from;
        // In the order in which they were written.
        let [mut ids, mut jobs, mut applications, mut sources, mut destinations] =
            [(); 5].map(|()| Column::read(BLOCK, from).past(first));
        let [mut sizes, mut missing, mut starts, mut ends] =
            [(); 4].map(|()| Column::read(BLOCK, from).past(first));
        let [mut retransmissions, mut timeouts, mut limits_set] =
            [(); 3].map(|()| Column::read(BLOCK, from).past(first));
        let counts = Column::read(BLOCK, from);
        let before: usize = counts.clone().take(first).map(count).sum();
        let mut counts = counts.past(first);
        let all = before + counts.clone().map(count).sum::<usize>();
        let [mut times, mut has_limit, mut rates] =
            [(); 3].map(|()| Column::read(all, from).past(before));
        (first..BLOCK).map_while(move |n| {
            let (size, start) = (sizes.next()?, Time::from_nanos(starts.next()?));
            let end = Some(ahead(start, ends.next()?));
            let limits = counts.next()?;
            let mut before = start;
            let limits = (0..limits).map_while(|_| {
                before = ahead(before, times.next()?);
                let (has_limit, rate) = (has_limit.next()? > 0, Rate::from_bps(rates.next()?));
                Some((before, has_limit.then_some(rate)))
            });
            let limits = limits.collect();
            Some(Self {
                id: FlowId(uneven(ids.next()?, n)),
                job: JobId(uneven(jobs.next()?, n)),
                application: short(applications.next()?),
                src: NodeId(short(sources.next()?)),
                dst: NodeId(short(destinations.next()?)),
                size: Bytes::new(size),
                delivered: Bytes::new(size.wrapping_sub(missing.next()?)),
                start,
                end,
                retransmissions: short(retransmissions.next()?),
                timeouts: short(timeouts.next()?),
                limits,
                limits_set: short(limits_set.next()?),
            })
        })
    }
}

/// A number that was a `usize` when it was written.
fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Record for JobRecord {
    fn is_final(&self) -> bool {
        self.end.is_some()
    }

    fn seal(records: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        let jobs = || records.iter();
        let class = |job: &Self| {
            let place = JobClass::ALL.iter().position(|class| job.class == Some(*class));
            place.map_or(0, |place| place as u64 + 1)
        };
        let end = |job: &Self| job.end.map_or(0, |end| behind(end, job.arrival));
        put(jobs().enumerate().map(|(n, job)| even(job.id.0, n)), &mut out);
        put(jobs().map(|job| job.application.into()), &mut out);
        put(jobs().map(class), &mut out);
        put(jobs().map(|job| job.arrival.as_nanos()), &mut out);
        put(jobs().map(|job| job.size.get()), &mut out);
        put(jobs().map(end), &mut out);
        out
    }

    fn open(mut from: &[u8], first: usize) -> impl Iterator<Item = Self> {
        let from = &mut from;
        // In the order in which they were written.
        let [mut ids, mut applications, mut classes, mut arrivals, mut sizes, mut ends] =
            [(); 6].map(|()| Column::read(BLOCK, from).past(first));
        (first..BLOCK).map_while(move |n| {
            let arrival = Time::from_nanos(arrivals.next()?);
            let class = count(classes.next()?).checked_sub(1);
            Some(Self {
                id: JobId(uneven(ids.next()?, n)),
                application: short(applications.next()?),
                class: class.and_then(|class| JobClass::ALL.get(class).copied()),
                arrival,
                size: Bytes::new(sizes.next()?),
                end: Some(ahead(arrival, ends.next()?)),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use units::Span;

    use super::*;

    /// The numbers of the records that fill so many blocks.
    fn numbers(blocks: usize) -> Range<u32> {
        0..u32::try_from(blocks * BLOCK).unwrap()
    }

    /// What a table takes.
    fn octets<T>(records: &Records<T>) -> usize {
        let of = |block: &Block<T>| match block {
            Block::Open(records) => records.capacity() * size_of::<T>(),
            Block::Sealed(octets) => octets.len(),
        };
        records.blocks.iter().map(|block| size_of::<Block<T>>() + of(block)).sum()
    }

    /// A flow of 46 kB and more, and its job, as `scenarios/bench/w2.toml` has them.
    fn usual(number: u32) -> (FlowRecord, JobRecord) {
        let place = u64::from(number);
        let size = Bytes::new(46_000 + place * 7_919 % 500_000);
        let start = Time::from_nanos(place * 3_937);
        let end = Some(start + Span::from_nanos(370_000 + place * 104_729 % 10_000_000));
        let flow = FlowRecord {
            id: FlowId(number),
            job: JobId(number),
            application: 0,
            src: NodeId(number % 120),
            dst: NodeId(number % 113 + 7),
            size,
            delivered: size,
            start,
            end,
            retransmissions: 0,
            timeouts: 0,
            limits: Vec::new(),
            limits_set: 0,
        };
        let job =
            JobRecord { id: flow.job, application: 0, class: None, arrival: start, size, end };
        (flow, job)
    }

    fn most(number: u32) -> (FlowRecord, JobRecord) {
        let far = Some(Time::NEVER);
        let (flow, job) = usual(u32::MAX - number);
        let rate = Some(Rate::from_bps(u64::MAX));
        let flow = FlowRecord {
            application: u32::MAX,
            src: NodeId(u32::MAX),
            dst: NodeId(u32::MAX),
            size: Bytes::MAX,
            delivered: Bytes::ZERO,
            end: far,
            retransmissions: u32::MAX,
            timeouts: u32::MAX,
            limits: vec![(Time::NEVER, rate), (Time::ZERO, None)],
            limits_set: u32::MAX,
            ..flow
        };
        let class = Some(JobClass::ALL[number as usize % 3]);
        (flow, JobRecord { application: u32::MAX, class, size: Bytes::MAX, end: far, ..job })
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let either =
            |number: u32| if number.is_multiple_of(5) { most(number) } else { usual(number) };
        let numbers = numbers(5).chain(1_000..1_003);
        let (flows, jobs): (Vec<_>, Vec<_>) = numbers.map(either).unzip();
        let (kept, kept_jobs) = (Records::from(flows.clone()), Records::from(jobs.clone()));
        let sealed = |block: &Block<FlowRecord>| matches!(block, Block::Sealed(_));
        assert_eq!(kept.blocks.iter().filter(|block| sealed(block)).count(), 5);
        assert_eq!(kept.iter().collect::<Vec<_>>(), flows);
        assert_eq!(kept_jobs.iter().collect::<Vec<_>>(), jobs);
        assert_eq!((kept.len(), kept.get(flows.len())), (flows.len(), None));
        for (position, flow) in flows.iter().enumerate() {
            assert_eq!(kept.at(position), *flow);
        }
        assert!(matches!(kept.peek(5 * BLOCK), Cow::Borrowed(_)), "its block is open");
    }

    #[test]
    fn what_is_changed_opens_its_block() {
        let mut kept: Records<_> = numbers(3).map(|number| usual(number).0).collect();
        let whole = kept.clone();
        assert!(kept.is_final(BLOCK));
        assert_eq!(kept.open_mut().count(), 0);
        kept.at_mut(BLOCK).end = None;
        assert!(!kept.is_final(BLOCK) && kept != whole);
        assert_eq!(kept.open_mut().count(), BLOCK);
        kept.seal(BLOCK);
        assert_eq!(kept.open_mut().count(), BLOCK, "one is not final");
        kept.at_mut(BLOCK).end = whole.at(BLOCK).end;
        kept.seal(BLOCK);
        assert_eq!(kept.open_mut().count(), 0);
        assert_eq!(kept, whole);
    }

    #[test]
    fn a_flow_that_has_ended_takes_few_octets_and_so_does_its_job() {
        let (flows, jobs): (Vec<_>, Vec<_>) = numbers(100).map(usual).unzip();
        let (flows, jobs) = (Records::from(flows), Records::from(jobs));
        let (of_flow, of_job) = (octets(&flows) / flows.len(), octets(&jobs) / jobs.len());
        assert!(of_flow <= 13 && of_job <= 10, "{of_flow} and {of_job}");
    }
}
