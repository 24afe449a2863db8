//! Keys of tuples: words of uneven frequency.

use std::path::Path;
use std::sync::Arc;

use engine::random::Stream;
use rand::RngExt;
use rand_distr::{Distribution, Zipf};
use units::Span;

use crate::error::require;
use crate::lines::Lines;
use crate::{Error, ParameterError};

/// Most distinct words.
const MOST: u32 = 100_000_000;
/// Most words of a text.
const MOST_OF_TEXT: usize = 1 << 26;

/// Where keys come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Keys {
    /// The n-th of `count` words is as frequent as 1/nˢ, with `skew` for s (Zipf's law). Which words
    /// are frequent, and so where they are counted, differs from seed to seed.
    Zipf {
        /// Distinct words.
        count: u32,
        /// s.
        skew: f64,
        /// Period after which other words become the frequent ones; `None`: never.
        shift: Option<Span>,
    },
    /// The words of a text, hashed, one after the other and again from the first.
    Text(Arc<[u32]>),
}

impl Keys {
    /// The words of the text file at `path`, separated by white space.
    ///
    /// # Errors
    /// The file can't be read, isn't UTF-8, or holds no word or too many.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut lines = Lines::open(path)?;
        let mut words = Vec::new();
        while let Some(line) = lines.next()? {
            words.extend(line.text.split_whitespace().map(|word| hash(word.as_bytes())));
            if words.len() > MOST_OF_TEXT {
                let message = format!("there are more than {MOST_OF_TEXT} words; cut the text");
                return Err(lines.fail_here(message).into());
            }
        }
        require(!words.is_empty(), "text", || "holds no word; name a file with text".to_owned())?;
        Ok(Self::Text(words.into()))
    }

    pub(super) fn check(&self) -> Result<(), ParameterError> {
        match self {
            Self::Zipf { count, skew, .. } => {
                require((1..=MOST).contains(count), "words", || {
                    format!("{count} is outside the range from 1 to {MOST}")
                })?;
                require((0.0..=10.0).contains(skew), "skew", || {
                    format!("{skew} is outside the range from 0 to 10")
                })
            }
            Self::Text(_) => Ok(()),
        }
    }
}

/// Keys as one instance draws them.
#[derive(Clone, Debug)]
pub(super) enum Draw {
    Zipf { law: Zipf<f64>, shift: Option<Span>, vocabulary: u64, chance: Stream },
    Text { words: Arc<[u32]>, at: usize },
}

impl Draw {
    /// For instance `number` of `count`, of operator `name`. Streams: `keys NAME NUMBER`, and
    /// `words`, which all share.
    pub(super) fn new(
        keys: &Keys,
        name: &str,
        (number, count): (usize, usize),
        seed: u64,
    ) -> Option<Self> {
        Some(match keys {
            Keys::Zipf { count, skew, shift } => Self::Zipf {
                law: Zipf::new(f64::from(*count), *skew).ok()?,
                shift: *shift,
                vocabulary: Stream::named(seed, "words").random(),
                chance: Stream::named(seed, &format!("keys {name} {number}")),
            },
            Keys::Text(words) => {
                Self::Text { words: words.clone(), at: words.len() * number / count }
            }
        })
    }

    /// The next key, of a tuple that was born at `birth`, ns.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rank, at most `MOST`, below 2³²
    pub(super) fn next(&mut self, birth: u64) -> u32 {
        match self {
            Self::Zipf { law, shift, vocabulary, chance } => {
                let epoch = shift.map_or(0, |shift| birth / shift.as_nanos().max(1));
                let rank = law.sample(chance) as u64;
                hash(&(*vocabulary ^ epoch << 32 ^ rank).to_le_bytes())
            }
            Self::Text { words, at } => {
                let word = words[*at];
                *at = (*at + 1) % words.len();
                word
            }
        }
    }
}

/// FNV-1a, 32 bit.
fn hash(octets: &[u8]) -> u32 {
    octets
        .iter()
        .fold(0x811c_9dc5, |hash, octet| (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193))
}
