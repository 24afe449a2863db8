//! Published figures, and how ours are judged against them.

use serde::Serialize;

use crate::metrics::is_change;

/// A published figure: one metric of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The policy that it is about.
    pub policy: String,
    /// Name of the metric; `docs/metrics.md` explains each.
    pub metric: String,
    /// The figure, in the metric's unit.
    pub value: f64,
    /// How far, in the metric's unit, ours may lie from the figure and still hold, both ends
    /// included.
    pub tolerance: f64,
    /// Where it was published: text and section, figure or table; empty when not known.
    pub source: String,
    /// What a reader should know of the figure; empty when nothing.
    pub note: String,
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

/// Judges `ours`, our value of the published metric.
///
/// The direction is the side of the *point of no effect* on which a value lies: zero for a change
/// against the baseline, one half for `jobs_improved_ratio`, none for the time in TRANSMIT, and for
/// every other metric `baseline`, our value of it under the baseline policy. A value on the point
/// itself has no direction, and neither has any when there is no such point (the baseline's own
/// figures; runs without one).
pub fn judge(published: &Published, ours: Option<f64>, baseline: Option<f64>) -> Verdict {
    let Some(ours) = ours else {
        return Verdict::Differs;
    };
    // A decimal tolerance isn't exact in binary: without the last bits 0.3 ± 0.1 wouldn't hold 0.2.
    let slack = f64::EPSILON * 4.0 * published.value.abs().max(ours.abs());
    if (ours - published.value).abs() <= published.tolerance + slack {
        return Verdict::Holds;
    }
    let neutral = match published.metric.as_str() {
        name if is_change(name) => Some(0.0),
        "jobs_improved_ratio" => Some(0.5),
        // A baseline without limits is at 100 %, which everything lies below.
        name if name.contains("transmit") => None,
        _ => baseline,
    };
    match neutral {
        Some(neutral) if (ours - neutral) * (published.value - neutral) > 0.0 => {
            Verdict::DirectionHolds
        }
        _ => Verdict::Differs,
    }
}
