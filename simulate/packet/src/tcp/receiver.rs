//! The receiving end: reassembly, and when to acknowledge what (RFC 9293, 5681, 2018, 8257).

use super::low;
use super::ranges::Ranges;

/// An acknowledgement to send, in the numbers of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// Everything below has arrived.
    pub(crate) seq: u32,
    /// The out-of-order range that grew last, equal bounds for none; one block is enough as each
    /// arrival reports its own.
    pub(crate) block: (u32, u32),
    /// ECN-Echo.
    pub(crate) echo: bool,
}

/// State of one receiving connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    next: u64,
    held: Ranges,
    /// Longest wait for a second segment, ns; zero acknowledges each.
    delay: u64,
    /// Whether blocks are reported.
    sack: bool,
    /// When the waiting acknowledgement must go, if one waits.
    due: Option<u64>,
    /// Whether the last data packet was marked (RFC 8257, section 3.2: DCTCP.CE).
    marked: bool,
}

impl Receiver {
    pub(crate) fn new(delay: u64, sack: bool) -> Self {
        Self { next: 0, held: Ranges::default(), delay, sack, due: None, marked: false }
    }

    /// Payload delivered in order.
    pub(crate) const fn delivered(&self) -> u64 {
        self.next
    }

    /// When [`Receiver::on_deadline`] is wanted.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        self.due
    }

    /// Takes in `[seq, seq + len)`; returns up to two acknowledgements to send now: one that
    /// reports what came before a change of the mark, and the one for this packet.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        now: u64,
        seq: u64,
        len: u64,
        marked: bool,
    ) -> (Option<Acknowledgement>, Option<Acknowledgement>) {
        // RFC 8257, figure 1: a change of state acknowledges what waited, with the old state.
        let changed = marked != self.marked;
        let before = (changed && self.due.is_some()).then(|| self.acknowledge((0, 0)));
        self.marked = marked;
        if seq == self.next && self.held.is_empty() {
            self.next = seq + len;
            if self.delay != 0 && self.due.is_none() {
                self.due = Some(now + self.delay);
                return (before, None);
            }
            return (before, Some(self.acknowledge((0, 0))));
        }
        (before, Some(self.out_of_order(seq, seq + len)))
    }

    /// A gap, a duplicate, or what fills a gap is acknowledged at once (RFC 5681, section 4.2).
    #[cold]
    fn out_of_order(&mut self, first: u64, end: u64) -> Acknowledgement {
        let range = (first.max(self.next), end);
        let (first, end) = if end > self.next { self.held.insert(range.0, range.1) } else { range };
        self.next = self.held.end_of(self.next);
        self.held.remove_below(self.next);
        let block = if self.sack && first > self.next { (low(first), low(end)) } else { (0, 0) };
        self.acknowledge(block)
    }

    pub(crate) fn on_deadline(&mut self, now: u64) -> Option<Acknowledgement> {
        let due = self.due?;
        (due <= now).then(|| self.acknowledge((0, 0)))
    }

    const fn acknowledge(&mut self, block: (u32, u32)) -> Acknowledgement {
        self.due = None;
        Acknowledgement { seq: low(self.next), block, echo: self.marked }
    }
}
