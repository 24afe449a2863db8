//! Congestion controls: how the window grows, and where it lands after a loss or marks.

use super::hystart::HyStart;
use crate::Protocol;

/// The window and the rule that moves it. All sizes in octets of payload, times in ns.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    pub(crate) window: u64,
    pub(crate) threshold: u64,
    mss: u64,
    rule: Rule,
    /// CUBIC's first slow start, while it lasts (RFC 9438, section 4.10).
    start: Option<Box<HyStart>>,
}

#[derive(Clone, Debug)]
enum Rule {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
    LineRate(LineRate),
    /// No congestion window.
    Open,
    /// Nor do duplicates tell of losses.
    Messages,
}

/// RFC 9438; windows in segments, times in seconds.
#[derive(Clone, Debug, Default)]
struct Cubic {
    largest: f64,
    /// Start of the epoch, ns; zero before one.
    epoch: u64,
    at_epoch: f64,
    plateau: f64,
    estimate: f64,
}

/// RFC 8257, section 3.3.
#[derive(Clone, Debug)]
struct Dctcp {
    /// Fraction of marked bytes, in units of 2⁻²⁰.
    alpha: u64,
    acked: u64,
    marked: u64,
    /// End of the observation window.
    window_end: u64,
    /// No second reduction before this is acknowledged.
    reduced_until: u64,
}

/// pFabric, SIGCOMM 2013, section 4.2.
#[derive(Clone, Debug)]
struct LineRate {
    /// Timeouts in a row after which it probes, and those that there were.
    most: u32,
    timeouts: u32,
    /// Octets known to have arrived at the last of them.
    arrived: u64,
}

/// More than is ever in flight, with room to grow.
const UNBOUNDED: u64 = u64::MAX / 2;

/// A window with no room for a segment, in which single octets probe the path.
const PROBING: u64 = 0;

/// CUBIC's C (RFC 9438, section 4.1: 0.4) and β (section 4.6: 0.7).
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// DCTCP's 1 in fixed point, and g = 1/16 as a shift (RFC 8257, section 4.2).
const ALPHA_ONE: u64 = 1 << 20;
const G_SHIFT: u32 = 4;

impl Congestion {
    pub(crate) fn new(protocol: Protocol, mss: u64, initial: u64) -> Self {
        let rule = match protocol {
            Protocol::NewReno => Rule::NewReno,
            Protocol::Cubic => Rule::Cubic(Cubic::default()),
            // Alpha starts at 1: the first marks halve the window (RFC 8257, section 4.2).
            Protocol::Dctcp => Rule::Dctcp(Dctcp {
                alpha: ALPHA_ONE,
                acked: 0,
                marked: 0,
                window_end: 0,
                reduced_until: 0,
            }),
            Protocol::LineRate { timeouts: most } => {
                Rule::LineRate(LineRate { most, timeouts: 0, arrived: 0 })
            }
            Protocol::Granted | Protocol::Datagram => Rule::Open,
            Protocol::Messages => Rule::Messages,
        };
        let is_open = matches!(rule, Rule::Open | Rule::Messages);
        let window = if is_open { UNBOUNDED } else { initial * mss };
        let start = (protocol == Protocol::Cubic).then(|| Box::new(HyStart::new()));
        Self { window, threshold: UNBOUNDED, mss, rule, start }
    }

    pub(crate) const fn is_ecn_capable(&self) -> bool {
        matches!(self.rule, Rule::Dctcp(_))
    }

    /// A segment that ends at `end` was sent for the first time.
    #[inline]
    pub(crate) fn on_send(&mut self, now: u64, end: u64) {
        if let Some(start) = &mut self.start {
            start.on_send(now, end);
        }
    }

