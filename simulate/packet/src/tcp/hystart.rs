//! HyStart++: leaves the first slow start when the round trip grows, before the buffer overflows
//! (RFC 9406).

use std::collections::VecDeque;

/// Bounds of the growth of the round trip that counts, ns, and its share of the round trip
/// (RFC 9406, section 4.3: MIN_RTT_THRESH 4 ms, MAX_RTT_THRESH 16 ms, MIN_RTT_DIVISOR 8).
const LEAST_RISE: u64 = 4_000_000;
const MOST_RISE: u64 = 16_000_000;
const RISE_DIVISOR: u64 = 8;

/// Samples in a round before it is judged (section 4.3: N_RTT_SAMPLE).
const SAMPLES: u32 = 8;

/// Conservative slow start: how much slower than slow start, and for how many rounds
/// (section 4.3: CSS_GROWTH_DIVISOR, CSS_ROUNDS).
const SLOWDOWN: u64 = 4;
const ROUNDS: u32 = 5;

/// Segments that one acknowledgement may add without pacing (section 4.3: L).
const BURST: u64 = 8;

/// State of the first slow start; times in ns.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    /// End and time of every segment in flight. None is a retransmission: the first one ends this.
    sent: VecDeque<(u64, u64)>,
    /// The round ends when this is acknowledged.
    round_end: u64,
    samples: u32,
    /// Least round trip of this round and of the one before, `u64::MAX` for none.
    current: u64,
    last: u64,
    /// In conservative slow start: the least round trip at its start, and the rounds it has left.
    conservative: Option<(u64, u32)>,
}

impl HyStart {
    pub(crate) const fn new() -> Self {
        Self {
            sent: VecDeque::new(),
            round_end: 0,
            samples: 0,
            current: u64::MAX,
            last: u64::MAX,
            conservative: None,
        }
    }

    #[cold]
    pub(crate) fn on_send(&mut self, now: u64, end: u64) {
        self.sent.push_back((end, now));
    }

    /// Everything below `una` has arrived, `next` is the next to be sent. Returns whether slow
    /// start is over (section 4.2).
    #[cold]
    pub(crate) fn on_ack(&mut self, now: u64, una: u64, next: u64) -> bool {
        let arrived = self.sent.partition_point(|&(end, _)| end <= una);
        if let Some((_, since)) = self.sent.drain(..arrived).next_back() {
            self.current = self.current.min(now - since);
            self.samples += 1;
        }
        if self.samples >= SAMPLES {
            self.judge();
        }
        if una < self.round_end {
            return false;
        }
        self.round_end = next;
        self.last = std::mem::replace(&mut self.current, u64::MAX);
        self.samples = 0;
        if let Some((_, rounds)) = &mut self.conservative {
            *rounds -= 1;
            return *rounds == 0;
        }
        false
    }

    fn judge(&mut self) {
        match self.conservative {
            None if self.last != u64::MAX => {
                let rise = (self.last / RISE_DIVISOR).clamp(LEAST_RISE, MOST_RISE);
                if self.current >= self.last + rise {
                    self.conservative = Some((self.current, ROUNDS));
                }
            }
            // The rise was spurious.
            Some((baseline, _)) if self.current < baseline => self.conservative = None,
            _ => {}
        }
    }

    /// What `acked` octets add to the window (section 4.2).
    pub(crate) fn growth(&self, acked: u64, mss: u64) -> u64 {
        let growth = acked.min(BURST * mss);
        if self.conservative.is_some() { growth / SLOWDOWN } else { growth }
    }
}
