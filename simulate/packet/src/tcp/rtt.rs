//! Round-trip estimation and the retransmission timeout (RFC 6298).

use crate::{Protocol, Transport};

/// Upper bound of the timeout, ns (RFC 6298, rule 2.5, allows 60 s or more).
const LONGEST: u64 = 60_000_000_000;

/// Timeout before the first sample (RFC 6298, rule 2.1), ns.
const INITIAL: u64 = 1_000_000_000;

/// Smoothed round-trip time and timeout, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: u64,
    variation: u64,
    timeout: u64,
    least: u64,
    most: u64,
}

impl Rtt {
    /// Before any sample: the transport's timeout bounds it from below, or is what it always is.
    pub(crate) fn new(transport: &Transport) -> Self {
        let least = transport.min_rto.as_nanos();
        let is_fixed = matches!(transport.protocol, Protocol::LineRate { .. });
        let most = if is_fixed { least } else { LONGEST.max(least) };
        Self { smoothed: 0, variation: 0, timeout: INITIAL.clamp(least, most), least, most }
    }

    /// Rules 2.2 and 2.3; the clock's granularity is 1 ns.
    pub(crate) fn sample(&mut self, rtt: u64) {
        if self.smoothed == 0 {
            self.smoothed = rtt.max(1);
            self.variation = rtt / 2;
        } else {
            self.variation = (3 * self.variation + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = ((7 * self.smoothed + rtt) / 8).max(1);
        }
        self.restart();
    }

    /// The timeout that the estimates give, without back-off.
    pub(crate) fn restart(&mut self) {
        if self.smoothed != 0 {
            let timeout = self.smoothed + (4 * self.variation).max(1);
            self.timeout = timeout.clamp(self.least, self.most);
        }
    }

    /// Rule 5.5.
    pub(crate) fn back_off(&mut self) {
        self.timeout = (2 * self.timeout).min(self.most);
    }

    pub(crate) const fn timeout(&self) -> u64 {
        self.timeout
    }

    /// Zero before the first sample.
    pub(crate) const fn smoothed(&self) -> u64 {
        self.smoothed
    }
}
