//! Published values, and how our values are judged against them.

use document::Setting;
use serde::Serialize;

use crate::metrics::{Unit, human, is_change};

/// On which sides of a published value our value may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// On both, within the tolerance.
    #[default]
    Both,
    /// Above it, or below by no more than the tolerance.
    AtLeast,
    /// Below it, or above by no more than the tolerance.
    AtMost,
}

impl Bound {
    /// `at least` or `at most`, as in scenarios and the JSON; `None` on both sides.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Both => None,
            Self::AtLeast => Some("at least"),
            Self::AtMost => Some("at most"),
        }
    }
}

/// A published value: one metric of one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Number of the figure that it belongs to; empty when the scenario is no figure.
    pub figure: String,
    /// The policy that it is about.
    pub policy: String,
    /// Name of the metric; `docs/metrics.md` explains each.
    pub metric: String,
    /// The policy that it is compared with: the value is the metric divided by that of this policy,
    /// minus 1.
    pub against: Option<String>,
    /// The point of the figure's x axis that it is about; none: the mean over the axis.
    pub at: Option<Setting>,
    /// The value, in the metric's unit; a ratio where `against` names a policy.
    pub value: f64,
    /// On which sides of it ours may lie.
    pub bound: Bound,
    /// Largest distance from the published value, in the metric's unit, at which ours still holds;
    /// inclusive.
    pub tolerance: f64,
    /// Where it was published: text and section, figure or table; empty when not known.
    pub source: String,
    /// A note for readers; may be empty.
    pub note: String,
    /// Why our value differs, as found by experiment; empty when it doesn't, or when the reason
    /// isn't known.
    pub reason: String,
    /// Belongs to the table of the most important results.
    pub headline: bool,
}

impl Published {
    /// The name of our value among the metrics of a result: `METRIC`, or `METRIC against POLICY`.
    pub fn key(&self) -> String {
        match &self.against {
            Some(other) => format!("{} against {other}", self.metric),
            None => self.metric.clone(),
        }
    }

    /// For people, with bound and tolerance: `at least −20.0 % ± 5.0 %`.
    pub fn shown(&self) -> String {
        let key = self.key();
        let bound = self.bound.name().map(|name| format!("{name} ")).unwrap_or_default();
        let tolerance = Unit::of(&key).show(self.tolerance);
        format!("{bound}{} ± {tolerance}", human(&key, self.value))
    }
}

/// The verdict on our value beside the published one.
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
/// against another policy, one half for `jobs_improved_ratio`. A value on the point itself has no
/// direction, and neither has a policy's own value, which is compared with no other. A bound on the
/// point itself, without a tolerance, says that there is an effect: ours on the point differs.
pub fn judge(published: &Published, ours: Option<f64>) -> Verdict {
    let Some(ours) = ours else {
        return Verdict::Differs;
    };
    // Decimal tolerances aren't exact in binary: without slack 0.3 ± 0.1 would exclude 0.2.
    let slack = f64::EPSILON * 4.0 * published.value.abs().max(ours.abs());
    let off = match published.bound {
        Bound::Both => (ours - published.value).abs(),
        Bound::AtLeast => published.value - ours,
        Bound::AtMost => ours - published.value,
    };
    let neutral = match published.metric.as_str() {
        _ if published.against.is_some() => Some(0.0),
        name if is_change(name) => Some(0.0),
        "jobs_improved_ratio" => Some(0.5),
        _ => None,
    };
    let says_effect = published.bound != Bound::Both && published.tolerance == 0.0;
    if says_effect && neutral == Some(published.value) && neutral == Some(ours) {
        return Verdict::Differs;
    }
    if off <= published.tolerance + slack {
        return Verdict::Holds;
    }
    match neutral {
        Some(neutral) if (ours - neutral) * (published.value - neutral) > 0.0 => {
            Verdict::DirectionHolds
        }
        _ => Verdict::Differs,
    }
}
