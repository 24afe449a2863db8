//! Jobs made from bytes: splitting, placement, classes, scaling, load.

use std::collections::BTreeMap;

use model::{Buffer, Job, JobClass, Network, NodeId};
use proptest::prelude::*;
use testing::network::link;
use units::{Bytes, Span, Time};
use watermaster_workload::{
    Draft, Floors, Reduces, Sample, Sampled, Shuffle, Tasks, apportion, by_rank, load, swim,
};

fn hosts(count: u32) -> Vec<NodeId> {
    (0..count).map(NodeId).collect()
}

fn bytes(counts: &[u64]) -> Vec<Bytes> {
    counts.iter().copied().map(Bytes::new).collect()
}

/// ⌊10·1/3⌋ = 3, ⌊10·2/3⌋ − 3 = 3, 10 − 6 = 4; and 7 by 1 : 0 : 2 cuts at ⌊7/3⌋ = 2, 2, 7.
#[test]
fn shares_by_hand() {
    assert_eq!(apportion(Bytes::new(10), &[1, 1, 1]), bytes(&[3, 3, 4]));
    assert_eq!(apportion(Bytes::new(7), &[1, 0, 2]), bytes(&[2, 0, 5]));
    assert_eq!(apportion(Bytes::new(7), &[0, 0]), []);
    assert_eq!(apportion(Bytes::new(7), &[]), []);
}

proptest! {
    #[test]
    fn shares_add_up(total: u64, weights in prop::collection::vec(any::<u64>(), 1..50)) {
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        let shares = apportion(Bytes::new(total), &weights);
        prop_assert_eq!(shares.len(), weights.len());
        let sum: u128 = shares.iter().map(|share| u128::from(share.get())).sum();
        prop_assert_eq!(sum, u128::from(total));
    }

    /// A plan holds every octet, whatever the rule.
    #[test]
    fn plans_add_up(
        input: u64, shuffle: u64, block in 1u64..1 << 40,
        maps in 1u32..40, reduces in 1u32..40, skew in 0f64..10.0,
    ) {
        let tasks = Tasks {
            block: Bytes::new(block),
            most_maps: maps,
            reduces: Reduces::Slots(reduces),
            skew,
            map_spread: Span::ZERO,
        };
        let plan = tasks.plan(&draft(input, shuffle));
        prop_assert!((1..=maps).contains(&plan.maps) && (1..=reduces).contains(&plan.reduces));
        prop_assert_eq!(plan.sizes.len(), plan.reduces as usize);
        prop_assert!(plan.sizes.iter().all(|parts| parts.len() == plan.maps as usize));
        let sum: u128 = plan.sizes.iter().flatten().map(|size| u128::from(size.get())).sum();
        prop_assert_eq!(sum, u128::from(shuffle));
    }
}

fn draft(input: u64, shuffle: u64) -> Draft {
    let (input, shuffle) = (Bytes::new(input), Bytes::new(shuffle));
    Draft { arrival: Time::ZERO, class: None, input, shuffle, output: Bytes::ZERO }
}

/// By SWIM's rule 96 MiB are rounded to two blocks, six nodes have at most six reduces, and what asks
/// for more has a fifth of them: one.
#[test]
fn reduces_by_swim() {
    let reduces = |nodes, shuffle, output| {
        let tasks = Tasks { reduces: Reduces::Swim(nodes), ..Tasks::for_nodes(nodes) };
        let output = Bytes::new(output);
        tasks.plan(&Draft { output, ..draft(1, shuffle) }).reduces
    };
    const MIB: u64 = 1 << 20;
    let cases = [(1, 0, 1), (95, 0, 1), (96, 0, 2), (48, 48, 2), (415, 0, 6), (416, 0, 1)];
    for (shuffle, output, expected) in cases {
        assert_eq!(reduces(6, shuffle * MIB, output * MIB), expected, "{shuffle} {output}");
    }
    assert_eq!(reduces(60, u64::MAX, u64::MAX), 12);
    assert_eq!(reduces(3, 400 * MIB, 0), 1);
}

