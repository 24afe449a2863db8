//! The receive buffer of an application that reads at its own pace, and the window that it leaves
//! (RFC 9293, sections 3.8.4 and 3.8.6.2.2). An application that reads at once needs none.

/// The unread part of a stream, in octets from its start.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// Capacity, octets.
    room: u64,
    /// Read by the application.
    read: u64,
    /// End of what the sender was allowed to send; it never moves back.
    edge: u64,
    /// The smallest step of the edge that is advertised: small windows make small segments.
    step: u64,
}

impl Buffer {
    /// An empty buffer of `room` octets, for segments of `mss`, `next` octets into the stream.
    pub(crate) fn new(room: u64, mss: u64, next: u64) -> Self {
        Self { room, read: next, edge: next + room, step: mss.min(room / 2).max(1) }
    }

    /// Octets the sender may send from `next` on, to be advertised now.
    pub(crate) fn window(&mut self, next: u64) -> u64 {
        let edge = self.read + self.room;
        if edge - self.edge >= self.step {
            self.edge = edge;
        }
        self.edge.saturating_sub(next)
    }

    /// The application read `bytes` more of the octets below `next`. Returns whether to send a
    /// window update: when the window is at least twice the last one.
    pub(crate) fn read(&mut self, bytes: u64, next: u64) -> bool {
        self.read = self.read.saturating_add(bytes).min(next);
        let known = self.edge.saturating_sub(next);
        let window = (self.read + self.room).saturating_sub(next);
        window >= 2 * known && window - known >= self.step
    }

    /// Octets below `next` that wait for the application.
    pub(crate) const fn unread(&self, next: u64) -> u64 {
        next - self.read
    }

    /// Whether unread data fits the capacity.
    pub(crate) const fn holds(&self, next: u64) -> bool {
        self.unread(next) <= self.room
    }
}
