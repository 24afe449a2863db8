//! Amounts of data in octets.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub};
use core::str::FromStr;

use crate::parse::{self, ParseUnitError};

/// An amount of data in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// More than anything holds.
    pub const MAX: Self = Self(u64::MAX);

    /// `count` octets.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Octets.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

/// Zero when `rhs` is larger.
impl Sub for Bytes {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

const UNITS: parse::Units = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl FromStr for Bytes {
    type Err = ParseUnitError;

    /// Reads a number and its unit, such as `512 KB` (decimal) or `50 MiB` (binary).
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse::quantity(text, "an amount of data", UNITS).map(Self)
    }
}

/// Written in the largest decimal unit that keeps it whole.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::write_quantity(
            f,
            self.0,
            &[("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)],
            "B",
        )
    }
}
