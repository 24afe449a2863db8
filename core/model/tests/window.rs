//! The cap that a switch writes into a window field.

use proptest::prelude::*;
use units::Bytes;
use watermaster_model::{Cap, offered_scale};

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
        (5, 7, u64::MAX, 5),
    ];
    for (field, scale, bytes, expected) in cases {
        let cap = Cap { bytes: Bytes::new(bytes), floor_segments: 1 };
        assert_eq!(cap.rewritten(field, scale, SEGMENT), expected, "{bytes} >> {scale}");
    }
    // The floor: 1460 / 128 = 11.4, 2920 / 128 = 22.8.
    for (floor_segments, expected) in [(0, 7), (1, 12), (2, 23)] {
        let cap = Cap { bytes: Bytes::new(1000), floor_segments };
        assert_eq!(cap.rewritten(32_768, 7, SEGMENT), expected, "{floor_segments} segments");
    }
    // The window itself: the floor is rounded up to a unit, where there is a unit.
    let cap = Cap { bytes: Bytes::new(1000), floor_segments: 1 };
    for (scale, expected) in [(None, 1460), (Some(0), 1460), (Some(7), 1536), (Some(10), 2048)] {
        assert_eq!(cap.window(scale, SEGMENT), Bytes::new(expected), "scale {scale:?}");
    }
    // Without a floor a unit is left, of a window that is open.
    for (bytes, field, expected) in [(0, 32_768, 1), (127, 32_768, 1), (0, 0, 0)] {
        let cap = Cap { bytes: Bytes::new(bytes), floor_segments: 0 };
        assert_eq!(cap.rewritten(field, 7, SEGMENT), expected, "{bytes} B of {field} units");
    }
}

/// RFC 7323's option among others; a length of zero ends the search instead of looping.
#[test]
fn a_scale_is_found_among_options() {
    let cases: [(&[u8], Option<u8>); 13] = [
        (&[], Some(0)),
        (&[2, 4, 5, 180], Some(0)),
        (&[2, 4, 5, 180, 1, 3, 3, 7], Some(7)),
        // A larger one counts as 14 (RFC 7323, 2.3).
        (&[3, 3, 255], Some(14)),
        // The last of several; what follows the end isn't read.
        (&[3, 3, 7, 3, 3, 2], Some(2)),
        (&[3, 3, 7, 0, 3, 3, 2], Some(7)),
        (&[0, 3, 3, 7], Some(0)),
        // Another length is another option.
        (&[3, 4, 7, 7], Some(0)),
        // Lists that break off, before the scale and after it.
        (&[8, 0, 3, 3, 7], None),
        (&[8, 1, 3, 3, 7], None),
        (&[3, 3], None),
        (&[3, 3, 7, 2], None),
        (&[3, 3, 7, 8, 40], None),
    ];
    for (options, scale) in cases {
        assert_eq!(offered_scale(options), scale, "{options:?}");
    }
}

proptest! {
    /// A window is never more than the cap or the floor, rounded up, nor more than the receiver's; and
    /// it leaves the floor wherever the receiver does, and never closes.
    #[test]
    fn between_the_floor_and_the_cap(
        field: u16,
        scale in 0..15_u8,
        bytes in 0..2_000_000_u64,
        floor_segments in 0..4_u32,
    ) {
        let cap = Cap { bytes: Bytes::new(bytes), floor_segments };
        let written = cap.rewritten(field, scale, SEGMENT);
        let (window, floor) = (u64::from(written) << scale, SEGMENT.get() * u64::from(floor_segments));
        prop_assert!(written <= field);
        prop_assert!(window <= bytes.max(floor.max(1).next_multiple_of(1 << scale)));
        prop_assert!(window >= floor.min(u64::from(field) << scale));
        prop_assert!(written > 0 || field == 0);
    }
}
