//! Instants and lengths of time in nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};
use core::str::FromStr;

use crate::NS_PER_S;
use crate::parse::{self, ParseUnitError};

/// An instant: nanoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for reports; exact to 2⁻⁵³ of the value.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NS_PER_S as f64
    }

    /// Time passed since `earlier`; zero when `earlier` lies ahead.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(NS_PER_S))
    }

    /// A span of `s` seconds, to the nearest nanosecond; negative and NaN become zero.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * NS_PER_S as f64 + 0.5) as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NS_PER_S as f64
    }

    /// The difference, zero when `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, rhs: Span) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, rhs: Span) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

/// Rounds down; division by zero gives the longest span.
impl Div<u64> for Span {
    type Output = Self;
    fn div(self, rhs: u64) -> Self {
        Self(self.0.checked_div(rhs).unwrap_or(u64::MAX))
    }
}

const SPAN_UNITS: parse::Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", NS_PER_S),
    ("min", 60 * NS_PER_S),
    ("h", 3600 * NS_PER_S),
];

impl FromStr for Span {
    type Err = ParseUnitError;

    /// Reads a number and its unit, such as `33 us` or `1.5s`; a bare number is refused.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse::quantity(text, "a time span", SPAN_UNITS).map(Self)
    }
}

/// Written in the largest unit that keeps it whole, so that reading it back gives the same span.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::write_quantity(f, self.0, &[("s", NS_PER_S), ("ms", 1_000_000), ("us", 1_000)], "ns")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / NS_PER_S, self.0 % NS_PER_S)
    }
}
