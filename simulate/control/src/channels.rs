//! Channels between the controller and its peers: ordered, slow and lossy.

use std::collections::BTreeMap;

use control::ChannelId;
use engine::random::Stream;
use rand::RngExt as _;
use units::{Span, Time};

/// The first retransmission timeout of a channel; each after it is twice as long (RFC 6298, with the
/// lower bound that Linux has).
const TIMEOUT: Span = Span::from_millis(200);
/// Most transmissions of a message that are lost; more would be a cut, which is a fault of its own.
const LOSSES: u32 = 5;

pub(crate) struct Channels {
    jitter: Span,
    loss: f64,
    chance: Stream,
    /// When the last message of each arrives: they don't overtake each other.
    last: BTreeMap<ChannelId, Time>,
}

impl Channels {
    pub(crate) const fn new(jitter: Span, loss: f64, chance: Stream) -> Self {
        Self { jitter, loss, chance, last: BTreeMap::new() }
    }

    /// The longest that a message can take.
    pub(crate) fn longest(jitter: Span, loss: f64) -> Span {
        jitter + if loss > 0.0 { TIMEOUT * ((1 << LOSSES) - 1) } else { Span::ZERO }
    }

    /// When a message that is sent now arrives.
    pub(crate) fn arrival(&mut self, now: Time, channel: ChannelId) -> Time {
        let mut arrival = now + part(&mut self.chance, self.jitter);
        let mut timeout = TIMEOUT;
        for _ in 0..LOSSES {
            if !self.chance.random_bool(self.loss) {
                break;
            }
            arrival += timeout;
            timeout = timeout * 2;
        }
        let last = self.last.entry(channel).or_default();
        *last = arrival.max(*last);
        *last
    }

    /// Forgets a channel over which nothing will be sent.
    pub(crate) fn close(&mut self, channel: ChannelId) {
        self.last.remove(&channel);
    }
}

/// A random part of a span.
pub(crate) fn part(chance: &mut Stream, most: Span) -> Span {
    Span::from_nanos(chance.random_range(0..=most.as_nanos()))
}
