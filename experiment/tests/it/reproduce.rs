//! Figures from scenario files to verdicts: what is planned, run, cached and told.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use tempfile::TempDir;
use watermaster_experiment::report::render_results;
use watermaster_experiment::reproduce::{Cache, Measured, Plan, Reproduction, Selection, Work};
use watermaster_experiment::{Ours, Published, Standing, Verdict, judge};

pub(crate) const BASE: &str = r#"
source = "A text, section 1"

[topology]
kind = "star"
hosts = 3
access = { capacity = "100 Mbit/s", delay = "33 us" }

[workload]
kind = "incast"
receiver = "h0"
senders = 2
bytes = "100 KB"

[[policy]]
name = "tcp"

[[policy]]
name = "fifo"
"#;

/// `senders` on the x axis, twice each; the transfer of 100 KB takes about 8 ms.
pub(crate) const AXIS: &str = r#"
[figure]
text = "text"
number = "10"
vary = "workload.senders"
over = [1, 2]
quick = [2]
seeds = 2
metric = "fct_mean_s"

[[published]]
policy = "tcp"
metric = "fct_mean_s"
at = 1
value = 0.0085
reading = { from = "text", error = 0.001 }
headline = true

[[published]]
policy = "fifo"
metric = "fct_mean_s"
value = 1
bound = "at most"
reading = { from = "plot", error = 0 }

[[published]]
policy = "tcp"
metric = "fct_mean_s"
at = 2
value = 5
tolerance = 0.1
reason = "Nothing makes it five times slower."
"#;

pub(crate) const CURVES: &str = r#"
[figure]
text = "text"
number = "9"
metric = "fct_s"
y = "time of a flow"
"#;

pub(crate) struct Desk(pub(crate) TempDir);

impl Desk {
    pub(crate) fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        fs::create_dir_all(desk.0.path().join("scenarios/text")).unwrap();
        desk
    }

    pub(crate) fn scenario(&self, name: &str, figure: &str) {
        let text = format!("name = \"{name}\"\ntitle = \"{name} & more\"\n{BASE}{figure}");
        fs::write(self.0.path().join(format!("scenarios/text/{name}.toml")), text).unwrap();
    }

    pub(crate) fn plan(&self, selection: &Selection) -> Plan {
        Plan::new(&self.0.path().join("scenarios"), selection).unwrap()
    }

    fn cache(&self) -> Cache {
        Cache::open(&self.0.path().join("cache")).unwrap()
    }

    pub(crate) fn run(&self, plan: &Plan) -> Vec<Result<Measured, String>> {
        self.count(plan).0
    }

    /// What all runs give, and how many it took.
    fn count(&self, plan: &Plan) -> (Vec<Result<Measured, String>>, usize) {
        let cache = self.cache();
        let work = Work::new(&plan.units, &cache);
        let done = Mutex::new(vec![0.0; work.runs()]);
        let results = work.run(2, &|tick| {
            let last = std::mem::replace(&mut done.lock().unwrap()[tick.run], tick.done);
            assert!(last <= tick.done && tick.done <= 1.0, "{tick:?} after {last}");
        });
        let done = done.into_inner().unwrap();
        assert!(done.iter().all(|done| *done == 1.0), "{done:?}");
        (results, done.len())
    }

    /// When each cached result was written.
    fn written(&self) -> BTreeMap<String, SystemTime> {
        let entries = fs::read_dir(self.0.path().join("cache")).unwrap().map(Result::unwrap);
        let times = entries.map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                entry.metadata().unwrap().modified().unwrap(),
            )
        });
        times.collect()
    }
}

