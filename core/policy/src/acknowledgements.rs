//! What receivers send back for what they get.

/// Acknowledgements: a frame of so many octets for each so many octets of data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgements {
    octets: u32,
    per: u32,
}

impl Acknowledgements {
    /// Nothing comes back, or nothing that counts.
    pub const NONE: Self = Self { octets: 0, per: 1 };

    /// A frame of `octets` for each `per` octets of data frames; none where either is zero.
    pub const fn new(octets: u32, per: u32) -> Self {
        if per == 0 { Self::NONE } else { Self { octets, per } }
    }

    /// Whether nothing comes back.
    pub const fn are_none(self) -> bool {
        self.octets == 0
    }

    /// What comes back for `rate`, bit/s, rounded up.
    pub(crate) fn of(self, rate: u64) -> u64 {
        let rate = u128::from(rate) * u128::from(self.octets);
        u64::try_from(rate.div_ceil(u128::from(self.per))).unwrap_or(u64::MAX)
    }
}
