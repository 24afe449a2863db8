//! Rates for pairs of hosts out of what they offer: rows and columns of the rate matrix are
//! renormalised in turn until no host sends or receives more than it can.
//!
//! Source: sync-vs-async, sections II-B and III-B, after Sinkhorn 1967. Scaling the rows and the columns
//! of what is offered to the capacities in turn drives the total rate towards the most that the
//! hosts can carry; nobody gets more than it offers, but where what is left is given too. The matrix is
//! kept as rows of its entries that aren't zero. A rate is offer × row factor × column factor, so that a sweep changes only the
//! factors: each row is read once, its sum gathered with the columns' factors, and its
//! new contribution scattered to the columns' sums.
//!
//! Rates count frame bits. The arithmetic is floating point in a fixed order, so that equal offers
//! give equal rates; at the end rates are rounded down, and no capacity is exceeded by a bit.

use alloc::vec::Vec;

use units::Rate;

/// Most sweeps over rows and columns.
const SWEEPS: u32 = 8;
/// A sweep that brings the total this near to what the first had the sources send, or raises it by
/// no more than this part, is the last.
const ENOUGH: f32 = 1.0 / 128.0;
/// Most that a factor grows in a sweep, so that no number of sweeps leaves the range of `f32`.
const GROWTH: f32 = 64.0;

/// What one host offers to send to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Position of the sender among the sources.
    pub src: u32,
    /// Position of the receiver among the destinations.
    pub dst: u32,
    /// What it would send if nobody else did.
    pub rate: Rate,
}

/// Renormalises rate matrices, keeping its tables from one to the next.
///
/// What a sweep reads at random is kept small, so that it stays in the first level of the cache:
/// the columns' factors and sums. The entries pass by in order.
#[derive(Clone, Debug, Default)]
pub struct Renormaliser {
    /// The last row and the last column are for offers that lack an end.
    rows: Lines,
    columns: Lines,
    /// End of each row among the entries.
    ends: Vec<usize>,
    entries: Vec<Entry>,
    /// Whether a pair may have more than it offers.
    fills: bool,
}

impl Renormaliser {
    /// One that gives what is left as well: a pair's rate grows, beyond its offer, by what both of its
    /// ends have left at least.
    pub fn filling() -> Self {
        Self { fills: true, ..Self::default() }
    }

    /// Sets `rates` to a rate for each of `offers`, which are in order of their sources, such that
    /// no source and no destination exceeds its capacity, and no pair its offer, unless it fills. An
    /// offer without source or destination gets zero.
    pub fn solve(
        &mut self,
        sources: &[Rate],
        destinations: &[Rate],
        offers: &[Offer],
        rates: &mut Vec<Rate>,
    ) {
        debug_assert!(offers.is_sorted_by_key(|offer| offer.src));
        self.take_in(sources, destinations, offers);
        let (most, mut total) = self.sweep();
        for _ in 1..SWEEPS {
            if total >= most * (1.0 - ENOUGH) {
                break;
            }
            self.columns.scale();
            let before = core::mem::replace(&mut total, self.sweep().1);
            if total <= before * (1.0 + ENOUGH) {
                break;
            }
        }
        self.round_down(rates);
    }

    /// The matrix of `offers`.
    fn take_in(&mut self, sources: &[Rate], destinations: &[Rate], offers: &[Offer]) {
        let Self { rows, columns, ends, entries, .. } = self;
        rows.set(sources);
        columns.set(destinations);
        let lost = u32::try_from(destinations.len()).expect("32 bits count all nodes");
        ends.clear();
        entries.clear();
        for offers in offers.chunk_by(|a, b| a.src == b.src) {
            let row = (offers[0].src as usize).min(sources.len());
            ends.resize(row, entries.len());
            let capacity = rows.capacities[row];
            entries.extend(offers.iter().map(|offer| {
                let column = offer.dst.min(lost);
                let most = least(capacity, columns.capacities[column as usize]);
                Entry { column, offer: least(below(offer.rate), most) }
            }));
        }
        ends.resize(sources.len() + 1, entries.len());
    }

