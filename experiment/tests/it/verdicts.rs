//! What decides a verdict, and what doesn't: choices, single runs, what is solved and what is lacking.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;

use watermaster_experiment::Verdict;
use watermaster_experiment::report::render_results;
use watermaster_experiment::reproduce::{
    FigureResult, Measured, Plan, PointPlan, PolicyMeasured, Reproduction, Selection,
};

use crate::reproduce::{AXIS, BASE, CURVES, Desk, OPEN};

/// What each run gives, by its position in a plan.
type Results = Vec<Result<Measured, String>>;

/// Has the runs of `points` give `means` of completion times, by repetition, and a whole that takes as
/// long or `whole`, in seconds.
fn put(
    results: &mut [Result<Measured, String>],
    points: &[PointPlan],
    means: &[f64],
    whole: Option<f64>,
) {
    for point in points {
        for (unit, mean) in point.units.iter().zip(means) {
            let of = |policy: &str| PolicyMeasured {
                policy: policy.into(),
                metrics: [("fct_mean_s", *mean), ("makespan_s", whole.unwrap_or(*mean))]
                    .map(|(metric, value)| (metric.to_owned(), value))
                    .into(),
                samples: BTreeMap::new(),
            };
            results[*unit] = Ok(Measured(vec![of("tcp"), of("fifo")]));
        }
    }
}

/// The plan of the scenario `text`, and no result.
fn plan(text: &str) -> (Plan, Results) {
    let desk = Desk::new();
    fs::write(desk.0.path().join("scenarios/text/axis.toml"), text).unwrap();
    let plan = desk.plan(&Selection::default());
    let results = vec![Err("not run".to_owned()); plan.units.len()];
    (plan, results)
}

fn scenario(figure: &str) -> String {
    format!("name = \"axis\"\ntitle = \"t\"\n{BASE}{figure}")
}

/// The figure when the runs that stand take `stands`, those of 101 KB `as_much`, and those of 10 KB `less`.
/// Published are 8.5 ms ± 1 ms.
fn open<const N: usize>(stands: [f64; N], as_much: [f64; 3], less: [f64; 3]) -> FigureResult {
    let axis = AXIS.replace("seeds = 2", &format!("seeds = {N}"));
    let (plan, mut results) = plan(&scenario(&format!("{axis}{OPEN}")));
    let panel = &plan.figures[0].panels[0];
    put(&mut results, &panel.points, &stands, None);
    for (points, means) in panel.choices[0].tried.iter().zip([as_much, less]) {
        put(&mut results, points, &means, None);
    }
    Reproduction::new(&plan, &results, false).figures.remove(0)
}

#[test]
fn values_that_contradict_each_other_leave_open_what_by_itself_cannot_be_told() {
    let wide = [0.004, 0.009, 0.006];
    let figure = open(wide, [0.0085, 0.0086, 0.0085], [0.002, 0.0021, 0.0019]);
    let one = &figure.measures[0];
    assert_eq!((one.verdict, one.as_chosen), (Verdict::Undetermined, Some(Verdict::Unresolved)));
    assert!(one.because.ends_with("otherwise as much: holds, less: differs"), "{}", one.because);
    // Of two that agree with each other neither decides.
    let figure = open(wide, [0.003, 0.0031, 0.0029], [0.002, 0.0021, 0.0019]);
    let one = &figure.measures[0];
    assert_eq!((one.verdict, one.as_chosen), (Verdict::Unresolved, None), "{}", one.because);
}

/// With all six seeds what stands can't tell; with the first three, which values are tried with, it differs.
#[test]
fn what_stands_on_the_same_seeds_decides_also_where_all_its_seeds_cannot_tell() {
    let (early, late) = ([0.002, 0.0021, 0.0019], [0.015, 0.0151, 0.0149]);
    let all = [early[0], early[1], early[2], late[0], late[1], late[2]];
    let agrees = [0.0085, 0.0086, 0.0085];
    let figure = open(all, agrees, [0.003, 0.0031, 0.0029]);
    let one = &figure.measures[0];
    // What differs as what stands does there is of these seeds.
    assert_eq!((one.verdict, one.as_chosen), (Verdict::Unresolved, None), "{}", one.because);
    assert!(one.because.ends_with("otherwise as much: holds"), "{}", one.because);
}

/// Published are 8.5 ms ± 1 ms; the whole takes as long whatever is run.
#[test]
fn a_reading_that_no_run_can_contradict_counts_for_nothing() {
    let choice = |follows: &str| {
        format!(
            "[[choice]]\nabout = \"of what times are\"\nstands = \"a flow\"\nrule = \"plainest\"\n\
             why = \"it is short\"\n\
             tried = [{{ name = \"all\", metric = {{ fct_mean_s = \"makespan_s\" }}{follows} }}]\n"
        )
    };
    for (follows, verdict, shown) in [
        ("", Verdict::Undetermined, Verdict::Holds),
        (", follows_from = \"what is sent\"", Verdict::Differs, Verdict::NoInformation),
    ] {
        let (plan, mut results) = plan(&scenario(&format!("{AXIS}{}", choice(follows))));
        put(&mut results, &plan.figures[0].panels[0].points, &[0.03, 0.0301], Some(0.0085));
        let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
        assert_eq!(figure.measures[0].verdict, verdict, "{}", figure.measures[0].because);
        let tried = &figure.choices[0].tried[0].measures[0];
        assert_eq!((tried.name.as_str(), tried.verdict), ("tcp makespan_s at 1", shown));
    }
}

