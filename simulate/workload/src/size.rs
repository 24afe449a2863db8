//! How large a flow is.

use engine::random::Stream;
use rand::RngExt;
use rand_distr::Exp1;
use units::Bytes;

use crate::cdf::whole;
use crate::error::require_bytes;
use crate::{Cdf, ParameterError};

/// A distribution of flow sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeDistribution {
    /// Always the same.
    Fixed(Bytes),
    /// Exponential with this mean, rounded to the nearest octet and at least one.
    Exponential(Bytes),
    /// From a file; see [`Cdf`].
    Cdf(Cdf),
}

impl SizeDistribution {
    pub(crate) fn validate(&self) -> Result<(), ParameterError> {
        match self {
            Self::Fixed(size) => require_bytes("size", *size),
            Self::Exponential(mean) => require_bytes("mean size", *mean),
            // Reading it has shown that it holds.
            Self::Cdf(_) => Ok(()),
        }
    }

    /// Mean size in octets.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(size) | Self::Exponential(size) => size.get() as f64,
            Self::Cdf(cdf) => cdf.mean(),
        }
    }

    /// Draws a size, at least one octet.
    pub fn draw(&self, stream: &mut Stream) -> Bytes {
        match self {
            Self::Fixed(size) => *size,
            Self::Exponential(mean) => {
                let means: f64 = stream.sample(Exp1);
                whole(means * mean.get() as f64)
            }
            Self::Cdf(cdf) => {
                let unit: f64 = stream.random();
                // From 0 exclusive to 1 inclusive, as a cumulative probability runs.
                cdf.quantile(1.0 - unit)
            }
        }
    }
}