    /// Everything below `una` has arrived, `next` is the next to be sent.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: u64, una: u64, next: u64) {
        if let Some(start) = &mut self.start
            && start.on_ack(now, una, next)
        {
            self.threshold = self.window;
            self.start = None;
        }
    }

    /// New data was acknowledged outside of recovery, with the window in full use.
    #[inline]
    pub(crate) fn grow(&mut self, now: u64, acked: u64, rtt: u64) {
        if self.window < self.threshold {
            // RFC 5681, equation 2.
            self.window += match &self.start {
                None => acked.min(self.mss),
                Some(start) => start.growth(acked, self.mss),
            };
            return;
        }
        match &mut self.rule {
            // RFC 5681, equation 3.
            Rule::NewReno | Rule::Dctcp(_) | Rule::LineRate(_) => {
                self.window += (self.mss * self.mss / self.window).max(1);
            }
            Rule::Cubic(cubic) => cubic.grow(&mut self.window, self.mss, now, acked, rtt),
            Rule::Open | Rule::Messages => {}
        }
    }

    /// Counts marks for every acknowledgement, and reduces once a window for them. `una` is what
    /// the acknowledgement brought, `max` the highest sequence number sent.
    #[inline]
    pub(crate) fn on_echo(&mut self, acked: u64, echo: bool, una: u64, max: u64) {
        if self.note_echo(acked, echo, una, max) {
            self.on_marks(max);
            self.window = self.threshold;
        }
    }

    /// The same without the reduction; returns whether one is due.
    #[inline]
    pub(crate) fn note_echo(&mut self, acked: u64, echo: bool, una: u64, max: u64) -> bool {
        let Rule::Dctcp(dctcp) = &mut self.rule else {
            return false;
        };
        dctcp.acked += acked;
        if echo {
            dctcp.marked += acked;
        }
        if una > dctcp.window_end && dctcp.acked > 0 {
            let fraction = dctcp.marked * ALPHA_ONE / dctcp.acked;
            dctcp.alpha = dctcp.alpha - (dctcp.alpha >> G_SHIFT) + (fraction >> G_SHIFT);
            dctcp.window_end = max;
            (dctcp.acked, dctcp.marked) = (0, 0);
        }
        echo && una > dctcp.reduced_until
    }

    /// Sets the threshold to what marks ask for, for all that was sent up to `max`.
    pub(crate) fn on_marks(&mut self, max: u64) {
        let Rule::Dctcp(dctcp) = &mut self.rule else {
            return;
        };
        let cut = u128::from(self.window) * u128::from(dctcp.alpha);
        let cut = u64::try_from(cut / u128::from(2 * ALPHA_ONE)).unwrap_or(u64::MAX);
        self.threshold = self.window.saturating_sub(cut).max(2 * self.mss);
        dctcp.reduced_until = max;
    }

    /// A loss was detected with `flight` octets outstanding: sets the threshold.
    pub(crate) fn on_loss(&mut self, flight: u64) {
        let least = 2 * self.mss;
        self.start = None;
        self.threshold = match &mut self.rule {
            // RFC 5681, equation 4; RFC 8257, section 3.4.
            Rule::NewReno | Rule::Dctcp(_) => (flight / 2).max(least),
            // The window, whatever of it was in flight.
            Rule::LineRate(_) => (self.window / 2).max(least),
            Rule::Open | Rule::Messages => UNBOUNDED,
            Rule::Cubic(cubic) => cubic.on_loss(flight, self.mss).max(least),
        };
    }

    /// The timer ran out, with so many octets known to have arrived: one segment (RFC 5681, section 3.1).
    pub(crate) fn on_timeout(&mut self, arrived: u64) {
        match &mut self.rule {
            Rule::Open | Rule::Messages => return,
            Rule::LineRate(own) => {
                own.timeouts = if arrived == own.arrived { own.timeouts + 1 } else { 1 };
                own.arrived = arrived;
                if own.timeouts >= own.most {
                    self.window = PROBING;
                    return;
                }
            }
            _ => {}
        }
        self.window = self.mss;
    }

    /// Whether timeouts alone tell of losses.
    pub(crate) const fn is_by_timeouts(&self) -> bool {
        matches!(self.rule, Rule::LineRate(_) | Rule::Messages)
    }

    /// Whether it sends an octet at a time, to learn whether any gets through.
    pub(crate) const fn probes(&self) -> bool {
        self.window == PROBING
    }

    /// Something was acknowledged.
    pub(crate) const fn end_probing(&mut self) {
        if self.probes() {
            self.window = self.mss;
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates at the ends
impl Cubic {
    /// RFC 9438, sections 4.2 to 4.5.
    fn grow(&mut self, window: &mut u64, mss: u64, now: u64, acked: u64, rtt: u64) {
        let segments = *window as f64 / mss as f64;
        if self.epoch == 0 {
            self.epoch = now.max(1);
            self.at_epoch = segments;
            self.estimate = segments;
            self.largest = self.largest.max(segments);
            self.plateau = ((self.largest - segments) / CUBIC_C).cbrt();
        }
        let acked = acked as f64 / mss as f64;
        // Section 4.3: the window Reno would have; α makes it as fair as Reno's own.
        let alpha = if self.estimate >= self.largest {
            1.0
        } else {
            3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA)
        };
        self.estimate += alpha * acked / segments;
        let cubic = |t: f64| CUBIC_C * (t - self.plateau).powi(3) + self.largest;
        let t = (now - self.epoch) as f64 / 1e9;
        let next = if cubic(t) < self.estimate {
            self.estimate
        } else {
            // One round trip ahead, at most half as much again (section 4.2).
            let target = cubic(t + rtt as f64 / 1e9).clamp(segments, 1.5 * segments);
            segments + (target - segments) / segments * acked
        };
        *window = ((next * mss as f64) as u64).max(*window);
    }

    /// Sections 4.6 and 4.7 (fast convergence); returns the new threshold.
    fn on_loss(&mut self, flight: u64, mss: u64) -> u64 {
        let segments = flight as f64 / mss as f64;
        self.largest =
            if segments < self.largest { segments * (1.0 + CUBIC_BETA) / 2.0 } else { segments };
        self.epoch = 0;
        (flight as f64 * CUBIC_BETA) as u64
    }
}
