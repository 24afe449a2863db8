//! Recovery as in current hosts: losses are found by time (RACK), the end of a burst is probed
//! (tail loss probe, both RFC 8985), and the window shrinks in proportion (RFC 9937).

use super::{NEVER, Phase, Segment, Sender};
use crate::tcp::prr::Reduction;
use crate::tcp::scoreboard::{Delivery, Found, Scoreboard};
use crate::{Protocol, Transport};

/// Segments above a gap that make waiting for reordering needless (RFC 8985, section 6.2, step 4).
const DUPLICATES: u64 = 3;

/// What the sender's timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    Retransmission,
    /// What came late may be lost by now.
    Reordering,
    Probe,
}

/// State beside the sender's own.
#[derive(Clone, Debug)]
pub(super) struct ByTime {
    board: Scoreboard,
    alarm: Alarm,
    probes: bool,
    /// A probe is out: the end of all that was sent by then, and whether it was sent again.
    probe: Option<(u64, bool)>,
    proportional: bool,
    reduction: Option<Reduction>,
    /// The reduction is for marks, until more than this has arrived (what Linux calls CWR).
    marked: Option<u64>,
    /// Whether timeouts are doubted (F-RTO, RFC 5682, section 3).
    doubts: bool,
    /// While the timeout is doubted: window and threshold before it.
    doubt: Option<(u64, u64)>,
    /// New data goes before what counts as lost, to see what becomes of it.
    ahead: bool,
    min_rto: u64,
    tick: u64,
}

impl ByTime {
    /// None for a transport that finds losses otherwise, or not at all. `round_trip` is what the
    /// handshake took, ns.
    pub(super) fn of(transport: &Transport, round_trip: u64) -> Option<Box<Self>> {
        if !transport.rack || transport.protocol == Protocol::Datagram {
            return None;
        }
        Some(Box::new(Self {
            board: Scoreboard::new(round_trip),
            alarm: Alarm::Retransmission,
            probes: transport.tail_loss_probe,
            probe: None,
            // Without a congestion window there is nothing to reduce.
            proportional: transport.prr && transport.protocol != Protocol::Granted,
            reduction: None,
            marked: None,
            doubts: transport.frto,
            doubt: None,
            ahead: false,
            min_rto: transport.min_rto.as_nanos(),
            tick: transport.tick.as_nanos(),
        }))
    }

    /// `span` from `now`, at a tick of the clock and not before: a tick that has begun doesn't count.
    const fn after(&self, now: u64, span: u64) -> u64 {
        if self.tick == 0 {
            return now + span;
        }
        (now / self.tick + 1 + span.div_ceil(self.tick)) * self.tick
    }

    /// Takes in an acknowledgement up to `ack`, which is at most what was sent.
    pub(super) fn on_ack(
        &mut self,
        sender: &mut Sender,
        now: u64,
        ack: u64,
        block: Option<(u64, u64)>,
        echo: bool,
    ) {
        let acked = ack - sender.una;
        self.heed_marks(sender, ack, echo);
        if sender.max == sender.una {
            sender.on_window();
            return;
        }
        let mss = u64::from(sender.mss);
        let was_limited = self.board.flying() + mss > sender.congestion.window;
        let delivery = self.board.on_ack(now, ack, block, &mut sender.sacked);
        sender.una = ack;
        if let Some((_, round_trip)) = delivery.once {
            sender.rtt.sample(round_trip);
        }
        if acked > 0 {
            sender.congestion.on_ack(now, ack, sender.next);
        }
        self.judge_probe(sender, ack, acked == 0 && block.is_none());
        self.judge_timeout(sender, acked, delivery);
        if sender.phase != Phase::Open && sender.una >= sender.recover {
            if sender.phase == Phase::Recovery {
                sender.congestion.window = sender.congestion.threshold;
            }
            sender.phase = Phase::Open;
            self.reduction = None;
        }
        if self.marked.is_some_and(|end| ack > end) {
            sender.congestion.window = sender.congestion.threshold;
            (self.marked, self.reduction) = (None, None);
        }
        let found = self.board.detect(now, self.allowance(sender));
        let repeats = sender.phase == Phase::Loss && found.again;
        if repeats || (sender.phase == Phase::Open && self.board.lost() > 0) {
            self.enter_recovery(sender, delivery);
        }
        if sender.phase == Phase::Recovery || self.marked.is_some() {
            self.reduce(sender, delivery.octets, acked > 0 && found.octets == 0);
        } else if acked > 0 && was_limited && !(echo && sender.is_ecn_capable()) {
            sender.congestion.grow(now, delivery.octets, sender.rtt.smoothed());
        }
        if !self.await_reordering(sender, now, found) && acked > 0 {
            self.arm(sender, now, now);
        }
    }

