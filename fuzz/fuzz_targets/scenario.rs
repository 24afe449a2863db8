//! The scenario reader: whatever the file and the override, a scenario within its bounds or one
//! line of error that says where.
#![no_main]
#![forbid(unsafe_code)]

use std::path::Path;

use experiment::scenario::{Override, Scenario};
use libfuzzer_sys::fuzz_target;
use policy::{Acknowledgements, Messages};

fuzz_target!(|data: &[u8]| {
    // The last line after a zero octet is an override.
    let (text, change) = match data.iter().position(|&octet| octet == 0) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[][..]),
    };
    let (Ok(text), Ok(change)) = (str::from_utf8(text), str::from_utf8(change)) else {
        return;
    };
    let changes: Vec<Override> = change.parse().into_iter().collect();
    match Scenario::read("fuzz", text, Path::new(""), &changes) {
        Ok(scenario) => {
            let topology = &scenario.topology;
            assert!(scenario.labels().any(|label| label == scenario.baseline));
            assert!(topology.nodes().len() <= 1 << 19);
            for port in &scenario.captures {
                assert!(port.link.index() < topology.links().len());
            }
            for policy in &scenario.policies {
                assert!(policy.build(Messages::Free, Acknowledgements::NONE).is_ok() && policy.transport.check().is_ok());
            }
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("fuzz:") || error.starts_with("--set "));
            assert!(error.len() < 2000 && error.lines().count() == 1, "{error}");
        }
    }
});
