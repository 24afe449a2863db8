//! The reader of size distributions, and the quantiles of whatever it accepts.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use units::Bytes;
use workload::Cdf;

fuzz_target!(|data: &[u8]| {
    let cdf = match Cdf::read(data, "fuzz") {
        Ok(cdf) => cdf,
        Err(error) => {
            assert!(error.line.is_some() && !error.message.is_empty());
            assert!(error.to_string().len() < 1000, "an error repeats the input");
            return;
        }
    };
    assert!(!cdf.is_empty());
    let mut last = Bytes::ZERO;
    for step in 0..=100 {
        let size = cdf.quantile(f64::from(step) / 100.0);
        assert!(size >= last && size > Bytes::ZERO, "quantiles fell");
        last = size;
    }
    let mean = cdf.mean();
    assert!(mean.is_finite() && mean <= last.get() as f64 * (1.0 + 1e-9) + 1.0);
});
