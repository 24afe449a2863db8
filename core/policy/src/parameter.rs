//! Parameters with a range, and what is said when one is outside.

use alloc::string::String;
use core::fmt;

use units::{Bytes, Rate};

use crate::NAMES;

/// Why a policy can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// A parameter outside its range.
    OutOfRange {
        /// The parameter.
        parameter: &'static str,
        /// Its range, as the end of a sentence.
        range: &'static str,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => {
                write!(f, "there is no policy \"{name}\"; choose one of ")?;
                for (i, name) in NAMES.iter().enumerate() {
                    write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::OutOfRange { parameter, range } => write!(f, "{parameter} must be {range}"),
        }
    }
}

impl core::error::Error for PolicyError {}

/// What it costs to tell a host another limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// Nothing, as in a simulation of the policy alone.
    #[default]
    Free,
    /// A message for each limit that changes: prefer stable shares to exactly equal ones.
    Costly,
}

/// A part of a whole in parts per million: an integer, so that no rounding hides in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 1_000_000;
    /// The whole.
    pub const ALL: Self = Self(Self::WHOLE);

    /// `ppm` parts per million.
    ///
    /// # Errors
    /// [`PolicyError::OutOfRange`]: zero, which would stop what gets this share, or above the whole.
    pub const fn from_ppm(ppm: u32) -> Result<Self, PolicyError> {
        if ppm == 0 || ppm > Self::WHOLE {
            return Err(PolicyError::OutOfRange {
                parameter: "the share",
                range: "from 1 to 1000000 parts per million",
            });
        }
        Ok(Self(ppm))
    }

    /// A share that is written in the code.
    pub(crate) const fn literal(ppm: u32) -> Self {
        assert!(ppm > 0 && ppm <= Self::WHOLE, "a share is above zero and at most the whole");
        Self(ppm)
    }

    /// Parts per million.
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// This share of `bytes`; rounded down.
    pub(crate) fn of(self, bytes: Bytes) -> Bytes {
        let part = u128::from(bytes.get()) * u128::from(self.0) / u128::from(Self::WHOLE);
        Bytes::new(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// What each of `count` gets when they divide this share of `rate`; rounded down.
    pub(crate) fn divided(self, rate: Rate, count: u64) -> Rate {
        rate.fraction(u64::from(self.0), u64::from(Self::WHOLE).saturating_mul(count))
    }
}

impl Default for Share {
    /// 1 %: Phurti's β (section 6.1).
    fn default() -> Self {
        Self(Self::WHOLE / 100)
    }
}
