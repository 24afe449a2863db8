//! The JSON's shape, the verdicts and the terminal's table.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use crate::by_hand::*;
use engine::Outcome;
use serde_json::{Value, json};
use watermaster_experiment::{
    Bound, Claim, Ours, Published, ReadFrom, Reading, RunResult, Standing, Verdict, judge, table,
};

fn figure(policy: &str, metric: &str, value: f64, tolerance: f64) -> Published {
    Published {
        policy: policy.into(),
        metric: metric.into(),
        claim: Claim::Size(value),
        tolerance,
        reading: Some(Reading { from: ReadFrom::Text, error: tolerance }),
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

fn change(value: f64, tolerance: f64) -> Published {
    figure("smsf", "jct_mean_change_ratio", value, tolerance)
}

/// The verdict on a mean and half of its interval.
fn verdict(figure: &Published, mean: f64, half: f64) -> Verdict {
    judge(figure, Ours { mean: Some(mean), half, equal_runs: false })
}

#[test]
fn what_holds_lies_inside_the_tolerance_with_its_whole_interval() {
    let bound = |figure, bound| Published { bound, ..figure };
    let level = |value, tolerance| figure("smsf", "jct_mean_s", value, tolerance);
    let at_least = bound(level(5.0, 0.5), Bound::AtLeast);
    let at_most = bound(level(5.0, 0.5), Bound::AtMost);
    use Verdict::{Differs, Holds, Unresolved};
    for (figure, mean, half, expected) in [
        (level(5.0, 0.5), 5.5, 0.0, Holds),
        (level(5.0, 0.5), 5.2, 0.3, Holds),
        (level(5.0, 0.5), 5.2, 0.31, Unresolved),
        (level(5.0, 0.5), 4.8, 0.31, Unresolved),
        (level(5.0, 0.5), 8.0, 2.5, Unresolved),
        (level(5.0, 0.5), 8.0, 2.4, Differs),
        (level(5.0, 0.5), 2.0, 2.4, Differs),
        (level(5.0, 0.5), 8.0, 0.0, Differs),
        (at_least.clone(), 9.0, 4.5, Holds),
        (at_least.clone(), 9.0, 4.6, Unresolved),
        (at_least, 4.0, 0.4, Differs),
        (at_most.clone(), 1.0, 4.5, Holds),
        (at_most.clone(), 1.0, 4.6, Unresolved),
        (at_most, 6.0, 0.4, Differs),
        (figure("smsf", "drops_count", 0.0, 0.0), 0.0, 0.0, Holds),
    ] {
        assert_eq!(verdict(&figure, mean, half), expected, "{figure:?}, {mean} ± {half}");
    }
    // What the text can't be read to doesn't hold, nor what nobody said the reading error of.
    let read = |error| Some(Reading { from: ReadFrom::Plot, error });
    for (reading, expected) in [(read(0.5), Holds), (read(0.4), Unresolved), (None, Unresolved)] {
        let figure = Published { reading, ..level(5.0, 0.5) };
        assert_eq!(verdict(&figure, 5.0, 0.1), expected, "{reading:?}");
        assert_eq!(verdict(&figure, 5.7, 0.1), Differs, "{reading:?}");
    }
    assert_eq!(judge(&level(5.0, 0.5), Ours::default()), Unresolved, "not measured");
}

#[test]
fn a_direction_excludes_no_effect_and_has_from_half_to_twice_the_published_effect() {
    let improved = |value| figure("smsf", "jobs_improved_ratio", value, 0.02);
    // Without a reading nothing holds, so that the direction is all there is.
    let bound = |bound| Published { bound, reading: None, ..change(-0.2, 0.05) };
    for (figure, mean, half, expected) in [
        (change(-0.2, 0.05), -0.25, 0.0, Verdict::Holds),
        (change(-0.2, 0.05), -0.25, 0.01, Verdict::DirectionHolds),
        (change(-0.2, 0.05), -0.4, 0.1, Verdict::DirectionHolds),
        // More than twice of it, which the interval excludes or doesn't.
        (change(-0.2, 0.05), -0.41, 0.05, Verdict::Unresolved),
        (change(-0.2, 0.05), -0.9, 0.1, Verdict::Differs),
        (change(0.45, 0.005), 1.359, 0.347, Verdict::Differs),
        (change(9.0, 5.0), 17.9, 0.1, Verdict::DirectionHolds),
        (change(9.0, 5.0), 70.0, 5.0, Verdict::Differs),
        // A bound has no most where it is open.
        (bound(Bound::AtMost), -0.9, 0.1, Verdict::DirectionHolds),
        (bound(Bound::AtLeast), -0.9, 0.1, Verdict::Differs),
        (change(-0.2, 0.05), -0.1, 0.09, Verdict::DirectionHolds),
        // No effect isn't excluded, nor what is published.
        (change(-0.2, 0.05), -0.1, 0.1, Verdict::Unresolved),
        (change(-0.2, 0.05), -0.22, 0.25, Verdict::Unresolved),
        (change(-0.2, 0.05), 0.1, 0.25, Verdict::Unresolved),
        // What is published is excluded, half of it isn't.
        (change(-0.2, 0.05), -0.09, 0.02, Verdict::Unresolved),
        // Less than half of it.
        (change(-0.2, 0.05), -0.09, 0.0, Verdict::Differs),
        (change(0.403, 0.1), 0.015, 0.002, Verdict::Differs),
        // The other side.
        (change(-0.2, 0.05), 0.2, 0.0, Verdict::Differs),
        (change(-0.2, 0.05), 0.2, 0.25, Verdict::Differs),
        (change(0.0, 0.01), 0.02, 0.0, Verdict::Differs),
        (change(0.0, 0.01), 0.02, 0.015, Verdict::Unresolved),
        (improved(0.95), 0.8, 0.1, Verdict::DirectionHolds),
        (improved(0.95), 0.7, 0.1, Verdict::Unresolved),
        (improved(0.95), 0.6, 0.1, Verdict::Differs),
        (improved(0.95), 0.8, 0.31, Verdict::Unresolved),
    ] {
        assert_eq!(verdict(&figure, mean, half), expected, "{figure:?}, {mean} ± {half}");
    }
}

#[test]
fn an_order_without_a_size_has_a_direction_at_best() {
    let order = |claim| Published { claim, reading: None, ..change(0.0, 0.0) };
    for (claim, mean, half, expected) in [
        (Claim::Less, -0.5, 0.4, Verdict::DirectionHolds),
        (Claim::Less, -0.5, 0.5, Verdict::Unresolved),
        (Claim::Less, 0.5, 0.6, Verdict::Unresolved),
        (Claim::Less, 0.5, 0.5, Verdict::Differs),
        (Claim::Less, 0.5, 0.4, Verdict::Differs),
        (Claim::More, 0.5, 0.4, Verdict::DirectionHolds),
        (Claim::More, 0.069, 0.098, Verdict::Unresolved),
        // What shows as 0.0 % with its whole interval puts nobody ahead.
        (Claim::Less, 0.0, 0.0, Verdict::NoInformation),
        (Claim::More, 0.0, 0.0, Verdict::NoInformation),
        (Claim::Less, -0.000_2, 0.000_1, Verdict::NoInformation),
        (Claim::Less, 0.000_2, 0.000_1, Verdict::NoInformation),
        (Claim::Less, -0.000_6, 0.000_05, Verdict::DirectionHolds),
        (Claim::Less, 0.000_6, 0.000_05, Verdict::Differs),
        (Claim::Less, 0.000_1, 0.000_6, Verdict::Unresolved),
    ] {
        assert_eq!(verdict(&order(claim), mean, half), expected, "{claim:?}, {mean} ± {half}");
    }
}

#[test]
fn much_takes_what_our_rule_says() {
    let much = |claim, least| Published { claim, least, reading: None, ..change(0.0, 0.0) };
    for (claim, least, mean, half, expected) in [
        (Claim::Less, 0.1, -0.1, 0.05, Verdict::DirectionHolds),
        (Claim::Less, 0.1, -0.9, 0.1, Verdict::DirectionHolds),
        (Claim::Less, 0.1, -0.15, 0.2, Verdict::Unresolved),
        (Claim::Less, 0.1, -0.05, 0.06, Verdict::Unresolved),
        // What excludes much of it differs, whatever it says of a little.
        (Claim::Less, 0.1, -0.05, 0.04, Verdict::Differs),
        (Claim::Less, 0.1, 0.002, 0.006, Verdict::Differs),
        (Claim::Less, 0.1, 0.0, 0.0, Verdict::Differs),
        (Claim::More, 0.5, 0.49, 0.001, Verdict::Differs),
        (Claim::More, 0.5, 0.51, 0.001, Verdict::DirectionHolds),
    ] {
        let much = much(claim, least);
        assert_eq!(verdict(&much, mean, half), expected, "{much:?}, {mean} ± {half}");
    }
    assert_eq!(much(Claim::Less, 0.1).shown(), "less, by 10.0 % at least (our rule)");
    assert_eq!(much(Claim::Less, 0.0).shown(), "less");
}

/// The 21 rows of the results at f59ec77 that were said to hold for their means, and whose intervals reach
/// outside the tolerance: metric, published, tolerance, ours, half of its interval, the verdict.
const REACHED_OUT: &[(&str, f64, f64, f64, f64, Verdict)] = {
    use Verdict::{DirectionHolds, Unresolved};
    const CHANGE: &str = "jct_mean_change_ratio";
    const LEVEL: &str = "jct_mean_s";
    &[
        (CHANGE, 0.33, 0.15, 0.478, 0.011, DirectionHolds), // app-aware 2 at TP3
        (CHANGE, 0.25, 0.1, 0.292, 0.069, DirectionHolds),  // app-aware 6, Trending Topics
        (CHANGE, 0.27, 0.1, 0.315, 0.072, DirectionHolds),
        (CHANGE, 0.3093, 0.05, 0.356, 0.011, DirectionHolds), // app-aware 6, Trucking IoT
        (CHANGE, -0.5017, 0.1, -0.592, 0.099, DirectionHolds), // app-aware 7, Trending Topics
        (CHANGE, 0.3093, 0.05, 0.356, 0.011, DirectionHolds), // app-aware overhead
        ("jct_worst_increase_s", 100.0, 50.0, 89.0, 106.0, Unresolved), // phurti 6.3
        ("jobs_improved_ratio", 0.95, 0.05, 0.908, 0.072, DirectionHolds),
        (CHANGE, -0.2, 0.05, -0.219, 0.122, DirectionHolds), // phurti 6.4
        (CHANGE, -0.23, 0.05, -0.27, 0.16, DirectionHolds),
        (CHANGE, -0.16, 0.05, -0.181, 0.106, DirectionHolds),
        (CHANGE, -0.16, 0.05, -0.137, 0.034, DirectionHolds),
        (LEVEL, 0.85, 0.05, 0.88, 0.034, Unresolved), // phurti 6.6, a share of time
        (CHANGE, 0.0, 0.0, 0.069, 0.098, Unresolved), // sdtcp 9, "at least"
        (CHANGE, 0.0, 0.0, 0.142, 0.15, Unresolved),  // sdtcp 11, "at least"
        (LEVEL, 0.038, 0.0095, 0.0298, 0.00213, Unresolved), // sdtcp 14
        (LEVEL, 0.032, 0.008, 0.0241, 0.000_609, Unresolved),
        (LEVEL, 0.06, 0.015, 0.0716, 0.0254, Unresolved),
        (CHANGE, 0.0, 0.0, -0.002, 0.009, Unresolved), // sicc 7a, "at most"
        (CHANGE, 0.0, 0.3, 0.256, 0.141, Unresolved),  // syn-asy 5
        (CHANGE, 0.45, 0.15, 0.338, 0.04, DirectionHolds), // syn-asy 8
    ]
};

#[test]
fn no_row_that_reaches_outside_its_tolerance_holds() {
    assert_eq!(REACHED_OUT.len(), 21);
    for &(metric, value, tolerance, mean, half, expected) in REACHED_OUT {
        let order = value == 0.0 && tolerance == 0.0;
        let claim = match order {
            true if mean > 0.0 => Claim::More,
            true => Claim::Less,
            false => Claim::Size(value),
        };
        let figure = Published { claim, ..figure("smsf", metric, value, tolerance) };
        assert_eq!(
            verdict(&figure, mean, half),
            expected,
            "{value} ± {tolerance}: {mean} ± {half}"
        );
        // With half of a hundredth of the interval all of them hold, but those that have no size.
        let narrow = verdict(&figure, if mean == 0.478 { 0.47 } else { mean }, half / 200.0);
        assert_eq!(narrow == Verdict::Holds, !order, "{value} ± {tolerance}: {mean}");
    }
}

#[test]
fn what_was_put_in_tells_nothing() {
    let agrees = change(-0.2, 0.05);
    let solved = Standing::Calibrates(vec!["workload.operator.truck.size".into()]);
    let follows = Standing::Follows("the sizes".into());
    let lacks = Standing::Lacks("long cables".into());
    let [nothing, open] = [Verdict::NoInformation, Verdict::Undetermined];
    for (standing, expected) in [
        // Where it doesn't come out nothing was arranged.
        (solved, [Verdict::Calibrated, Verdict::Differs]),
        (follows, [nothing, nothing]),
        (lacks, [open, open]),
    ] {
        let figure = Published { standing, ..agrees.clone() };
        let judged = [-0.2, 0.5].map(|mean| verdict(&figure, mean, 0.01));
        assert_eq!(judged, expected);
    }
    assert!(Verdict::ALL.iter().filter(|verdict| verdict.decides()).count() == 3);
}

#[test]
fn equal_runs_tell_nothing_whatever_was_published() {
    let against =
        Published { against: Some("tcp".into()), ..figure("smsf", "jct_mean_s", 0.0, 0.1) };
    let told = [change(0.0, 0.1), against.clone(), figure("smsf", "jct_mean_s", 8.75, 0.1)];
    let judged = |runs: &[watermaster_experiment::Run]| {
        let result = RunResult::new(origin(), &three_hosts(), runs, Some("tcp"), &told);
        result.results[1].verdicts.values().copied().collect::<Vec<_>>()
    };
    let equal = [run("tcp", by_hand_baseline()), run("smsf", by_hand_baseline())];
    let [nothing, holds] = [Verdict::NoInformation, Verdict::Holds];
    assert_eq!(judged(&equal), [nothing, holds, nothing], "a policy's own value is no comparison");
    // One job that ends otherwise is enough.
    let mut other = equal.clone();
    other[1].outcome.flows.at_mut(0).retransmissions += 1;
    assert_eq!(judged(&other), [holds; 3]);
    // One repetition that differs tells something.
    let results = [&equal, &other]
        .map(|runs| RunResult::new(origin(), &three_hosts(), runs, Some("tcp"), &told));
    let mean = RunResult::mean_of(&results).unwrap();
    assert!(!mean.results[1].verdicts.values().any(|verdict| *verdict == nothing));
    let both = RunResult::mean_of(&[results[0].clone(), results[0].clone()]).unwrap();
    assert_eq!(both.results[1].verdicts["jct_mean_s against tcp"], nothing);
}

#[test]
fn a_choice_leaves_what_all_its_values_allow() {
    use Verdict::{Differs, DirectionHolds, Holds, Undetermined};
    for (one, other, both) in [
        (Holds, Holds, Holds),
        (Holds, DirectionHolds, DirectionHolds),
        (DirectionHolds, Differs, Undetermined),
        (Holds, Differs, Undetermined),
        (Differs, Differs, Differs),
        (Undetermined, Undetermined, Undetermined),
        (Undetermined, Holds, Undetermined),
    ] {
        assert_eq!((one.and(other), other.and(one)), (both, both));
    }
}

#[test]
fn verdict_of_a_policy_is_its_worst() {
    let holds = figure("smsf", "jct_mean_s", 5.0, 0.0);
    let direction = figure("smsf", "jct_p95_change_ratio", 0.4, 0.1);
    let differs = figure("smsf", "jct_worst_increase_s", -2.0, 0.1);
    let of = |figures: &[Published]| result(figures).results[1].verdict;
    assert_eq!(of(&[]), Verdict::None);
    assert_eq!(of(std::slice::from_ref(&holds)), Verdict::Holds);
    assert_eq!(of(&[holds.clone(), direction.clone()]), Verdict::DirectionHolds);
    assert_eq!(of(&[holds, direction, differs]), Verdict::Differs);
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
    assert_eq!(ours(against(-0.25, Bound::Both)).1, Verdict::DirectionHolds);
    assert_eq!(ours(against(0.2, Bound::Both)).1, Verdict::Differs);
    assert_eq!(ours(against(-0.2, Bound::AtMost)).1, Verdict::Holds);
    assert_eq!(ours(against(-0.25, Bound::AtLeast)).1, Verdict::DirectionHolds);
    // Of a policy that didn't run nothing is said.
    let other =
        Published { against: Some("fifo".into()), ..figure("smsf", "jct_mean_s", 1.0, 1.0) };
    assert!(result(&[other]).results[1].published.is_empty());
}
