//! The coflow-benchmark reader, and the transfers and jobs of whatever it accepts.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use model::NodeId;
use units::{Bytes, Time};
use workload::coflow;

fuzz_target!(|data: &[u8]| {
    let Ok(reader) = coflow::Reader::new(data, "fuzz") else {
        return;
    };
    let (ports, announced) = (reader.ports(), reader.coflows());
    let mut last = Time::ZERO;
    let mut coflows = Vec::new();
    for coflow in reader {
        match coflow {
            Ok(coflow) => {
                assert!(coflow.arrival >= last, "arrivals went back");
                last = coflow.arrival;
                coflows.push(coflow);
            }
            Err(error) => {
                assert!(error.line.is_some() && !error.message.is_empty());
                assert!(error.to_string().len() < 1000, "an error repeats the input");
                return;
            }
        }
    }
    assert_eq!(coflows.len() as u64, announced);
    let mut remote = 0;
    for coflow in &coflows {
        let mut received = vec![Bytes::ZERO; coflow.reducers.len()];
        for (mapper, reducer, size) in coflow.transfers() {
            received[reducer] += size;
            let ends = (coflow.mappers[mapper], coflow.reducers[reducer].0);
            assert!(ends.0 < ports && ends.1 < ports);
            remote += usize::from(ends.0 != ends.1 && size > Bytes::ZERO);
        }
        let expected = coflow.reducers.iter().map(|reducer| reducer.1);
        assert!(received.into_iter().eq(expected), "bytes were lost");
    }
    // Not the memory of as many hosts as a line claims, only of those that a test has.
    let hosts: Vec<NodeId> = (0..ports.min(1000)).map(NodeId).collect();
    let Ok(reader) = coflow::Reader::new(data, "fuzz") else {
        unreachable!("it was read before");
    };
    if let Ok(coflows) = coflow::Coflows::read(reader, &hosts, &hosts) {
        let flows = coflows.jobs().map(|job| job.flows.len());
        assert_eq!(flows.sum::<usize>(), remote);
    } else {
        assert!(ports > 1000);
    }
});
