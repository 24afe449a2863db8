//! Every metric on outcomes small enough to compute by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeSet;

use crate::by_hand::*;
use engine::{FlowRecord, Outcome, QueueRecord, Records};
use model::{JobClass, NodeId, Topology, build};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_experiment::Verdict;
use watermaster_experiment::metrics::{
    Sample, Summary, Unit, compares, distribution, distributions, human, measure, names, transmit,
};

/// The page's rows of metrics start with a name in code style.
const PAGE: &str = include_str!("../../../docs/metrics.md");

#[test]
fn every_metric_by_hand() {
    let metrics = measure(&three_hosts(), &by_hand(), Some(&by_hand_baseline()));
    let expected = [
        // Completion times 2, 3 and 10 s.
        ("jct_mean_s", 5.0),
        ("cct_mean_s", 5.0),
        ("jct_p50_s", 3.0),
        ("jct_p95_s", 10.0),
        ("jct_p99_s", 10.0),
        ("jct_mean_small_s", 2.0),
        ("jct_mean_medium_s", 3.0),
        ("jct_mean_large_s", 10.0),
        ("jct_p95_small_s", 2.0),
        ("jct_p95_medium_s", 3.0),
        ("jct_p95_large_s", 10.0),
        ("jobs_count", 4.0),
        ("jobs_completed_ratio", 0.75),
        ("jobs_small_ratio", 0.25),
        ("jobs_medium_ratio", 0.25),
        ("jobs_large_ratio", 0.5),
        // 1, 3 and 16 of 20 MB.
        ("bytes_small_ratio", 0.05),
        ("bytes_medium_ratio", 0.15),
        ("bytes_large_ratio", 0.8),
        ("makespan_s", 12.0),
        ("fct_mean_s", 5.0),
        ("fct_p50_s", 3.0),
        ("fct_p95_s", 10.0),
        ("fct_p99_s", 10.0),
        // All of 1 to 10 MB.
        ("fct_mean_middle_s", 5.0),
        // 2, 3 and 10 s over ideals of 1, 1 and 5 s: 2, 3 and 2.
        ("fct_normalized_mean_ratio", 7.0 / 3.0),
        ("fct_normalized_cv_ratio", (2.0_f64 / 9.0).sqrt() / (7.0 / 3.0)),
        ("fct_normalized_variance_ratio", 2.0 / 9.0),
        ("fct_normalized_p99_ratio", 3.0),
        // 2, 3 and 10 s over 2, 1 and 5 s: 1, 3 and 2.
        ("fct_slotted_mean_ratio", 2.0),
        // Of 1/2, 1/3 and 1/2.
        ("flow_rate_jain_ratio", (16.0 / 9.0) / (3.0 * 22.0 / 36.0)),
        // Flows of one pair alone have ended.
        ("pair_rate_jain_ratio", 1.0),
        // One host has sent 10 MB and another 1 MB: 11² / (2 · (100 + 1)).
        ("sender_throughput_jain_ratio", 121.0 / 202.0),
        ("network_latency_mean_s", 0.003),
        ("network_latency_p50_s", 0.002),
        ("network_latency_p99_s", 0.006),
        // One host receives, over 100 Mbit/s.
        ("throughput_ratio", 0.067_692_3),
        // 11 MB in 13 s, rounded down.
        ("goodput_bps", 6_769_230.0),
        // All flows have an end; no endless one adds to them.
        ("burst_goodput_bps", 6_769_230.0),
        ("burst_total_goodput_bps", 6_769_230.0),
        ("throughput_tps", 3.0 / 13.0),
        ("latency_mean_s", 1.715_827_882),
        ("latency_p50_s", 1.073_741_823),
        ("latency_p95_s", 3.0),
        ("latency_p99_s", 3.0),
        ("queue_mean_packets", 3.0),
        ("queue_p99_packets", 6.0),
        ("queue_max_packets", 6.0),
        ("queue_last_packets", 3.0),
        ("control_delay_mean_s", 80e-6),
        ("control_delay_max_s", 90e-6),
        // 4, 8, 4.8 and 0.8 Mbit/s: 17.6² / (4 · (16 + 64 + 23.04 + 0.64)).
        ("flow_goodput_jain_ratio", 309.76 / 414.72),
        ("link_utilization_max_ratio", 0.1),
        // What the one receiver got, over its 100 Mbit/s.
        ("host_payload_max_ratio", 0.067_692_3),
        ("flows_count", 4.0),
        ("retransmissions_count", 7.0),
        ("timeouts_count", 3.0),
        ("flows_with_timeout_ratio", 0.5),
        ("burst_flows_with_timeout_ratio", 0.5),
        ("drops_count", 5.0),
        ("meter_drops_count", 4.0),
        ("datagrams_lost_ratio", 9.0 / 13.0),
        ("marks_count", 11.0),
        // One switch: nothing leaves it for another.
        ("inter_rack_packets_count", 0.0),
        ("queue_peak_packets", 17.0),
        ("rate_flows_count", 1.0),
        ("rate_obeyed_p50_ratio", 0.99),
        ("rate_obeyed_min_ratio", 0.99),
        ("rate_obeyed_max_ratio", 0.99),
        ("transmit_time_ratio", (1.0 + 2.0 / 3.0 + 0.5 + 0.0) / 4.0),
        // A flow each, so that both means agree; they part below, where a job has two.
        ("jobs_transmit_time_ratio", (1.0 + 2.0 / 3.0 + 0.5 + 0.0) / 4.0),
        ("jobs_transmit_time_small_ratio", 1.0),
        ("jobs_transmit_time_medium_ratio", 2.0 / 3.0),
        ("jobs_transmit_time_large_ratio", 0.25),
        ("jobs_transmit_over_80_percent_ratio", 0.25),
        // Completed in both: 2, 3, 10 against 4, 3, 8.
        ("jct_mean_change_ratio", 0.0),
        ("jct_mean_change_small_ratio", -0.5),
        ("jct_mean_change_medium_ratio", 0.0),
        ("jct_mean_change_large_ratio", 0.25),
        ("jct_p95_change_ratio", 0.25),
        ("jct_p95_change_small_ratio", -0.5),
        ("jct_p95_change_medium_ratio", 0.0),
        ("jct_p95_change_large_ratio", 0.25),
        ("jobs_improved_ratio", 0.25),
        // The third took 2 s longer, the fourth completed under the baseline only.
        ("jobs_worsened_ratio", 0.5),
        ("jobs_gained_100_s_ratio", 0.0),
        ("jct_worst_increase_s", 2.0),
    ];
    for (name, value) in expected {
        let ours = metrics.get(name).copied().unwrap_or(f64::NAN);
        assert!((ours - value).abs() < 1e-9, "{name}: {ours}, by hand {value}");
    }
    let (spines, queues) = queues_by_place();
    let metrics = measure(&spines, &queues, None);
    let placed = [
        ("queue_hosts_mean_packets", 2.0),
        ("queue_hosts_p99_packets", 3.0),
        ("queue_leaves_mean_packets", 15.0),
        ("queue_leaves_p99_packets", 30.0),
        // An empty queue has nobody in transmission.
        ("queue_leaves_waiting_mean_packets", 57.0 / 4.0),
        ("queue_leaves_waiting_p99_packets", 29.0),
        ("queue_spines_waiting_mean_packets", 199.0),
        ("queue_spines_waiting_p99_packets", 299.0),
        ("queue_spines_mean_packets", 200.0),
        ("queue_spines_p99_packets", 300.0),
    ];
    for (name, value) in placed {
        assert_eq!(metrics.get(name), Some(&value), "{name}");
    }
    // Of 20 short flows one takes 1 s, which the 99th percentile is, and the others 100 ms; sizes at the bounds.
    let short = (0..20).map(|n| flow(n, n, 100_000, 0, Some(if n == 0 { 1_000 } else { 100 })));
    let others = [(100_001, 3_000), (10_000_000, 5_000), (10_000_001, 9_000)];
    let others = (20..).zip(others).map(|(n, (size, end))| flow(n, n, size, 0, Some(end)));
    let outcome = Outcome { flows: short.chain(others).collect(), ..Outcome::default() };
    let metrics = measure(&three_hosts(), &outcome, None);
    let by_length = [
        ("fct_mean_short_s", 2.9 / 20.0),
        ("fct_p99_short_s", 1.0),
        ("fct_mean_middle_s", 4.0),
        ("fct_mean_long_s", 9.0),
    ];
    for (name, value) in by_length {
        assert!((metrics[name] - value).abs() < 1e-9, "{name}: {}", metrics[name]);
    }
    let all = expected.into_iter().chain(placed).chain(by_length);
    let tested: BTreeSet<_> = all.map(|(name, _)| name).collect();
    assert_eq!(tested, names().collect(), "every metric is tested here");
}

