//! Named random streams: every use of chance draws from a stream of its own, so that a change in
//! one part of a scenario leaves the draws of all others as they were.
//!
//! The generator is PCG XSL RR 128/64 (O'Neill 2014, `pcg64`). Its state and increment are the
//! first four outputs of SplitMix64 (Steele, Lea and Flood 2014), which starts from the FNV-1a
//! hash (64 bit) of the seed's eight octets, least significant first, and the name's UTF-8. All
//! three are fixed by their publications, so a seed means the same on every machine.

use std::convert::Infallible;

use rand::TryRng;
use rand_pcg::Pcg64;

/// The generator, how streams are keyed, and the crates whose sampling algorithms turn its output
/// into numbers: to be recorded with every result, beside the seed.
pub const ALGORITHM: &str = "pcg64-xsl-rr keyed by splitmix64(fnv1a64(seed,name)); rand 0.10, rand_pcg 0.10, rand_distr 0.6";

/// A deterministic stream of random numbers; draw from it with the traits of `rand`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(Pcg64);

impl Stream {
    /// The stream called `name` of a run seeded with `seed`. Streams that differ in either are
    /// independent for every practical purpose.
    pub fn named(seed: u64, name: &str) -> Self {
        let mut key = fnv1a(seed.to_le_bytes().into_iter().chain(name.bytes()));
        let mut wide = || u128::from(splitmix(&mut key)) << 64 | u128::from(splitmix(&mut key));
        let state = wide();
        Self(Pcg64::new(state, wide()))
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(into)
    }
}

fn fnv1a(octets: impl Iterator<Item = u8>) -> u64 {
    octets.fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

const fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