    /// Marks ask for a smaller window, as losses do, once for each; where it shrinks in proportion, what
    /// arrives lets new data go meanwhile, which shows losses that the marks came with.
    fn heed_marks(&mut self, sender: &mut Sender, ack: u64, echo: bool) {
        let (acked, max) = (ack - sender.una, sender.max);
        if !self.proportional {
            sender.congestion.on_echo(acked, echo, ack, max);
        } else if sender.congestion.note_echo(acked, echo, ack, max)
            && sender.phase == Phase::Open
            && self.marked.is_none()
        {
            self.reduction = Some(Reduction::new(sender.congestion.window));
            self.marked = Some(max);
            sender.congestion.on_marks(max);
        }
    }

    /// How much later than what was sent after it a segment may come (RFC 8985, section 6.2, step 4;
    /// packets of a flow keep their order here, so that it never adapts).
    fn allowance(&self, sender: &Sender) -> u64 {
        if sender.phase != Phase::Open || self.board.arrived() >= DUPLICATES * u64::from(sender.mss)
        {
            return 0;
        }
        (self.board.least_round_trip() / 4).min(sender.rtt.smoothed())
    }

    /// Sets the timer for what may be found lost later, if any.
    fn await_reordering(&mut self, sender: &mut Sender, now: u64, found: Found) -> bool {
        let Some(wait) = found.wait else {
            return false;
        };
        self.alarm = Alarm::Reordering;
        sender.timer = self.after(now, wait);
        true
    }

    fn enter_recovery(&mut self, sender: &mut Sender, delivery: Delivery) {
        sender.phase = Phase::Recovery;
        sender.recover = sender.max;
        self.probe = None;
        if self.marked.take().is_some() {
            // It shrinks already.
            return;
        }
        let flight = sender.max - sender.una;
        sender.congestion.on_loss(flight.min(sender.congestion.window));
        sender.congestion.window = sender.congestion.threshold;
        // RecoverFS of RFC 9937, section 6.
        let flight = flight - self.board.arrived() + delivery.octets;
        self.reduction = self.proportional.then(|| Reduction::new(flight));
    }

    fn reduce(&mut self, sender: &mut Sender, delivered: u64, safe: bool) {
        let Some(reduction) = self.reduction.as_mut().filter(|_| delivered > 0) else {
            return;
        };
        let (flying, threshold) = (self.board.flying(), sender.congestion.threshold);
        sender.congestion.window =
            reduction.window(delivered, flying, threshold, safe, u64::from(sender.mss));
    }

    /// A probe that repaired a loss by itself is a loss all the same (RFC 8985, section 7.4.2).
    fn judge_probe(&mut self, sender: &mut Sender, ack: u64, is_duplicate: bool) {
        let Some((end, again)) = self.probe.filter(|&(end, _)| ack >= end) else {
            return;
        };
        if !again || is_duplicate {
            self.probe = None;
        } else if ack > end {
            self.probe = None;
            let congestion = &mut sender.congestion;
            congestion.on_loss(congestion.window);
            congestion.window = congestion.threshold;
        }
    }

    /// After a timeout new data is sent when the first acknowledgement comes. If then something arrives
    /// that was sent once and before, nothing was lost but time (RFC 5682, section 3, with SACK).
    fn judge_timeout(&mut self, sender: &mut Sender, acked: u64, delivery: Delivery) {
        self.ahead = false;
        let Some((window, threshold)) = self.doubt.filter(|_| sender.phase == Phase::Loss) else {
            return;
        };
        if delivery.once.is_some_and(|(end, _)| end <= sender.recover) {
            (sender.congestion.window, sender.congestion.threshold) = (window, threshold);
            sender.phase = Phase::Open;
            self.board.forgive();
            self.doubt = None;
        } else if sender.max > sender.recover {
            if acked == 0 {
                self.doubt = None;
            }
        } else if acked > 0 && sender.una < sender.recover {
            sender.recover = sender.max;
            self.ahead = true;
        }
    }

