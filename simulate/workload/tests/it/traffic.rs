//! Traffic that is generated flow by flow: Poisson, incast, permutation, all-to-all.

use std::collections::BTreeSet;

use model::{Job, JobId, NodeId};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_workload::{
    Cdf, Incast, Pattern, Poisson, SizeDistribution, all_to_all, permutation,
};

fn hosts(count: u32) -> Vec<NodeId> {
    (100..100 + count).map(NodeId).collect()
}

fn poisson(sizes: SizeDistribution) -> Poisson {
    Poisson {
        sizes,
        pattern: Pattern::Uniform,
        load: 0.8,
        capacity: Rate::from_mbps(1000),
        duration: Span::from_secs(1),
    }
}

/// 120 hosts, 46 kB on average, load 0.8 of 1 Gbit/s: 0.8 · 125 MB/s · 120 / 46 kB = 260,870
/// flows in 1 s; their number, mean size and the bytes of each host are within five standard
/// deviations.
#[test]
fn a_poisson_load() {
    let mean = Bytes::new(46_000);
    let workload = poisson(SizeDistribution::Exponential(mean));
    let hosts = hosts(120);
    let flows = workload.flows(&hosts, 1).expect("good parameters");
    assert!((flows.per_second() - 260_869.57).abs() < 0.01);
    let (mut count, mut bytes, mut sent, mut last) = (0, 0, vec![0; 120], Time::ZERO);
    for job in flows {
        assert_eq!(job.id, JobId(count));
        assert!(job.arrival >= last);
        last = job.arrival;
        let [flow] = job.flows[..] else {
            panic!("one flow each");
        };
        assert_ne!(flow.src, flow.dst);
        assert!(hosts.contains(&flow.dst));
        sent[flow.src.index() - 100] += flow.size.get();
        count += 1;
        bytes += flow.size.get();
    }
    assert!(last <= Time::ZERO + Span::from_secs(1));
    let expected = 260_869.57;
    assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{count}");
    let mean = bytes as f64 / f64::from(count);
    assert!((mean - 46_000.0).abs() < 5.0 * 46_000.0 / expected.sqrt(), "{mean}");
    // A sum of Poisson many exponentials has the variance 2 · count · mean².
    let deviation = (2.0 * expected / 120.0).sqrt() * 46_000.0;
    for bytes in sent {
        assert!((bytes as f64 - 100e6).abs() < 5.0 * deviation, "{bytes}");
    }
}

#[test]
fn a_seed_fixes_poisson_flows() {
    let workload = poisson(SizeDistribution::Exponential(Bytes::new(46_000)));
    let some = |seed| -> Vec<Job> {
        let flows = workload.flows(&hosts(4), seed).expect("good parameters");
        flows.take(100).collect()
    };
    assert_eq!(some(1), some(1));
    assert_ne!(some(1), some(2));
    // Another size distribution leaves arrivals and pairs as they are: each has its own stream.
    let fixed = poisson(SizeDistribution::Fixed(Bytes::new(46_000)));
    let fixed = fixed.flows(&hosts(4), 1).expect("good parameters");
    for (a, b) in some(1).iter().zip(fixed) {
        assert_eq!((a.arrival, a.flows[0].src), (b.arrival, b.flows[0].src));
        assert_eq!(b.flows[0].size, Bytes::new(46_000));
    }
}

#[test]
fn poisson_incast_loads_the_receiver_alone() {
    let receiver = NodeId(102);
    let workload = Poisson {
        pattern: Pattern::Incast(receiver),
        ..poisson(SizeDistribution::Fixed(Bytes::new(10_000)))
    };
    let flows = workload.flows(&hosts(5), 1).expect("good parameters");
    assert!((flows.per_second() - 0.8 * 125e6 / 10_000.0).abs() < 1e-6);
    let mut senders = BTreeSet::new();
    for job in flows {
        assert_eq!(job.flows[0].dst, receiver);
        senders.insert(job.flows[0].src.0);
    }
    assert_eq!(senders.into_iter().collect::<Vec<_>>(), [100, 101, 103, 104]);
}

/// Drawn sizes follow the file: the part of 15,000 draws below a size is within five standard
/// deviations, 0.02, of its probability.
#[test]
fn sizes_from_a_file() {
    let cdf = Cdf::read("1000,0\n2000,0.5\n100000,1\n".as_bytes(), "t").expect("good");
    let workload = poisson(SizeDistribution::Cdf(cdf));
    let flows = workload.flows(&hosts(4), 1).expect("good parameters");
    let expected = 0.5 * 1500.0 + 0.5 * 51_000.0;
    assert!((flows.per_second() - 0.8 * 125e6 * 4.0 / expected).abs() < 1e-6);
    let sizes: Vec<u64> = flows.map(|job| job.flows[0].size.get()).collect();
    for (size, probability) in [(1500, 0.25), (2000, 0.5), (51_000, 0.75), (99_999, 1.0)] {
        let below = sizes.iter().filter(|&&drawn| drawn <= size).count();
        let part = below as f64 / sizes.len() as f64;
        assert!((part - probability).abs() < 0.02, "{size}: {part}");
    }
}

