//! The sending end: window, loss detection and recovery (RFC 5681, 6582, 6675, 6298, 3042, and from
//! RFC 8985 how a lost retransmission shows). With RACK recovery is that of [`by_time`].

mod by_time;

use std::collections::VecDeque;

use by_time::ByTime;

use super::congestion::Congestion;
use super::ranges::Ranges;
use super::rtt::Rtt;
use super::unwrap;
use crate::{Protocol, Transport};

/// Duplicate acknowledgements that mean a loss (RFC 5681, section 3.2).
const DUPLICATES: u32 = 3;

/// No timer runs.
const NEVER: u64 = u64::MAX;

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// First octet.
    pub(crate) seq: u64,
    /// Octets of payload.
    pub(crate) len: u16,
}

/// A retransmission under way: `[low, high)`, sent when `max` was the end of all that was sent.
#[derive(Clone, Copy, Debug)]
struct Resent {
    low: u64,
    high: u64,
    max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Fast recovery until `recover` is acknowledged.
    Recovery,
    /// Slow start from `una` after a timeout, until `recover` is acknowledged.
    Loss,
}

/// State of one sending connection, or of a stream of datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    una: u64,
    /// Next octet to send; falls back to `una` after a timeout.
    next: u64,
    /// One past the highest octet ever sent.
    max: u64,
    size: u64,
    congestion: Congestion,
    /// Last window advertised, and the shift of the field that says it.
    receive_window: u64,
    scale: u8,
    timer: u64,
    /// Until when its pace holds the next segment back, ns. Timers start there, as in Linux
    /// (`tcp_pacing_delay`).
    allowed: u64,
    rtt: Rtt,
    /// The segment being timed (Karn's algorithm: never one that was sent again) and since when.
    timed: Option<(u64, u64)>,
    phase: Phase,
    duplicates: u32,
    recover: u64,
    /// A segment to send at once, whatever the window: again, or to probe a small window.
    resend: Option<u64>,
    sack: bool,
    limited_transmit: bool,
    sacked: Ranges,
    /// Where to look for the next hole to fill (RFC 6675: HighRxt).
    high_resent: u64,
    /// Retransmissions of this recovery that have not arrived, in order of sending.
    resent: VecDeque<Resent>,
    by_time: Option<Box<ByTime>>,
    mss: u16,
    is_datagram: bool,
    pub(crate) retransmissions: u32,
    pub(crate) timeouts: u32,
}

impl Sender {
    /// A sender of `size` octets. `handshake` is the round trip that the handshake would have
    /// measured, ns: it seeds the timeout.
    pub(crate) fn new(transport: &Transport, size: u64, handshake: u64) -> Self {
        let mut rtt = Rtt::new(transport);
        rtt.sample(handshake);
        let mss = u64::from(transport.mss);
        let is_datagram = transport.protocol == Protocol::Datagram;
        let initial = u64::from(transport.initial_window);
        Self {
            una: 0,
            next: 0,
            max: 0,
            size,
            congestion: Congestion::new(transport.protocol, mss, initial),
            receive_window: if is_datagram { u64::MAX } else { transport.first_window() },
            scale: transport.window_scale(),
            timer: NEVER,
            allowed: 0,
            rtt,
            timed: None,
            phase: Phase::Open,
            duplicates: 0,
            recover: 0,
            resend: None,
            sack: transport.sack,
            limited_transmit: transport.limited_transmit,
            sacked: Ranges::default(),
            high_resent: 0,
            resent: VecDeque::new(),
            by_time: ByTime::of(transport, handshake),
            mss: transport.mss,
            is_datagram,
            retransmissions: 0,
            timeouts: 0,
        }
    }

    /// The handshake is over: the advertised window, and its duration, ns.
    pub(crate) fn establish(&mut self, transport: &Transport, window: u64, round_trip: u64) {
        self.receive_window = window;
        self.rtt = Rtt::new(transport);
        self.rtt.sample(round_trip);
        self.by_time = ByTime::of(transport, round_trip);
    }

    /// Smoothed round trip, ns. With timestamps (RFC 7323) the receiver knows it too.
    pub(crate) const fn round_trip(&self) -> u64 {
        self.rtt.smoothed()
    }