/// h0 sends one flow until 2 s and one from 1 s to 12 s, of 1 s and 5 s alone: 6 s in 12. h2 sends one of 1 s in 3 s.
#[test]
fn a_pair_is_as_fast_as_its_flows_while_one_of_them_is_under_way() {
    let mut run = by_hand();
    run.flows.at_mut(1).src = NodeId(3);
    run.flows.at_mut(2).start = ms(1_000);
    let jain = measure(&three_hosts(), &run, None)["pair_rate_jain_ratio"];
    // (1/2 + 1/3)² / (2 · (1/4 + 1/9))
    assert!((jain - 25.0 / 26.0).abs() < 1e-9, "{jain}");
}

#[test]
fn a_job_has_gained_100_s_when_it_took_so_much_less() {
    // Of three that completed in both: 2 s against 102, 3 against 103, 10 against 109.999.
    let mut base = by_hand_baseline();
    for (position, end) in [102_000, 104_000, 111_999].into_iter().enumerate() {
        base.jobs.at_mut(position).end = Some(ms(end));
    }
    let metrics = measure(&three_hosts(), &by_hand(), Some(&base));
    assert_eq!(metrics["jobs_gained_100_s_ratio"], 2.0 / 3.0);
}

/// Two leaves with a host each and one spine; a port of each was watched.
fn queues_by_place() -> (Topology, Outcome) {
    let topology = build::leaf_spine(2, 1, 1, &access(), &access().link).unwrap();
    let port = |from: &str, to: &str| {
        let (from, to) = (topology.node_named(from).unwrap(), topology.node_named(to).unwrap());
        let link = topology.out(from).iter().find(|link| topology.link(**link).to == to);
        *link.unwrap()
    };
    let record = |link, packets: &[u32]| QueueRecord {
        link,
        interval: Span::from_millis(1),
        packets: packets.to_vec(),
    };
    let queues = vec![
        record(port("h0", "leaf0"), &[1, 2, 3]),
        record(port("leaf0", "h0"), &[0, 10, 20, 30]),
        record(port("spine0", "leaf0"), &[100, 200, 300]),
    ];
    (topology, Outcome { queues, ..Outcome::default() })
}

