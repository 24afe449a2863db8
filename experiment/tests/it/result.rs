//! The JSON's shape, the verdicts and the terminal's table.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use crate::by_hand::*;
use engine::Outcome;
use serde_json::{Value, json};
use watermaster_experiment::{Bound, Published, RunResult, Verdict, judge, table};

fn figure(policy: &str, metric: &str, value: f64, tolerance: f64) -> Published {
    Published {
        policy: policy.into(),
        metric: metric.into(),
        value,
        tolerance,
        source: "Phurti, section 6.3".into(),
        note: String::new(),
        ..Published::default()
    }
}

fn result(published: &[Published]) -> RunResult {
    let runs = [run("tcp", by_hand_baseline()), run("smsf", by_hand())];
    RunResult::new(origin(), &three_hosts(), &runs, Some("tcp"), published)
}

#[test]
fn json_has_exactly_the_documented_keys() {
    let published = [figure("smsf", "jct_mean_s", 5.0, 0.5)];
    let text = result(&published).to_json().unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&json), ["results", "scenario", "seed", "version", "world"]);
    assert_eq!(json["scenario"], "by-hand");
    assert_eq!(json["world"], "packet");
    assert_eq!(json["seed"], 7);
    assert_eq!(json["version"], "0.1.0");
    for policy in json["results"].as_array().unwrap() {
        assert_eq!(keys(policy), ["metrics", "policy", "published", "rates", "verdict"]);
        assert!(policy["metrics"].as_object().unwrap().values().all(Value::is_f64));
    }
    let smsf = &json["results"][1];
    assert_eq!(smsf["policy"], "smsf");
    assert_eq!(smsf["metrics"]["jct_mean_s"], 5.0);
    assert_eq!(smsf["metrics"]["jct_worst_increase_s"], 2.0);
    assert_eq!(smsf["published"], json!({"jct_mean_s": 5.0}));
    assert_eq!(smsf["verdict"], "holds");
    assert_eq!(json["results"][0]["published"], json!({}));
    assert_eq!(json["results"][0]["verdict"], "none");
    assert!(text.starts_with("{\n  \"scenario\": "), "in the documented order");
}

#[test]
fn what_applications_count_stands_in_every_table() {
    let mut runs = [run("tcp", by_hand_baseline()), run("smsf", by_hand())];
    runs[1].counters.insert("tuples_count".into(), 44.0);
    let result = RunResult::new(origin(), &three_hosts(), &runs, Some("tcp"), &[]);
    let text = table::render(&result, &["jct_mean_s"], None);
    let row = text.lines().find(|line| line.contains("tuples_count")).unwrap();
    assert!(row.contains("44") && !text.contains("jct_p50_s"), "{text}");
    // A name that a metric has stands where the metric does.
    assert_eq!(table::render(&result, &[], None).matches("jct_mean_s ").count(), 1);
}

#[test]
fn an_application_adds_to_what_is_measured_and_replaces_none_of_it() {
    // On an engine the network has no flows, and an application's latency is its own to tell.
    let links = by_hand().links;
    let outcome = Outcome { links, notes: vec!["kept up".into()], ..Outcome::default() };
    let mut runs = [run("tcp", outcome.clone()), run("smsf", outcome)];
    let ours = ["drops_count", "jobs_count", "throughput_tps", "latency_p99_s", "tuples_count"];
    runs[1].counters.extend(ours.map(|name| (name.to_owned(), 1e9)));
    let result = RunResult::new(origin(), &three_hosts(), &runs, Some("tcp"), &[]);
    let [plain, own] = &result.results[..] else { panic!() };
    let (measured, added) = ours.split_at(2);
    for name in measured {
        assert_eq!(own.metrics[*name], plain.metrics[*name], "{name}");
    }
    for name in added {
        assert_eq!((own.metrics[*name], plain.metrics.get(*name)), (1e9, None), "{name}");
    }
    assert_eq!(plain.notes, ["kept up"]);
    let [drops, jobs] = [0, 1].map(|number| {
        let name = measured[number];
        format!(
            "{name} is measured: the number that an application printed under that name isn't taken"
        )
    });
    assert_eq!(own.notes, ["kept up", &drops, &jobs]);
}

