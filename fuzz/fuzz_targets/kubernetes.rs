//! What the API server of Kubernetes may answer: a Lease, the pods of a node, or an error.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(controller::election::kubernetes::read(data));
    if let Ok(pods) = agentd::pods::read(data, "node-1") {
        // What is shown to people is a name.
        assert!(pods.values().all(|name| protocol::kubernetes::is_pod(name)));
    }
});
