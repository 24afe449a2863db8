//! The SWIM reader, and a sample taken from whatever it accepts.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use model::NodeId;
use units::{Bytes, Span, Time};
use workload::{Draft, Floors, Reduces, Sample, Tasks, swim};

fuzz_target!(|data: &[u8]| {
    let mut last = Time::ZERO;
    let mut shuffling = Vec::new();
    for entry in swim::Reader::new(data, "fuzz") {
        match entry {
            Ok(entry) => {
                assert!(entry.submit >= last, "submit times went back");
                last = entry.submit;
                if entry.shuffle > Bytes::ZERO {
                    shuffling.push(entry);
                }
            }
            Err(error) => {
                assert!(error.line.is_some() && !error.message.is_empty());
                assert!(error.to_string().len() < 1000, "an error repeats the input");
                return;
            }
        }
    }
    let hosts: Vec<NodeId> = (0..6).map(NodeId).collect();
    let sample = Sample {
        trace_nodes: 6,
        jobs: 2,
        sample: 0,
        all: false,
        floors: Floors::NONE,
        tasks: Tasks {
            block: Bytes::new(1 << 20),
            // Both rules, by what the trace says of itself.
            reduces: if data.len() % 2 == 0 { Reduces::Slots(12) } else { Reduces::Swim(6) },
            skew: 1.0,
            map_spread: Span::from_secs(1),
            ..Tasks::for_nodes(6)
        },
    };
    let taken = sample.take(swim::Reader::new(data, "fuzz"), &hosts, 1);
    assert_eq!(taken.is_ok(), shuffling.len() >= 2);
    let Ok(taken) = taken else {
        return;
    };
    for (job, entry) in taken.jobs.iter().zip(&shuffling) {
        // As many nodes as in the trace: nothing is scaled.
        let draft = Draft {
            arrival: entry.submit,
            class: None,
            input: entry.map_input,
            shuffle: entry.shuffle,
            output: entry.output,
        };
        let plan = sample.tasks.plan(&draft);
        let planned: Bytes = plan.sizes.iter().flatten().copied().sum();
        assert_eq!(planned, entry.shuffle, "bytes were lost");
        assert!(job.size() > Bytes::ZERO && job.size() <= entry.shuffle);
        assert!(job.flows.iter().all(|flow| flow.src != flow.dst));
    }
});