#[test]
fn json_and_table_tell_the_bound() {
    let published = [
        Published { bound: Bound::AtLeast, ..figure("smsf", "jct_mean_s", 4.0, 0.5) },
        Published { bound: Bound::AtMost, ..figure("smsf", "jct_p95_s", 20.0, 1.0) },
        figure("smsf", "jct_p50_s", 3.0, 0.5),
    ];
    let result = result(&published);
    let json: Value = serde_json::from_str(&result.to_json().unwrap()).unwrap();
    let smsf = &json["results"][1];
    assert_eq!(smsf["bounds"], json!({"jct_mean_s": "at least", "jct_p95_s": "at most"}));
    assert_eq!(smsf["published"]["jct_p50_s"], 3.0);
    let text = table::render(&result, &["jct_mean_s"], None);
    for shown in ["at least 4.00 s ± 500 ms   holds", "at most 20.0 s ± 1.00 s   holds"] {
        assert!(text.contains(shown), "no {shown} in\n{text}");
    }
    let columns = [("here".to_owned(), &result)];
    let text = table::across(&columns, "smsf", &["jct_mean_s"]);
    assert!(text.contains(" at least 4.00 s ± 500 ms"), "{text}");
}

#[test]
fn only_other_policies_are_compared_with_the_baseline() {
    let result = result(&[]);
    assert!(!result.results[0].metrics.contains_key("jct_mean_change_ratio"));
    assert!(result.results[1].metrics.contains_key("jct_mean_change_ratio"));
}

#[test]
fn verdict_of_one_figure() {
    let change = |value, tolerance| figure("smsf", "jct_mean_change_ratio", value, tolerance);
    let bound = |figure, bound| Published { bound, ..figure };
    let cases = [
        (change(-0.2, 0.05), Some(-0.25), Verdict::Holds),
        (change(-0.2, 0.05), Some(-0.15), Verdict::Holds),
        (change(-0.2, 0.05), Some(-0.01), Verdict::DirectionHolds),
        (change(-0.2, 0.05), Some(-0.9), Verdict::DirectionHolds),
        (change(-0.2, 0.05), Some(0.01), Verdict::Differs),
        (change(-0.2, 0.05), Some(0.0), Verdict::Differs),
        (change(-0.2, 0.05), None, Verdict::Differs),
        // A bound at no effect says that there is one; with a tolerance, or on both sides, it doesn't.
        (bound(change(0.0, 0.0), Bound::AtLeast), Some(0.0), Verdict::Differs),
        (bound(change(0.0, 0.0), Bound::AtMost), Some(0.0), Verdict::Differs),
        (bound(change(0.0, 0.0), Bound::AtLeast), Some(0.001), Verdict::Holds),
        (bound(change(0.0, 0.01), Bound::AtLeast), Some(0.0), Verdict::Holds),
        (bound(change(-0.2, 0.0), Bound::AtLeast), Some(0.0), Verdict::Holds),
        (change(0.0, 0.0), Some(0.0), Verdict::Holds),
        (bound(figure("smsf", "drops_count", 0.0, 0.0), Bound::AtMost), Some(0.0), Verdict::Holds),
        (figure("smsf", "jobs_improved_ratio", 0.95, 0.02), Some(0.6), Verdict::DirectionHolds),
        (figure("smsf", "jobs_improved_ratio", 0.95, 0.02), Some(0.4), Verdict::Differs),
        // A level has no direction, wherever the baseline lies.
        (figure("smsf", "jct_mean_s", 5.0, 0.5), Some(5.5), Verdict::Holds),
        (figure("smsf", "jct_mean_s", 5.0, 0.5), Some(8.0), Verdict::Differs),
    ];
    for (figure, ours, verdict) in cases {
        assert_eq!(judge(&figure, ours), verdict, "{figure:?}, ours {ours:?}");
    }
}

