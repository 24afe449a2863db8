//! ICTCP: a receiving host limits its connections' windows to what its own link has left.
//!
//! Source: Wu, Feng, Guo, Zhang, "ICTCP: Incast Congestion Control for TCP in Data Center Networks"
//! (CoNEXT 2010), section 4. Time at a host goes in slots of two round trips: in the first half the
//! traffic is measured, in the second windows may grow, for as much as a share α of the link has
//! left. Each connection compares what it gets with what its window would give, every two round
//! trips: close to it the window may grow, far below it three times running the window shrinks.
//! When the link has little left, windows above the mean shrink.
//!
//! Rates are payload octets per second, times ns.

use crate::transport::ICTCP_LEAST;

/// α: the part of the link that may be promised.
const PROMISED: f64 = 0.9;
/// γ₁ and γ₂: how far below its window's rate a connection may be to grow, and must be to shrink.
const NEAR: f64 = 0.1;
const FAR: f64 = 0.5;
/// β: smoothing of a falling rate.
const MEMORY: f64 = 0.9;
/// With less than this part of the link left, windows above the mean shrink.
const LITTLE: f64 = 0.2;
/// Consecutive control intervals far below that shrink a window.
const PATIENCE: u32 = 3;

/// A receiving host's link.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// Octets per second.
    capacity: f64,
    /// When the slot began, how long its half is, and what came in the first one.
    start: u64,
    half: u64,
    received: u64,
    /// What windows may still grow by in the second half; `None` in the first.
    quota: Option<f64>,
    /// What was left at the last measurement.
    left: f64,
    /// Number of connections, and the sum of their windows.
    count: u64,
    windows: u64,
}

/// A connection at its receiver.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) window: u64,
    /// Start of counting, and octets since.
    since: u64,
    received: u64,
    rate: f64,
    below: u32,
    /// Slow start: windows double until growth is first refused.
    starts: bool,
}

impl Host {
    pub(crate) fn new(bps: u64) -> Self {
        let capacity = bps as f64 / 8.0;
        Self {
            capacity,
            start: 0,
            half: 1,
            received: 0,
            quota: None,
            left: capacity,
            count: 0,
            windows: 0,
        }
    }

    /// A connection opens.
    pub(crate) const fn open(&mut self, now: u64, mss: u64) -> Grant {
        let window = ICTCP_LEAST * mss;
        self.count += 1;
        self.windows += window;
        Grant { window, since: now, received: 0, rate: 0.0, below: 0, starts: true }
    }

    /// A connection has ended.
    pub(crate) const fn close(&mut self, grant: &Grant) {
        self.count -= 1;
        self.windows -= grant.window;
    }

    /// `len` octets of a connection arrived, whose round trip is `rtt`. Its window may be new.
    pub(crate) fn receive(&mut self, grant: &mut Grant, now: u64, len: u64, mss: u64, rtt: u64) {
        let rtt = rtt.max(1);
        self.tick(now, rtt);
        self.received += len;
        grant.received += len;
        // Windows grow only in the second half: the decision waits for it.
        if now - grant.since < 2 * rtt || self.quota.is_none() {
            return;
        }
        let sample = grant.received as f64 * 1e9 / (now - grant.since) as f64;
        grant.rate = sample.max(MEMORY * grant.rate + (1.0 - MEMORY) * sample);
        (grant.since, grant.received) = (now, 0);
        let was = grant.window;
        self.decide(grant, mss, rtt as f64 / 1e9);
        self.windows = self.windows + grant.window - was;
    }

    /// Moves on to the half of the slot that `now` is in.
    fn tick(&mut self, now: u64, rtt: u64) {
        let passed = now.saturating_sub(self.start);
        if passed >= 2 * self.half {
            // The text weights connections by their traffic; here each packet counts once.
            (self.start, self.half, self.received, self.quota) = (now, rtt, 0, None);
        } else if passed >= self.half && self.quota.is_none() {
            let rate = self.received as f64 * 1e9 / passed as f64;
            self.left = (PROMISED * self.capacity - rate).max(0.0);
            self.quota = Some(self.left);
        }
    }

    fn decide(&mut self, grant: &mut Grant, mss: u64, rtt_s: f64) {
        let window = grant.window as f64;
        let expected = grant.rate.max(window / rtt_s);
        let gap = (expected - grant.rate) / expected;
        grant.below = if gap > FAR { grant.below + 1 } else { 0 };
        let mean = self.windows / self.count.max(1);
        if self.left < LITTLE * self.capacity && grant.window > mean {
            grant.starts = false;
            grant.window = (grant.window - mss).max(ICTCP_LEAST * mss);
        } else if gap <= NEAR || gap <= mss as f64 / window {
            let step = if grant.starts { grant.window } else { mss };
            let cost = step as f64 / rtt_s;
            match &mut self.quota {
                Some(quota) if *quota >= cost => {
                    *quota -= cost;
                    grant.window += step;
                }
                Some(_) => grant.starts = false,
                None => {}
            }
        } else if grant.below >= PATIENCE {
            grant.below = 0;
            grant.starts = false;
            grant.window = (grant.window - mss).max(ICTCP_LEAST * mss);
        }
    }
}
