//! How much goes out for what arrives while a loss is repaired (proportional rate reduction,
//! RFC 9937, section 6).

/// State of one recovery, octets.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    /// In flight when the loss was found.
    flight: u64,
    delivered: u64,
    out: u64,
}

impl Reduction {
    pub(super) const fn new(flight: u64) -> Self {
        Self { flight, delivered: 0, out: 0 }
    }

    pub(super) const fn on_send(&mut self, octets: u64) {
        self.out += octets;
    }

    /// The window after an acknowledgement that brought `delivered`, with `flying` in the network.
    /// `safe` means that it acknowledged more than before, and showed no further loss.
    pub(super) fn window(
        &mut self,
        delivered: u64,
        flying: u64,
        threshold: u64,
        safe: bool,
        mss: u64,
    ) -> u64 {
        self.delivered += delivered;
        let mut send = if flying > threshold {
            let share = u128::from(self.delivered) * u128::from(threshold);
            let share = share.div_ceil(u128::from(self.flight.max(1)));
            u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let gained = self.delivered.saturating_sub(self.out).max(delivered);
            (gained + if safe { mss } else { 0 }).min(threshold - flying)
        };
        if self.out == 0 {
            // Loss is found: one goes at once.
            send = send.max(mss);
        }
        flying + send
    }
}