#[test]
fn a_figure_is_judged_at_its_points_and_as_a_whole() {
    let desk = Desk::new();
    desk.scenario("axis", AXIS);
    desk.scenario("curves", CURVES);
    let found = "In words.\n\nMore of it,\nand more.\n\nTo the end.\n";
    fs::write(desk.0.path().join("scenarios/text/found.txt"), found).unwrap();
    let plan = desk.plan(&Selection::default());
    let names: Vec<&str> = plan.figures.iter().map(|figure| figure.number.as_str()).collect();
    assert_eq!(names, ["9", "10"], "as numbers, not as texts");
    // Two points of two repetitions, and the curves, of the base value and of no seed that is written.
    assert_eq!(plan.units.len(), 5);
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let [curves, axis] = &reproduction.figures[..] else { panic!("two figures") };
    assert_eq!((curves.verdict, curves.measures.len()), (Verdict::None, 0));
    assert_eq!(curves.panels[0].points[0].samples[0].values().len(), 2);

    let told: Vec<(&str, Verdict)> =
        axis.measures.iter().map(|m| (m.name.as_str(), m.verdict)).collect();
    let expected = [
        ("tcp fct_mean_s at 1", Verdict::Holds),
        ("tcp fct_mean_s at 2", Verdict::Differs),
        ("fifo fct_mean_s", Verdict::Holds),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        (axis.verdict, axis.reason.as_str()),
        (Verdict::Differs, "tcp fct_mean_s at 2: Nothing makes it five times slower.")
    );
    // The whole is the mean of the points.
    let at = |point: usize| axis.panels[0].points[point].result.results[1].metrics["fct_mean_s"];
    assert!((axis.measures[2].ours.unwrap() - f64::midpoint(at(0), at(1))).abs() < 1e-12);
    assert_eq!(reproduction.headline().count(), 1);

    let json: serde_json::Value = serde_json::from_str(&reproduction.to_json().unwrap()).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&json[1]), ["figure", "measures", "reason", "text", "verdict"]);
    let measure = &json[1]["measures"][0];
    assert_eq!(
        keys(measure),
        ["interval95", "name", "ours", "published", "reading", "tolerance", "verdict"]
    );
    assert_eq!(measure["reading"], serde_json::json!({"from": "text", "error": 0.001}));
    assert_eq!(
        (&json[1]["measures"][1]["published"], &json[1]["verdict"]),
        (&5.0.into(), &"differs".into())
    );
    let bounds = json[1]["measures"].as_array().unwrap().iter().map(|measure| &measure["bound"]);
    let none = serde_json::Value::Null;
    assert_eq!(bounds.collect::<Vec<_>>(), [&none, &none, &"at most".into()]);
    let text = reproduction.text();
    assert!(text.contains("at most 1.00 s ± 0 s   holds"), "{text}");

    let markdown = reproduction.markdown("watermaster reproduce");
    assert!(
        markdown.contains("| text | 10 | tcp fct_mean_s at 1 | 8.50 ms ± 1.00 ms | "),
        "{markdown}"
    );
    let found = "* [text](results/text.md), figures: **differs** 10.\n  In words.\n\n  ![";
    assert!(markdown.contains(found) && !markdown.contains("Nothing makes"), "{markdown}");
    for words in ["More of it", "To the end", "published numbers 2"] {
        assert!(!markdown.contains(words), "{words} is for the text's own page\n{markdown}");
    }
    let page = desk.0.path().join("results.md");
    reproduction.write_markdown(&page, "watermaster reproduce").unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), markdown);
    let own = fs::read_to_string(desk.0.path().join("results/text.md")).unwrap();
    for words in [
        "there is no row.\n\nOf 3 published numbers 2 hold, 0 hold in direction, 1 differ.\n\n\
         ## What was found\n\nMore of it,\nand more.\n\nTo the end.\n\n## text 9: curves",
        "\n\n**differs**, by one alone of its 3 published values: tcp fct_mean_s at 2 · A text",
    ] {
        assert!(own.contains(words), "no {words} in\n{own}");
    }
    assert!(own.contains("Nothing makes it five times") && !own.contains("In words."), "{own}");
    assert!(markdown.contains("![Figure 10 of text](results/text.svg)"), "{markdown}");
    let picture = fs::read_to_string(desk.0.path().join("results/text.svg")).unwrap();
    assert!(picture.starts_with("<svg xmlns") && picture.contains(">tcp</text>"), "{picture}");
    let page = render_results(&reproduction, "watermaster reproduce");
    assert!(page.contains("axis &amp; more") && page.contains("time of a flow (ms)"));
    assert!(
        !page.contains("http:") && !page.contains("https:") && !page.contains("NaN"),
        "self-contained"
    );
    // Each of the two policies has a line with two marks, and the two published points are drawn.
    assert_eq!(page.matches("class=\"mark p").count(), 4);
    assert_eq!(page.matches("class=\"told p").count(), 2);
}

