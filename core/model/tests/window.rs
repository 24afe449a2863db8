//! The cap that a switch writes into a window field.

use proptest::prelude::*;
use units::Bytes;
use watermaster_model::window::rewritten;

const SEGMENT: Bytes = Bytes::new(1460);

#[test]
fn by_hand() {
    let cases = [
        // No scale: octets as they are; never more than the receiver allows.
        (65_535, 0, 4492, 4492),
        (4000, 0, 4492, 4000),
        // 128 octets a unit: 15,517 / 128 = 121.2.
        (32_768, 7, 15_517, 121),
        // 1460 / 128 = 11.4: 11 units would be no segment, 12 are one and no more.
        (32_768, 7, 1460, 12),
        (32_768, 7, 1500, 12),
        (32_768, 7, 1536, 12),
        // 1024 octets a unit, as hosts with large buffers have it.
        (4096, 10, 1460, 2),
        (4096, 10, 2920, 2),
        // Less than a segment is meant so.
        (32_768, 7, 1000, 7),
        (32_768, 7, 0, 0),
        (5, 7, u64::MAX, 5),
    ];
    for (field, scale, cap, expected) in cases {
        assert_eq!(rewritten(field, scale, Bytes::new(cap), SEGMENT), expected, "{cap} >> {scale}");
    }
}

proptest! {
    /// A window is never more than the cap, but for the rounding up of a segment, nor more than the
    /// receiver's; and it lets a segment go wherever both do.
    #[test]
    fn between_a_segment_and_the_cap(field: u16, scale in 0..15_u8, cap in 0..2_000_000_u64) {
        let written = rewritten(field, scale, Bytes::new(cap), SEGMENT);
        let window = u64::from(written) << scale;
        prop_assert!(written <= field);
        prop_assert!(window <= cap.max(SEGMENT.get().next_multiple_of(1 << scale)));
        if cap >= SEGMENT.get() && u64::from(field) << scale >= SEGMENT.get() {
            prop_assert!(window >= SEGMENT.get());
        }
        if cap < SEGMENT.get() {
            prop_assert!(window <= cap);
        }
    }
}
