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

/// What is claimed of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// A value, in the metric's unit; a ratio where it is compared with another policy.
    Size(f64),
    /// More than the policy that it is compared with, of no stated size.
    More,
    /// Less, likewise.
    Less,
}

impl Default for Claim {
    fn default() -> Self {
        Self::Size(0.0)
    }
}

impl Claim {
    /// The value, where one is given.
    pub const fn size(self) -> Option<f64> {
        match self {
            Self::Size(value) => Some(value),
            Self::More | Self::Less => None,
        }
    }

    /// `more` or `less`, as in scenarios and the JSON; `None` of a value.
    pub const fn direction(self) -> Option<&'static str> {
        match self {
            Self::Size(_) => None,
            Self::More => Some("more"),
            Self::Less => Some("less"),
        }
    }
}

/// From what a published value was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadFrom {
    /// A number in a sentence.
    Text,
    /// A number in a table.
    Table,
    /// A mark or curve of a plot.
    Plot,
    /// Nothing: it was reckoned from what is given.
    Formula,
    /// Somebody's measurement, whose spread is the error.
    Measurement,
    /// A sentence without a number, of which a rule of ours makes one.
    Rule,
}

impl ReadFrom {
    /// The word for each, as in scenarios.
    pub const NAMED: &[(&str, Self)] = &[
        ("text", Self::Text),
        ("table", Self::Table),
        ("plot", Self::Plot),
        ("formula", Self::Formula),
        ("measurement", Self::Measurement),
        ("rule", Self::Rule),
    ];
}

/// How exactly a published value can be read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// From what.
    pub from: ReadFrom,
    /// Largest distance, in the metric's unit, of what was meant from what was read.
    pub error: f64,
}

/// Why a comparison with a published value tells nothing, as the scenario declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It may tell something.
    #[default]
    Open,
    /// The settings, by path, that were solved from the published value.
    Calibrates(Vec<String>),
    /// Why our value follows from what was put in.
    Follows(String),
    /// What the text has and the scenario can't have, and what could turn the comparison.
    Lacks(String),
}

impl Standing {
    /// Whether our runs decide what is told.
    pub const fn is_judged(&self) -> bool {
        matches!(self, Self::Open | Self::Calibrates(_))
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
    /// What is claimed.
    pub claim: Claim,
    /// Of an order without a size: the least effect that *much* more or less takes by our rule; 0
    /// where the text doesn't say much.
    pub least: f64,
    /// On which sides of a value ours may lie.
    pub bound: Bound,
    /// Largest distance from the published value, in the metric's unit, at which ours still holds;
    /// inclusive.
    pub tolerance: f64,
    /// How exactly it can be read; `None` where nobody said, so that nothing can hold.
    pub reading: Option<Reading>,
    /// Whether the comparison can tell something.
    pub standing: Standing,
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

    /// Whether a rule of ours makes its size.
    pub fn is_by_rule(&self) -> bool {
        self.reading.is_some_and(|reading| reading.from == ReadFrom::Rule)
    }

    /// For people, with bound and tolerance: `at least −20.0 % ± 5.0 %`, or `less`, or `less, by 10.0 %
    /// at least (our rule)`.
    pub fn shown(&self) -> String {
        let key = self.key();
        let Claim::Size(value) = self.claim else {
            let direction = self.claim.direction().unwrap_or_default();
            return match self.least > 0.0 {
                true => format!(
                    "{direction}, by {} at least (our rule)",
                    Unit::of(&key).show(self.least)
                ),
                false => direction.to_owned(),
            };
        };
        let bound = self.bound.name().map(|name| format!("{name} ")).unwrap_or_default();
        let tolerance = Unit::of(&key).show(self.tolerance);
        let rule = if self.is_by_rule() { " (our rule)" } else { "" };
        format!("{bound}{} ± {tolerance}{rule}", human(&key, value))
    }

    /// The value of the metric that means that nothing changes; `None` of a policy's own value.
    pub fn no_effect(&self) -> Option<f64> {
        match self.metric.as_str() {
            _ if self.against.is_some() => Some(0.0),
            name if is_change(name) => Some(0.0),
            "jobs_improved_ratio" => Some(0.5),
            _ => None,
        }
    }
}

/// The verdict on our value beside the published one. A later one prevails where several are summed
/// up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// Nothing is published.
    #[serde(rename = "none")]
    None,
    /// Ours follows from what was put in, or compares equal runs.
    #[serde(rename = "no information")]
    NoInformation,
    /// Something that was put in was solved from the published value, and it comes out.
    #[serde(rename = "calibrated")]
    Calibrated,
    /// The whole interval lies inside the tolerance, which the text can be read to.
    #[serde(rename = "holds")]
    Holds,
    /// There is an effect on the published side, of half of the published size at least and twice of it at most.
    #[serde(rename = "direction holds")]
    DirectionHolds,
    /// Our interval leaves open whether ours agrees, or nothing was measured.
    #[serde(rename = "unresolved")]
    Unresolved,
    /// It depends on a choice that the text doesn't make, or on what the text has and we lack.
    #[serde(rename = "undetermined")]
    Undetermined,
    /// Our whole interval excludes what would agree.
    #[serde(rename = "differs")]
    Differs,
}