#[test]
fn a_quick_run_takes_its_points_and_a_choice_its_figure() {
    let desk = Desk::new();
    desk.scenario("axis", AXIS);
    desk.scenario("curves", CURVES);
    let quick = Selection { quick: true, number: Some("10".into()), ..Selection::default() };
    let plan = desk.plan(&quick);
    assert_eq!((plan.figures.len(), plan.units.len()), (1, 2));
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), true);
    let names: Vec<&str> =
        reproduction.figures[0].measures.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["tcp fct_mean_s at 2", "fifo fct_mean_s"]);
    let other = Selection { text: Some("other".into()), ..Selection::default() };
    assert!(desk.plan(&other).figures.is_empty());
}

#[test]
fn results_are_kept_until_something_that_they_depend_on_changes() {
    let desk = Desk::new();
    desk.scenario("axis", AXIS);
    let plan = desk.plan(&Selection::default());
    let first = desk.run(&plan);
    let written = desk.written();
    assert_eq!(written.len(), 4 * 2, "of two policies each");
    assert_eq!(desk.run(&plan), first);
    assert_eq!(desk.written(), written, "nothing is run twice");

    // Damage, as a full disk or a crash may leave it: that one is run again, with the same result.
    let damaged = desk.0.path().join("cache").join(written.keys().next().unwrap());
    let text = fs::read_to_string(&damaged).unwrap();
    for text in [&text[..text.len() / 2], "", &text.replacen("0.0", "0.1", 1)] {
        fs::write(&damaged, text).unwrap();
        assert_eq!(desk.run(&plan), first);
    }

    // Other words and other published values change no result, another size does.
    desk.scenario("axis", &AXIS.replace("value = 5", "value = 6"));
    assert_eq!(keys(&desk.plan(&Selection::default())), keys(&plan));
    let path = desk.0.path().join("scenarios/text/axis.toml");
    let larger = fs::read_to_string(&path).unwrap().replace("100 KB", "200 KB");
    fs::write(&path, larger).unwrap();
    let other = keys(&desk.plan(&Selection::default()));
    assert!(other.iter().all(|key| !keys(&plan).contains(key)));
}

pub(crate) fn keys(plan: &Plan) -> Vec<String> {
    plan.units.iter().flat_map(|unit| &unit.runs).map(|run| run.key.clone()).collect()
}

/// Three policies, of which `sff` is compared with nobody in what is published; starts are drawn.
const THREE: &str = "[[policy]]\nname = \"sff\"\n\n[[policy]]\nname = \"tcp\"\n\n[[policy]]\nname = \"fifo\"\ntransport = { initial_window = 1 }\n";

/// `policies` in the place of those of the base, with starts that are drawn.
fn base_with(policies: &str) -> String {
    let base = BASE.replace("senders = 2", "senders = 2\njitter = \"2 ms\"");
    format!("{}{policies}", base.split("[[policy]]").next().unwrap())
}

#[test]
fn what_a_policy_measures_does_not_depend_on_those_beside_it() {
    let measured = |policies: &str| {
        let desk = Desk::new();
        let text = format!("name = \"a\"\ntitle = \"A\"\n{}{AXIS}", base_with(policies));
        fs::write(desk.0.path().join("scenarios/text/a.toml"), text).unwrap();
        let plan = desk.plan(&Selection::default());
        let results = desk.run(&plan).into_iter().map(Result::unwrap);
        results.flat_map(|unit| unit.0).filter(|own| own.policy != "sff").collect::<Vec<_>>()
    };
    let two = THREE.split_once("[[policy]]\nname = \"tcp\"").unwrap().1;
    let two = format!("[[policy]]\nname = \"tcp\"{two}");
    let all = measured(THREE);
    assert_eq!((all.len(), &all), (4 * 2, &measured(&two)));
    let times = |policy: &str| -> Vec<f64> {
        let own = all.iter().filter(|own| own.policy == policy);
        own.map(|own| own.metrics["fct_mean_s"]).collect()
    };
    assert_ne!(times("fifo"), times("tcp"), "they differ, and so could be told apart");
}

/// A value that is published of a policy, with a metric that the runs have.
fn row(policy: &str, metric: &str) -> String {
    format!(
        "\n[[published]]\npolicy = \"{policy}\"\nmetric = \"{metric}\"\nvalue = 1\nbound = \"at most\"\n\
         reading = {{ from = \"plot\", error = 0 }}\n"
    )
}