#[test]
fn a_figure_of_several_scenarios_has_the_titles_of_all() {
    let desk = Desk::new();
    desk.scenario("axis", AXIS);
    desk.scenario("curves", &CURVES.replace("\"9\"", "\"10\""));
    let plan = desk.plan(&Selection::default());
    let results = vec![Err("not run".to_owned()); plan.units.len()];
    let page = Reproduction::new(&plan, &results, false).text_markdown("text", "");
    let heading = page.lines().find(|line| line.starts_with("## text 10: ")).unwrap();
    assert!(heading.contains("axis") && heading.contains("; curves"), "{heading}");
}

#[test]
fn where_a_text_shows_draws_intervals_are_of_as_many_more() {
    let judged = |one: &str| {
        let axis = AXIS.replace("seeds = 2\n", &format!("seeds = 3\n{one}"));
        let (plan, mut results) = plan(&scenario(&axis));
        put(&mut results, &plan.figures[0].panels[0].points, &[0.0082, 0.0085, 0.0088], None);
        let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
        let one = &figure.measures[0];
        let told = ["in which one more of ours", "in which the mean of 6 more of ours"];
        let told = told.map(|told| figure.notes.contains(told));
        (one.verdict, one.interval.unwrap(), told)
    };
    let (of_the_mean, half, told) = judged("");
    assert_eq!((of_the_mean, told), (Verdict::Holds, [false, false]));
    let (of_one, wider, told) = judged("draws = 1\n");
    assert_eq!((of_one, told), (Verdict::Unresolved, [true, false]));
    // √(1/3 + 1) over √(1/3).
    assert!((wider / half - 2.0).abs() < 1e-9, "{half}, {wider}");
    let (of_six, wider, told) = judged("draws = 6\n");
    assert_eq!((of_six, told), (Verdict::Holds, [false, true]));
    // √(1/3 + 1/6) over √(1/3).
    assert!((wider / half - 1.5f64.sqrt()).abs() < 1e-9, "{half}, {wider}");
}

/// Published are 8.5 ms ± 1 ms, of a flow or of the whole, which take as long.
#[test]
fn other_runs_read_otherwise_are_shown_where_they_come_out_otherwise() {
    let reading = "[[choice]]\nabout = \"of what times are\"\nstands = \"a flow\"\nrule = \"plainest\"\n\
                   why = \"it is short\"\n\
                   tried = [{ name = \"all\", metric = { fct_mean_s = \"makespan_s\" } }]\n";
    let axis = AXIS.replace("seeds = 2", "seeds = 3");
    let (plan, mut results) = plan(&scenario(&format!("{axis}{OPEN}{reading}")));
    let panel = &plan.figures[0].panels[0];
    put(&mut results, &panel.points, &[0.0085, 0.0086, 0.0085], None);
    put(&mut results, &panel.choices[0].tried[0], &[0.0086, 0.0085, 0.0084], None);
    put(&mut results, &panel.choices[0].tried[2], &[0.004, 0.009, 0.006], None);
    let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
    assert_eq!(figure.measures[0].verdict, Verdict::Holds, "what can't tell decides nothing");
    let rows = |value: usize| -> Vec<(&str, Verdict)> {
        let tried = figure.choices[0].tried[value].measures.iter();
        tried.map(|one| (one.name.as_str(), one.verdict)).collect()
    };
    assert_eq!(rows(1), [], "as what stands");
    assert_eq!(rows(3), [("tcp makespan_s at 1", Verdict::Unresolved)]);
}

#[test]
fn a_single_run_beside_runs_that_differ_decides_nothing() {
    let (varied, single) = ([0.0085, 0.0086, 0.0084], [0.002; 3]);
    let figure = open(varied, varied, single);
    assert_eq!((figure.measures[0].verdict, figure.measures[0].as_chosen), (Verdict::Holds, None));
    let shown = &figure.choices[0].tried[1].measures;
    assert_eq!(shown.len(), 3, "it is shown all the same");
    // One whose repetitions differ does, and so does one where nothing differs by its seed.
    for (stands, less) in [(varied, [0.002, 0.0021, 0.002]), ([0.0085; 3], single)] {
        let figure = open(stands, stands, less);
        assert_eq!(figure.measures[0].verdict, Verdict::Undetermined, "{stands:?}, {less:?}");
    }
}