    /// Scales every row to its capacity and adds up what the columns carry then; returns what the
    /// rows had to send at most, and what the columns can carry of it.
    fn sweep(&mut self) -> (f32, f32) {
        let Self { rows, columns, ends, entries, .. } = self;
        let mut most = 0.0;
        columns.sums.fill(0.0);
        let mut start = 0;
        for (row, &end) in ends.iter().enumerate() {
            let entries = &entries[start..end];
            start = end;
            let factor = rows.factors[row];
            let sum: f32 = entries.iter().map(|entry| entry.rate(&columns.factors, factor)).sum();
            most += least(sum, rows.capacities[row]);
            let factor = factor * least(rows.capacities[row] / sum, GROWTH);
            rows.factors[row] = factor;
            let mut sum = 0.0;
            for entry in entries {
                let rate = f64::from(entry.rate(&columns.factors, factor));
                sum += rate;
                columns.sums[entry.column as usize] += rate;
            }
            rows.sums[row] = sum;
        }
        let carried = columns.sums.iter().zip(&columns.capacities);
        (most, carried.map(|(sum, &capacity)| least(narrow(*sum), capacity)).sum())
    }

    /// Whole bits per second. Rates grow or shrink by what their sums in the last sweep fall short of
    /// the capacities of both ends or exceed them, and shrink by a little more than the sums can be
    /// wrong: one of n rates in `f64` errs by at most n·2⁻⁵³ of itself.
    fn round_down(&mut self, rates: &mut Vec<Rate>) {
        let Self { rows, columns, ends, entries, fills } = self;
        rows.fit();
        columns.fit();
        rates.clear();
        let mut start = 0;
        for (row, &end) in ends.iter().enumerate() {
            let (factor, part) = (rows.factors[row], rows.sums[row]);
            rates.extend(entries[start..end].iter().map(|entry| {
                let rate = f64::from(entry.rate(&columns.factors, factor));
                let column = columns.sums[entry.column as usize];
                let part = if column < part { column } else { part };
                let (scaled, offer) = (rate * part, f64::from(entry.offer));
                let bps =
                    if scaled < offer || *fills && scaled.is_finite() { scaled } else { offer };
                #[allow(clippy::cast_possible_truncation)] // rounds down; `as` saturates
                Rate::from_bps((bps as i64).unsigned_abs())
            }));
            start = end;
        }
    }
}

/// Rows or columns, by number.
#[derive(Clone, Debug, Default)]
struct Lines {
    exact: Vec<Rate>,
    capacities: Vec<f32>,
    factors: Vec<f32>,
    sums: Vec<f64>,
}

impl Lines {
    /// Lines of these capacities and one of none, not scaled.
    fn set(&mut self, capacities: &[Rate]) {
        self.exact.clear();
        self.exact.extend_from_slice(capacities);
        self.exact.push(Rate::ZERO);
        self.capacities.clear();
        self.capacities.extend(self.exact.iter().copied().map(single));
        self.factors.clear();
        self.factors.resize(self.exact.len(), 1.0);
        self.sums.clear();
        self.sums.resize(self.exact.len(), 0.0);
    }

    /// Scales every line from its sum to its capacity.
    fn scale(&mut self) {
        let of = self.sums.iter().zip(&self.capacities);
        for (factor, (sum, capacity)) in self.factors.iter_mut().zip(of) {
            *factor *= least(capacity / narrow(*sum), GROWTH);
        }
    }

    /// Replaces every sum by the factor that makes it the capacity, or a little less.
    fn fit(&mut self) {
        const SLACK: f64 = 1.0 - 1.0 / (1u64 << 30) as f64;
        for (sum, capacity) in self.sums.iter_mut().zip(&self.exact) {
            *sum = capacity.as_bps() as f64 / *sum * SLACK;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    column: u32,
    offer: f32,
}

impl Entry {
    /// Offer × column factor × row factor, but no more than the offer.
    fn rate(&self, factors: &[f32], row: f32) -> f32 {
        least(self.offer * factors[self.column as usize] * row, self.offer)
    }
}

/// The lesser of two; `b` when `a` is no number, which `0 / 0` gives. One instruction, unlike
/// `f32::min`.
const fn least(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// A sum in single precision.
#[allow(clippy::cast_possible_truncation)] // rounds, and what it rounds stays far below f32::MAX
const fn narrow(sum: f64) -> f32 {
    sum as f32
}

/// A rate in single precision.
const fn single(rate: Rate) -> f32 {
    rate.as_bps() as f32
}

/// A rate in single precision, not rounded up: less by 2⁻²³ of it, twice what rounding adds.
const fn below(rate: Rate) -> f32 {
    single(rate) * (1.0 - f32::EPSILON)
}