#[test]
fn a_choice_of_one_policy_runs_that_one_and_a_baseline_that_it_is_compared_with() {
    one_policy_is_changed("fct_mean_s", 0);
    one_policy_is_changed("jct_mean_change_ratio", 1);
}

/// Has a choice change `fifo` where `metric` is published of `sff`: beside whatever is run again the baseline is
/// run `beside` times.
fn one_policy_is_changed(metric: &str, beside: usize) {
    let desk = Desk::new();
    let lines = format!("{AXIS}{}", row("sff", metric));
    let write = |more: &str| {
        let text = format!("name = \"a\"\ntitle = \"A\"\n{}{lines}{more}", base_with(THREE));
        fs::write(desk.0.path().join("scenarios/text/a.toml"), text).unwrap();
        desk.plan(&Selection::default())
    };
    let (stands, runs) = desk.count(&write(""));
    assert_eq!(runs, 4 * 3);
    let plan = write(
        &OPEN
            .replace("workload.bytes\" = \"101 KB\"", "policy.fifo.transport.initial_window\" = 2"),
    );
    // Of `as much` the four units run fifo, of `less` all three.
    let (results, runs) = desk.count(&plan);
    assert_eq!((results.len(), runs), (4 + 2 * 4, 4 * (1 + beside) + 4 * 3), "{metric}");
    assert_eq!(desk.written().len(), 4 * 3 + 4 + 4 * 3, "what is run again is kept once");
    let of = |unit: &Result<Measured, String>, label: &str| {
        unit.as_ref().unwrap().0.iter().find(|own| own.policy == label).unwrap().clone()
    };
    for (stood, other) in stands.iter().zip(&results[4..8]) {
        for label in ["sff", "tcp"] {
            assert_eq!(of(stood, label), of(other, label), "shared");
        }
        assert_ne!(of(stood, "fifo"), of(other, "fifo"));
    }
    assert_eq!(desk.count(&plan), (results, 0));
    // So it is of a cache that has all but one policy; the baseline is run alone.
    for (label, runs) in [("sff", 1 + beside), ("tcp", 1)] {
        let run = plan.units[4].runs.iter().find(|run| run.policy == label).unwrap();
        fs::remove_file(desk.0.path().join(format!("cache/{}.json", run.key))).unwrap();
        assert_eq!(desk.count(&plan).1, runs, "{label}");
    }
}

/// Of three policies `fifo` is judged at the one point and `tcp` at the other: a choice runs each there alone,
/// and again only where its value changes it.
#[test]
fn a_choice_runs_those_policies_that_are_judged_at_a_point() {
    let desk = Desk::new();
    let axis = AXIS.split("[[published]]").next().unwrap();
    let open =
        OPEN.replace("workload.bytes\" = \"101 KB\"", "policy.tcp.transport.initial_window\" = 2");
    let text = format!(
        "name = \"a\"\ntitle = \"A\"\n{}{axis}{}at = 1\n{}at = 2\n{open}",
        base_with(THREE),
        row("fifo", "fct_mean_s"),
        row("tcp", "fct_mean_s")
    );
    fs::write(desk.0.path().join("scenarios/text/a.toml"), text).unwrap();
    let plan = desk.plan(&Selection::default());
    let (results, runs) = desk.count(&plan);
    // All three at two points, twice; then tcp under a value that changes it alone, and both under the other.
    assert_eq!(runs, 4 * 3 + 2 + 2 * 2);
    let labels = |unit: &Result<Measured, String>| -> Vec<String> {
        unit.as_ref().unwrap().0.iter().map(|own| own.policy.clone()).collect()
    };
    assert!(results.iter().take(4).all(|unit| labels(unit) == ["sff", "tcp", "fifo"]));
    for (unit, label) in results[4..].iter().zip(["fifo", "fifo", "tcp", "tcp"].iter().cycle()) {
        assert_eq!(labels(unit), [*label]);
    }
    let figure = Reproduction::new(&plan, &results, false).figures.remove(0);
    let [as_much, less] = &figure.choices[0].tried[..] else { panic!("two values") };
    let rows = (as_much.measures.len(), less.measures.len());
    assert_eq!(rows, (1, 2), "what a value leaves as it is has no row");
}

