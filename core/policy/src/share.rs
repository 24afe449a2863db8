//! A part of a whole.

use core::fmt;

use units::{Bytes, Rate};

use crate::PolicyError;

/// A part of a whole in parts per million: an integer, so that no rounding hides in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 1_000_000;
    /// One part per million.
    pub const LEAST: Self = Self(1);
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
    ///
    /// # Panics
    /// Where [`Share::from_ppm`] refuses it; in a constant the compiler does.
    pub const fn literal(ppm: u32) -> Self {
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

/// As a fraction.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("1");
        }
        let (mut parts, mut digits) = (self.0, 6);
        while parts.is_multiple_of(10) {
            (parts, digits) = (parts / 10, digits - 1);
        }
        write!(f, "0.{parts:0digits$}")
    }
}