    /// Starts the timer of the retransmission, as if the first segment had been sent at `since`, or
    /// that of the probe where it comes before (RFC 8985, section 7.2).
    fn arm(&mut self, sender: &mut Sender, now: u64, since: u64) {
        self.alarm = Alarm::Retransmission;
        if sender.una == sender.max {
            sender.timer = NEVER;
            return;
        }
        sender.timer = self.after(since.max(sender.allowed), sender.rtt.timeout()).max(now + 1);
        let is_orderly =
            sender.phase == Phase::Open && sender.sacked.is_empty() && self.board.lost() == 0;
        if self.probes && is_orderly {
            let alone = self.board.len() == 1;
            let wait = 2 * sender.rtt.smoothed() + if alone { self.min_rto } else { self.tick };
            self.alarm = Alarm::Probe;
            sender.timer = sender.timer.min(self.after(now.max(sender.allowed), wait));
        }
    }

    pub(super) fn on_deadline(&mut self, sender: &mut Sender, now: u64) {
        match std::mem::replace(&mut self.alarm, Alarm::Retransmission) {
            Alarm::Reordering => {
                let found = self.board.detect(now, self.allowance(sender));
                if found.octets > 0 {
                    if sender.phase != Phase::Recovery {
                        self.enter_recovery(sender, Delivery::default());
                    }
                    self.reduce(sender, u64::from(sender.mss), false);
                }
                let since = self.board.first_sent().unwrap_or(now);
                sender.timer =
                    self.after(since.max(sender.allowed), sender.rtt.timeout()).max(now + 1);
            }
            Alarm::Probe if self.probe.is_none() => self.send_probe(sender, now),
            Alarm::Probe => {
                let since = self.board.first_sent().unwrap_or(now);
                sender.timer =
                    self.after(since.max(sender.allowed), sender.rtt.timeout()).max(now + 1);
            }
            Alarm::Retransmission => self.on_timeout(sender, now),
        }
    }

    /// RFC 8985, section 7.3: new data if there is any that may be sent, else the last segment again.
    fn send_probe(&mut self, sender: &mut Sender, now: u64) {
        let new = Self::new_data(sender);
        sender.resend = new.map_or_else(|| self.board.last(), |_| Some(sender.max));
        self.probe = Some((sender.max + new.unwrap_or(0), new.is_none()));
        sender.timer = self.after(now.max(sender.allowed), sender.rtt.timeout());
    }

    fn on_timeout(&mut self, sender: &mut Sender, now: u64) {
        sender.timeouts += 1;
        let congestion = &sender.congestion;
        let before = self.doubt.unwrap_or((congestion.window, congestion.threshold));
        self.doubt = self.doubts.then_some(before);
        self.ahead = false;
        if sender.phase != Phase::Loss || sender.una >= sender.recover {
            let flight = sender.max - sender.una - self.board.arrived();
            sender.congestion.on_loss(flight.min(sender.congestion.window));
        }
        self.board.on_timeout(now);
        sender.congestion.on_timeout(sender.una + self.board.arrived());
        // What was sent within a round trip isn't lost yet, and goes beside the one segment.
        let window = &mut sender.congestion.window;
        *window = window.saturating_add(self.board.flying());
        sender.phase = Phase::Loss;
        sender.recover = sender.max;
        sender.resend = None;
        self.probe = None;
        (self.marked, self.reduction) = (None, None);
        sender.rtt.back_off();
        sender.timer = self.after(now.max(sender.allowed), sender.rtt.timeout());
    }

    pub(super) fn poll(&mut self, sender: &mut Sender, now: u64) -> Option<Segment> {
        if let Some(seq) = sender.resend.take() {
            // A probe, of the end or of the window.
            let segment = match self.board.len_at(seq) {
                Some(len) => sender.send(now, seq, len),
                None => sender.probe(now),
            };
            if segment.len > 0 {
                self.board.on_send(now, seq, segment.len.into());
            }
            return Some(segment);
        }
        let (flying, window) = (self.board.flying(), sender.congestion.window);
        if self.ahead && Self::new_data(sender).is_none() && sender.max == sender.recover {
            // There is none to send: the timeout is believed.
            (self.ahead, self.doubt) = (false, None);
        }
        let lost = if self.ahead { None } else { self.board.next_lost() };
        if let Some((seq, len)) = lost {
            if flying + len > window {
                return None;
            }
            let segment = sender.send(now, seq, len);
            self.sent(now, segment);
            if seq == sender.una && self.alarm != Alarm::Reordering {
                self.alarm = Alarm::Retransmission;
                sender.timer = self.after(now.max(sender.allowed), sender.rtt.timeout());
            }
            return Some(segment);
        }
        let Some(len) = Self::new_data(sender).filter(|len| flying + len <= window) else {
            let len = u64::from(sender.mss).min(sender.size - sender.max);
            return if sender.timer == NEVER { sender.blocked(now, len) } else { None };
        };
        let segment = sender.send(now, sender.max, len);
        self.sent(now, segment);
        if self.alarm != Alarm::Reordering {
            let since = self.board.first_sent().unwrap_or(now);
            self.arm(sender, now, since);
        }
        Some(segment)
    }