/// The control that a policy has which decides nothing, what it is called and which figure plots a distribution
/// of it are no reason to run it again.
#[test]
fn equal_runs_are_made_once() {
    let desk = Desk::new();
    let seeds = |number: &str, metric: &str| {
        format!(
            "[figure]\ntext = \"text\"\nnumber = \"{number}\"\nseeds = 2\nmetric = \"{metric}\"\n"
        )
    };
    let write = |name: &str, base: &str, figure: &str| {
        let text = format!("name = \"{name}\"\ntitle = \"T\"\n{base}{figure}");
        fs::write(desk.0.path().join(format!("scenarios/text/{name}.toml")), text).unwrap();
    };
    let base = BASE.replace("fifo", "fair");
    let called = base
        .replace("[topology]", "baseline = \"mine\"\n[topology]")
        .replace("name = \"fair\"", "name = \"fair\"\nlabel = \"mine\"");
    let late = base.replace("[workload]", "[control]\ndelay = \"3 ms\"\n\n[workload]");
    write("a", &base, &seeds("1", "fct_mean_s"));
    assert_eq!(desk.count(&desk.plan(&Selection::default())).1, 2 * 2);
    write("b", &called, &seeds("2", "fct_mean_s"));
    assert_eq!(desk.count(&desk.plan(&Selection::default())).1, 0, "it is called otherwise");
    write("c", &late, &seeds("3", "fct_mean_s"));
    let (results, runs) = desk.count(&desk.plan(&Selection::default()));
    assert_eq!(runs, 2, "fair's decisions come late, tcp has none");
    let measured = |unit: usize, policy: usize| &results[unit].as_ref().unwrap().0[policy];
    assert_eq!(measured(4, 0), measured(0, 0));
    assert_ne!(measured(4, 1).metrics, measured(0, 1).metrics, "of fair");
    let (mine, fair) = (measured(2, 1), measured(0, 1));
    assert_eq!((mine.policy.as_str(), &mine.metrics), ("mine", &fair.metrics));
    // In truth, too: without what is kept the late one is as the other.
    let alone = Desk::new();
    let text = format!("name = \"c\"\ntitle = \"T\"\n{late}{}", seeds("3", "fct_mean_s"));
    fs::write(alone.0.path().join("scenarios/text/c.toml"), text).unwrap();
    let late_alone = alone.run(&alone.plan(&Selection::default()));
    assert_eq!(late_alone[0].as_ref().unwrap().0[0], *measured(0, 0));

    // What was kept for a figure that plots less is run again, for both; what has more, is not.
    write("d", &base, &seeds("4", "fct_s"));
    let plan = desk.plan(&Selection::default());
    let (results, runs) = desk.count(&plan);
    assert_eq!((plan.units.len(), runs), (6, 4));
    let samples = |unit: usize| &results[unit].as_ref().unwrap().0[0].samples;
    assert!(samples(0).contains_key("fct_s") && samples(2).contains_key("fct_s"), "one run");
    let one = Selection { number: Some("1".into()), ..Selection::default() };
    assert_eq!(desk.count(&desk.plan(&one)).1, 0);
}

/// Queues are sampled until all that was said has been heard: a late control shows where nothing is decided, too.
#[test]
fn where_queues_are_sampled_the_control_counts_for_every_policy() {
    let desk = Desk::new();
    let sampled = BASE.replace("[workload]", "[queues]\nsample = \"100 us\"\n\n[workload]");
    let late = sampled.replace("[workload]", "[control]\ndelay = \"3 ms\"\n\n[workload]");
    let figure = "[figure]\ntext = \"text\"\nnumber = \"1\"\nmetric = \"queue_mean_packets\"\n";
    let run = |base: &str| {
        let text = format!("name = \"a\"\ntitle = \"A\"\n{base}{figure}");
        fs::write(desk.0.path().join("scenarios/text/a.toml"), text).unwrap();
        let (results, runs) = desk.count(&desk.plan(&Selection::default()));
        let of_tcp = &results[0].as_ref().unwrap().0[0];
        assert_eq!((of_tcp.policy.as_str(), runs), ("tcp", 2));
        of_tcp.metrics["queue_mean_packets"].to_bits()
    };
    assert_ne!(run(&sampled), run(&late));
}

