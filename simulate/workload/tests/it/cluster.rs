//! Jobs with their maps and reduces in containers: timelines by hand, and laws under random jobs.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;

use engine::{Outcome, Plan};
use model::{Buffer, JobClass, JobId, Network, NodeId, Topology};
use proptest::prelude::*;
use testing::network::link;
use units::{Bytes, Rate, Span, Time};
use watermaster_workload::{Cluster, Draft, Tasks};

const BLOCK: u64 = 1_000_000;

fn network(hosts: u32) -> Topology {
    testing::network::hosts(hosts, link(100, 0, Buffer::Packets(100)))
}

/// A map works off a block in 1 s, a reduce as much in 2 s, and each starts in 1 s.
fn cluster(containers: &[u32], most_jobs: u32) -> Cluster {
    Cluster {
        containers: containers.to_vec(),
        most_jobs,
        slow_start: 1.0,
        fetches: 5,
        startup: Span::from_secs(1),
        map_rate: Rate::from_bps(8 * BLOCK),
        reduce_rate: Rate::from_bps(4 * BLOCK),
        variation: 0.0,
    }
}

fn tasks(hosts: u32) -> Tasks {
    Tasks { block: Bytes::new(BLOCK), ..Tasks::for_nodes(hosts) }
}

fn draft(arrival: u64, input: u64, shuffle: u64) -> Draft {
    let (input, shuffle) = (Bytes::new(input), Bytes::new(shuffle));
    let arrival = Time::ZERO + Span::from_secs(arrival);
    Draft { arrival, class: Some(JobClass::Small), input, shuffle, output: shuffle }
}

fn run(cluster: &Cluster, hosts: u32, drafts: &[Draft], seed: u64, policy: &str) -> Outcome {
    let topology = network(hosts);
    let nodes: Vec<NodeId> = topology.hosts().collect();
    let running = cluster.run(&tasks(hosts), drafts, &nodes, seed).unwrap();
    let plan = Plan {
        network: Network::new(topology),
        application: Box::new(running),
        policy: Some(policy::by_name(policy, &policy::Parameters::default()).unwrap()),
        control_delay: Span::ZERO,
        processing: Span::ZERO,
        until: Time::NEVER,
        monitors: Vec::new(),
        rates: None,
    };
    fluid::run(plan, None, &mut |_| {}).unwrap()
}

fn completions(outcome: &Outcome) -> Vec<f64> {
    outcome.jobs.iter().map(|job| job.completion().unwrap().as_secs_f64()).collect()
}

/// Two maps of a block, one on each host, and a reduce of a block: it has half of it beside it and
/// fetches 0.5 MB in 0.04 s at 100 Mbit/s. 1 + 1 s for the maps, 1 s start, 0.04 s, 2 s.
#[test]
fn a_job_maps_fetches_and_reduces() {
    for seed in 0..4 {
        let outcome = run(&cluster(&[2], 1), 2, &[draft(5, 2 * BLOCK, BLOCK)], seed, "tcp");
        let times = completions(&outcome);
        assert!((times[0] - 5.04).abs() < 1e-6, "{times:?}");
        assert_eq!(outcome.flows.len(), 1, "{:?}", outcome.flows);
        let flow = outcome.flows.at(0);
        assert_eq!(
            (flow.size, flow.start),
            (Bytes::new(BLOCK / 2), Time::ZERO + Span::from_secs(8))
        );
    }
}

/// The same job twice at once, when only one may run: the other waits all its time.
#[test]
fn jobs_wait_for_each_other() {
    let drafts = [draft(0, 2 * BLOCK, BLOCK), draft(0, 2 * BLOCK, BLOCK)];
    let times = completions(&run(&cluster(&[2], 1), 2, &drafts, 1, "tcp"));
    assert!((times[0] - 5.04).abs() < 1e-6 && (times[1] - 10.08).abs() < 1e-6, "{times:?}");
}

/// Beside the master there is one container: two maps of 2 s one after the other, then the reduce.
/// Everything is fetched beside it: 2 + 2 + 1 + 2 s; with slow start the reduce still comes last.
#[test]
fn tasks_wait_for_containers() {
    for slow_start in [0.0, 0.5, 1.0] {
        let one = Cluster { slow_start, ..cluster(&[2, 0], 1) };
        let outcome = run(&one, 2, &[draft(0, 2 * BLOCK, BLOCK)], 1, "tcp");
        assert_eq!((completions(&outcome), outcome.flows.len()), (vec![7.0], 0));
    }
}

