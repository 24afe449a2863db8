//! Mean and confidence interval over repeated runs.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// One metric over repeated, independent runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of runs.
    pub runs: usize,
    /// Mean over the runs.
    pub mean: f64,
    /// Half the width of the two-sided 95 % confidence interval of the mean by Student's t with
    /// `runs − 1` degrees of freedom; `None` for a single run.
    pub half_width: Option<f64>,
}

impl Summary {
    /// Summarises one value for each run; `None` without runs. The interval assumes that the values
    /// are independent and about normally distributed.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let half_width = (values.len() > 1).then(|| {
            let deviation = (squares / (count - 1.0)).sqrt();
            student_t(values.len() - 1) / count.sqrt() * deviation
        });
        Some(Self { runs: values.len(), mean, half_width })
    }
}

/// The t with P(|T| ≤ t) = 0.95 at `degrees` ≥ 1 degrees of freedom, by bisection of the exact
/// distribution over θ = atan(t/√degrees).
fn student_t(degrees: usize) -> f64 {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if within(middle, degrees) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.tan() * (degrees as f64).sqrt()
}

/// P(|T| ≤ √degrees·tan θ) (Abramowitz and Stegun, 26.7.3 for odd and 26.7.4 for even degrees).
fn within(theta: f64, degrees: usize) -> f64 {
    let (sin, cos) = theta.sin_cos();
    let odd = degrees % 2;
    let mut term = if odd == 1 { cos } else { 1.0 };
    let mut series = 0.0;
    for k in (odd..degrees.saturating_sub(1)).step_by(2) {
        series += term;
        term *= cos * cos * (k + 1) as f64 / (k + 2) as f64;
    }
    if odd == 1 { FRAC_2_PI * (theta + sin * series) } else { sin * series }
}
