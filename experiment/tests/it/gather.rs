//! Fan-out requests from scenario to outcome: every object arrives, exactly once counted, whoever
//! decides and whatever dies.

#![allow(clippy::unwrap_used)] // a test may panic

use std::path::Path;

use engine::Outcome;
use units::{Rate, Span};
use watermaster_experiment::scenario::{Override, Scenario};
use watermaster_experiment::{Prepared, Stage, metrics};

const TEXT: &str = r#"
name = "gather"
title = "Fan-out requests"
baseline = "one-all"
until = "10 s"

[topology]
kind = "racks"
racks = 12
hosts_per_rack = 10
racks_per_router = 4
access = { capacity = "1 Gbit/s", delay = "5 us", buffer = "100 KB", nic = "unlimited" }
uplink = { capacity = "2.5 Gbit/s", delay = "5 us", buffer = "200 KB" }
core = { capacity = "10 Gbit/s", delay = "5 us", buffer = "200 KB" }

[transport]
min_rto = "10 ms"

[workload]
kind = "gather"
requests = 3
objects = 300
period = "1 ms"

[[policy]]
name = "one-all"

[[policy]]
name = "sw"

[[policy]]
name = "sw-ictcp"

[[policy]]
name = "sicc"

[[policy]]
name = "sicc-joint"

[[policy]]
name = "sicc"
label = "tree"
hubs = 2

[[policy]]
name = "sicc"
label = "bare"
proximity = false
tree = false
speed = false
redirect = false
pack = false
"#;

fn read(changes: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    Scenario::read("s.toml", TEXT, Path::new(""), &overrides).map_err(|error| error.to_string())
}

/// What comes out under each policy.
fn outcomes(changes: &[&str]) -> Vec<(String, Outcome)> {
    let prepared = Prepared::new(read(changes).unwrap()).unwrap();
    let labels: Vec<String> = prepared.scenario.labels().map(str::to_owned).collect();
    let runs = prepared.tasks(&labels, None).map(|task| {
        let run = task.run(&mut Stage::default(), &mut |_| ()).unwrap();
        (run.policy, run.outcome)
    });
    runs.collect()
}

fn is_whole(label: &str, outcome: &Outcome, requests: usize, objects: usize) {
    assert_eq!(outcome.jobs.len(), requests, "{label}");
    assert!(outcome.jobs.iter().all(|job| job.end.is_some()), "{label}: objects are missing");
    let queries = &outcome.completions[0];
    assert_eq!(queries.count(), (requests * objects) as u64, "{label}: an object counts once");
    let longest = outcome.jobs.iter().filter_map(|job| job.completion()).max();
    assert_eq!(queries.percentile(100), longest, "{label}: the last ends it");
}

#[test]
fn every_object_arrives_under_every_policy() {
    let runs = outcomes(&[]);
    for (label, outcome) in &runs {
        is_whole(label, outcome, 3, 300);
    }
    let again = outcomes(&[]);
    for ((label, one), (_, other)) in runs.iter().zip(again) {
        assert_eq!(one.completions, other.completions, "{label}: equal runs");
        assert_eq!(one.flows, other.flows, "{label}: equal runs");
    }
    let of = |label: &str| &runs.iter().find(|(name, _)| name == label).unwrap().1;
    // Every request names the same objects under every policy.
    for (label, outcome) in &runs {
        let sizes = |outcome: &Outcome| outcome.jobs.iter().map(|job| job.size).collect::<Vec<_>>();
        assert_eq!(sizes(outcome), sizes(of("sicc")), "{label}");
    }
    // Hubs send fewer packets between racks, and fuller ones.
    let topology = read(&[]).unwrap().topology;
    let packets = |label| metrics::measure(&topology, of(label), None)["inter_rack_packets_count"];
    assert!(packets("sicc") > 0.0 && 2.0 * packets("sicc") < packets("one-all"));
    assert!(of("one-all").links.iter().any(|link| link.dropped > 0), "incast");
    assert!(of("sicc").links.iter().all(|link| link.dropped == 0), "no incast");
}

