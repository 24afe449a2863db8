//! Outcomes made by hand, shared by the tests of this folder.
#![allow(dead_code, reason = "each test uses its part")]

use engine::{
    Completions, FlowRecord, HostQueueRecord, JobRecord, LinkRecord, Outcome, QueueRecord,
    RateRecord,
};
use model::build::Access;
use model::{Buffer, FlowId, JobClass, JobId, LinkId, NodeId, Topology};
use testing::network;
use units::{Bytes, Rate, Span, Time};
use watermaster_experiment::metrics::Metrics;
use watermaster_experiment::{Origin, Run};

pub fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

pub fn access() -> Access {
    network::access(network::link(100, 20, Buffer::Packets(100)))
}

/// Three hosts at 100 Mbit/s. Nodes: 0 is the switch, 1 to 3 are `h0` to `h2`.
pub fn three_hosts() -> Topology {
    network::hosts(3, access().link)
}

pub fn origin() -> Origin {
    Origin {
        scenario: "by-hand".into(),
        world: "packet".into(),
        seed: 7,
        version: "0.1.0".into(),
        random: "PCG-64 (rand_pcg 0.10)".into(),
    }
}

/// Size in bytes, times in ms.
pub fn job(
    id: u32,
    class: Option<JobClass>,
    size: u64,
    arrival: u64,
    end: Option<u64>,
) -> JobRecord {
    JobRecord {
        id: JobId(id),
        application: 0,
        class,
        arrival: ms(arrival),
        size: Bytes::new(size),
        end: end.map(ms),
    }
}

/// From `h0` to `h1`; size and delivered in bytes, times in ms.
pub fn flow(id: u32, job: u32, size: u64, start: u64, end: Option<u64>) -> FlowRecord {
    FlowRecord {
        id: FlowId(id),
        job: JobId(job),
        application: 0,
        src: NodeId(1),
        dst: NodeId(2),
        size: Bytes::new(size),
        delivered: Bytes::new(size),
        start: ms(start),
        end: end.map(ms),
        retransmissions: 0,
        timeouts: 0,
        limits: Vec::new(),
        limits_set: 0,
    }
}

pub fn link(number: u32, bytes: u64) -> LinkRecord {
    LinkRecord {
        link: LinkId(number),
        bytes: Bytes::new(bytes),
        packets: 0,
        dropped: 0,
        marked: 0,
        metered: 0,
        peak: 0,
    }
}

/// Four jobs, the last unfinished; every metric of it can be computed by hand.
pub fn by_hand() -> Outcome {
    let slow = Some(Rate::from_mbps(1));
    let flows = vec![
        // 2 s, all of it free.
        flow(0, 0, 1_000_000, 0, Some(2_000)),
        // 3 s, of which 1 s limited: free for 2/3.
        FlowRecord {
            limits: vec![(ms(2_000), slow), (ms(3_000), None)],
            limits_set: 2,
            retransmissions: 5,
            timeouts: 1,
            ..flow(1, 1, 3_000_000, 1_000, Some(4_000))
        },
        // 10 s, limited from before its start to the 7th second: free for half.
        FlowRecord {
            limits: vec![(ms(0), slow), (ms(7_000), None)],
            limits_set: 3,
            retransmissions: 2,
            timeouts: 2,
            ..flow(2, 2, 6_000_000, 2_000, Some(12_000))
        },
        // Unfinished: 3 s to 13 s, limited throughout.
        FlowRecord {
            src: NodeId(3),
            delivered: Bytes::new(1_000_000),
            limits: vec![(ms(3_000), slow)],
            limits_set: 1,
            ..flow(3, 3, 10_000_000, 3_000, None)
        },
    ];
    let jobs = vec![
        job(0, Some(JobClass::Small), 1_000_000, 0, Some(2_000)),
        job(1, Some(JobClass::Medium), 3_000_000, 1_000, Some(4_000)),
        job(2, Some(JobClass::Large), 6_000_000, 2_000, Some(12_000)),
        job(3, Some(JobClass::Large), 10_000_000, 3_000, None),
    ];
    let links = vec![
        LinkRecord {
            dropped: 3,
            marked: 1,
            metered: 4,
            peak: 17,
            // 8.125 MB in 13 s is 5 Mbit/s: 5 % of 100 Mbit/s.
            ..link(0, 8_125_000)
        },
        LinkRecord { dropped: 2, marked: 10, peak: 9, ..link(3, 16_250_000) },
    ];
    let interval = Span::from_millis(1);
    let queues = vec![QueueRecord { link: LinkId(0), interval, packets: vec![1, 6, 2, 3] }];
    let reactions = vec![Span::from_micros(70), Span::from_micros(90)];
    let mut tuples = Completions::new("tuples", Time::ZERO);
    // The largest value of its bin, twice: its percentiles are exact.
    for ns in [(1 << 30) - 1, (1 << 30) - 1, 3_000_000_000] {
        tuples.add(Span::from_nanos(ns));
    }
    let completions = vec![tuples];
    let host_queues = HostQueueRecord {
        ideal: [1, 1, 5, 1].map(Span::from_secs).to_vec(),
        slotted: [2, 1, 5, 1].map(Span::from_secs).to_vec(),
        granted: true,
        latency: [1, 2, 6].map(Span::from_millis).to_vec(),
    };
    let end = ms(13_000);
    // One had enough to send at 10 Mbit/s, one hardly anything.
    let rate = |flow, seconds, delivered| RateRecord {
        flow: FlowId(flow),
        limited: Span::from_secs(5),
        counted: Span::from_secs(seconds),
        rate: Rate::from_mbps(10),
        expected: Rate::from_mbps(8),
        delivered: Bytes::new(delivered),
    };
    let rates = vec![rate(1, 2, 1_980_000), rate(2, 0, 0)];
    // The second and the fourth: of 13 MB 9 didn't arrive.
    let datagrams = vec![FlowId(1), FlowId(3)];
    let (flows, jobs) = (flows.into(), jobs.into());
    let worlds = Outcome { flows, datagrams, jobs, links, queues, reactions, ..Outcome::default() };
    Outcome { completions, rates, host_queues, end, ..worlds }
}

/// The baseline of [`by_hand`]: completion times of 4, 3, 8 and 20 s against 2, 3, 10 and none.
pub fn by_hand_baseline() -> Outcome {
    let mut outcome = by_hand();
    for (position, end) in [4_000, 4_000, 10_000, 23_000].into_iter().enumerate() {
        outcome.jobs.at_mut(position).end = Some(ms(end));
    }
    for position in 0..outcome.flows.len() {
        let flow = outcome.flows.at_mut(position);
        flow.end = flow.end.or(Some(ms(23_000)));
        flow.limits.clear();
    }
    outcome.end = ms(23_000);
    outcome
}

pub fn run(policy: &str, outcome: Outcome) -> Run {
    Run { policy: policy.into(), outcome, counters: Metrics::new() }
}