/// Four maps, three containers beside the master: the fourth ends at 4 s. A reduce that starts with
/// the first maps fetches theirs before and the last one's after: 0.25 MB in 0.02 s at most.
#[test]
fn slow_start_lets_reduces_fetch_early() {
    let drafts = [draft(0, 4 * BLOCK, BLOCK)];
    let early = Cluster { slow_start: 0.05, ..cluster(&[2], 1) };
    let late = Cluster { slow_start: 1.0, ..early.clone() };
    let (early, late) = (run(&early, 2, &drafts, 1, "tcp"), run(&late, 2, &drafts, 1, "tcp"));
    let first = |outcome: &Outcome| outcome.flows.iter().map(|flow| flow.start).min().unwrap();
    assert!(first(&early) < first(&late));
    assert!(completions(&early)[0] < completions(&late)[0]);
    assert!((6.0..=6.05).contains(&completions(&early)[0]), "{:?}", completions(&early));
}

#[test]
fn what_cannot_run_is_refused() {
    let hosts: Vec<NodeId> = network(2).hosts().collect();
    let refused = |cluster: Cluster| {
        cluster.run(&tasks(2), &[draft(0, 1, 1)], &hosts, 1).unwrap_err().parameter
    };
    assert_eq!(refused(cluster(&[1, 0], 1)), "containers");
    assert_eq!(refused(cluster(&[1, 1], 2)), "most_jobs");
    assert_eq!(refused(cluster(&[1, 1], 0)), "most_jobs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the jobs and the policy: every job ends, later than its work takes, nothing moves
    /// that isn't shuffled, and no reduce fetches more at a time than it may.
    #[test]
    fn every_job_ends(
        sizes in prop::collection::vec((0..40u64, 1..6_000_000u64, 1..6_000_000u64), 1..12),
        containers in prop::collection::vec(0..4u32, 3),
        seed in 0..1000u64,
        slow_start in 0.0..1.0f64,
        fetches in 1..3u32,
        smsf in any::<bool>(),
    ) {
        let total: u32 = containers.iter().sum();
        prop_assume!(total >= 2);
        let mut drafts: Vec<Draft> =
            sizes.iter().map(|&(arrival, input, shuffle)| draft(arrival, input, shuffle)).collect();
        drafts.sort_by_key(|draft| draft.arrival);
        let cluster = Cluster {
            slow_start,
            fetches,
            variation: 0.2,
            ..cluster(&containers, total - 1)
        };
        let outcome = run(&cluster, 3, &drafts, seed, if smsf { "smsf" } else { "tcp" });
        prop_assert_eq!(outcome.jobs.len(), drafts.len());
        let mut moved: BTreeMap<JobId, u64> = BTreeMap::new();
        for flow in &outcome.flows {
            prop_assert!(flow.end.is_some() && flow.src != flow.dst);
            *moved.entry(flow.job).or_default() += flow.size.get();
        }
        for (job, draft) in outcome.jobs.iter().zip(&drafts) {
            // Two starts, and four fifths of the work of one map and one reduce.
            let plan = tasks(3).plan(draft);
            let reduce = draft.shuffle.get() as f64 / f64::from(plan.reduces) / (BLOCK / 2) as f64;
            let map = draft.input.get() as f64 / f64::from(plan.maps) / BLOCK as f64;
            prop_assert!(job.completion().unwrap().as_secs_f64() > 2.0 + 0.79 * (map + reduce) - 1e-3);
            prop_assert!(moved.get(&job.id).copied().unwrap_or(0) <= draft.shuffle.get());
        }
        // A job's flows at one time, against what its reduces may fetch.
        for flow in &outcome.flows {
            let reduces = drafts[flow.job.index()].shuffle.get().div_ceil(BLOCK).min(6);
            let at_once = outcome.flows.iter().filter(|other| {
                other.job == flow.job && other.start <= flow.start && flow.start < other.end.unwrap()
            });
            prop_assert!(at_once.count() as u64 <= reduces * u64::from(fetches));
        }
    }
}