/// A query of one object on the only other host: both packets cross two links.
#[test]
fn a_single_query_takes_its_two_packets() {
    let one = ["topology.racks=1", "topology.racks_per_router=1", "topology.hosts_per_rack=2"];
    let rest = [
        "workload.requests=1",
        "workload.objects=1",
        "workload.copies=1",
        "workload.smallest=\"1000 B\"",
    ];
    for (label, outcome) in outcomes(&[&one[..], &rest].concat()) {
        // 60 B and 1040 B at 1 Gbit/s on two links of 5 us each; before the answer, 40 B acknowledge
        // the query. A hub asks itself at once.
        let took = Span::from_nanos(2 * (480 + 5000) + 320 + 2 * (8320 + 5000));
        // It is told that it is a hub, in 20 B.
        let is_hub = !["one-all", "sw", "sw-ictcp"].contains(&label.as_str());
        let told = Span::from_nanos(if is_hub { 2 * 160 } else { 0 });
        assert_eq!(outcome.completions[0].mean(), Some(took + told), "{label}");
    }
}

#[test]
fn no_object_is_lost_when_a_hub_dies() {
    for hub in [0, 3, 11] {
        for after in ["0 us", "20 us", "150 us", "400 us", "1.2 ms"] {
            let (hub, after) = (hub.to_string(), format!("\"{after}\""));
            let death =
                format!("workload.death={{ hub = {hub}, after = {after}, detection = \"1 ms\" }}");
            for (label, outcome) in outcomes(&[&death]) {
                is_whole(&format!("{label}, hub {hub} dead at {after}"), &outcome, 3, 300);
            }
        }
    }
}

/// What a policy's requests took together.
fn took(runs: &[(String, Outcome)], label: &str) -> Span {
    let outcome = &runs.iter().find(|(name, _)| name == label).unwrap().1;
    is_whole(label, outcome, 3, 300);
    outcome.jobs.iter().filter_map(|job| job.completion()).fold(Span::ZERO, |sum, took| sum + took)
}

#[test]
fn overloaded_hubs_are_helped_by_redirection() {
    let overload = r#"workload.overload={ probability = 0.5, rate = "8 Mbit/s" }"#;
    let off = ["policy.tree.speed=false", "policy.tree.redirect=false", "policy.tree.hubs=100"];
    let runs = outcomes(&[&[overload], &off[..]].concat());
    let (sicc, without) = (took(&runs, "sicc"), took(&runs, "tree"));
    assert!(sicc.as_nanos() * 5 < without.as_nanos() * 4, "{sicc} {without}");
}

/// A server is overloaded whoever asks it: its 1040 octets take 8.32 ms more at 1 Mbit/s.
#[test]
fn an_overloaded_server_is_slow_under_every_policy() {
    let one = ["topology.racks=1", "topology.racks_per_router=1", "topology.hosts_per_rack=2"];
    let rest = [
        "workload.requests=1",
        "workload.objects=1",
        "workload.copies=1",
        "workload.smallest=\"1000 B\"",
        "workload.period=\"1 s\"",
        "workload.overload={ probability = 1, rate = \"1 Mbit/s\" }",
    ];
    for (label, outcome) in outcomes(&[&one[..], &rest].concat()) {
        let took = outcome.completions[0].mean().unwrap();
        let least = Span::from_micros(8320);
        assert!(took > least && took < least + Span::from_micros(60), "{label}: {took}");
    }
}

