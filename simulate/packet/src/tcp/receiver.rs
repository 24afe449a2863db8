//! The receiving end: reassembly, and when to acknowledge what (RFC 9293, 5681, 2018, 8257).

use super::buffer::Buffer;
use super::low;
use super::ranges::Ranges;
use crate::Transport;

/// An acknowledgement to send, with wire sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// Everything below has arrived.
    pub(crate) seq: u32,
    /// The out-of-order range that grew last, equal bounds for none; one block is enough as each
    /// arrival reports its own.
    pub(crate) block: (u32, u32),
    /// ECN-Echo.
    pub(crate) echo: bool,
    /// Window in units of the connection's scale.
    pub(crate) window: u16,
}

/// State of one receiving connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    next: u64,
    out_of_order: Ranges,
    /// Longest wait for a second segment, ns; zero acknowledges each.
    delay: u64,
    /// Whether blocks are reported.
    sack: bool,
    /// When the waiting acknowledgement must go, if one waits.
    due: Option<u64>,
    /// Whether the last data packet was marked (RFC 8257, section 3.2: DCTCP.CE).
    marked: bool,
    scale: u8,
    /// Largest window, octets, and its field while the application reads at once.
    limit: u64,
    window: u16,
    /// The receive buffer of an application that reads at its own pace.
    buffer: Option<Box<Buffer>>,
}

impl Receiver {
    pub(crate) fn new(transport: &Transport) -> Self {
        let scale = transport.window_scale();
        let mut receiver = Self {
            next: 0,
            out_of_order: Ranges::default(),
            delay: transport.delayed_ack.map_or(0, |delay| delay.as_nanos()),
            sack: transport.sack,
            due: None,
            marked: false,
            scale,
            limit: 0,
            window: 0,
            buffer: None,
        };
        receiver.grant(transport.first_window());
        receiver
    }

    /// Advertises at most `limit` octets from now on, rounded up to what the scale can say: rounded
    /// down, a number of whole segments would be one less.
    pub(crate) fn grant(&mut self, limit: u64) {
        self.limit = limit.next_multiple_of(1 << self.scale);
        self.window = field(self.limit, self.scale);
    }

    /// How far the sender may send, octets, while the application reads at once.
    #[inline]
    pub(crate) const fn edge(&self) -> u64 {
        self.next + self.limit
    }

    /// The window as it is advertised while the application reads at once.
    pub(crate) const fn window(&self) -> u16 {
        self.window
    }

    /// From now on the application reads only by [`Receiver::read`].
    pub(crate) fn pause_reading(&mut self, transport: &Transport) {
        let (room, mss) = (transport.receive_window.get(), u64::from(transport.mss));
        self.buffer.get_or_insert_with(|| Box::new(Buffer::new(room, mss, self.next)));
    }

    /// The application reads `bytes`; returns the window update to send, if one is due.
    pub(crate) fn read(&mut self, bytes: u64) -> Option<Acknowledgement> {
        let wanted = self.buffer.as_mut()?.read(bytes, self.next);
        wanted.then(|| self.acknowledge((0, 0)))
    }

    /// Octets delivered in order that the application has not read.
    pub(crate) fn unread(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.unread(self.next))
    }

    /// Whether the receive buffer never held more than its room.
    pub(crate) fn kept_its_room(&self) -> bool {
        self.buffer.as_ref().is_none_or(|buffer| buffer.holds(self.next))
    }

    /// Payload delivered in order.
    pub(crate) const fn delivered(&self) -> u64 {
        self.next
    }

    /// When to call [`Receiver::on_deadline`].
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
        // An empty segment asks for an acknowledgement.
        if seq == self.next && self.out_of_order.is_empty() && len > 0 {
            self.next = seq + len;
            if self.delay != 0 && self.due.is_none() {
                self.due = Some(now + self.delay);
                return (before, None);
            }
            return (before, Some(self.acknowledge((0, 0))));
        }
        (before, Some(self.on_gap(seq, seq + len)))
    }

    /// A gap, a duplicate, or what fills a gap is acknowledged at once (RFC 5681, section 4.2).
    #[cold]
    fn on_gap(&mut self, first: u64, end: u64) -> Acknowledgement {
        let range = (first.max(self.next), end);
        let (first, end) =
            if end > self.next { self.out_of_order.insert(range.0, range.1) } else { range };
        self.next = self.out_of_order.end_of(self.next);
        self.out_of_order.remove_below(self.next);
        let block = if self.sack && first > self.next { (low(first), low(end)) } else { (0, 0) };
        self.acknowledge(block)
    }

    pub(crate) fn on_deadline(&mut self, now: u64) -> Option<Acknowledgement> {
        let due = self.due?;
        (due <= now).then(|| self.acknowledge((0, 0)))
    }

    /// An acknowledgement of all that has arrived, with what the window is now.
    pub(crate) fn acknowledge(&mut self, block: (u32, u32)) -> Acknowledgement {
        self.due = None;
        let window = match &mut self.buffer {
            None => self.window,
            Some(buffer) => field(buffer.window(self.next).min(self.limit), self.scale),
        };
        Acknowledgement { seq: low(self.next), block, echo: self.marked, window }
    }
}

/// A window as it stands in a header (RFC 7323, section 2.3), rounded down.
fn field(window: u64, scale: u8) -> u16 {
    u16::try_from(window >> scale).unwrap_or(u16::MAX)
}
