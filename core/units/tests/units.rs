//! Units: exact reading, rounding that never exceeds a capacity, saturation at the ends.

use proptest::prelude::*;
use watermaster_units::{Bytes, Rate, Span, Time};

#[test]
fn reads_a_number_with_its_unit() {
    assert_eq!("33 us".parse(), Ok(Span::from_micros(33)));
    assert_eq!("1.5s".parse(), Ok(Span::from_millis(1500)));
    assert_eq!("100 Mbit/s".parse(), Ok(Rate::from_mbps(100)));
    assert_eq!("512 KB".parse(), Ok(Bytes::new(512_000)));
    assert_eq!("50 MiB".parse(), Ok(Bytes::new(50 << 20)));
}

#[test]
fn an_error_names_the_remedy() {
    let error = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
    assert_eq!(
        error("100 MB"),
        "\"100 MB\" is not a rate: its unit is unknown; write a number and one of \
         bit/s, kbit/s, Kbit/s, Mbit/s, Gbit/s, Tbit/s"
    );
    assert!(error("100").contains("no unit"));
    assert!(error("fast").contains("no number"));
    assert!(error("1.5 bit/s").contains("not a whole number of bit/s"));
    assert!(error("99999999999999999999 bit/s").contains("larger than"));
    assert!(error("-1 bit/s").contains("is not a rate: it is below zero; write"));
    assert!(error("- bit/s").contains("no number"));
    let data = "1".parse::<Bytes>().unwrap_err().to_string();
    assert!(data.contains("is not an amount of data: it has no unit"), "{data}");
    assert!(error(&"x".repeat(10_000)).len() < 200);
}

#[test]
fn a_kilobyte_at_one_megabit_takes_eight_milliseconds() {
    assert_eq!(Rate::from_mbps(1).time_for(Bytes::new(1000)), Span::from_millis(8));
    assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Span::MAX);
    assert_eq!(Rate::of(Bytes::new(1000), Span::from_millis(8)), Rate::from_mbps(1));
}

#[test]
fn arithmetic_saturates() {
    assert_eq!(Time::NEVER + Span::from_secs(1), Time::NEVER);
    assert_eq!(Time::ZERO.since(Time::NEVER), Span::ZERO);
    assert_eq!(Bytes::ZERO - Bytes::new(1), Bytes::ZERO);
    assert_eq!(Span::from_secs(1) / 0, Span::MAX);
}

proptest! {
    #[test]
    fn a_time_for_bytes_is_long_enough_and_not_a_nanosecond_longer(
        bps in 1u64..1 << 50, bytes in 0u64..1 << 40,
    ) {
        let (rate, bytes) = (Rate::from_bps(bps), Bytes::new(bytes));
        let span = rate.time_for(bytes);
        prop_assume!(span < Span::from_nanos(u64::MAX / 2));
        prop_assert!(rate.bytes_in(span) >= bytes);
        if span > Span::ZERO {
            let less = span.saturating_sub(Span::from_nanos(1));
            let bits = u128::from(bps) * u128::from(less.as_nanos());
            prop_assert!(bits < u128::from(bytes.get()) * 8_000_000_000);
        }
    }

    #[test]
    fn written_quantities_read_back(n in any::<u64>()) {
        prop_assert_eq!(Span::from_nanos(n).to_string().parse(), Ok(Span::from_nanos(n)));
        prop_assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
        prop_assert_eq!(Rate::from_bps(n).to_string().parse(), Ok(Rate::from_bps(n)));
    }

    #[test]
    fn no_text_panics(text in ".*") {
        let _ = (text.parse::<Span>(), text.parse::<Bytes>(), text.parse::<Rate>());
    }
}
