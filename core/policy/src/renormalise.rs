//! Rates for pairs of hosts out of what they offer: rows and columns of the rate matrix are
//! renormalised in turn until no host sends or receives more than it can.
//!
//! Source: sync-vs-async, sections II-B and III-B, after Sinkhorn 1967. Scaling the rows and the columns
//! of what is offered to the capacities in turn drives the total rate towards the most that the
//! hosts can carry; nobody gets more than it offers. The matrix is kept as rows of its entries that
//! aren't zero. A rate is offer × row factor × column factor, so that a sweep changes only the
//! factors: each row is read once, its sum gathered with the columns' factors, and its
//! new contribution scattered to the columns' sums.
//!
//! Rates count frame bits. The arithmetic is floating point in a fixed order, so that equal offers
//! give equal rates; at the end rates are rounded down, and no capacity is exceeded by a bit.

use alloc::vec::Vec;

use units::Rate;

/// Most sweeps over rows and columns.
const SWEEPS: u32 = 8;
/// A sweep that brings the total this near to what the sources could send at most, or raises it by
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
#[derive(Clone, Debug, Default)]
pub struct Renormaliser {
    /// The last row and the last column are for offers that lack an end.
    rows: Vec<Line>,
    columns: Vec<Line>,
    /// End of each row among the entries.
    ends: Vec<usize>,
    entries: Vec<Entry>,
}

impl Renormaliser {
    /// Sets `rates` to a rate for each of `offers`, which are in order of their sources, such that
    /// no source and no destination exceeds its capacity, and no pair its offer. An offer without
    /// source or destination gets zero.
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
            let (_, next) = self.sweep();
            let done = next >= most * (1.0 - ENOUGH) || next <= total * (1.0 + ENOUGH);
            total = next;
            if done {
                break;
            }
        }
        self.each(|entry, row, column| entry.offer * least(row.factor * column.factor, 1.0));
        // A sum below capacity grows, one above shrinks, and the smaller factor fits both ends.
        for line in self.rows.iter_mut().chain(&mut self.columns) {
            line.factor = line.capacity / narrow(line.sum);
        }
        self.each(|entry, row, column| {
            least(entry.rate * least(row.factor, column.factor), entry.offer)
        });
        self.round_down(sources, destinations, offers, rates);
    }

    /// The matrix of `offers`.
    fn take_in(&mut self, sources: &[Rate], destinations: &[Rate], offers: &[Offer]) {
        let lines = |lines: &mut Vec<Line>, capacities: &[Rate]| {
            lines.clear();
            let all = capacities.iter().chain(&[Rate::ZERO]);
            lines.extend(all.map(|&rate| Line { capacity: single(rate), factor: 1.0, sum: 0.0 }));
        };
        lines(&mut self.rows, sources);
        lines(&mut self.columns, destinations);
        let Self { rows, columns, ends, entries } = self;
        ends.clear();
        entries.clear();
        for offer in offers {
            let row = (offer.src as usize).min(sources.len());
            let column = (offer.dst as usize).min(destinations.len());
            while ends.len() < row {
                ends.push(entries.len());
            }
            let most = rows[row].capacity.min(columns[column].capacity);
            let offer = single(offer.rate).min(most);
            // No topology has more nodes than 32 bits count.
            #[allow(clippy::cast_possible_truncation)]
            entries.push(Entry { column: column as u32, offer, rate: 0.0 });
        }
        ends.resize(rows.len(), entries.len());
    }
    /// Scales every row to its capacity, then every column; returns what the rows had to send at
    /// most, and what the columns carry.
    fn sweep(&mut self) -> (f32, f32) {
        let mut most = 0.0;
        for column in &mut self.columns {
            column.sum = 0.0;
        }
        let mut start = 0;
        for (row, &end) in self.rows.iter_mut().zip(&self.ends) {
            let entries = &mut self.entries[start..end];
            start = end;
            let mut sum = 0.0;
            for entry in entries.iter_mut() {
                // Until the factors are found, the rate holds offer × column factor.
                entry.rate = entry.offer * self.columns[entry.column as usize].factor;
                sum += least(entry.rate * row.factor, entry.offer);
            }
            most += least(sum, row.capacity);
            row.factor *= least(row.capacity / sum, GROWTH);
            for entry in entries {
                let rate = least(entry.rate * row.factor, entry.offer);
                self.columns[entry.column as usize].sum += f64::from(rate);
            }
        }
        let mut total = 0.0;
        for column in &mut self.columns {
            let sum = narrow(column.sum);
            total += least(sum, column.capacity);
            column.factor *= least(column.capacity / sum, GROWTH);
        }
        (most, total)
    }

    /// Gives every entry the rate that the function says and adds the rates up.
    fn each(&mut self, rate: impl Fn(&Entry, &Line, &Line) -> f32) {
        for line in self.rows.iter_mut().chain(&mut self.columns) {
            line.sum = 0.0;
        }
        let mut start = 0;
        for (row, &end) in self.rows.iter_mut().zip(&self.ends) {
            for entry in &mut self.entries[start..end] {
                let column = &mut self.columns[entry.column as usize];
                entry.rate = rate(entry, row, column);
                row.sum += f64::from(entry.rate);
                column.sum += f64::from(entry.rate);
            }
            start = end;
        }
    }

    /// Whole bits per second. Rates are shrunk by what their sum exceeds the capacity, and by a
    /// little more than it can be wrong: a sum of n rates in `f64` errs by at most n·2⁻⁵³ of itself.
    fn round_down(
        &mut self,
        sources: &[Rate],
        destinations: &[Rate],
        offers: &[Offer],
        rates: &mut Vec<Rate>,
    ) {
        const SLACK: f64 = 1.0 - 1.0 / (1u64 << 30) as f64;
        let sides = [(&mut self.rows, sources), (&mut self.columns, destinations)];
        for (lines, capacities) in sides {
            for (line, capacity) in lines.iter_mut().zip(capacities) {
                // From here on the part that the rates keep.
                line.sum = (capacity.as_bps() as f64 / line.sum).min(1.0) * SLACK;
            }
        }
        rates.clear();
        rates.reserve(offers.len());
        let mut start = 0;
        for (row, &end) in self.rows.iter().zip(&self.ends) {
            for (entry, offer) in self.entries[start..end].iter().zip(&offers[start..end]) {
                let part = row.sum.min(self.columns[entry.column as usize].sum);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
                let bps = (f64::from(entry.rate) * part) as u64;
                rates.push(Rate::from_bps(bps).min(offer.rate));
            }
            start = end;
        }
    }
}

/// A row or a column.
#[derive(Clone, Copy, Debug)]
struct Line {
    capacity: f32,
    factor: f32,
    sum: f64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    column: u32,
    offer: f32,
    rate: f32,
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
