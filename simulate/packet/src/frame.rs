//! The simulated packet: 32 bytes, no pointers.

/// A packet in a queue or on a wire.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))] // none lies across two cache lines
pub(crate) struct Packet {
    /// When it reaches the far end of the link that holds it, ns.
    pub(crate) time: u64,
    /// Data: first octet. Acknowledgement: next octet expected. Low 32 bits, as on a real wire.
    pub(crate) seq: u32,
    /// Acknowledgement with SACK: the block. Equal bounds: none. Datagram from a host queue: its
    /// row among the detours, and when it left the queue, ns modulo 2³². Data under tags: the tag, its
    /// high half first. Acknowledgement of a receiver that grants, without a SACK block: twice the priority.
    pub(crate) block: (u32, u32),
    /// Position in the world's table of flows.
    pub(crate) flow: u32,
    /// Frame size, octets.
    pub(crate) size: u16,
    pub(crate) flags: u8,
    /// Links of the path already taken.
    pub(crate) hop: u8,
    /// Acknowledgement: the window in units of the connection's scale; with a SYN, in octets.
    pub(crate) window: u16,
}

impl Packet {
    /// The row of its path: each flow has one there and one back.
    #[inline]
    pub(crate) const fn way(&self) -> u32 {
        2 * self.flow + (self.flags & ACK) as u32
    }

    /// Which priority it has by the lower half of its tag; what is no data has the first, datagrams the last.
    pub(crate) const fn level(&self) -> u32 {
        if self.flags & (ACK | SYN) != 0 {
            0
        } else if self.flags & DATAGRAM != 0 {
            u32::MAX
        } else {
            self.block.1
        }
    }

    /// How soon a port serves it by its tag, the least first: what is no data comes before it, and
    /// datagrams, which have no tag, come last.
    pub(crate) fn urgency(&self) -> u64 {
        if self.flags & (ACK | SYN) != 0 {
            0
        } else if self.flags & DATAGRAM != 0 {
            u64::MAX
        } else {
            (u64::from(self.block.0) << 32) | u64::from(self.block.1)
        }
    }
}

/// An acknowledgement, on its way back.
pub(crate) const ACK: u8 = 1;
/// A datagram: not acknowledged.
pub(crate) const DATAGRAM: u8 = 1 << 1;
/// ECN-capable transport.
pub(crate) const ECT: u8 = 1 << 2;
/// Congestion experienced.
pub(crate) const CE: u8 = 1 << 3;
/// ECN-Echo, in an acknowledgement.
pub(crate) const ECE: u8 = 1 << 4;
/// Opens a connection.
pub(crate) const SYN: u8 = 1 << 5;
/// The sender's last.
pub(crate) const FIN: u8 = 1 << 6;

/// A datagram with a path of its own: the first half of `block` is its row among the detours.
pub(crate) const DETOUR: u8 = 1 << 7;

const _: () = assert!(size_of::<Packet>() == 32, "two packets a cache line");