/// Two flows of 1 MB from 2 to 3 s and from 3 to 4 s; an endless one moved 10 MB until 2 s, 13 MB until
/// 4 s and 20 MB in all.
#[test]
fn bursts_beside_an_endless_flow() {
    let mut run = by_hand();
    run.flows = Records::from(vec![
        FlowRecord { delivered: Bytes::new(20_000_000), ..flow(0, 0, u64::MAX, 0, None) },
        FlowRecord { timeouts: 2, ..flow(1, 1, 1_000_000, 2_000, Some(3_000)) },
        flow(2, 2, 1_000_000, 3_000, Some(4_000)),
    ]);
    let mb = |count: u64| Bytes::new(count * 1_000_000);
    run.background = vec![(ms(2_000), mb(10)), (ms(3_000), mb(12)), (ms(4_000), mb(13))];
    let metrics = measure(&three_hosts(), &run, None);
    assert_eq!(metrics["burst_goodput_bps"], 8e6);
    assert_eq!(metrics["burst_total_goodput_bps"], 20e6);
    assert_eq!(metrics["burst_flows_with_timeout_ratio"], 0.5);
    assert_eq!(metrics["flows_with_timeout_ratio"], 1.0 / 3.0);
}

#[test]
fn every_metric_is_explained_and_every_explained_one_exists() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let explained: BTreeSet<_> = rows
        .filter_map(|row| row.split('`').next())
        .filter(|name| !name.starts_with('_')) // the table of endings
        .collect();
    assert_eq!(explained, names().chain(distributions()).collect());
}

