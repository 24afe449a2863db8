//! The outstanding segments: when each was last sent, and whether it has arrived or counts as lost
//! (RACK, RFC 8985, section 6).

use std::collections::VecDeque;

use super::ranges::Ranges;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Flying,
    /// Known from a SACK block.
    Arrived,
    /// Waits to be sent again.
    Lost,
}

/// `[low, high)` as it was sent.
#[derive(Clone, Copy, Debug)]
struct Piece {
    low: u64,
    high: u64,
    /// Last time, ns.
    sent: u64,
    /// Whether more than once.
    again: bool,
    fate: Fate,
}

impl Piece {
    const fn len(&self) -> u64 {
        self.high - self.low
    }
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Octets that were not known to have arrived.
    pub(super) octets: u64,
    /// The end of the first of them that was sent only once, and its round trip, ns.
    pub(super) once: Option<(u64, u64)>,
}

/// What was found lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Octets.
    pub(super) octets: u64,
    /// Whether a retransmission is among them.
    pub(super) again: bool,
    /// After so long, ns, more will be, unless it arrives.
    pub(super) wait: Option<u64>,
}

/// Everything from the first octet not acknowledged to the last one sent. All sizes in octets, times
/// in ns.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    /// By sequence number, without gaps.
    pieces: VecDeque<Piece>,
    /// When which piece was sent, by its low end, in the order of time. A piece that was sent again
    /// or has arrived leaves its old entry behind.
    order: VecDeque<(u64, u64)>,
    flying: u64,
    arrived: u64,
    lost: u64,
    /// No piece below is lost.
    first_lost: u64,
    /// The last sent of all that has arrived (RACK.xmit_ts, RACK.end_seq), and its round trip.
    newest: (u64, u64),
    round_trip: u64,
    /// Least round trip so far.
    least: u64,
}

impl Scoreboard {
    /// `least` is a round trip that was measured.
    pub(super) const fn new(least: u64) -> Self {
        Self {
            pieces: VecDeque::new(),
            order: VecDeque::new(),
            flying: 0,
            arrived: 0,
            lost: 0,
            first_lost: 0,
            newest: (0, 0),
            round_trip: 0,
            least,
        }
    }

    /// Assumed in the network.
    pub(super) const fn flying(&self) -> u64 {
        self.flying
    }