#[test]
fn poisson_parameters() {
    let good = poisson(SizeDistribution::Fixed(Bytes::new(1)));
    let bad = [
        ("load", Poisson { load: 0.0, ..good.clone() }),
        ("load", Poisson { load: f64::NAN, ..good.clone() }),
        ("capacity", Poisson { capacity: Rate::ZERO, ..good.clone() }),
        ("size", poisson(SizeDistribution::Fixed(Bytes::ZERO))),
        ("mean size", poisson(SizeDistribution::Exponential(Bytes::MAX))),
        ("duration", Poisson { duration: Span::from_secs(100), ..good.clone() }),
        ("receiver", Poisson { pattern: Pattern::Incast(NodeId(1)), ..good.clone() }),
    ];
    for (parameter, workload) in bad {
        let error = workload.flows(&hosts(4), 1).expect_err(parameter);
        assert_eq!(error.parameter, parameter);
    }
    for hosts in [hosts(1), vec![NodeId(1), NodeId(1)]] {
        let error = good.flows(&hosts, 1).expect_err("hosts");
        assert_eq!(error.parameter, "hosts");
    }
}

#[test]
fn one_incast() {
    let jobs = Incast::once(NodeId(101), 5, Bytes::new(512_000));
    let jobs = jobs.jobs(&hosts(4), 1).expect("good parameters");
    assert_eq!(jobs.len(), 1);
    let senders: Vec<u32> = jobs[0].flows.iter().map(|flow| flow.src.0).collect();
    // Three hosts beside the receiver: the first two send twice.
    assert_eq!(senders, [100, 102, 103, 100, 102]);
    for flow in &jobs[0].flows {
        assert_eq!(flow.dst, NodeId(101));
        assert_eq!((flow.size, flow.offset), (Bytes::new(512_000), Span::ZERO));
    }
}

#[test]
fn incast_in_rounds_over_a_background() {
    let incast = Incast {
        jitter: Span::from_micros(10),
        start: Span::from_secs(1),
        rounds: 3,
        interval: Span::from_millis(5),
        background: true,
        ..Incast::once(NodeId(100), 2, Bytes::new(1000))
    };
    let jobs = |seed| incast.jobs(&hosts(4), seed).expect("good parameters");
    assert_eq!(jobs(1), jobs(1));
    assert_ne!(jobs(1), jobs(2));
    let arrivals: Vec<u64> = jobs(1).iter().map(|job| job.arrival.as_nanos()).collect();
    assert_eq!(arrivals, [0, 1_000_000_000, 1_005_000_000, 1_010_000_000]);
    let background = jobs(1)[0].flows[0];
    assert_eq!((background.src, background.size), (NodeId(103), Bytes::MAX));
    let offsets: Vec<_> =
        jobs(1)[1..].iter().flat_map(|job| job.flows.clone()).map(|flow| flow.offset).collect();
    assert_eq!(offsets.len(), 6);
    assert!(offsets.iter().all(|&offset| offset <= Span::from_micros(10)));
    assert!(offsets.iter().any(|&offset| offset != offsets[0]));
}

#[test]
fn incast_parameters() {
    let good = Incast::once(NodeId(101), 5, Bytes::new(1));
    let bad = [
        ("receiver", Incast { receiver: NodeId(1), ..good }),
        ("senders", Incast { senders: 0, ..good }),
        ("senders", Incast { senders: u32::MAX, rounds: u32::MAX, ..good }),
        ("bytes", Incast { bytes: Bytes::ZERO, ..good }),
        ("bytes", Incast { bytes: Bytes::MAX, ..good }),
        ("rounds", Incast { rounds: 0, ..good }),
    ];
    for (parameter, incast) in bad {
        let error = incast.jobs(&hosts(4), 1).expect_err(parameter);
        assert_eq!(error.parameter, parameter);
    }
}

proptest! {
    /// Each host sends once and receives once, never to itself.
    #[test]
    fn permutations_are_derangements(count in 2u32..200, seed: u64) {
        let hosts = hosts(count);
        let job = permutation(&hosts, Bytes::new(7), seed).expect("good parameters");
        let sources: Vec<NodeId> = job.flows.iter().map(|flow| flow.src).collect();
        prop_assert_eq!(&sources, &hosts);
        let mut targets: Vec<NodeId> = job.flows.iter().map(|flow| flow.dst).collect();
        targets.sort();
        prop_assert_eq!(&targets, &hosts);
        prop_assert!(job.flows.iter().all(|flow| flow.src != flow.dst));
    }
}

/// Four hosts have nine derangements; over 9,000 seeds each comes up within five standard
/// deviations (29.8) of 1,000 times.
#[test]
fn derangements_are_even() {
    let mut counts = std::collections::BTreeMap::new();
    for seed in 0..9000 {
        let job = permutation(&hosts(4), Bytes::new(1), seed).expect("good parameters");
        let targets: Vec<u32> = job.flows.iter().map(|flow| flow.dst.0).collect();
        *counts.entry(targets).or_insert(0i32) += 1;
    }
    assert_eq!(counts.len(), 9);
    assert!(counts.values().all(|count| (count - 1000).abs() < 149), "{counts:?}");
}

#[test]
fn everyone_to_everyone() {
    let job = all_to_all(&hosts(3), Bytes::new(9)).expect("good parameters");
    let pairs: Vec<_> = job.flows.iter().map(|flow| (flow.src.0, flow.dst.0)).collect();
    assert_eq!(pairs, [(100, 101), (100, 102), (101, 100), (101, 102), (102, 100), (102, 101)]);
    let error = all_to_all(&hosts(4097), Bytes::new(9)).expect_err("too many");
    assert_eq!(error.to_string(), "hosts: 4097 make 16781312 flows; at most 16777216 are possible");
}