/// The cells of the page's rows that begin so, without the code style.
fn rows(start: &str) -> impl Iterator<Item = Vec<String>> {
    let rows = PAGE.lines().filter(move |line| line.starts_with(start));
    rows.map(|row| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace('`', "")).collect()
    })
}

#[test]
fn the_page_gives_each_name_the_unit_that_the_program_shows() {
    for cells in rows("| `").filter(|cells| !cells[0].starts_with('_')) {
        let unit = match Unit::of(&cells[0]) {
            Unit::Seconds => "s",
            Unit::BitsPerSecond => "bit/s",
            Unit::PerSecond => "1/s",
            Unit::Ratio | Unit::Count => "",
            Unit::Packets => "packets",
        };
        assert_eq!(cells[1], unit, "{}", cells[0]);
    }
    // The endings: each with values that are shown as there.
    let endings: Vec<_> = rows("| `_").collect();
    let shown = [
        ("_s", "x_s", vec![36.4, 0.0123]),
        ("_bps", "x_bps", vec![94.3e6]),
        ("_tps", "x_tps", vec![50.3]),
        ("_ratio", "x_change_ratio", vec![-0.2]),
        ("_count", "x_count", vec![12.0]),
        ("_packets", "x_packets", vec![100.0]),
    ];
    assert_eq!(endings.len(), shown.len());
    for (cells, (ending, name, values)) in endings.iter().zip(shown) {
        assert_eq!(cells[0], ending);
        for value in values {
            let shown = human(name, value);
            assert!(cells[2].contains(&shown), "{shown} is not in {}", cells[2]);
        }
    }
    for name in names().chain(distributions()) {
        assert!(endings.iter().any(|cells| name.ends_with(&cells[0])), "{name} has no unit");
    }
}

#[test]
fn the_page_has_every_verdict() {
    for verdict in Verdict::ALL {
        let count = rows(&format!("| {} |", verdict.name())).count();
        assert_eq!(count, 1, "{}", verdict.name());
    }
}

#[test]
fn nothing_ran() {
    let metrics = measure(&three_hosts(), &Outcome::default(), None);
    assert!(!metrics.contains_key("jct_mean_s") && !metrics.contains_key("goodput_bps"));
    assert_eq!(metrics.get("jobs_count"), Some(&0.0));
}

#[test]
fn without_a_baseline_nothing_is_compared() {
    let (topology, run, base) = (three_hosts(), by_hand(), by_hand_baseline());
    let (alone, beside) = (measure(&topology, &run, None), measure(&topology, &run, Some(&base)));
    assert!(!alone.contains_key("jct_mean_change_ratio"));
    for name in beside.keys() {
        assert_eq!(compares(name), !alone.contains_key(name), "{name}");
    }
    for name in distributions() {
        let alone = distribution(name, &topology, &run, None);
        let beside = distribution(name, &topology, &run, Some(&base));
        assert_eq!(compares(name), alone != beside, "{name}");
    }
}

#[test]
fn a_job_that_only_we_complete_is_improved_and_one_that_only_the_baseline_completes_is_not() {
    let (mut ours, mut base) = (by_hand(), by_hand_baseline());
    base.jobs.at_mut(2).end = None;
    ours.jobs.at_mut(2).end = Some(ms(900_000));
    let metrics = measure(&three_hosts(), &ours, Some(&base));
    assert_eq!(metrics["jobs_improved_ratio"], 0.5);
    assert_eq!(metrics["jct_worst_increase_s"], 0.0);
}