#[test]
fn verdict_of_a_policy_is_its_worst() {
    let holds = figure("smsf", "jct_mean_s", 5.0, 0.0);
    let direction = figure("smsf", "jct_p95_change_ratio", 0.6, 0.1);
    let differs = figure("smsf", "jct_worst_increase_s", -2.0, 0.1);
    let verdict = |figures: &[Published]| result(figures).results[1].verdict;
    assert_eq!(verdict(&[]), Verdict::None);
    assert_eq!(verdict(std::slice::from_ref(&holds)), Verdict::Holds);
    assert_eq!(verdict(&[holds.clone(), direction.clone()]), Verdict::DirectionHolds);
    assert_eq!(verdict(&[holds, direction, differs]), Verdict::Differs);
}

#[test]
fn table_shows_ours_beside_the_published() {
    let published = [
        figure("smsf", "jct_p95_change_ratio", 0.3, 0.1),
        figure("smsf", "jct_worst_increase_s", -2.0, 0.1),
    ];
    let text = table::render(&result(&published), table::DEFAULT_METRICS, None);
    let row = |start: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("no {start} in\n{text}")).to_owned()
    };
    assert!(row("metric").contains("tcp (baseline)"));
    let p95 = row("jct_p95_s");
    assert!(p95.contains("20.0 s") && p95.contains("10.0 s"), "{p95}");
    assert!(row("jct_p95_change_ratio").contains('–'), "nothing compares with itself");
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with(" smsf ")).collect();
    assert!(rows[0].contains("+25.0 %") && rows[0].contains("+30.0 % ± 10.0 %   holds"), "{text}");
    assert!(
        rows[1].contains("+2.00 s") && rows[1].contains("−2.00 s ± 100 ms   differs"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no escape sequences");
}

#[test]
fn table_keeps_to_a_width_and_drops_control_characters() {
    let mut hostile = figure("smsf", "jct_mean_s", 5.0, 0.5);
    hostile.source = "\u{1b}]0;title\u{7} and a long story that goes on and on and on".into();
    let text = table::render(&result(&[hostile]), &[], Some(80));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{7}']));
}

#[test]
fn results_of_one_policy_stand_side_by_side() {
    let published = [figure("smsf", "jct_mean_s", 4.5, 0.5)];
    let (first, mut second) = (result(&published), result(&published));
    second.results[1].metrics.insert("jct_mean_s".into(), 6.0);
    second.results[1].interval95.insert("jct_mean_s".into(), 1.5);
    let columns = [("0.5".to_owned(), &first), ("0.9".to_owned(), &second)];
    let shown = ["jct_mean_s", "fct_mean_s"];
    let text = table::across(&columns, "smsf", &shown);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["smsf", "published", "0.5", "0.9"]);
    assert_eq!(rows[2], ["jct_mean_s", "4.50 s ± 500 ms", "5.00 s", "6.00 s ± 1.50 s"]);
    assert_eq!(rows[3], ["fct_mean_s", "5.00 s", "5.00 s"]);
}

#[test]
fn a_published_value_may_compare_with_any_policy_and_be_a_bound() {
    let against = |value, bound| Published {
        against: Some("tcp".into()),
        bound,
        ..figure("smsf", "jct_mean_s", value, 0.01)
    };
    // The means are (2 + 3 + 10) / 3 and (4 + 3 + 8 + 20) / 4 s.
    let ours = |figure| {
        let result = result(&[figure]);
        let smsf = result.results[1].clone();
        (smsf.metrics["jct_mean_s against tcp"], smsf.verdict)
    };
    let (change, verdict) = ours(against(-0.4286, Bound::Both));
    assert!((change - (5.0 / 8.75 - 1.0)).abs() < 1e-12, "{change}");
    assert_eq!(verdict, Verdict::Holds);
    assert_eq!(ours(against(-0.2, Bound::Both)).1, Verdict::DirectionHolds);
    assert_eq!(ours(against(0.2, Bound::Both)).1, Verdict::Differs);
    assert_eq!(ours(against(-0.2, Bound::AtMost)).1, Verdict::Holds);
    assert_eq!(ours(against(-0.2, Bound::AtLeast)).1, Verdict::DirectionHolds);
    // Of a policy that didn't run nothing is said.
    let other =
        Published { against: Some("fifo".into()), ..figure("smsf", "jct_mean_s", 1.0, 1.0) };
    assert!(result(&[other]).results[1].published.is_empty());
}