/// Zipf with exponent 1 over three reduces: parts in proportion to 1, 1/2 and 1/3, that is 6 : 3 : 2.
#[test]
fn skewed_reduces() {
    let tasks = Tasks {
        block: Bytes::new(1),
        most_maps: 1,
        reduces: Reduces::Slots(3),
        skew: 1.0,
        map_spread: Span::ZERO,
    };
    let plan = tasks.plan(&draft(1, 11_000_000));
    let received: Vec<u64> = plan.sizes.iter().map(|parts| parts[0].get()).collect();
    for (received, exact) in received.iter().zip([6_000_000, 3_000_000, 2_000_000]) {
        assert!(received.abs_diff(exact) <= 1, "{received} {exact}");
    }
}

/// Of 100 distinct sizes 62 are small, 16 medium, 22 large, in that order of size.
#[test]
fn classes_by_rank() {
    let sizes: Vec<Bytes> = (0..100).map(|i| Bytes::new(i * 37 % 100)).collect();
    for (size, class) in sizes.iter().zip(by_rank(&sizes)) {
        let expected = match size.get() {
            0..62 => JobClass::Small,
            62..78 => JobClass::Medium,
            _ => JobClass::Large,
        };
        assert_eq!(class, expected, "{size}");
    }
    assert_eq!(by_rank(&[Bytes::new(5)]), [JobClass::Small]);
}

/// Every job has a flow, none within a host, and tasks stay where they are.
fn check_placement(jobs: &[Job], count: usize) {
    assert_eq!(jobs.len(), count);
    let mut last = Time::ZERO;
    for (number, job) in (0u32..).zip(jobs) {
        assert_eq!(job.id.0, number);
        assert!(job.arrival >= last);
        last = job.arrival;
        assert!(!job.flows.is_empty());
        assert_eq!(job.flows.iter().map(|flow| flow.offset).min(), Some(Span::ZERO));
        let mut places = BTreeMap::new();
        for flow in &job.flows {
            assert_ne!(flow.src, flow.dst);
            assert!(flow.size > Bytes::ZERO);
            for (task, host) in [(flow.from, flow.src), (flow.to, flow.dst)] {
                assert_eq!(*places.entry(task).or_insert(host), host);
            }
        }
    }
}

/// A trace of 12 jobs, every third of which shuffles nothing.
fn trace() -> String {
    (0..12u64)
        .map(|job| {
            let shuffle = if job % 3 == 2 { 0 } else { 60_000 * (job + 1) };
            format!("job{job}\t{}\t10\t{}\t{shuffle}\t1\n", job * 10, job << 30)
        })
        .collect()
}

fn sample(jobs: u32, sample: u32) -> Sample {
    let (all, floors) = (false, Floors::NONE);
    Sample { trace_nodes: 600, jobs, sample, all, floors, tasks: Tasks::for_nodes(6) }
}

fn take(which: &Sample, text: &str, seed: u64) -> Result<Sampled, String> {
    let reader = swim::Reader::new(text.as_bytes(), "t");
    let taken = which.take(reader, &hosts(6), seed);
    taken.map_err(|error| error.to_string())
}

/// Jobs 0, 1, 3, 4, 6, 7, 9, 10 shuffle. The second sample of 3 is jobs 4, 6 and 7, which arrive
/// at 40, 60 and 70 s and shuffle 300, 420 and 480 kB on 600 nodes: 3000, 4200 and 4800 B on 6.
#[test]
fn a_scaled_sample_by_hand() {
    let taken = take(&sample(3, 1), &trace(), 1).expect("a whole sample");
    assert_eq!(taken.samples, 2);
    check_placement(&taken.jobs, 3);
    let seconds: Vec<_> = taken.jobs.iter().map(|job| job.arrival.as_secs_f64()).collect();
    assert_eq!(seconds, [0.0, 20.0, 30.0]);
    // Of three jobs two are small; a single reduce never hides more than the maps of one host.
    let classes: Vec<_> = taken.jobs.iter().filter_map(|job| job.class).collect();
    assert_eq!(classes, [JobClass::Small, JobClass::Small, JobClass::Large]);
    for (job, (shuffle, maps)) in taken.jobs.iter().zip([(3000, 1), (4200, 1), (4800, 2)]) {
        // 4, 6 and 7 GiB scale to 41, 61 and 72 MiB of input, in blocks of 64.
        let sent = job.size().get();
        assert!(sent == shuffle || (maps == 2 && sent == shuffle / 2), "{job:?}");
    }
}

