//! Data rates in bits per second.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, Sub};
use core::str::FromStr;

use crate::parse::{self, ParseUnitError};
use crate::{BITS_PER_BYTE, Bytes, NS_PER_S, Span};

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct Rate(u64);

impl Rate {
    /// Nothing moves.
    pub const ZERO: Self = Self(0);
    /// The largest rate.
    pub const MAX: Self = Self(u64::MAX);

    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// `mbps` megabits (10⁶ bits) per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps.saturating_mul(1_000_000))
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// The rate at which `bytes` move in `span`, rounded down; [`Rate::MAX`] in no time.
    pub fn of(bytes: Bytes, span: Span) -> Self {
        // Narrow where that is enough: wide divisions take several times as long.
        if let Some(bits) = bytes.get().checked_mul(BITS_PER_BYTE * NS_PER_S) {
            return Self(bits.checked_div(span.as_nanos()).unwrap_or(u64::MAX));
        }
        let bits = u128::from(bytes.get()) * u128::from(BITS_PER_BYTE) * u128::from(NS_PER_S);
        let bps = bits.checked_div(u128::from(span.as_nanos())).unwrap_or(u128::MAX);
        Self(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// Time to move `bytes` at this rate, rounded up; [`Span::MAX`] at rate zero.
    pub fn time_for(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let bits = u128::from(bytes.get()) * u128::from(BITS_PER_BYTE) * u128::from(NS_PER_S);
        Span::from_nanos(u64::try_from(bits.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// What moves in `span` at this rate, rounded down to whole octets.
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bits = u128::from(self.0) * u128::from(span.as_nanos());
        let bytes = bits / u128::from(BITS_PER_BYTE * NS_PER_S);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The part `numerator / denominator` of this rate, rounded down; zero when the denominator is.
    pub fn fraction(self, numerator: u64, denominator: u64) -> Self {
        if let Some(part) = self.0.checked_mul(numerator) {
            return Self(part.checked_div(denominator).unwrap_or(0));
        }
        let part = u128::from(self.0) * u128::from(numerator);
        let part = part.checked_div(u128::from(denominator)).unwrap_or(0);
        Self(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

/// Zero when `rhs` is larger.
impl Sub for Rate {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

const UNITS: parse::Units = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
];

impl FromStr for Rate {
    type Err = ParseUnitError;

    /// Reads a number and its unit, such as `100 Mbit/s`.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse::quantity(text, "a rate", UNITS).map(Self)
    }
}

/// Written in the largest unit that keeps it whole.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::write_quantity(
            f,
            self.0,
            &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000)],
            "bit/s",
        )
    }
}
