//! What etcd's gateway may answer: the record of a leader, or an error.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(controller::election::etcd::read(data)));
