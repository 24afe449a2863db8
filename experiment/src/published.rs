//! Published figures, and how ours are judged against them.

use serde::Serialize;

use crate::metrics::is_change;

/// A figure from the literature for one metric of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The figure, in the unit of the metric's name.
    pub value: f64,
    /// How far ours may lie from it, in the same unit, to hold; both ends included.
    pub tolerance: f64,
    /// Where it was published: text and section, figure or table.
    pub source: Option<String>,
    /// What a reader must know to compare, such as how it was read off a plot.
    pub note: Option<String>,
}

/// How ours stand beside the published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// Nothing is published.
    #[serde(rename = "none")]
    None,
    /// Inside the tolerance.
    #[serde(rename = "holds")]
    Holds,
    /// Outside the tolerance, on the published side of the point of no effect.
    #[serde(rename = "direction holds")]
    DirectionHolds,
    /// Neither, or not measured.
    #[serde(rename = "differs")]
    Differs,
}

impl Verdict {
    /// The word for it, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Holds => "holds",
            Self::DirectionHolds => "direction holds",
            Self::Differs => "differs",
        }
    }
}

/// Judges `ours`, our value of the metric `name`.
///
/// The direction is the side of the *point of no effect* on which a value lies: zero for a change
/// against the baseline, one half for `jobs_improved_ratio`, and for every other metric `baseline`,
/// our value of it under the baseline policy. A value on the point itself has no direction, and
/// neither has any when there is no such point (the baseline's own figures; runs without one).
pub fn judge(
    name: &str,
    ours: Option<f64>,
    baseline: Option<f64>,
    published: &Published,
) -> Verdict {
    let Some(ours) = ours else {
        return Verdict::Differs;
    };
    // A decimal tolerance isn't exact in binary: without the last bits 0.3 ± 0.1 wouldn't hold 0.2.
    let slack = f64::EPSILON * 4.0 * published.value.abs().max(ours.abs());
    if (ours - published.value).abs() <= published.tolerance + slack {
        return Verdict::Holds;
    }
    let neutral = match name {
        _ if is_change(name) => Some(0.0),
        "jobs_improved_ratio" => Some(0.5),
        _ => baseline,
    };
    match neutral {
        Some(neutral) if (ours - neutral) * (published.value - neutral) > 0.0 => {
            Verdict::DirectionHolds
        }
        _ => Verdict::Differs,
    }
}