    /// Known to have arrived, above the first gap.
    pub(super) const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Waits to be sent again.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) const fn least_round_trip(&self) -> u64 {
        self.least
    }

    /// Segments outstanding.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// When the first outstanding segment was sent last.
    pub(super) fn first_sent(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.sent)
    }

    /// Where the last outstanding segment begins.
    pub(super) fn last(&self) -> Option<u64> {
        self.pieces.back().map(|piece| piece.low)
    }

    fn find(&self, low: u64) -> Option<usize> {
        self.pieces.binary_search_by_key(&low, |piece| piece.low).ok()
    }

    /// Octets of the segment that begins at `low`.
    pub(super) fn len_at(&self, low: u64) -> Option<u64> {
        Some(self.pieces[self.find(low)?].len())
    }

    /// `[low, low + len)` is sent: new data, or a piece again.
    pub(super) fn on_send(&mut self, now: u64, low: u64, len: u64) {
        self.order.push_back((now, low));
        let Some(at) = self.find(low) else {
            let (high, fate) = (low + len, Fate::Flying);
            self.pieces.push_back(Piece { low, high, sent: now, again: false, fate });
            self.flying += len;
            return;
        };
        let piece = &mut self.pieces[at];
        if piece.fate == Fate::Lost {
            piece.fate = Fate::Flying;
            self.lost -= piece.len();
            self.flying += piece.len();
        }
        (piece.sent, piece.again) = (now, true);
    }

    /// Takes in an acknowledgement up to `ack` and perhaps a SACK block; `sacked` is what the blocks
    /// before said, and learns this one.
    pub(super) fn on_ack(
        &mut self,
        now: u64,
        ack: u64,
        block: Option<(u64, u64)>,
        sacked: &mut Ranges,
    ) -> Delivery {
        let mut delivery = Delivery::default();
        while let Some(piece) = self.pieces.front_mut().filter(|piece| piece.low < ack) {
            // A window that closes can cut a segment.
            let part = Piece { high: piece.high.min(ack), ..*piece };
            piece.low = part.high;
            if piece.low == piece.high {
                self.pieces.pop_front();
            }
            if part.fate == Fate::Arrived {
                self.arrived -= part.len();
            } else {
                self.deliver(now, part, &mut delivery);
            }
        }
        if let Some((low, high)) = block {
            let mut at = sacked.end_of(low);
            while at < high {
                let end = sacked.next_above(at).unwrap_or(high).min(high);
                self.arrive(now, at, end, &mut delivery);
                at = sacked.end_of(end);
            }
            sacked.insert(low, high);
        }
        sacked.remove_below(ack);
        delivery
    }

    /// The pieces of `[low, high)` have arrived.
    fn arrive(&mut self, now: u64, low: u64, high: u64, delivery: &mut Delivery) {
        let first = self.pieces.partition_point(|piece| piece.low < low);
        let last = self.pieces.partition_point(|piece| piece.high <= high);
        for at in first..last {
            let piece = self.pieces[at];
            if piece.fate != Fate::Arrived {
                self.pieces[at].fate = Fate::Arrived;
                self.arrived += piece.len();
                self.deliver(now, piece, delivery);
            }
        }
    }

    /// RFC 8985, section 6.2, steps 1 and 2.
    fn deliver(&mut self, now: u64, piece: Piece, delivery: &mut Delivery) {
        match piece.fate {
            Fate::Lost => self.lost -= piece.len(),
            _ => self.flying -= piece.len(),
        }
        delivery.octets += piece.len();
        let round_trip = now - piece.sent;
        if !piece.again {
            self.least = self.least.min(round_trip);
            delivery.once.get_or_insert((piece.high, round_trip));
        } else if round_trip < self.least {
            // Too soon for this transmission: an earlier one arrived.
            return;
        }
        if (piece.sent, piece.high) > self.newest {
            self.newest = (piece.sent, piece.high);
            self.round_trip = round_trip;
        }
    }

    /// What was sent before something that has arrived, and is `allowance` later than that, is lost
    /// (RFC 8985, section 6.2, step 5).
    pub(super) fn detect(&mut self, now: u64, allowance: u64) -> Found {
        let mut found = Found::default();
        while let Some(&(sent, low)) = self.order.front() {
            let at = self.find(low);
            let piece = at.map(|at| &mut self.pieces[at]);
            if let Some(piece) = piece.filter(|one| one.sent == sent && one.fate == Fate::Flying) {
                if (sent, piece.high) >= self.newest {
                    break;
                }
                if sent + self.round_trip + allowance > now {
                    // All that can still be found were sent by the same time.
                    found.wait = Some(self.newest.0 + self.round_trip + allowance - now);
                    break;
                }
                piece.fate = Fate::Lost;
                found.octets += piece.len();
                found.again |= piece.again;
                self.first_lost = self.first_lost.min(low);
            }
            self.order.pop_front();
        }
        self.flying -= found.octets;
        if self.lost == 0 && found.octets > 0 {
            self.first_lost = self.pieces.front().map_or(0, |piece| piece.low);
        }
        self.lost += found.octets;
        found
    }

    /// The timer ran out: the first is lost, and all that is later than a round trip (RFC 8985,
    /// section 6.3).
    pub(super) fn on_timeout(&mut self, now: u64) {
        let round_trip = self.round_trip;
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            if piece.fate == Fate::Flying && (at == 0 || piece.sent + round_trip <= now) {
                piece.fate = Fate::Lost;
                self.flying -= piece.len();
                self.lost += piece.len();
            }
        }
        self.first_lost = self.pieces.front().map_or(0, |piece| piece.low);
    }

    /// Undoes the marking of losses.
    pub(super) fn forgive(&mut self) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.fate == Fate::Lost) {
            piece.fate = Fate::Flying;
        }
        self.flying += std::mem::take(&mut self.lost);
    }

    /// The first segment that is lost: where it begins, and its octets.
    pub(super) fn next_lost(&mut self) -> Option<(u64, u64)> {
        if self.lost == 0 {
            return None;
        }
        let from = self.pieces.partition_point(|piece| piece.low < self.first_lost);
        let piece = self.pieces.range(from..).find(|piece| piece.fate == Fate::Lost)?;
        self.first_lost = piece.low;
        Some((piece.low, piece.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four segments of 10 octets, sent at 100, 101, 102, 103; no round trip is shorter than 20.
    fn board() -> Scoreboard {
        let mut board = Scoreboard::new(20);
        for n in 0..4 {
            board.on_send(100 + n, 10 * n, 10);
        }
        board
    }

    #[test]
    fn what_was_sent_before_something_that_arrived_is_lost_after_the_allowance() {
        let (mut board, mut sacked) = (board(), Ranges::default());
        let delivery = board.on_ack(130, 0, Some((20, 30)), &mut sacked);
        assert_eq!((delivery.octets, delivery.once), (10, Some((30, 28))));
        // The last of those before it is due when it would have come, and 5 later.
        let found = board.detect(130, 5);
        assert_eq!(found, Found { octets: 0, again: false, wait: Some(5) });
        assert_eq!(board.detect(133, 5).octets, 10);
        assert_eq!(board.detect(134, 5).octets, 10);
        // What was sent after it isn't.
        assert_eq!((board.flying(), board.lost(), board.arrived()), (10, 20, 10));
        assert_eq!(board.next_lost(), Some((0, 10)));
    }

    #[test]
    fn a_retransmission_is_lost_when_a_later_one_arrives() {
        let (mut board, mut sacked) = (board(), Ranges::default());
        board.on_ack(130, 0, Some((20, 30)), &mut sacked);
        assert_eq!(board.detect(130, 0).octets, 20);
        board.on_send(131, 0, 10);
        board.on_send(132, 10, 10);
        assert_eq!((board.lost(), board.next_lost()), (0, None));
        board.on_ack(160, 0, Some((10, 30)), &mut sacked);
        let found = board.detect(160, 0);
        assert_eq!(found, Found { octets: 20, again: true, wait: None });
        assert_eq!((board.flying(), board.arrived()), (0, 20));
    }

    #[test]
    fn an_acknowledgement_sooner_than_a_round_trip_is_of_the_first_transmission() {
        let (mut board, mut sacked) = (board(), Ranges::default());
        board.on_ack(130, 0, Some((20, 30)), &mut sacked);
        board.detect(130, 0);
        board.on_send(131, 0, 10);
        let delivery = board.on_ack(140, 10, None, &mut sacked);
        assert_eq!((delivery.octets, delivery.once), (10, None));
        // 30 was sent before 131, but nothing sent at 131 is known to have arrived.
        assert_eq!(board.detect(140, 0).octets, 0);
        assert_eq!(board.flying(), 10);
    }

    #[test]
    fn what_was_just_sent_is_not_lost_when_the_timer_runs_out() {
        let (mut board, mut sacked) = (board(), Ranges::default());
        board.on_ack(130, 0, Some((20, 30)), &mut sacked);
        // The round trip is 28: at 200 the first two are late, what was sent at 190 isn't.
        board.on_send(190, 40, 10);
        board.on_timeout(200);
        assert_eq!((board.flying(), board.lost()), (10, 30));
    }

    #[test]
    fn everything_adds_up() {
        let (mut board, mut sacked) = (board(), Ranges::default());
        board.on_ack(130, 5, Some((20, 40)), &mut sacked);
        assert_eq!(board.flying() + board.lost() + board.arrived(), 35);
        board.on_timeout(200);
        assert_eq!((board.flying(), board.lost(), board.arrived()), (0, 15, 20));
        assert_eq!(board.next_lost(), Some((5, 5)));
        board.on_ack(210, 40, None, &mut sacked);
        assert_eq!((board.flying(), board.lost(), board.arrived(), board.len()), (0, 0, 0, 0));
    }
}