/// What servers are overloaded doesn't depend on who decides, and who knows them asks others.
#[test]
fn known_overload_is_evaded_by_hubs_only() {
    let overload = |known| {
        format!(r#"workload.overload={{ probability = 0.2, rate = "1 Mbit/s", known = {known} }}"#)
    };
    let (blind, knowing) = (outcomes(&[&overload(false)]), outcomes(&[&overload(true)]));
    for label in ["one-all", "sw", "sw-ictcp"] {
        assert_eq!(took(&blind, label), took(&knowing, label), "{label}");
    }
    let (before, after) = (took(&blind, "bare"), took(&knowing, "bare"));
    assert!(after < before, "{after} instead of {before}");
}

/// The flows of so many octets that a run had.
fn flows_of(outcome: &Outcome, octets: u64) -> usize {
    outcome.flows.iter().filter(|flow| flow.size.get() == octets).count()
}

#[test]
fn hubs_are_told_of_their_speeds_by_messages() {
    let order = "workload.order=\"5001 B\"";
    let runs = outcomes(&[order, "workload.period=\"200 us\""]);
    let of = |label: &str| &runs.iter().find(|(name, _)| name == label).unwrap().1;
    assert!(flows_of(of("sicc"), 5001) > 12, "speeds");
    assert_eq!(flows_of(of("bare"), 5001), 0, "no speeds change");
    // The first message to each hub names its objects too: of 12 racks in 3 requests.
    let front = read(&[]).unwrap().topology.node_named("h0").unwrap();
    let first = |outcome: &Outcome| {
        let told = outcome.flows.iter().filter(|flow| flow.src == front);
        told.filter(|flow| flow.size.get() > 5001).count()
    };
    assert_eq!((first(of("sicc")), first(of("bare"))), (36, 36));
    assert_eq!(first(of("sw")), 0);
    // And they take their way.
    let far = outcomes(&[order, "topology.uplink.delay=\"500 us\""]);
    assert!(took(&far, "bare") > took(&runs, "bare"));
}

/// `tree` is here `sicc` without speed control: what free orders say is obeyed all the same.
#[test]
fn orders_without_octets_are_no_messages_and_are_obeyed() {
    let off = ["policy.tree.hubs=100", "policy.tree.speed=false"];
    let free = ["workload.order=\"0 B\"", "workload.period=\"200 us\""];
    let runs = outcomes(&[&off[..], &free].concat());
    let of = |label: &str| &runs.iter().find(|(name, _)| name == label).unwrap().1;
    let front = read(&[]).unwrap().topology.node_named("h0").unwrap();
    for (label, outcome) in &runs {
        is_whole(label, outcome, 3, 300);
        // All that the front end sends names objects, in 20 B each.
        let mut told = outcome.flows.iter().filter(|flow| flow.src == front);
        assert!(
            told.all(|flow| flow.size.get() > 0 && flow.size.get().is_multiple_of(20)),
            "{label}"
        );
    }
    assert_ne!(of("sicc").completions, of("tree").completions, "speeds are told");
}

#[test]
fn scenarios_that_cannot_work_are_refused() {
    for (change, message) in [
        ("policy.sw.name=tcp", "doesn't say how to gather requests"),
        ("world=fluid", "needs packets"),
        ("workload.front=h999", "h999"),
        ("workload.fronts=121", "out of range"),
        ("workload.overload={ probability = 2, rate = \"1 Mbit/s\" }", "out of range"),
        ("workload.overload={ probability = 1 }", "rate"),
        ("workload.death={ hub = 0 }", "after"),
        ("workload.period=\"0 s\"", "out of range"),
        ("workload.objekts=4", "unknown key"),
    ] {
        let error = match read(&[change]) {
            Err(error) => error,
            Ok(_) => panic!("{change} is accepted"),
        };
        assert!(error.contains(message), "{change}: {error}");
    }
    let scenario = read(&["workload.smallest=\"2 kB\""]).unwrap();
    let error = Prepared::new(scenario).unwrap_err().to_string();
    assert!(error.contains("smallest") && error.contains("above the largest"), "{error}");
}

/// ICTCP's rule keeps the window where the link isn't full: nothing is lost, and little is given
/// away.
#[test]
fn a_window_after_ictcp_loses_nothing_and_uses_its_link() {
    let all = outcomes(&["workload.objects=3000"]);
    let (_, outcome) = all.iter().find(|(label, _)| label == "sw-ictcp").unwrap();
    assert!(outcome.links.iter().all(|link| link.dropped == 0), "no incast");
    for job in &outcome.jobs {
        // Payload alone, at 1 Gbit/s; headers are 58 octets to a mean object of 510.
        let least = Rate::from_mbps(1000).time_for(job.size).as_secs_f64();
        let took = job.completion().unwrap().as_secs_f64();
        assert!(took < 1.4 * least, "{took} s where {least} s would do");
    }
}