    /// Whether everything was sent and, unless datagrams, acknowledged.
    pub(crate) const fn is_done(&self) -> bool {
        if self.is_datagram { self.next == self.size } else { self.una == self.size }
    }

    /// Octets that the receiver is known to have, from the first on without a gap.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.una
    }

    /// Octets that were sent at least once.
    pub(crate) const fn sent(&self) -> u64 {
        self.max
    }

    /// Adds `more` octets to send.
    pub(crate) const fn extend(&mut self, more: u64) {
        self.size = self.size.saturating_add(more);
    }

    pub(crate) const fn is_ecn_capable(&self) -> bool {
        self.congestion.is_ecn_capable()
    }

    /// When to call [`Sender::on_deadline`]; `u64::MAX`: never.
    pub(crate) const fn deadline(&self) -> u64 {
        self.timer
    }

    /// Its pace holds the next segment back until `at`.
    pub(crate) const fn hold(&mut self, at: u64) {
        self.allowed = at;
    }

    /// When a timer runs out that starts now.
    fn expiry(&self, now: u64) -> u64 {
        now.max(self.allowed) + self.rtt.timeout()
    }

    /// Takes in an acknowledgement up to `ack` with a window and perhaps a SACK block, as they stand
    /// on the wire.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: u64,
        ack: u32,
        window: u16,
        block: Option<(u32, u32)>,
        echo: bool,
    ) {
        let ack = unwrap(self.una, ack);
        if ack < self.una || ack > self.max {
            return;
        }
        let window = u64::from(window) << self.scale;
        let is_update = window != self.receive_window;
        self.receive_window = window;
        if self.by_time.is_some() {
            let sacked = self.told(ack, block);
            self.by_time(|by_time, sender| by_time.on_ack(sender, now, ack, sacked, echo));
            return;
        }
        if let Some((low, high)) = self.told(ack, block) {
            self.sacked.insert(low, high);
        }
        if !self.resent.is_empty() {
            self.find_lost_again(ack);
        }
        let acked = ack - self.una;
        self.congestion.on_echo(acked, echo, ack, self.max);
        if acked == 0 {
            if self.max == self.una {
                self.on_window();
            } else if !is_update || block.is_some() {
                // RFC 5681, section 2: a duplicate repeats the window.
                self.on_duplicate();
            }
            return;
        }
        let was_limited = self.next - self.una + u64::from(self.mss) > self.congestion.window;
        self.una = ack;
        self.next = self.next.max(ack);
        self.duplicates = 0;
        if let Some((end, since)) = self.timed
            && ack >= end
        {
            self.timed = None;
            self.rtt.sample(now - since);
        } else {
            self.rtt.restart();
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
        self.congestion.on_ack(now, ack, self.next);
        if self.phase == Phase::Open {
            // RFC 8257 asks not to grow on an acknowledgement that carries marks.
            if was_limited && !(echo && self.is_ecn_capable()) {
                self.congestion.grow(now, acked, self.rtt.smoothed());
            }
        } else {
            self.on_ack_after_loss(now, acked);
        }
        // In recovery too: RFC 6582, section 4, calls it slow-but-steady; Linux does the same.
        self.timer = if self.una == self.max { NEVER } else { self.expiry(now) };
    }

    /// What a SACK block that came with `ack` says, if it can be true.
    #[inline]
    fn told(&self, ack: u64, block: Option<(u32, u32)>) -> Option<(u64, u64)> {
        let (low, high) = block.filter(|_| self.sack)?;
        let (low, high) = (unwrap(ack, low), unwrap(ack, high));
        (ack < low && low < high && high <= self.max).then_some((low, high))
    }

    #[cold]
    fn on_ack_after_loss(&mut self, now: u64, acked: u64) {
        let mss = u64::from(self.mss);
        let congestion = &mut self.congestion;
        congestion.end_probing();
        if self.una >= self.recover {
            if self.phase == Phase::Loss {
                congestion.grow(now, acked, self.rtt.smoothed());
            } else if self.sack {
                // RFC 6675 keeps the window at the threshold throughout.
                congestion.window = congestion.threshold;
            } else {
                // RFC 6582, section 3.2, step 3, option 1.
                let flight = self.max - self.una;
                congestion.window = congestion.threshold.min(flight.max(mss) + mss);
            }
            self.phase = Phase::Open;
        } else if self.phase == Phase::Loss {
            congestion.grow(now, acked, self.rtt.smoothed());
        } else if !self.sack {
            // A partial acknowledgement: the next hole, and the window deflates by what left.
            self.resend = Some(self.una);
            congestion.window = congestion.window.saturating_sub(acked);
            if acked >= mss {
                congestion.window += mss;
            }
            congestion.window = congestion.window.max(mss);
        }
    }

    #[cold]
    fn on_duplicate(&mut self) {
        self.congestion.end_probing();
        self.duplicates += 1;
        match self.phase {
            Phase::Recovery if !self.sack => self.congestion.window += u64::from(self.mss),
            Phase::Open if self.may_recover() && self.loss_is_detected() => {
                // Without what limited transmit added (RFC 5681, section 3.2, step 2).
                let flight = self.next - self.una;
                self.congestion.on_loss(flight.min(self.congestion.window));
                self.phase = Phase::Recovery;
                self.recover = self.max;
                // Unless the recovery before has sent it again already.
                self.resend = (self.next_hole(self.una) == self.una).then_some(self.una);
                self.high_resent = self.una;
                self.congestion.window = self.congestion.threshold;
                if !self.sack {
                    self.congestion.window += u64::from(DUPLICATES) * u64::from(self.mss);
                }
            }
            _ => {}
        }
    }

    /// One reduction a window. Duplicates alone may come from what a timeout sent again: without SACK
    /// more than all that was sent by then must be acknowledged (RFC 6582, section 3.2, step 2). SACK
    /// tells them apart, so that all of it is enough (RFC 6675, section 5.1).
    const fn may_recover(&self) -> bool {
        if self.congestion.is_by_timeouts() {
            return false;
        }
        self.una > self.recover || self.recover == 0 || (self.sack && self.una == self.recover)
    }

    fn loss_is_detected(&self) -> bool {
        self.duplicates >= DUPLICATES || (self.sack && self.lost_below() > self.una)
    }

    /// An idle sender gets a window: the persist timer stops when a segment fits.
    #[cold]
    fn on_window(&mut self) {
        if u64::from(self.mss).min(self.size - self.next) <= self.receive_window {
            self.rtt.restart();
            self.timer = NEVER;
        }
    }

    /// The timer ran out (RFC 6298, section 5; RFC 5681, section 3.1; RFC 9293, section 3.8.6.1).
    pub(crate) fn on_deadline(&mut self, now: u64) {
        if now < self.timer {
            return;
        }
        if self.una == self.max {
            self.resend = Some(self.max);
            self.rtt.back_off();
            self.timer = self.expiry(now);
            return;
        }
        if self.by_time.is_some() {
            self.by_time(|by_time, sender| by_time.on_deadline(sender, now));
            return;
        }
        self.timeouts += 1;
        // RFC 5681: a second timeout for the same data doesn't lower the threshold again.
        let repeats = self.phase == Phase::Loss && self.una < self.recover;
        if !repeats || self.congestion.is_by_timeouts() {
            let flight = self.next - self.una - self.sacked.covered_below(self.next);
            self.congestion.on_loss(flight.min(self.congestion.window));
        }
        self.congestion.on_timeout(self.una + self.sacked.covered_below(self.max));
        self.phase = Phase::Loss;
        self.recover = self.max;
        self.next = self.una;
        self.duplicates = 0;
        self.timed = None;
        self.resend = None;
        self.resent.clear();
        self.rtt.back_off();
        self.timer = self.expiry(now);
    }

    /// The next segment that may be sent now.
    #[inline]
    pub(crate) fn poll(&mut self, now: u64) -> Option<Segment> {
        if self.by_time.is_some() {
            return self.by_time(|by_time, sender| by_time.poll(sender, now));
        }
        if self.resend.is_some() {
            return self.retransmit(now);
        }
        if self.phase == Phase::Recovery && self.sack {
            return self.poll_sack(now);
        }
        let window = self.usable_window();
        let mut flight = self.next - self.una;
        let mut len = u64::from(self.mss).min(self.size - self.next);
        if self.phase == Phase::Loss && !self.sacked.is_empty() {
            (flight, len) = self.skip_sacked();
        }
        // Silly window avoidance: no small segment but the flow's last.
        if len == 0 || flight + len > window {
            let rests = self.timer == NEVER || self.phase == Phase::Loss;
            return if rests { self.blocked(now, len) } else { None };
        }
        Some(self.send(now, self.next, len))
    }

    /// The state of recovery by time, if used, and the rest of the sender.
    #[cold]
    fn by_time<T: Default>(&mut self, act: impl FnOnce(&mut ByTime, &mut Self) -> T) -> T {
        let Some(mut by_time) = self.by_time.take() else {
            return T::default();
        };
        let done = act(&mut by_time, self);
        self.by_time = Some(by_time);
        done
    }

    /// The next datagram, of at most `most` octets of payload.
    pub(crate) fn datagram(&mut self, now: u64, most: u16) -> Option<Segment> {
        self.mss = most;
        self.poll(now)
    }

    /// The window has no room for the next segment of `len` octets; nothing in flight may be left
    /// to open it.
    #[cold]
    fn blocked(&mut self, now: u64, len: u64) -> Option<Segment> {
        if self.next == self.una && self.una < self.max && len > 0 {
            if self.congestion.probes() {
                return Some(self.send(now, self.next, 1));
            }
            // Data within an earlier window may be sent again even if the window has shrunk.
            let window = self.receive_window;
            return Some(self.send(
                now,
                self.next,
                if window == 0 { len } else { len.min(window) },
            ));
        }
        if self.timer == NEVER && self.next < self.size {
            self.timer = self.expiry(now);
        }
        None
    }

    /// Nothing is in flight and the window has no room for a segment: sends what fits (RFC 9293,
    /// section 3.8.6.2.1), or an empty segment as a window probe.
    #[cold]
    fn probe(&mut self, now: u64) -> Segment {
        let len = u64::from(self.mss).min(self.size - self.next).min(self.receive_window);
        if len == 0 {
            return Segment { seq: self.next, len: 0 };
        }
        self.send(now, self.next, len)
    }

    /// After a timeout: moves on to the next octet not known to have arrived; returns what is in
    /// flight below it and how long the segment there can be.
    #[cold]
    fn skip_sacked(&mut self) -> (u64, u64) {
        self.next = self.sacked.end_of(self.next);
        let end = self.sacked.next_above(self.next).unwrap_or(self.size);
        let flight = self.next - self.una - self.sacked.covered_below(self.next);
        (flight, u64::from(self.mss).min(end - self.next))
    }

    fn usable_window(&self) -> u64 {
        let mut window = self.congestion.window;
        if self.limited_transmit && self.duplicates > 0 && self.phase == Phase::Open {
            // Limited transmit (RFC 3042): a segment for each of the first two duplicates.
            window += u64::from(self.duplicates.min(DUPLICATES - 1)) * u64::from(self.mss);
        }
        window.min(self.receive_window)
    }

    #[inline]
    fn send(&mut self, now: u64, seq: u64, len: u64) -> Segment {
        let end = seq + len;
        if seq < self.max {
            self.retransmissions += 1;
            if self.timed.is_some_and(|(timed, _)| timed > seq) {
                self.timed = None;
            }
        } else {
            self.congestion.on_send(now, end);
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
        }
        self.next = self.next.max(end);
        self.max = self.max.max(end);
        if self.timer == NEVER && !self.is_datagram {
            self.timer = self.expiry(now);
        }
        #[allow(clippy::cast_possible_truncation)] // at most one MSS
        Segment { seq, len: len as u16 }
    }

    #[cold]
    fn retransmit(&mut self, now: u64) -> Option<Segment> {
        let seq = self.resend.take()?;
        if seq == self.max {
            return Some(self.probe(now));
        }
        let end = self.sacked.next_above(seq).unwrap_or(self.max).min(self.max);
        let len = u64::from(self.mss).min(end.saturating_sub(seq));
        if len == 0 {
            return self.poll(now);
        }
        self.high_resent = self.high_resent.max(seq + len);
        if self.sack {
            self.resent.push_back(Resent { low: seq, high: seq + len, max: self.max });
        }
        Some(self.send(now, seq, len))
    }

    /// A retransmission is lost when something sent after it has arrived (RFC 8985, section 6.2,
    /// without its allowance for reordering: packets of a flow keep their order here). Holes are
    /// then looked for from the first such one again.
    #[cold]
    fn find_lost_again(&mut self, ack: u64) {
        let sacked = &self.sacked;
        let arrived = |one: &Resent| sacked.end_of(one.low.max(ack)) >= one.high;
        let newest = sacked.as_slice().last().map_or(ack, |range| range.1);
        let overtaken = self.resent.iter().rposition(arrived).map_or(0, |last| last + 1);
        let overtaken = overtaken.max(self.resent.partition_point(|one| one.max < newest));
        let first_lost =
            self.resent.drain(..overtaken).filter(|one| !arrived(one)).map(|one| one.low).min();
        if let Some(first_lost) = first_lost {
            self.high_resent = self.high_resent.min(first_lost);
        }
    }

    /// The first octet from `at` on that neither has arrived nor is being sent again.
    fn next_hole(&self, mut at: u64) -> u64 {
        loop {
            at = self.sacked.end_of(at);
            match self.resent.iter().find(|one| one.low <= at && at < one.high) {
                Some(one) => at = one.high,
                None => return at,
            }
        }
    }

    /// RFC 6675, section 4 (SetPipe, NextSeg) with rules 1 to 3.
    #[cold]
    fn poll_sack(&mut self, now: u64) -> Option<Segment> {
        let mss = u64::from(self.mss);
        let lost_below = self.lost_below();
        let outstanding = self.max - self.una - self.sacked.covered_below(self.max);
        let unsacked_below =
            |edge: u64| (edge.max(self.una) - self.una) - self.sacked.covered_below(edge);
        let resent: u64 = self.resent.iter().map(|one| one.high - one.low).sum();
        let lost = unsacked_below(lost_below);
        let pipe = outstanding.saturating_sub(lost) + resent;
        if pipe + mss > self.congestion.window {
            return None;
        }
        let hole = self.next_hole(self.high_resent.max(self.una));
        let highest = self.sacked.as_slice().last().map_or(self.una, |range| range.0);
        if hole < lost_below {
            self.resend = Some(hole);
            return self.retransmit(now);
        }
        let len = mss.min(self.size - self.max);
        if len > 0 && self.max + len - self.una <= self.receive_window {
            return Some(self.send(now, self.max, len));
        }
        if hole < highest {
            self.resend = Some(hole);
            return self.retransmit(now);
        }
        None
    }

    /// Everything unsacked below this is lost: more than two segments above it have arrived
    /// (RFC 6675, section 4, IsLost).
    fn lost_below(&self) -> u64 {
        let mut above = 0;
        for &(low, high) in self.sacked.as_slice().iter().rev() {
            above += high - low;
            if above > u64::from(DUPLICATES - 1) * u64::from(self.mss) {
                return low;
            }
        }
        self.una
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1460;

    /// The segments that may go now, by number.
    fn sent(sender: &mut Sender) -> Vec<u64> {
        std::iter::from_fn(|| sender.poll(1_000)).map(|one| one.seq / u64::from(MSS)).collect()
    }

    #[test]
    fn timers_start_when_the_pace_lets_the_next_segment_go() {
        let transport = Transport::default();
        let mut sender = Sender::new(&transport, 100 * u64::from(MSS), 1_000_000);
        let rto = transport.min_rto.as_nanos();
        sender.hold(5_000_000);
        sender.poll(1_000).unwrap();
        assert_eq!(sender.deadline(), 5_000_000 + rto);
        sender.poll(5_000_000).unwrap();
        sender.hold(9_000_000);
        sender.on_ack(6_000_000, MSS, u16::MAX, None, false);
        assert_eq!(sender.deadline(), 9_000_000 + rto);
        sender.on_ack(9_500_000, 2 * MSS, u16::MAX, None, false);
        assert_eq!(sender.deadline(), u64::MAX);
    }

    /// A sender of 30 segments as pFabric's with three timeouts in a row, and all that it sends at first.
    fn at_line_rate() -> Sender {
        let transport = Transport {
            protocol: Protocol::LineRate { timeouts: 3 },
            initial_window: 12,
            limited_transmit: false,
            min_rto: units::Span::from_micros(45),
            ..Transport::default()
        };
        let mut sender = Sender::new(&transport, 30 * u64::from(MSS), 15_000);
        assert_eq!(sent(&mut sender), (0..12).collect::<Vec<_>>());
        assert_eq!(sender.deadline(), 46_000);
        sender
    }

    #[test]
    fn at_line_rate_the_timeout_alone_tells_of_losses_and_is_fixed() {
        let mut sender = at_line_rate();
        // The first and the third are lost: no number of duplicates has them sent again.
        let blocks = [(1, 2)].into_iter().chain((4..=12).map(|end| (3, end)));
        for (low, high) in blocks {
            sender.on_ack(20_000, 0, u16::MAX, Some((low * MSS, high * MSS)), false);
            assert!(sent(&mut sender).is_empty());
        }
        sender.on_deadline(46_000);
        // Slow start up to half of the window, of what has not arrived.
        assert_eq!((sent(&mut sender), sender.congestion.threshold), (vec![0], 6 * u64::from(MSS)));
        sender.on_ack(61_000, 2 * MSS, u16::MAX, None, false);
        assert_eq!(sent(&mut sender), [2, 12]);
        // The round trip was 15 µs at first, and 61 now.
        assert_eq!((sender.deadline(), sender.timeouts), (61_000 + 45_000, 1));
    }

    #[test]
    fn at_line_rate_timeouts_in_a_row_lead_to_probes_of_an_octet() {
        let mut sender = at_line_rate();
        let time_out = |sender: &mut Sender| {
            let now = sender.deadline();
            sender.on_deadline(now);
            assert_eq!(sender.deadline(), now + 45_000);
            std::iter::from_fn(|| sender.poll(now)).collect::<Vec<_>>()
        };
        let whole = [Segment { seq: 0, len: 1460 }];
        assert_eq!(time_out(&mut sender), whole);
        assert_eq!(sender.congestion.threshold, 6 * u64::from(MSS));
        assert_eq!(time_out(&mut sender), whole);
        assert_eq!(sender.congestion.threshold, 2 * u64::from(MSS));
        let octet = [Segment { seq: 0, len: 1 }];
        assert_eq!(time_out(&mut sender), octet);
        assert_eq!(time_out(&mut sender), octet);
        // Slow start from one segment, and the count begins anew.
        sender.on_ack(1_000, 1, u16::MAX, None, false);
        assert_eq!(sender.poll(1_000), Some(Segment { seq: 1, len: 1460 }));
        assert_eq!(sender.poll(1_000), None);
        assert_eq!(time_out(&mut sender), [Segment { seq: 1, len: 1460 }]);
    }

    #[test]
    fn the_first_segment_after_a_recovery_can_be_recovered_too() {
        for sack in [false, true] {
            let transport = Transport { sack, initial_window: 10, ..Transport::default() };
            let mut sender = Sender::new(&transport, 100 * u64::from(MSS), 1_000_000);
            let hear = |sender: &mut Sender, ack: u32, beyond: u32| {
                let block =
                    (sack && beyond > 0).then_some(((ack + 1) * MSS, (ack + 1 + beyond) * MSS));
                sender.on_ack(1_000, ack * MSS, u16::MAX, block, false);
                sent(sender)
            };
            assert_eq!(sent(&mut sender), (0..10).collect::<Vec<_>>());
            hear(&mut sender, 0, 0); // tells its window
            // The first is lost, and sent again after three others have arrived.
            let before: Vec<u64> = (1..=3).flat_map(|n| hear(&mut sender, 0, n)).collect();
            assert!(before.contains(&0), "{before:?}");
            // All that was sent by then is acknowledged, and the next one is lost.
            let recover = before.iter().max().map_or(10, |last| u32::try_from(last + 1).unwrap());
            let recover = recover.max(10);
            hear(&mut sender, recover, 0);
            let after: Vec<u64> = (1..=3).flat_map(|n| hear(&mut sender, recover, n)).collect();
            // Without SACK the duplicates could be of what a timeout sent again needlessly.
            assert_eq!(after.contains(&recover.into()), sack, "{after:?} after {recover}");
        }
    }
}