#[test]
fn flows_that_nobody_recorded_are_not_counted_as_none() {
    let engine = Outcome { flows: Records::default(), ..by_hand() };
    let metrics = measure(&three_hosts(), &engine, None);
    assert_eq!(metrics.get("jct_mean_s"), Some(&5.0));
    for name in
        ["flows_count", "retransmissions_count", "timeouts_count", "link_utilization_max_ratio"]
    {
        assert_eq!(metrics.get(name), None, "{name}");
    }
}

#[test]
fn endless_jobs_and_flows_count_as_neither_completed_nor_bytes() {
    let mut outcome = by_hand();
    outcome.jobs.at_mut(3).size = Bytes::MAX;
    outcome.flows.at_mut(3).size = Bytes::MAX;
    let metrics = measure(&three_hosts(), &outcome, None);
    assert_eq!(metrics["jobs_completed_ratio"], 1.0);
    assert_eq!(metrics["bytes_large_ratio"], 0.6);
}

#[test]
fn a_life_falls_into_stretches() {
    let slow = Some(Rate::from_mbps(1));
    let mut record = flow(0, 0, 1, 1_000, Some(9_000));
    record.limits = vec![
        (ms(500), slow),
        (ms(2_000), None),
        (ms(3_000), slow),
        (ms(4_000), Some(Rate::from_mbps(2))),
        (ms(5_000), None),
        (ms(50_000), slow),
    ];
    let stretches: Vec<_> = transmit::stretches(&record, ms(60_000))
        .into_iter()
        .map(|s| (s.from, s.to, s.free))
        .collect();
    assert_eq!(
        stretches,
        [
            (ms(1_000), ms(2_000), false),
            (ms(2_000), ms(3_000), true),
            (ms(3_000), ms(5_000), false),
            (ms(5_000), ms(9_000), true),
        ]
    );
    assert_eq!(transmit::of_flow(&record, ms(60_000)), Some(5.0 / 8.0));
    assert_eq!(transmit::of_flow(&flow(0, 0, 1, 5, Some(5)), ms(9)), None);
}

#[test]
fn a_job_transmits_in_proportion_to_the_lives_of_its_flows() {
    let mut outcome = by_hand();
    // 2 s of 2 s and 5 s of 10 s: 7/12, not the mean of 1 and 1/2.
    let job = outcome.flows.at(2).job;
    outcome.flows.at_mut(0).job = job;
    assert_eq!(transmit::of_jobs(&outcome)[&job], 7.0 / 12.0);
    // The mean over jobs counts that job once, the mean over flows each of its flows.
    let metrics = measure(&three_hosts(), &outcome, None);
    let (jobs, flows) = (metrics["jobs_transmit_time_ratio"], metrics["transmit_time_ratio"]);
    assert!((jobs - (2.0 / 3.0 + 7.0 / 12.0 + 0.0) / 3.0).abs() < 1e-9, "{jobs}");
    assert!((flows - (1.0 + 2.0 / 3.0 + 0.5 + 0.0) / 4.0).abs() < 1e-9, "{flows}");
}

#[test]
fn nearest_rank_takes_a_value_that_occurred() {
    let sample: Sample = [15.0, 20.0, 35.0, 40.0, 50.0].into_iter().collect();
    let percentiles = [0, 5, 30, 40, 50, 100, 200].map(|p| sample.percentile(p).unwrap());
    assert_eq!(percentiles, [15.0, 15.0, 20.0, 20.0, 35.0, 50.0, 50.0]);
    assert_eq!(Sample::default().percentile(50), None);
}

#[test]
fn students_t_is_that_of_the_printed_tables() {
    let printed =
        [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (99, 1.984)];
    for (degrees, t) in printed {
        // Half at −1 and half at 1 has a known deviation, so that the half-width gives t back.
        let count = degrees + 1;
        let values: Vec<f64> = (0..count).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let summary = Summary::of(&values).unwrap();
        let n = f64::from(count);
        let squares: f64 = values.iter().map(|v| (v - summary.mean).powi(2)).sum();
        let factor = summary.half_width.unwrap() / (squares / (n - 1.0) / n).sqrt();
        assert!((factor - t).abs() < 6e-4, "{degrees}: {factor}, printed {t}");
    }
    assert_eq!(Summary::of(&[3.0]).unwrap().half_width, None);
    assert_eq!(Summary::of(&[]), None);
}

