//! TCP as machines without I/O or clock: a [`Sender`], a [`Receiver`], and the congestion controls.
//!
//! Sequence numbers are 64-bit offsets into the payload here; on the simulated wire they are the
//! low 32 bits, as in real TCP. [`World`](crate::World) adds the handshake.

mod buffer;
mod congestion;
mod hystart;
pub(crate) mod ictcp;
mod prr;
mod ranges;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;

pub(crate) use receiver::{Acknowledgement, Receiver};
pub(crate) use sender::Sender;

/// The 64-bit sequence number nearest to `reference` whose low half is `wire`.
pub(crate) const fn unwrap(reference: u64, wire: u32) -> u64 {
    let distance = wire.wrapping_sub(low(reference)).cast_signed();
    reference.wrapping_add_signed(distance as i64)
}

/// The sequence number as it stands in a header.
#[allow(clippy::cast_possible_truncation)] // the low half is what is wanted
pub(crate) const fn low(sequence: u64) -> u32 {
    sequence as u32
}
