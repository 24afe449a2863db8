//! SYN, SYN-ACK and FIN (RFC 9293, sections 3.5 and 3.6), if the transport has them. The third
//! packet of the handshake is the first data; a FIN is not waited for.

use units::Span;

use super::World;
use crate::flow::Opening;
use crate::frame::{self, Packet};

/// Timeout of the first SYN, ns (RFC 6298, rule 2.1).
const FIRST_TIMEOUT: u64 = 1_000_000_000;
/// Most times that it doubles.
const MOST_DOUBLINGS: u32 = 6;

impl World {
    /// Sends a SYN, the first or again.
    pub(super) fn greet(&mut self, place: u32) {
        let now = self.now;
        let flow = &mut self.flows[place as usize];
        let attempts = flow.opening.map_or(0, |opening| opening.attempts);
        let due = now + (FIRST_TIMEOUT << attempts.min(MOST_DOUBLINGS));
        flow.opening = Some(Opening { sent: now, due, held: 0, attempts: attempts + 1 });
        if attempts > 0 {
            flow.sender.timeouts += 1;
            flow.sender.retransmissions += 1;
        }
        self.schedule_timer(place, 0, due);
        self.control(place, frame::SYN, 0, 0);
    }

    /// The timer of a connection that is opening.
    pub(super) fn greet_again(&mut self, place: u32) {
        let due = self.flows[place as usize].opening.map_or(0, |opening| opening.due);
        if due <= self.now {
            self.greet(place);
        } else {
            self.schedule_timer(place, 0, due);
        }
    }

    /// A SYN or SYN-ACK has arrived.
    pub(super) fn greeted(&mut self, packet: &Packet) {
        let place = packet.flow;
        if packet.flags & frame::ACK == 0 {
            let window = u16::try_from(self.transport.first_window()).unwrap_or(u16::MAX);
            self.control(place, frame::SYN | frame::ACK, 0, window);
            return;
        }
        let flow = &mut self.flows[place as usize];
        let Some(opening) = flow.opening.take() else {
            return;
        };
        let round_trip = self.now - opening.sent;
        flow.sender.establish(&self.transport, u64::from(packet.window), round_trip);
        let id = flow.id;
        // Which of several SYNs was answered, nobody knows (RFC 6298, section 3).
        if opening.attempts == 1 {
            self.timed(id, Span::from_nanos(round_trip - opening.held));
        }
        self.pump(place);
    }

    /// Sends a separate FIN: the last data went without one.
    pub(super) fn part(&mut self, place: u32) {
        let end = self.flows[place as usize].sender.sent();
        self.control(place, frame::FIN, crate::tcp::low(end), 0);
    }

    fn control(&mut self, place: u32, flags: u8, seq: u32, window: u16) {
        let size = self.transport.header;
        self.inject(Packet { seq, flow: place, size, flags, window, ..Packet::default() });
    }
}
