//! A histogram of how long an application's completions took, in bounded memory.

use units::{Span, Time};

/// Bins per power of two; the relative error of a percentile is at most its inverse.
const BINS: u64 = 64;

/// Things of one kind that an application completed, such as the tuples that reached the sink of a
/// stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// What was completed, in the plural, such as `tuples`.
    pub what: &'static str,
    /// The application that it is of, by its position in [`Outcome::applications`](crate::Outcome::applications).
    pub application: u32,
    /// Start of counting.
    pub since: Time,
    count: u64,
    total: u128,
    longest: Span,
    /// Counts by duration: linear bins within powers of two.
    bins: Vec<u64>,
}

impl Completions {
    /// An empty histogram.
    pub fn new(what: &'static str, since: Time) -> Self {
        Self { what, since, ..Self::default() }
    }

    /// One more, which took so long.
    pub fn add(&mut self, took: Span) {
        let bin = bin(took.as_nanos());
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.total += u128::from(took.as_nanos());
        self.longest = Span::from_nanos(self.longest.as_nanos().max(took.as_nanos()));
    }

    /// How many.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean time that one took, rounded down; `None` of none.
    pub fn mean(&self) -> Option<Span> {
        let mean = self.total.checked_div(u128::from(self.count))?;
        u64::try_from(mean).ok().map(Span::from_nanos)
    }

    /// The time that at least `percent` % did not exceed, by the nearest rank, rounded up by at
    /// most a 64th of it; `None` of none.
    pub fn percentile(&self, percent: u64) -> Option<Span> {
        let rank = (self.count.saturating_mul(percent)).div_ceil(100).clamp(1, self.count.max(1));
        let mut seen = 0;
        let bin = self.bins.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Span::from_nanos(end(bin as u64).min(self.longest.as_nanos())))
    }
}

/// The bin of a value.
fn bin(value: u64) -> usize {
    let octave = (value / BINS).checked_ilog2().map_or(0, |log| log + 1);
    let within = value >> octave.saturating_sub(1);
    // Values below two times BINS have a bin each; each octave above adds BINS.
    let bin = u64::from(octave.saturating_sub(1)) * BINS + within;
    usize::try_from(bin).unwrap_or(usize::MAX)
}

/// The largest value of a bin.
const fn end(bin: u64) -> u64 {
    let octave = (bin / BINS).saturating_sub(1);
    let within = bin - octave * BINS;
    ((within + 1) << octave).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_bin() {
        for shift in 0..63 {
            for value in [1u64 << shift, (1 << shift) + 1, (1 << shift) * 3 / 2, (2 << shift) - 1] {
                let bin = bin(value) as u64;
                assert!(value <= end(bin), "{value} in {bin}");
                assert!(bin == 0 || value > end(bin - 1), "{value} in {bin}");
                assert!(end(bin) - value <= value / BINS, "{value} in {bin}");
            }
        }
    }

    #[test]
    fn mean_and_percentiles() {
        let mut all = Completions::new("tuples", Time::ZERO);
        assert_eq!((all.mean(), all.percentile(95)), (None, None));
        for value in 1..=100 {
            all.add(Span::from_nanos(value));
        }
        assert_eq!(all.count(), 100);
        assert_eq!(all.mean(), Some(Span::from_nanos(50)));
        assert_eq!(all.percentile(50), Some(Span::from_nanos(50)));
        assert_eq!(all.percentile(95), Some(Span::from_nanos(95)));
        assert_eq!(all.percentile(100), Some(Span::from_nanos(100)));
    }
}
