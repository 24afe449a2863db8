//! What the API server of Kubernetes may answer: a Lease, or an error.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(controller::election::kubernetes::read(data)));
