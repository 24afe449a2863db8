//! Recordings: reading ends, and never goes back.
#![no_main]
#![forbid(unsafe_code)]

use controller::record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut at = 0;
    while let Ok(Some((_, _, next))) = record::read(data, at) {
        assert!(next > at && next <= data.len());
        at = next;
    }
});