#[test]
fn values_read_well() {
    let cases = [
        ("jct_mean_s", 1234.5, "1234 s"),
        ("jct_mean_s", 36.42, "36.4 s"),
        ("fct_p99_s", 0.0123, "12.3 ms"),
        ("fct_p99_s", 0.000_07, "70.0 µs"),
        ("goodput_bps", 94_300_000.0, "94.3 Mbit/s"),
        ("goodput_bps", 0.0, "0 bit/s"),
        ("throughput_tps", 50.27, "50.3/s"),
        ("jct_mean_change_ratio", -0.2, "−20.0 %"),
        ("jct_mean_change_ratio", 0.022, "+2.2 %"),
        ("jct_worst_increase_s", -0.5, "−500 ms"),
        ("jct_worst_increase_s", 2.0, "+2.00 s"),
        ("jobs_improved_ratio", 0.95, "95.0 %"),
        ("drops_count", 12.0, "12"),
        ("queue_peak_packets", 100.0, "100 packets"),
        ("jct_mean_change_ratio", -0.000_01, "0.0 %"),
    ];
    for (name, value, text) in cases {
        assert_eq!(human(name, value), text);
    }
}

proptest! {
    #[test]
    fn statistics_stay_within_the_sample(values in prop::collection::vec(-1e9..1e9f64, 1..200), percent in 0usize..150) {
        let sample: Sample = values.iter().copied().collect();
        let (least, greatest) = (sample.values()[0], sample.max().unwrap());
        let percentile = sample.percentile(percent).unwrap();
        prop_assert!(values.contains(&percentile));
        // The definition, by counting.
        let at_most = values.iter().filter(|&&v| v <= percentile).count();
        let below = values.iter().filter(|&&v| v < percentile).count();
        let percent = percent.min(100);
        prop_assert!(at_most * 100 >= percent * values.len());
        prop_assert!(below == 0 || below * 100 < percent * values.len());
        let mean = sample.mean().unwrap();
        prop_assert!(mean >= least - 1e-3 && mean <= greatest + 1e-3);
        if let Some(jain) = sample.jain() {
            prop_assert!((0.0..=1.0 + 1e-9).contains(&jain));
        }
    }

    #[test]
    fn stretches_cover_a_life_without_gaps(
        start in 0u64..100, end in prop::option::of(0u64..200),
        limits in prop::collection::vec((0u64..250, any::<bool>()), 0..20),
    ) {
        let mut record = flow(0, 0, 1, start, end);
        record.limits = limits.iter().map(|&(at, free)| (ms(at), (!free).then_some(Rate::from_mbps(1)))).collect();
        record.limits.sort_by_key(|&(at, _)| at);
        let stretches = transmit::stretches(&record, ms(150));
        for pair in stretches.windows(2) {
            prop_assert!(pair[0].to == pair[1].from && pair[0].free != pair[1].free);
        }
        let life = record.end.unwrap_or(ms(150)).since(record.start);
        let sum: u64 = stretches.iter().map(|s| s.to.since(s.from).as_nanos()).sum();
        prop_assert_eq!(sum, life.as_nanos());
    }

    #[test]
    fn no_outcome_breaks_a_metric(
        flows in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>(), any::<Option<u64>>()), 0..6),
        jobs in prop::collection::vec((0u32..6, any::<u64>(), any::<u64>(), any::<Option<u64>>()), 0..6),
        end in any::<u64>(),
    ) {
        let outcome = Outcome {
            flows: flows.into_iter().map(|(id, size, start, end)| flow(id, id, size, start, end)).collect(),
            jobs: jobs.into_iter().map(|(id, size, at, end)| job(id, Some(JobClass::Large), size, at, end)).collect(),
            links: vec![link(u32::MAX, u64::MAX), link(0, u64::MAX)],
            end: Time::from_nanos(end),
            ..Outcome::default()
        };
        let metrics = measure(&three_hosts(), &outcome, Some(&outcome));
        prop_assert!(metrics.values().all(|v| v.is_finite()));
    }
}
