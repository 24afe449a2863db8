//! How much to send for what arrives while a loss is repaired (proportional rate reduction, RFC
//! 9937, section 6).

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
            // A loss is found: one segment may go at once.
            send = send.max(mss);
        }
        flying + send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of one octet.
    fn recovery(flight: u64, threshold: u64, lost: u64) -> Vec<u64> {
        let mut reduction = Reduction::new(flight);
        let mut flying = flight - lost;
        let mut out = Vec::new();
        // All that wasn't lost arrives, one by one; what the window lets go flies on.
        for _ in 0..flight - lost {
            flying -= 1;
            let send = reduction.window(1, flying, threshold, false, 1) - flying;
            reduction.on_send(send);
            flying += send;
            out.push(send);
        }
        out
    }

    #[test]
    fn one_goes_for_two_that_arrive_when_the_window_halves() {
        let out = recovery(20, 10, 1);
        assert_eq!(out[..6], [1, 0, 1, 0, 1, 0]);
        // After a flight the window is the threshold: RFC 9937, section 5.
        assert_eq!(out.iter().sum::<u64>(), 10);
    }

    #[test]
    fn heavy_losses_leave_one_for_one() {
        // 15 of 20 are lost: what is left never exceeds the threshold, and each one that arrives
        // releases one, where a window of 10 at once would put five more into the full buffer.
        assert_eq!(recovery(20, 10, 15), [1; 5]);
    }

    #[test]
    fn progress_without_further_loss_adds_one() {
        let mut reduction = Reduction::new(20);
        assert_eq!(reduction.window(1, 4, 10, true, 1), 6);
        reduction.on_send(2);
        assert_eq!(reduction.window(1, 5, 10, false, 1), 6);
        // Never beyond the threshold.
        assert_eq!(reduction.window(5, 9, 10, true, 1), 10);
    }
}
