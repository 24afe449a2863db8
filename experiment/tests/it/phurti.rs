//! Phurti's rule in whole runs: from the limits that were enforced and the paths alone, a flow is
//! SLOW exactly while a flow of a job with a better priority transmits on a link of its path.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::{FlowRecord, Outcome};
use model::{JobId, LinkId, Network, NodeId};
use units::{Bytes, Time};
use watermaster_experiment::scenario::{Override, Scenario};
use watermaster_experiment::{Prepared, Run, Stage};

/// The main scenario with jobs of 300 KB, messages that take no time and a guard that never acts.
const CHANGES: &[&str] = &[
    "workload.mean_bytes=300 KB",
    "workload.tasks={ block = \"64 KB\" }",
    "workload.load=2",
    "control.delay=0 s",
    "policy.smsf.threshold=1000000 s",
];

fn run() -> (Network, Run) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/phurti/facebook-100-jobs.toml");
    let changes: Vec<Override> = CHANGES.iter().map(|change| change.parse().unwrap()).collect();
    let prepared = Prepared::new(Scenario::load(&path, &changes).unwrap()).unwrap();
    let labels = ["smsf".to_owned()];
    let run = prepared
        .tasks(&labels, None)
        .next()
        .unwrap()
        .run(&mut Stage::default(), &mut |_| {})
        .unwrap();
    (prepared.network.clone(), run)
}

/// Largest traffic between two hosts, then the number, which counts jobs by arrival.
fn priorities(outcome: &Outcome) -> BTreeMap<JobId, (Bytes, JobId)> {
    let mut pairs: BTreeMap<(JobId, NodeId, NodeId), Bytes> = BTreeMap::new();
    for flow in &outcome.flows {
        *pairs.entry((flow.job, flow.src, flow.dst)).or_default() += flow.size;
    }
    let mut jobs: BTreeMap<JobId, (Bytes, JobId)> = BTreeMap::new();
    for ((job, ..), bytes) in pairs {
        let most = jobs.entry(job).or_insert((Bytes::ZERO, job));
        most.0 = most.0.max(bytes);
    }
    jobs
}

/// Whether the flow has no limit once everything that happens at `now` has happened.
fn transmits(flow: &FlowRecord, now: Time) -> bool {
    let last = flow.limits.iter().take_while(|(at, _)| *at <= now).last();
    last.is_none_or(|(_, limit)| limit.is_none())
}

#[test]
fn a_flow_is_slow_exactly_while_a_better_job_transmits_on_its_path() {
    let (network, Run { outcome, .. }) = run();
    let priority = priorities(&outcome);
    let flows: Vec<FlowRecord> = outcome.flows.iter().collect();
    let paths: Vec<Vec<LinkId>> = flows
        .iter()
        .map(|flow| {
            let mut path = Vec::new();
            assert!(network.path(flow.src, flow.dst, u64::from(flow.id.0), &mut path));
            path
        })
        .collect();
    let moments: BTreeSet<Time> = flows
        .iter()
        .flat_map(|flow| {
            let limits = flow.limits.iter().map(|(at, _)| *at);
            limits.chain([flow.start]).chain(flow.end)
        })
        .collect();
    let (mut slow, mut checked) = (0, 0);
    for &now in &moments {
        let alive: Vec<usize> = (0..flows.len())
            .filter(|&f| flows[f].start <= now && flows[f].end.unwrap() > now)
            .collect();
        let mut best: BTreeMap<LinkId, BTreeSet<(Bytes, JobId)>> = BTreeMap::new();
        for &f in alive.iter().filter(|&&f| transmits(&flows[f], now)) {
            for link in &paths[f] {
                best.entry(*link).or_default().insert(priority[&flows[f].job]);
            }
        }
        for (link, jobs) in &best {
            assert_eq!(jobs.len(), 1, "{now}: jobs transmit together on {link:?}");
        }
        for &f in &alive {
            let flow = &flows[f];
            let blocked = paths[f].iter().any(|link| {
                best.get(link).is_some_and(|jobs| *jobs.first().unwrap() < priority[&flow.job])
            });
            assert_eq!(!transmits(flow, now), blocked, "{now}: {flow:?}");
            slow += usize::from(blocked);
            checked += 1;
        }
    }
    assert!(slow > 1_000 && checked - slow > 1_000, "{slow} of {checked}");
}