/// What stands has a policy beside this one that differs by its seed, and what else was possible is run without it.
#[test]
fn a_single_run_stands_beside_those_of_the_same_policy_alone() {
    let axis = AXIS.replace("seeds = 2", "seeds = 3");
    let (plan, mut results) = plan(&scenario(&format!("{axis}{OPEN}")));
    let panel = &plan.figures[0].panels[0];
    put(&mut results, &panel.points, &[0.0085, 0.0086, 0.0084], None);
    for unit in panel.points.iter().flat_map(|point| &point.units) {
        let tcp = &mut results[*unit].as_mut().unwrap().0[0];
        tcp.metrics.values_mut().for_each(|value| *value = 0.0085);
    }
    for (points, mean) in panel.choices[0].tried.iter().zip([0.0085, 0.002]) {
        put(&mut results, points, &[mean; 3], None);
        for unit in points.iter().flat_map(|point| &point.units) {
            results[*unit].as_mut().unwrap().0.truncate(1);
        }
    }
    let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
    assert_eq!(figure.measures[0].verdict, Verdict::Undetermined, "less: differs");
}

/// Published are 8.5 ms ± 1 ms, of a flow or of the whole.
#[test]
fn what_follows_and_agrees_by_no_reading_stays_without_information() {
    let follows = AXIS.replace("error = 0.001 }", "error = 0.001 }\nfollows_from = \"sizes\"");
    let choice = "[[choice]]\nabout = \"of what times are\"\nstands = \"a flow\"\nrule = \"plainest\"\n\
                  why = \"it is short\"\n\
                  tried = [{ name = \"all\", metric = { fct_mean_s = \"makespan_s\" } }]\n";
    let (plan, mut results) = plan(&scenario(&format!("{follows}{choice}")));
    for (mean, whole, verdict) in [
        (0.03, 0.04, Verdict::NoInformation),
        (0.03, 0.0085, Verdict::Undetermined),
        (0.0085, 0.04, Verdict::Undetermined),
    ] {
        put(&mut results, &plan.figures[0].panels[0].points, &[mean; 2], Some(whole));
        let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
        assert_eq!(figure.measures[0].verdict, verdict, "{mean}, {whole}");
    }
}

#[test]
fn what_the_setup_lacks_is_told_and_decided_by_no_run() {
    let lacks = AXIS.replace("error = 0.001 }", "error = 0.001 }\nlacks = \"long cables\"");
    let text = format!("lacking = [\"cables of a mile\"]\n{}", scenario(&format!("{lacks}{OPEN}")));
    let (plan, mut results) = plan(&text);
    let panel = &plan.figures[0].panels[0];
    for points in [&panel.points, &panel.choices[0].tried[0], &panel.choices[0].tried[1]] {
        put(&mut results, points, &[0.0085, 0.0086], None);
    }
    let reproduction = Reproduction::new(&plan, &results, false);
    let figure = &reproduction.figures[0];
    let one = &figure.measures[0];
    assert_eq!((one.verdict, one.as_chosen), (Verdict::Undetermined, Some(Verdict::Holds)));
    assert!(one.because.ends_with("it lacks long cables"), "{}", one.because);
    let mut tried = figure.choices[0].tried.iter().flat_map(|tried| &tried.measures);
    assert!(!tried.any(|row| row.name == one.name), "no value decides it");
    let page = reproduction.text_markdown("text", "");
    let heading =
        "## The text says it, and the setup has it not\n\n* cables of a mile (figures 10)\n";
    assert!(page.contains(heading), "{page}");
    assert!(render_results(&reproduction, "").contains("the setup has it not: cables of a mile"));
}

/// What was solved is no result, and is named where results that matter are left out. What is an order is
/// counted apart from what has a number.
#[test]
fn what_is_solved_is_left_out_of_the_results_that_matter_and_orders_are_counted_apart() {
    let solved =
        AXIS.replace("error = 0.001 }", "error = 0.001 }\ncalibrates = [\"workload.bytes\"]");
    let order = "[[published]]\npolicy = \"fifo\"\nmetric = \"makespan_s\"\nagainst = \"tcp\"\n\
                 direction = \"less\"\n";
    let shorter = "[[published]]\npolicy = \"tcp\"\nmetric = \"makespan_s\"\nvalue = 1\n\
                   reading = { from = \"text\", error = 0 }\nheadline = true\n";
    let (plan, mut results) = plan(&scenario(&format!("{solved}\n{order}{shorter}")));
    put(&mut results, &plan.figures[0].panels[0].points, &[0.0085, 0.0086], None);
    let reproduction = Reproduction::new(&plan, &results, false);
    let verdict = reproduction.figures[0].measures[0].verdict;
    assert_eq!(verdict, Verdict::Calibrated);
    let own = reproduction.text_markdown("text", "");
    let counts = "Of 4 published numbers 1 hold, 0 hold in direction, 2 differ. Orders without a \
                  number: 1, of which 0 hold in direction, 0 differ.";
    assert!(own.contains(counts), "{own}");
    assert!(!own.contains("by one alone"), "two differ\n{own}");
    let page = reproduction.markdown("");
    for words in ["says nothing of the text: text 10 (calibrated).", "| published orders | 0 |"] {
        assert!(page.contains(words), "no {words} in\n{page}");
    }
}