/// Jobs 0 to 2, of which the last shuffles nothing: 0, 1 and 2 GiB of input, 60, 120 and 0 kB of shuffle on 600 nodes,
/// and one octet of output, which rounds to none.
#[test]
fn a_sample_of_all_jobs_with_and_without_swims_floors_by_hand() {
    let text = trace();
    let drafted = |floors: Floors| {
        let which = Sample { all: true, floors, ..sample(3, 0) };
        let reader = swim::Reader::new(text.as_bytes(), "t");
        let drafted = which.drafts(reader, 6).expect("a whole sample");
        assert_eq!(drafted.samples, 4);
        drafted.drafts
    };
    let octets = |drafts: &[Draft]| -> Vec<[u64; 3]> {
        let all = |draft: &Draft| [draft.input, draft.shuffle, draft.output].map(Bytes::get);
        drafts.iter().map(all).collect()
    };
    let own = drafted(Floors::NONE);
    assert_eq!(octets(&own), [[0u64, 600, 0], [10_737_418, 1200, 0], [21_474_836, 1, 0]]);
    let raised = drafted(Floors::SWIM);
    let input: u64 = 64 << 20;
    assert_eq!(octets(&raised), [[input, 1024, 1024], [input, 1200, 1024], [input, 1024, 1024]]);
    for drafts in [own, raised] {
        let arrivals: Vec<_> = drafts.iter().map(|draft| draft.arrival.as_secs_f64()).collect();
        assert_eq!(arrivals, [0.0, 10.0, 20.0]);
    }
}

#[test]
fn samples_that_cannot_be_taken() {
    let cases = [
        (
            sample(3, 2),
            trace(),
            "sample: 2; the trace has 8 jobs that shuffle, 2 samples of 3 counted from 0: ask for \
             one of them",
        ),
        (
            Sample { all: true, ..sample(3, 4) },
            trace(),
            "sample: 4; the trace has 12 jobs, 4 samples of 3 counted from 0: ask for one of them",
        ),
        (sample(0, 0), trace(), "jobs: 0 is outside the range from 1 to 1000000"),
        // The cut lies behind the sample and is found all the same.
        (
            sample(2, 0),
            format!("{}job12\t200\t80\t5", trace()),
            "t:13: the file is cut within this line; fetch it anew, or end the line if it is whole",
        ),
    ];
    for (which, text, expected) in cases {
        assert_eq!(take(&which, &text, 1), Err(expected.to_owned()));
    }
}

#[test]
fn a_seed_fixes_the_sample() {
    let which = sample(4, 0);
    assert_eq!(take(&which, &trace(), 5), take(&which, &trace(), 5));
    assert_ne!(take(&which, &trace(), 5), take(&which, &trace(), 6));
}

fn shuffle(jobs: u32) -> Shuffle {
    Shuffle {
        jobs,
        mean_bytes: Bytes::new(100_000_000),
        spread: 4.0,
        mean_gap: Span::from_secs(10),
        tasks: Tasks {
            block: Bytes::new(16_000_000),
            map_spread: Span::from_secs(3),
            ..Tasks::for_nodes(6)
        },
    }
}

/// Class and shuffle of each job: with one map and one reduce the job's one flow is all of it.
fn whole_sizes(jobs: u32, seed: u64) -> Vec<(JobClass, u64)> {
    let one_each = Shuffle {
        tasks: Tasks { block: Bytes::new(1 << 50), ..Tasks::for_nodes(6) },
        ..shuffle(jobs)
    };
    let jobs = one_each.jobs(&hosts(6), seed).expect("good parameters");
    jobs.iter().map(|job| (job.class.expect("a class"), job.size().get())).collect()
}

/// Table 6.1: 62, 16 and 22 % of jobs with 5.5, 10.3 and 84.2 % of the bytes.
#[test]
fn class_shares() {
    for seed in 0..10 {
        let sizes = whole_sizes(100, seed);
        let total: u64 = sizes.iter().map(|(_, size)| size).sum();
        assert_eq!(total, 100 * 100_000_000);
        let expected = [
            (JobClass::Small, 62, 0.055),
            (JobClass::Medium, 16, 0.103),
            (JobClass::Large, 22, 0.842),
        ];
        for (class, count, share) in expected {
            let members = || sizes.iter().filter(|size| size.0 == class).map(|size| size.1);
            assert_eq!(members().count(), count);
            let part = members().sum::<u64>() as f64 / total as f64;
            assert!((part - share).abs() < 1e-7, "{class:?} {part}");
            let (least, most) = (members().min(), members().max());
            assert!(most <= least.map(|least| 4 * least + 4));
        }
    }
}