#[test]
fn figures_share_runs_and_panels_share_a_figure() {
    let desk = Desk::new();
    desk.scenario(
        "axis-a",
        &AXIS
            .replace("metric = \"fct_mean_s\"\n\n", "metric = \"fct_mean_s\"\npanel = \"one\"\n\n"),
    );
    desk.scenario("axis-b", &AXIS.replace("seeds = 2", "seeds = 3\npanel = \"two\""));
    let plan = desk.plan(&Selection::default());
    assert_eq!((plan.figures.len(), plan.figures[0].panels.len(), plan.units.len()), (1, 2, 6));
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let measures = &reproduction.figures[0].measures;
    assert!(measures[0].name.starts_with("one: ") && measures[5].name.starts_with("two: "));
}

/// Whether transfers of 100 KB are long or short is left open: 10 KB take a tenth of the time, 101 KB as long.
pub(crate) const OPEN: &str = r#"
[[choice]]
about = "how much is sent"
stands = "100 KB"
rule = "plainest"
why = "a round number"
tried = [
    { name = "as much", set = { "workload.bytes" = "101 KB" } },
    { name = "less", set = { "workload.bytes" = "10 KB" } },
]
"#;

#[test]
fn what_cannot_be_run_is_said_and_leaves_the_rest_alone() {
    let desk = Desk::new();
    desk.scenario("axis", AXIS);
    desk.scenario("curves", &CURVES.replace("metric", "trace = \"big.tsv\"\nmetric"));
    // The points of both are run once, for the file that comes first; the third is lost with its file.
    let crowded = AXIS.replace("over = [1, 2]", "over = [1, 2, 3]").replace("\"10\"", "\"11\"");
    desk.scenario("crowded", &crowded);
    let plan = desk.plan(&Selection::default());
    fs::remove_file(desk.0.path().join("scenarios/text/crowded.toml")).unwrap();
    let reproduction = Reproduction::new(&plan, &desk.run(&plan), false);
    let [curves, axis, crowded] = &reproduction.figures[..] else { panic!("three figures") };
    assert_eq!((curves.verdict, curves.verdict_name()), (Verdict::None, "not run"));
    assert_eq!(curves.reason, "not run: needs the trace big.tsv, which isn't here");
    assert_eq!(axis.measures.len(), 3);
    assert_eq!(crowded.panels[0].points.len(), 2);
    assert!(
        crowded.reason.contains("failed: ") && crowded.reason.contains("no such file"),
        "{}",
        crowded.reason
    );
    assert!(render_results(&reproduction, "").contains("not run"));
}

/// What the files of three texts publish, at all points, with every value of every choice planned.
fn published(text: &str) -> Vec<Published> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let selection = Selection { text: Some(text.into()), ..Selection::default() };
    let plan = Plan::new(&folder, &selection).unwrap();
    let panels = plan.figures.iter().flat_map(|figure| &figure.panels);
    panels.flat_map(|panel| &panel.points).flat_map(|point| &point.published).cloned().collect()
}

#[test]
fn every_size_says_how_exactly_it_can_be_read() {
    for text in ["app-aware", "phurti", "syn-asy"] {
        let all = published(text);
        assert!(all.len() > 10, "{text}: {}", all.len());
        for one in all.iter().filter(|one| one.claim.size().is_some()) {
            let error = one.reading.map(|reading| reading.error);
            assert!(error.is_some_and(|error| one.tolerance <= error), "{text}: {one:?}");
            assert!(!one.source.is_empty(), "{text}: {one:?}");
        }
    }
}

#[test]
fn of_the_gains_that_a_number_was_solved_from_one_an_application_is_calibrated() {
    let all = published("app-aware");
    let solved = |one: &&Published| matches!(one.standing, Standing::Calibrates(_));
    let solved: Vec<&Published> = all.iter().filter(solved).collect();
    assert_eq!(solved.len(), 2, "{solved:?}");
    for one in solved {
        let agrees = Ours { mean: one.claim.size(), ..Ours::default() };
        assert_eq!(judge(one, agrees), Verdict::Calibrated, "however well it agrees");
        let reversed = Ours { mean: one.claim.size().map(|size| -size), ..agrees };
        assert_eq!(judge(one, reversed), Verdict::Differs, "it doesn't come out");
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = Plan::new(Path::new("no-such-folder"), &Selection::default()).unwrap_err();
    assert!(error.to_string().starts_with("no-such-folder: "), "{error}");
}