impl Verdict {
    /// All of them, as tables order them.
    pub const ALL: [Self; 8] = [
        Self::Holds,
        Self::DirectionHolds,
        Self::Differs,
        Self::Unresolved,
        Self::Undetermined,
        Self::Calibrated,
        Self::NoInformation,
        Self::None,
    ];

    /// The word for it, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NoInformation => "no information",
            Self::Calibrated => "calibrated",
            Self::Holds => "holds",
            Self::DirectionHolds => "direction holds",
            Self::Unresolved => "unresolved",
            Self::Undetermined => "undetermined",
            Self::Differs => "differs",
        }
    }

    /// Whether it says something of the text, so that headlines may count it.
    pub const fn decides(self) -> bool {
        matches!(self, Self::Holds | Self::DirectionHolds | Self::Differs)
    }

    /// The verdict when the value is judged so under one of a choice's values and as `other` under
    /// another: what both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one,
            (Self::Holds | Self::DirectionHolds, Self::Holds | Self::DirectionHolds) => {
                Self::DirectionHolds
            }
            _ => Self::Undetermined,
        }
    }
}

/// Our value of a published metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ours {
    /// The mean; `None` when it wasn't measured.
    pub mean: Option<f64>,
    /// Half the width of its 95 % interval; 0 of a single run, which has none.
    pub half: f64,
    /// It compares runs that are equal in everything that is measured.
    pub equal_runs: bool,
}

/// Judges `ours`, our value of the published metric.
///
/// What agrees lies within the tolerance, or has an effect on the published side of half of the
/// published size at least and twice of it at most, or without a most where a bound is open. Where the
/// interval neither agrees nor excludes that, our runs can't tell.
///
/// The *point of no effect* is zero for a change against another policy, one half for
/// `jobs_improved_ratio`. A policy's own value, which is compared with no other, has none, and so
/// no direction.
///
/// What was solved from the value holds by arrangement; where it doesn't hold all the same, it is
/// judged as any other.
pub fn judge(published: &Published, ours: Ours) -> Verdict {
    match (&published.standing, compared(published, ours)) {
        (Standing::Follows(_), _) => Verdict::NoInformation,
        (Standing::Lacks(_), _) => Verdict::Undetermined,
        (Standing::Calibrates(_), Verdict::Holds) => Verdict::Calibrated,
        (Standing::Calibrates(_) | Standing::Open, verdict) => verdict,
    }
}

/// An effect that is shown as none: half of the last digit of a ratio, 0.1 %.
const UNSEEN: f64 = 0.0005;

/// Judges `ours` as though nothing were known of how the published value came in.
pub(crate) fn compared(published: &Published, ours: Ours) -> Verdict {
    if ours.equal_runs {
        return Verdict::NoInformation;
    }
    let Some(mean) = ours.mean else {
        return Verdict::Unresolved;
    };
    let (low, high) = (mean - ours.half, mean + ours.half);
    let neutral = published.no_effect();
    // On the side of `side`, of a size from `least` to `largest`; nothing where there are no sides.
    let directed = |side: f64, least: f64, largest: f64| {
        let Some(neutral) = neutral.filter(|_| side != 0.0) else {
            return Verdict::Differs;
        };
        let effect = |value: f64| (value - neutral) * side.signum();
        let (near, far) = (effect(low).min(effect(high)), effect(low).max(effect(high)));
        if near > 0.0 && (least..=largest).contains(&effect(mean)) {
            Verdict::DirectionHolds
        } else if far > 0.0 && far >= least && near <= largest {
            Verdict::Unresolved
        } else {
            Verdict::Differs
        }
    };
    let is_order = published.claim.size().is_none() && published.least == 0.0;
    let is_unseen = |neutral: f64| low > neutral - UNSEEN && high < neutral + UNSEEN;
    if is_order && Unit::of(&published.key()) == Unit::Ratio && neutral.is_some_and(is_unseen) {
        // As of equal runs, nobody is ahead.
        return Verdict::NoInformation;
    }
    let value = match published.claim {
        Claim::Size(value) => value,
        // An order without a size: there is nothing that could hold.
        Claim::More => return directed(1.0, published.least, f64::INFINITY),
        Claim::Less => return directed(-1.0, published.least, f64::INFINITY),
    };
    // Decimal tolerances aren't exact in binary: without slack 0.3 ± 0.1 would exclude 0.2.
    let slack = f64::EPSILON * 4.0 * value.abs().max(mean.abs());
    let reach = published.tolerance + slack;
    let (least, most) = match published.bound {
        Bound::Both => (value - reach, value + reach),
        Bound::AtLeast => (value - reach, f64::INFINITY),
        Bound::AtMost => (f64::NEG_INFINITY, value + reach),
    };
    let read = published.reading.is_some_and(|reading| published.tolerance <= reading.error);
    if read && low >= least && high <= most {
        return Verdict::Holds;
    }
    let told = neutral.map_or(0.0, |neutral| value - neutral);
    let is_open = match published.bound {
        Bound::Both => false,
        Bound::AtLeast => told > 0.0,
        Bound::AtMost => told < 0.0,
    };
    let largest = if is_open { f64::INFINITY } else { told.abs() * 2.0 };
    match directed(told, told.abs() / 2.0, largest) {
        Verdict::Differs if low <= most && high >= least => Verdict::Unresolved,
        verdict => verdict,
    }
}