    /// Octets of the next segment never sent, if there is one and the receiver has room for it.
    fn new_data(sender: &Sender) -> Option<u64> {
        let len = u64::from(sender.mss).min(sender.size - sender.max);
        (len > 0 && sender.max + len - sender.una <= sender.receive_window).then_some(len)
    }

    fn sent(&mut self, now: u64, segment: Segment) {
        self.board.on_send(now, segment.seq, segment.len.into());
        if let Some(reduction) = &mut self.reduction {
            reduction.on_send(segment.len.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    const MSS: u32 = 1460;
    const MS: u64 = 1_000_000;

    /// All that RFC 8985 and 9937 ask for, a round trip of 20 ms, an initial window of ten.
    fn transport() -> Transport {
        let by_time =
            Transport { rack: true, tail_loss_probe: true, prr: true, ..Transport::default() };
        Transport { min_rto: Span::from_millis(200), ..by_time }
    }

    fn sender(transport: &Transport, segments: u64) -> Sender {
        Sender::new(transport, segments * u64::from(MSS), 20 * MS)
    }

    /// The segments that may go at `ms`, by number.
    fn sent(sender: &mut Sender, ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| sender.poll(ms * MS)).map(|one| one.seq / u64::from(MSS)).collect()
    }

    /// The segments that go when everything below `ack` is acknowledged, and `[low, high)`.
    fn hear(sender: &mut Sender, ms: u64, ack: u32, block: Option<(u32, u32)>) -> Vec<u64> {
        let block = block.map(|(low, high)| (low * MSS, high * MSS));
        sender.on_ack(ms * MS, ack * MSS, u16::MAX, block, false);
        sent(sender, ms)
    }

    #[test]
    fn the_end_of_a_burst_is_probed_after_two_round_trips() {
        let mut sender = sender(&transport(), 10);
        assert_eq!(sent(&mut sender, 0).len(), 10);
        // The last two are lost. The first sample is 20 ms, as that of the handshake was.
        for n in 1..=8 {
            assert!(hear(&mut sender, 20, n, None).is_empty());
        }
        assert_eq!(sender.deadline(), 60 * MS);
        sender.on_deadline(60 * MS);
        assert_eq!(sent(&mut sender, 60), [9]);
        // The probe shows the other loss as well: 8 was sent long before.
        assert_eq!(hear(&mut sender, 80, 8, Some((9, 10))), [8]);
        hear(&mut sender, 100, 10, None);
        assert!(sender.is_done());
        assert_eq!((sender.timeouts, sender.retransmissions), (0, 2));
    }

    #[test]
    fn a_probe_of_a_lone_segment_comes_no_sooner_than_its_timeout() {
        let mut sender = sender(&transport(), 1);
        assert_eq!(sent(&mut sender, 0), [0]);
        assert_eq!(sender.deadline(), 200 * MS);
        sender.on_deadline(200 * MS);
        assert_eq!((sent(&mut sender, 200), sender.timeouts), (vec![0], 0));
        // Then it is a timeout, and the next one waits twice as long.
        assert_eq!(sender.deadline(), 400 * MS);
        sender.on_deadline(400 * MS);
        assert_eq!((sent(&mut sender, 400), sender.timeouts), (vec![0], 1));
        assert_eq!(sender.deadline(), 800 * MS);
    }

    #[test]
    fn one_segment_above_a_gap_is_enough_a_quarter_of_a_round_trip_later() {
        let mut sender = sender(&transport(), 10);
        sent(&mut sender, 0);
        // The first is lost, and so are all from the third on.
        assert!(hear(&mut sender, 20, 0, Some((1, 2))).is_empty());
        assert_eq!(sender.deadline(), 25 * MS);
        sender.on_deadline(25 * MS);
        assert_eq!((sent(&mut sender, 25), sender.timeouts), (vec![0], 0));
    }

    #[test]
    fn a_retransmission_lost_after_a_timeout_needs_no_second_timeout() {
        let mut sender = sender(&Transport { tail_loss_probe: false, ..transport() }, 10);
        sent(&mut sender, 0);
        // All ten are lost.
        sender.on_deadline(200 * MS);
        assert_eq!(sent(&mut sender, 200), [0]);
        assert_eq!(hear(&mut sender, 220, 1, None), [1, 2]);
        // 1 is lost again, 2 arrives: a recovery, within the slow start that the timeout began.
        assert_eq!(hear(&mut sender, 240, 1, Some((2, 3))), [1]);
        assert_eq!((sender.timeouts, sender.phase), (1, Phase::Recovery));
    }

    #[test]
    fn a_timeout_that_was_late_news_is_taken_back() {
        for frto in [false, true] {
            let mut sender = sender(&Transport { tail_loss_probe: false, frto, ..transport() }, 30);
            sent(&mut sender, 0);
            // All ten arrive, but the news takes 210 ms.
            sender.on_deadline(200 * MS);
            assert_eq!(sent(&mut sender, 200), [0]);
            // A window of two: new data, where without doubt 1 and 2 go again.
            let next = hear(&mut sender, 210, 1, None);
            assert_eq!(next, if frto { vec![10, 11] } else { vec![1, 2] });
            hear(&mut sender, 211, 2, None);
            assert_eq!(sender.phase, if frto { Phase::Open } else { Phase::Loss });
            assert_eq!(sender.congestion.window >= 10 * u64::from(MSS), frto);
        }
    }

    #[test]
    fn a_timeout_that_was_a_loss_is_believed_when_new_data_arrives() {
        let mut sender = sender(&Transport { frto: true, ..transport() }, 30);
        sent(&mut sender, 0);
        // All ten are lost, and the probe.
        sender.on_deadline(sender.deadline());
        assert_eq!(sent(&mut sender, 40), [10]);
        sender.on_deadline(240 * MS);
        assert_eq!(sent(&mut sender, 240), [0]);
        assert_eq!(hear(&mut sender, 260, 1, None), [11, 12]);
        // What was sent after the timeout arrives: the others are lost. It is a sample, too: a
        // further timeout waits no longer than the first.
        assert_eq!(hear(&mut sender, 280, 1, Some((11, 12))), [1]);
        assert_eq!((sender.timeouts, sender.rtt.timeout()), (1, 200 * MS));
    }

    #[test]
    fn marks_let_new_data_go_in_proportion_and_what_it_meets_shows_losses() {
        let marked = Transport { protocol: Protocol::Dctcp, ..transport() };
        let mut sender = sender(&marked, 30);
        assert_eq!(sent(&mut sender, 0).len(), 10);
        let mut hear_marked = |ms: u64, ack: u32, block: Option<(u32, u32)>| {
            let block = block.map(|(low, high)| (low * MSS, high * MSS));
            sender.on_ack(ms * MS, ack * MSS, u16::MAX, block, true);
            (sent(&mut sender, ms), sender.phase)
        };
        // Ten become five: one for two that arrive.
        assert_eq!(hear_marked(20, 1, None), (vec![10], Phase::Open));
        assert_eq!(hear_marked(20, 2, None), (vec![], Phase::Open));
        assert_eq!(hear_marked(20, 3, None), (vec![], Phase::Open));
        assert_eq!(hear_marked(20, 4, None), (vec![11], Phase::Open));
        // All others were lost but the new ones: no timer need run out, and nothing is halved again.
        assert_eq!(hear_marked(40, 4, Some((10, 11))), (vec![4, 5, 6], Phase::Recovery));
        assert_eq!(sender.congestion.threshold, 5 * u64::from(MSS));
        assert_eq!(sender.timeouts, 0);
    }

    #[test]
    fn timers_run_out_at_ticks_and_not_early() {
        let ticking = Transport { tick: Span::from_millis(4), ..transport() };
        let mut sender = sender(&ticking, 10);
        sent(&mut sender, 1);
        // Two round trips of 20 ms and a tick are eleven ticks from the end of the one at 1 ms.
        assert_eq!(sender.deadline(), 48 * MS);
    }
}
