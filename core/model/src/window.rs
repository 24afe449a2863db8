//! The window field of a TCP header (RFC 7323, section 2): how a switch writes a cap into it.

use units::Bytes;

/// The field for a window of at most `cap`, on a connection with this `scale` and full segments of
/// `segment`, where the receiver wrote `field`.
///
/// It never grows, and the cap is rounded down to what the scale can say. A cap of a segment or more
/// never becomes less than one: the sender would send nothing until its persist timer ends. Then
/// the field says the segment, rounded up.
pub fn rewritten(field: u16, scale: u8, cap: Bytes, segment: Bytes) -> u16 {
    let scale = u32::from(scale.min(14)); // RFC 7323, section 2.3
    let down = cap.get() >> scale;
    let whole = segment.get().min(cap.get()).div_ceil(1 << scale);
    let units = if down << scale < segment.get() && segment <= cap { whole } else { down };
    field.min(u16::try_from(units).unwrap_or(u16::MAX))
}
