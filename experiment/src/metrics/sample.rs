//! Order statistics of a sample.

/// A sample in ascending order; values that aren't finite are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }
}

impl Sample {
    /// The values, ascending.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Arithmetic mean; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        self.share(self.0.iter().sum())
    }

    /// Coefficient of variation: standard deviation (of the values themselves) over mean; `None` if
    /// empty.
    pub fn variation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares = self.0.iter().map(|v| (v - mean) * (v - mean)).sum();
        Some(self.share(squares)?.sqrt() / mean)
    }

    /// Nearest-rank percentile: the smallest value that at least `percent` % of the values don't
    /// exceed, so always a value that occurred. 0 gives the least, 100 and more the greatest;
    /// `None` if empty.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let rank = self.0.len().saturating_mul(percent).div_ceil(100);
        self.0.get(rank.clamp(1, self.0.len().max(1)) - 1).copied()
    }

    /// The greatest value.
    pub fn max(&self) -> Option<f64> {
        self.0.last().copied()
    }

    /// Share of the values that `test` accepts.
    pub fn share_where(&self, test: impl Fn(f64) -> bool) -> Option<f64> {
        self.share(self.0.iter().filter(|&&v| test(v)).count() as f64)
    }

    /// Jain's fairness index (Σx)² / (n·Σx²): 1 when all are equal, 1/n when one has everything;
    /// `None` when all are zero. (Jain, Chiu, Hawe 1984, "A quantitative measure of fairness".)
    pub fn jain(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().sum();
        let squares: f64 = self.0.iter().map(|x| x * x).sum();
        (squares > 0.0).then(|| sum * sum / (self.0.len() as f64 * squares))
    }

    fn share(&self, part: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| part / self.0.len() as f64)
    }
}
