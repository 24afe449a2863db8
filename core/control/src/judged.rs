//! What a controller judged, in sums by which recordings and their replays are compared.

use core::hash::{Hash, Hasher};

use model::Directive;

use crate::message::Refusal;

/// FNV-1a of 64 bits (draft-eastlake-fnv). It finds differences; it is no protection against anybody who
/// makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(pub u64);

const PRIME: u64 = 0x0100_0000_01b3;

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes in bytes, in their order.
    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
}

/// What a controller has judged so far, in order: what its policy wanted, and what it refused. Both are so also where
/// no agent and no switch hears of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// How many directives there were.
    pub directives: u64,
    /// How many inputs were refused.
    pub refusals: u64,
    /// Over both.
    pub sum: Fnv,
}

impl Judged {
    /// The policy wants this.
    pub(crate) fn add_directive(&mut self, directive: &Directive) {
        self.directives += 1;
        directive.hash(&mut Words(&mut self.sum));
    }

    /// This was refused. What is said of it to people may be said otherwise tomorrow.
    pub(crate) fn add_refusal(&mut self, refusal: &Refusal) {
        self.refusals += 1;
        (refusal.field, refusal.busy).hash(&mut Words(&mut self.sum));
    }
}

/// Takes in numbers whole: a policy may want thousands of things at once. Numbers that differ end in sums that differ.
struct Words<'a>(&'a mut Fnv);

impl Words<'_> {
    fn word(&mut self, word: u64) {
        self.0.0 = (self.0.0 ^ word).wrapping_mul(PRIME);
    }
}

impl Hasher for Words<'_> {
    fn finish(&self) -> u64 {
        self.0.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn write_u8(&mut self, number: u8) {
        self.word(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.word(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.word(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.word(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.word(number.cast_unsigned() as u64);
    }
}