#[test]
fn shuffle_jobs_are_placed_and_repeat() {
    let jobs = |seed| shuffle(200).jobs(&hosts(6), seed).expect("good parameters");
    check_placement(&jobs(1), 200);
    assert_eq!(jobs(1), jobs(1));
    assert_ne!(jobs(1), jobs(2));
    // The mean of 199 exponential gaps of 10 s is within five standard deviations, 0.71 s each.
    let mean = jobs(1)[199].arrival.as_secs_f64() / 199.0;
    assert!((mean - 10.0).abs() < 3.6, "{mean}");
    let offsets = jobs(1);
    let offsets = offsets.iter().flat_map(|job| &job.flows).map(|flow| flow.offset);
    assert!(offsets.max() < Some(Span::from_secs(3)));
}

/// Two hosts, one map, one reduce: half of all placements would put both on one host.
#[test]
fn a_job_never_stays_within_a_host() {
    let jobs = Shuffle { tasks: Tasks::for_nodes(1), ..shuffle(100) };
    let jobs = jobs.jobs(&hosts(2), 3).expect("good parameters");
    check_placement(&jobs, 100);
}

/// 1000 jobs of 2²⁰ map-reduce pairs each are refused before any is made.
#[test]
fn flows_are_bounded() {
    let slots = Tasks {
        block: Bytes::new(1),
        most_maps: 1024,
        reduces: Reduces::Slots(1024),
        ..Tasks::for_nodes(2)
    };
    let few = Shuffle { tasks: slots, mean_bytes: Bytes::new(1), ..shuffle(1000) };
    assert!(few.jobs(&hosts(2), 1).is_ok());
    let many = Shuffle { mean_bytes: Bytes::new(1_000_000_000), ..few };
    let error = many.jobs(&hosts(2), 1).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "jobs: they make 1048576000 flows; at most 16777216 are possible: ask for fewer jobs or \
         larger blocks"
    );
}

/// The load that was asked for is met on the busiest link, counted here without the paths of the
/// network: on a star a host's bytes out and in are its links'.
#[test]
fn calibrated_load() {
    let network = Network::new(testing::network::hosts(6, link(100, 0, Buffer::Packets(100))));
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut jobs = shuffle(100).jobs(&hosts, 1).expect("good parameters");
    let before: Vec<Time> = jobs.iter().map(|job| job.arrival).collect();
    load::calibrate(&network, &mut jobs, 0.6).expect("possible");

    let mut count = BTreeMap::new();
    for flow in jobs.iter().flat_map(|job| &job.flows) {
        *count.entry((flow.src, "out")).or_insert(0) += flow.size.get();
        *count.entry((flow.dst, "in")).or_insert(0) += flow.size.get();
    }
    let busiest = *count.values().max().expect("flows");
    assert_eq!(load::busiest(&network, &jobs).map(|link| link.payload.get()), Some(busiest));
    let last = jobs[99].arrival.as_secs_f64();
    let carried = busiest as f64 * 8.0 / 100e6;
    let offered = carried / (last * 100.0 / 99.0);
    assert!((offered - 0.6).abs() < 1e-6, "{offered}");

    let factor = last / before[99].as_secs_f64();
    for (job, before) in jobs.iter().zip(before) {
        let expected = before.as_secs_f64() * factor;
        assert!((job.arrival.as_secs_f64() - expected).abs() < 1e-6);
    }
    let error = load::calibrate(&network, &mut jobs[..1], 0.6).expect_err("one job");
    assert_eq!(error.parameter, "load");
}

/// The published trace gives whole samples of 100 jobs; jobs of all classes; and the same again.
#[test]
fn the_published_swim_trace() {
    let Some(path) = testing::needs::trace("swim/FB-2009_samples_24_times_1hr_0.tsv") else {
        return;
    };
    for number in [0, 5, 13] {
        let reader = swim::Reader::open(&path).expect("a file");
        let taken = sample(100, number).take(reader, &hosts(6), 1).expect("a sample");
        assert_eq!(taken.samples, 14);
        check_placement(&taken.jobs, 100);
        for (class, count) in JobClass::ALL.into_iter().zip([62, 16, 22]) {
            let members = taken.jobs.iter().filter(|job| job.class == Some(class));
            assert_eq!(members.count(), count);
        }
    }
}
